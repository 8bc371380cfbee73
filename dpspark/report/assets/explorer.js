// Any regression, live.

const MANY_COLUMNS = 12;

class Explorer {
  constructor(content, momentsNow) {
    this.content = content;
    this.momentsNow = momentsNow;
    this.names = new FormulaNames(content);
    this.boxes = content.columns.map(columnBox);
    this.formula = el("input", {
      type: "text",
      id: newId(),
      name: "formula",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      enterkeyhint: "go",
    });
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
    const submit = (event) => {
      event.preventDefault();
      this.read();
    };
    const change = (event) => (event.target === this.formula ? this.read() : this.update());
    const hint = el(
      "span",
      { class: "hint", id: newId() },
      "As in R: a:b, a*b, I(a**2), log(a), C(a) find released columns. Or choose below.",
    );
    this.formula.setAttribute("aria-describedby", hint.id);
    return el(
      "form",
      { class: "controls", onsubmit: submit, onchange: change },
      el(
        "div",
        { class: "field" },
        el("label", { for: this.formula.id }, "Formula"),
        el("div", { class: "typed" }, this.formula, el("button", { type: "submit" }, "Run")),
        hint,
      ),
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

  // What is typed, if it can be read against the released columns; else why not.
  read() {
    let formula = null;
    try {
      formula = readFormula(this.formula.value, this.names);
    } catch (error) {
      if (!(error instanceof RefusedFormula)) throw error;
      this.formula.setAttribute("aria-invalid", "true");
      this.say(`This formula is refused: ${error.message}`);
    }
    if (formula && formulaText(formula) !== this.last) this.show(formula, this.formula.value);
    else if (formula) this.update(formula, this.formula.value);
  }

  // Boxes of columns whose categories are chosen in part are neither on nor off.
  show(formula, typed = formulaText(formula)) {
    this.response.value = formula.response;
    this.intercept.checked = formula.intercept;
    for (const box of this.boxes) {
      const chosen = box.column.terms.filter((term) => formula.regressors.includes(term));
      box.input.checked = chosen.length > 0;
      box.part = [box.terms, box.column.terms].some((terms) => terms.join("\n") === chosen.join("\n")) ? null : chosen;
      box.input.indeterminate = chosen.length > 0 && box.part !== null;
    }
    this.update(formula, typed);
  }

  // Without an intercept the first category that is chosen has all of its columns, as in a formula.
  chosen() {
    const boxes = this.boxes.filter((box) => box.input.checked && !box.input.disabled),
      intercept = this.intercept.checked,
      first = intercept ? null : boxes.find((box) => box.column.terms.length > 1 && !box.input.indeterminate);
    const terms = (box) => {
      if (box.input.indeterminate) return box.part;
      return box === first ? box.column.terms : box.terms;
    };
    return { response: this.response.value, regressors: boxes.flatMap(terms), intercept };
  }

  // What the boxes say, unless a formula is given; `typed` is how it was written.
  update(formula = null, typed = null) {
    for (const box of this.boxes) {
      box.input.disabled = box.column.terms.includes(this.response.value);
      if (box.input.disabled) box.input.checked = box.input.indeterminate = false;
    }
    const asked = formula ?? this.chosen(),
      level = Number((Number(this.level.value) / 100).toPrecision(12)),
      valid = level > 0 && level < 1;
    this.last = formulaText(asked);
    this.formula.value = typed ?? this.last;
    this.formula.removeAttribute("aria-invalid");
    this.level.setAttribute("aria-invalid", String(!valid));
    if (!valid) this.say("The level must be above 0% and below 100%.");
    else if (!asked.regressors.length && !asked.intercept) this.say("Choose a regressor, or the intercept.");
    else this.draw(regress(this.momentsNow(), asked, level));
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
    downloads([fit], content, "regression"),
    coefficientPlot(fit, content.columns, fit.formula.response),
  ].filter(Boolean);
}

// The same by the command line, which has more: bootstrap intervals and repairs are not computed here.
function commandLine(content, { formula, level, group }) {
  const groups = content.group_by.map((name, i) => ` --group ${shellText(`${name}=${group[i]}`)}`).join("");
  const options = `${groups}${level === 0.95 ? "" : ` --level ${level}`}${content.repair === "none" ? "" : " --repair none"}`;
  const command = `dpspark regress ${content.address} ${shellText(formulaText(formula))}${options}`;
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
