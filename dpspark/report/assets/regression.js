// One published regression, or one for each group.

function chooser(content, onchange) {
  if (!content.group_by.length) return null;
  const id = newId();
  const select = el(
    "select",
    { id, class: "group", onchange: () => onchange(Number(select.value)) },
    content.groups.map((key, i) => el("option", { value: String(i) }, key.map(shown).join(", "))),
  );
  const left = content.left_out
    ? el(
        "span",
        { class: "hint" },
        `${whole(content.left_out)} groups are not in this page, for its size; for one of them, run dpspark report with --group.`,
      )
    : null;
  return el(
    "div",
    { class: "field chooser" },
    el("label", { for: id }, `Group (${content.group_by.map(shown).join(", ")})`),
    select,
    left,
  );
}

function regressionView(content) {
  const box = el("div"),
    live = el("p", { class: "visually-hidden", role: "status" });
  const draw = (i) => {
    const fit = numbersBack(content.fits[i]);
    box.replaceChildren(...publishedFit({ ...fit, group: content.groups[i] }, content));
    live.textContent = `Coefficients of ${content.groups[i].map(shown).join(", ") || shown(content.response)}.`;
  };
  draw(0);
  return el("div", {}, chooser(content, draw), live, box);
}

function publishedFit(fit, content) {
  const formula = {
    response: content.response,
    regressors: fit.terms.map((row) => row.term).filter((term) => term !== INTERCEPT),
    intercept: true,
  };
  const lines = [
    fit.reason && `${fit.status}: ${fit.reason}`,
    !fit.reason && fit.status !== "OK" && `Status: ${fit.status}.`,
    Number.isFinite(fit.sigma2) &&
      `Residual standard error: ${digits(Math.sqrt(fit.sigma2), 5)} on ${whole(fit.df)} degrees of freedom (corrected for privacy noise)`,
    Number.isFinite(fit.kappa) && `Privacy noise is in every Std. Error; kappa = ${general(fit.kappa, 3)}`,
    Number.isFinite(fit.n) && `${fit.n_is === "rows" ? "Rows" : "Rows, by weight"}: ${fit.n_is_exact ? "" : "about "}${whole(Math.max(0, fit.n))}`,
    ...(fit.terms.some((row) => Number.isFinite(row.std_error)) ? content.assumptions : []),
    ...definitionLines(content, [formula.response, ...formula.regressors]),
  ].filter(Boolean);
  return [
    el("h3", { class: "formula" }, termText(formula)),
    coefficientTable(fit),
    el(
      "div",
      { class: "foot" },
      lines.map((line) => el("p", {}, line)),
    ),
    downloads([{ ...fit, formula, residual_std_error: Math.sqrt(fit.sigma2) }], content, "regression"),
    coefficientPlot(fit, content.columns, content.response),
  ].filter(Boolean);
}

// JSON has null for what is not known.
function numbersBack(fit) {
  const back = (row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value === null ? NaN : value]));
  return { ...back(fit), terms: fit.terms.map(back) };
}
