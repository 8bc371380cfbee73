// A released matrix, or one for each group.

function momentsOf(content) {
  const { terms, middle, half, noise, weighted } = content,
    width = terms.length,
    size = (width * (width + 1)) / 2;
  const all = doublesOf(content.matrices);
  const square = (upper) => {
    const found = zeros(width, width);
    let at = 0;
    for (let i = 0; i < width; i += 1) {
      for (let j = i; j < width; j += 1) {
        found[i][j] = found[j][i] = upper[at];
        at += 1;
      }
    }
    return found;
  };
  const squared = content.squared ? square(doublesOf(content.squared)) : null;
  return (i) => ({
    group: content.groups[i],
    terms,
    middle,
    half,
    noise,
    weighted,
    squared,
    squaredNoise: content.squared_noise,
    robust: content.robust,
    scaled: square(all.subarray(i * size, (i + 1) * size)),
  });
}

function gramView(content, sections) {
  const momentsAt = momentsOf(content);
  let moments = momentsAt(0);
  const live = new Explorer(content, () => moments);
  const besideEachOther = () =>
    content.formulas.length > 1
      ? [
          modelsView(
            content.formulas.map((formula) => regress(moments, formula, 0.95)),
            content,
          ),
        ]
      : [];
  const drawChosen = () =>
    sections.regressions.replaceChildren(
      ...(content.complete ? [] : [fewerColumns(regress(moments, content.formulas[0], 0.95))]),
      ...besideEachOther(),
      ...content.formulas.map((formula) => {
        const fit = regress(moments, formula, 0.95);
        const open = el(
          "button",
          {
            type: "button",
            class: "open",
            onclick: () => {
              live.show(formula);
              document.getElementById("explorer").scrollIntoView();
              document.querySelector("#explorer input[name=formula]").focus();
            },
          },
          "Open in the explorer",
        );
        return el("article", {}, fitView(fit, content), open);
      }),
    );
  const draw = () => {
    sections.correlations.replaceChildren(heatMap(moments));
    drawChosen();
  };
  const choose = chooser(content, (i) => {
    moments = momentsAt(i);
    draw();
    live.update();
  });
  draw();
  sections.explorer.append(live.node);
  if (choose) sections.correlations.parentElement.querySelector("h2").after(choose);
  return {
    regress: (formula, level, group = 0) => regress(momentsAt(group), formula, level),
    parse: (text) => readFormula(text, live.names),
    correlate: (group = 0) => correlate(momentsAt(group)),
  };
}

// Where nobody asked for a regression, and that on all other columns is not identified.
function fewerColumns(fit) {
  const drowned = "A regression on all other columns is not identified: the noise drowns it. ";
  const left = fit.formula.regressors.length
    ? "This one is on the first columns for which it is."
    : "Nor was one found on fewer of them.";
  return el("p", { class: "note" }, fit.status === "OK" || !fit.formula.regressors.length ? drowned + left : drowned);
}
