// Any regression, live.

const MANY_COLUMNS = 12;

class Explorer {
  constructor(content, momentsNow) {
    this.content = content;
    this.momentsNow = momentsNow;
    this.boxes = content.columns.map(columnBox);
    this.response = el(
      "select",
      { id: newId(), name: "response" },
      content.columns.flatMap((column) => (column.product ? [] : column.terms)).map((term) => el("option", { value: term }, shown(term))),
    );
    this.intercept = el("input", { type: "checkbox", id: newId() });
    this.level = el("input", { type: "number", id: newId(), value: "95", min: "0", max: "100", step: "any" });
    this.status = el("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    this.output = el("div", { class: "output" });
    this.level.addEventListener("input", () => this.update());
    this.node = el("div", { class: "explorer" }, this.controls(), el("div", {}, this.status, this.output));
    this.show(content.formulas[0]);
  }

  controls() {
    const button = (name, value) => el("button", { type: "button", onclick: () => this.tick(value) }, name);
    const submit = (event) => event.preventDefault();
    return el(
      "form",
      { class: "controls", onsubmit: submit, onchange: () => this.update() },
      el("div", { class: "field" }, el("label", { for: this.response.id }, "Response"), this.response),
      el(
        "fieldset",
        {},
        el("legend", {}, "Regressors"),
        this.boxes.length > MANY_COLUMNS ? this.finder() : null,
        el(
          "div",
          { class: this.boxes.length > MANY_COLUMNS ? "choices many" : "choices" },
          this.boxes.map((box) => box.row),
        ),
        el("div", { class: "buttons" }, button("All", true), button("None", false)),
      ),
      el("div", { class: "choice" }, this.intercept, el("label", { for: this.intercept.id }, "Intercept")),
      el("div", { class: "field" }, el("label", { for: this.level.id }, "Confidence level, %"), this.level),
    );
  }

  finder() {
    const id = newId();
    const filter = () => {
      for (const box of this.boxes) box.row.hidden = !box.name.toLowerCase().includes(input.value.toLowerCase());
    };
    const input = el("input", {
      type: "search",
      id,
      placeholder: "part of a name",
      autocomplete: "off",
      oninput: filter,
    });
    return el("div", { class: "field" }, el("label", { for: id }, "Find"), input);
  }

  // All that can be seen, or none of them.
  tick(value) {
    for (const box of this.boxes) if (!box.row.hidden) box.input.checked = value && !box.input.disabled;
    this.update();
  }

  // A formula with some categories of a column alone has no box.
  canShow(formula) {
    const terms = this.boxes.filter((box) => isChosen(box, formula)).flatMap((box) => box.terms);
    return terms.every((term) => formula.regressors.includes(term));
  }

  show(formula) {
    this.response.value = formula.response;
    this.intercept.checked = formula.intercept;
    for (const box of this.boxes) box.input.checked = isChosen(box, formula);
    this.update();
  }

  chosen() {
    for (const box of this.boxes) {
      box.input.disabled = box.column.terms.includes(this.response.value);
      if (box.input.disabled) box.input.checked = false;
    }
    const regressors = this.boxes.filter((box) => box.input.checked).flatMap((box) => box.terms);
    return { response: this.response.value, regressors, intercept: this.intercept.checked };
  }

  update() {
    const formula = this.chosen(),
      level = Number((Number(this.level.value) / 100).toPrecision(12));
    const valid = level > 0 && level < 1;
    this.level.setAttribute("aria-invalid", String(!valid));
    if (!valid) this.say("The level must be above 0% and below 100%.");
    else if (!formula.regressors.length && !formula.intercept) this.say("Choose a regressor, or the intercept.");
    else this.draw(regress(this.momentsNow(), formula, level));
  }

  draw(fit) {
    this.output.replaceChildren(...fitView(fit, this.content), commandLine(this.content, fit));
    const words =
      fit.status === "OK" ? `${fit.terms.length} coefficients, R-squared ${fixed(fit.r_squared, 3)}` : "not identified";
    this.status.textContent = `${termText(fit.formula)}: ${words}.`;
  }

  say(words) {
    this.output.replaceChildren(el("p", { class: "note" }, words));
    this.status.textContent = words;
  }
}

function columnBox(column) {
  const terms = regressorTerms(column),
    id = newId(),
    input = el("input", { type: "checkbox", id });
  const of = column.product ? "products" : "categories",
    name = column.terms.length > 1 ? `${shown(column.name)} (${column.terms.length} ${of})` : shown(terms[0]);
  return { column, terms, input, name, row: el("div", { class: "choice" }, input, el("label", { for: id }, name)) };
}

const isChosen = (box, formula) => box.terms.some((term) => formula.regressors.includes(term));

// A categorical column stands for its columns less the first, as in a formula; a product for those without a first category.
const regressorTerms = (column) => column.regressors || (column.terms.length > 1 ? column.terms.slice(1) : column.terms);

function fitView(fit, content) {
  const rows = `${fit.n_is_exact ? "" : "about "}${whole(Math.max(0, fit.n))} ${fit.weighted ? "in weights" : "rows"}`;
  const head = [
    el("h3", { class: "formula" }, termText(fit.formula)),
    el(
      "p",
      { class: "hint" },
      [...(fit.group.length ? [fit.group.map(shown).join(", ")] : []), rows, ...content.row_norm].join("; "),
    ),
  ];
  if (fit.status !== "OK") {
    return [
      ...head,
      el(
        "div",
        { class: "refused" },
        el("p", {}, el("strong", {}, "NOT IDENTIFIED: "), `${fit.reason}.`),
        el(
          "p",
          {},
          "No estimate is given. Use fewer regressors, or a release with tighter bounds, more rows or a larger epsilon.",
        ),
        el("p", { class: "hint" }, `kappa_w = ${general(fit.kappa_w, 3)}`),
      ),
    ];
  }
  return [
    ...head,
    coefficientTable(fit),
    el(
      "div",
      { class: "foot" },
      footnotes(fit, content).map((line) => el("p", {}, line)),
    ),
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
  return el(
    "div",
    { class: "same" },
    el(
      "p",
      { class: "hint" },
      "The same by the command line. Bootstrap intervals (--interval bootstrap) and repairs (--repair ridge) are there alone.",
    ),
    el("pre", { tabindex: "0", "aria-label": "Command" }, el("code", {}, command)),
  );
}

const shellText = (text) => (/^[\w.=/-]+$/.test(text) ? text : `'${shown(text).replaceAll("'", "'\\''")}'`);
