// Any regression, live.

function explorer(content, momentsNow) {
  const { columns } = content, start = content.formulas[0];
  const ids = { response: newId(), level: newId(), filter: newId(), hint: newId() };
  const response = el("select", { id: ids.response, name: "response" },
    columns.flatMap((column) => column.terms).map((term) => el("option", { value: term, selected: term === start.response }, shown(term))));
  const boxes = columns.map((column) => {
    const terms = regressorTerms(column), id = newId();
    const input = el("input", { type: "checkbox", id, checked: terms.some((term) => start.regressors.includes(term)) });
    const name = column.terms.length > 1 ? `${shown(column.name)} (${column.terms.length} categories)` : shown(terms[0]);
    return { column, terms, input, name, row: el("div", { class: "choice" }, input, el("label", { for: id }, name)) };
  });
  const intercept = el("input", { type: "checkbox", id: newId(), checked: start.intercept });
  const level = el("input", { type: "number", id: ids.level, value: "95", min: "1", max: "99.9999", step: "any", "aria-describedby": ids.hint });
  const status = el("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
  const output = el("div", { class: "output" });
  const tick = (value) => () => {
    for (const box of boxes) if (!box.row.hidden) box.input.checked = value && !box.input.disabled;
    update();
  };
  const filter = el("input", { type: "search", id: ids.filter, placeholder: "part of a name", autocomplete: "off" });
  filter.addEventListener("input", () => {
    for (const box of boxes) box.row.hidden = !box.name.toLowerCase().includes(filter.value.toLowerCase());
  });

  function chosen() {
    const own = columns.find((column) => column.terms.includes(response.value));
    for (const box of boxes) {
      box.input.disabled = box.column === own;
      if (box.input.disabled) box.input.checked = false;
    }
    const regressors = boxes.filter((box) => box.input.checked).flatMap((box) => box.terms);
    return { response: response.value, regressors, intercept: intercept.checked };
  }

  function update() {
    const formula = chosen(), share = Number(level.value) / 100;
    const badLevel = !(share > 0 && share < 1);
    level.setAttribute("aria-invalid", String(badLevel));
    if (badLevel) return say("The level must be above 0% and below 100%.");
    if (!formula.regressors.length && !formula.intercept) return say("Choose a regressor, or the intercept.");
    const fit = regress(momentsNow(), formula, share);
    output.replaceChildren(...fitView(fit, content), commandLine(content, fit));
    status.textContent = fit.status === "OK"
      ? `${termText(formula)}: ${fit.terms.length} coefficients, R-squared ${fixed(fit.r_squared, 3)}.`
      : `${termText(formula)}: not identified.`;
    return undefined;
  }

  function say(words) {
    output.replaceChildren(el("p", { class: "note" }, words));
    status.textContent = words;
  }

  const form = el("form", { class: "controls", onsubmit: (event) => event.preventDefault(), onchange: update },
    el("div", { class: "field" }, el("label", { for: ids.response }, "Response"), response),
    el("fieldset", {}, el("legend", {}, "Regressors"),
      boxes.length > 12 ? el("div", { class: "field" }, el("label", { for: ids.filter }, "Find"), filter) : null,
      el("div", { class: "choices" }, boxes.map((box) => box.row)),
      el("div", { class: "buttons" },
        el("button", { type: "button", onclick: tick(true) }, "All"),
        el("button", { type: "button", onclick: tick(false) }, "None"))),
    el("div", { class: "choice" }, intercept, el("label", { for: intercept.id }, "Intercept")),
    el("div", { class: "field" }, el("label", { for: ids.level }, "Confidence level, %"), level, el("span", { id: ids.hint, class: "hint" }, "Above 0 and below 100.")));
  level.addEventListener("input", update);
  const show = (formula) => {
    response.value = formula.response;
    intercept.checked = formula.intercept;
    for (const box of boxes) box.input.checked = box.terms.some((term) => formula.regressors.includes(term));
    update();
  };
  update();
  return { node: el("div", { class: "explorer" }, form, el("div", {}, status, output)), update, show };
}

// A categorical column stands for its columns less the first, as in a formula.
const regressorTerms = (column) => (column.terms.length > 1 ? column.terms.slice(1) : column.terms);

function fitView(fit, content) {
  const rows = `${fit.n_is_exact ? "" : "about "}${whole(Math.max(0, fit.n))} ${fit.weighted ? "in weights" : "rows"}`;
  const head = [el("h3", { class: "formula" }, termText(fit.formula)), el("p", { class: "hint" }, [...(fit.group.length ? [fit.group.map(shown).join(", ")] : []), rows, ...content.row_norm].join("; "))];
  if (fit.status !== "OK") {
    return [...head, el("div", { class: "refused" },
      el("p", {}, el("strong", {}, "NOT IDENTIFIED: "), `${fit.reason}.`),
      el("p", {}, "No estimate is given. Use fewer regressors, or a release with tighter bounds, more rows or a larger epsilon."),
      el("p", { class: "hint" }, `kappa = ${general(fit.kappa, 3)}`))];
  }
  return [
    ...head,
    coefficientTable(fit),
    el("div", { class: "foot" }, footnotes(fit).map((line) => el("p", {}, line))),
    coefficientPlot(fit, content.columns, fit.formula.response),
  ].filter(Boolean);
}

// The same by the command line, which has more: bootstrap intervals and repairs are not computed here.
function commandLine(content, { formula, level, group }) {
  const quoted = (name) => (/^[\p{L}_][\p{L}\p{N}_.]*(\[[^\]]*\])?$/u.test(name) ? name : `\`${name}\``);
  const text = `${quoted(formula.response)} ~ ${formula.regressors.map(quoted).join(" + ") || "1"}${formula.intercept ? "" : " - 1"}`;
  const groups = content.group_by.map((name, i) => ` --group ${shellText(`${name}=${group[i]}`)}`).join("");
  const options = `${groups}${level === 0.95 ? "" : ` --level ${level}`}${content.repair === "none" ? "" : " --repair none"}`;
  const command = `dpspark regress ${content.address} ${shellText(text)}${options}`;
  return el("div", { class: "same" },
    el("p", { class: "hint" }, "The same by the command line. Bootstrap intervals (--interval bootstrap) and repairs (--repair ridge) are there alone."),
    el("pre", { tabindex: "0", "aria-label": "Command" }, el("code", {}, command)));
}

const shellText = (text) => (/^[\w.=/-]+$/.test(text) ? text : `'${shown(text).replaceAll("'", "'\\''")}'`);
