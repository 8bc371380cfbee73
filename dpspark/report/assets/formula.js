// Formulas as `dpspark regress` reads them (dpspark.core.formula): `income ~ C(sex)*educ + I(age**2) - 1`, against the
// columns of this release. A factor is a number, { id, name, expression }, or a category, { id, name, reference };
// a term is a list of factors.

class RefusedFormula extends Error {}

// What a formula may name.
class FormulaNames {
  constructor(content) {
    this.terms = content.terms.slice(1);
    this.blocks = new Map(content.blocks);
    this.released = new Map(content.released.map(([key, term]) => [keyOfReleased(key), term]));
    this.madeOf = new Map(content.released.map(([key, term]) => [term, new Set(atomsIn(key))]));
    this.ofFormulas = new Set(this.terms.filter(isProductName));
  }

  wrong(what) {
    return new RefusedFormula(what);
  }

  number(expression, name) {
    return { id: `number ${keyOf(expression)}`, name, expression };
  }

  category(name, reference = null) {
    return { id: `category ${name}`, name, reference, categories: true };
  }

  named(name) {
    if (this.blocks.has(name)) return this.category(name);
    if (this.terms.includes(name)) return this.number(columnOf(name), name);
    throw this.wrong(`no column ${name} in this release. It has ${this.shownColumns()}. Put odd names in backticks.`);
  }

  shownColumns() {
    const blockOf = new Map([...this.blocks].flatMap(([name, of]) => of.map((term) => [term, name])));
    return [...new Set(this.terms.map((term) => blockOf.get(term) ?? term))].map(quotedName).join(", ");
  }

  factors([kind, value]) {
    if (kind === "call") return this.called(value);
    if (kind !== "name") throw this.wrong(`expected a column at ${value}.`);
    return [this.named(value)];
  }

  called(text) {
    const name = text.slice(0, text.indexOf("(")),
      inside = text.slice(name.length + 1, -1).trim();
    if (this.terms.includes(text)) return [this.number(columnOf(text), text)];
    if (name === "C") return [this.coded(inside)];
    if (name === "poly") return this.powers(inside);
    if (name !== "I" && !FUNCTIONS.includes(name.replace(/^(np|numpy)\./, ""))) {
      throw this.wrong(`${name}() is not known. There are C, I, poly, ${FUNCTIONS.join(", ")}.`);
    }
    let expression;
    try {
      expression = readCall(text);
    } catch (error) {
      if (!(error instanceof NotArithmetic)) throw error;
      throw this.wrong(`cannot read ${text}: expected + - * / and powers of columns and numbers.`);
    }
    if (!namesIn(expression).length) throw this.wrong(`${text} has no column in it.`);
    try {
      keyOf(expression);
    } catch (error) {
      if (!(error instanceof NotArithmetic)) throw error;
      throw this.wrong(`${text} is too large: written out, it has too many products. Write fewer powers.`);
    }
    return [expression[0] === "name" ? this.named(expression[1]) : this.number(expression, text)];
  }

  coded(inside) {
    const [first, ...rest] = inside.split(","),
      name = first.trim().replace(/^`+|`+$/g, ""),
      contrast = rest.join(",").trim();
    if (!this.blocks.has(name)) {
      const known = this.blocks.size ? ` Categories have ${[...this.blocks.keys()].join(", ")}.` : "";
      throw this.wrong(`C(${name}): ${name} has no categories in this release.${known}`);
    }
    if (!contrast) return this.category(name);
    const match = contrast.match(
      /^(?:Treatment|contr\.treatment)\(\s*(?:(?:reference|base)\s*=\s*)?("[^"]*"|'[^']*'|[-\p{L}\p{N}_]+)\s*\)$/u,
    );
    if (!match) throw this.wrong(`C(${inside}): expected Treatment("...") with a category.`);
    const reference = `${name}[${/^["']/.test(match[1]) ? match[1].slice(1, -1) : match[1]}]`;
    if (!this.blocks.get(name).includes(reference)) {
      throw this.wrong(`${reference} is no category; there are ${this.blocks.get(name).filter(Boolean).join(", ")}.`);
    }
    return this.category(name, reference);
  }

  powers(inside) {
    const match = inside.match(/^(.+?),\s*(?:degree\s*=\s*)?(\d+)\s*(,\s*raw\s*=\s*(?:True|TRUE))?\s*$/);
    if (!match) throw this.wrong(`poly(${inside}): expected poly(x, 2, raw=True).`);
    const [, of, text, raw] = match,
      degree = Number(text);
    if (!raw) {
      throw this.wrong(
        `poly(${inside}) is made orthogonal on the rows, which nobody has here. Write poly(${of}, ${text}, raw=True): the same curve.`,
      );
    }
    if (!(degree >= 1 && degree <= MOST_POWER)) {
      throw this.wrong(`poly(${inside}): expected a degree from 1 to ${MOST_POWER}.`);
    }
    const tokens = cutFormula(of),
      bases = tokens.length === 1 ? this.factors(tokens[0]) : [];
    if (bases.length !== 1) {
      throw this.wrong(`poly(${inside}): expected one column, or one call such as I(a + b), in place of ${of}.`);
    }
    const [base] = bases;
    if (base.categories) throw this.wrong(`poly(${inside}): ${base.name} has categories.`);
    const power = (k) => this.number(["**", base.expression, k], `I(${base.name}**${k})`);
    const poly = `${base.name}, ${degree}`; // one factor, as in R: its columns have no products with one another
    return [base, ...Array.from({ length: degree - 1 }, (_, i) => power(i + 2))].map((one) => ({ ...one, poly }));
  }

  // All columns but the response, what it is made of, and what formulas asked for.
  everything(response) {
    const below = (name) => (this.ofFormulas.has(name) ? [...(this.madeOf.get(name) ?? [])] : []),
      made = namesIn(response.expression).flatMap((name) => [name, ...below(name)]),
      own = new Set([...made, this.released.get(keyOf(response.expression))]),
      blockOf = new Map([...this.blocks].flatMap(([name, of]) => of.map((term) => [term, name])));
    for (const name of [...own]) own.add(blockOf.get(name) ?? name);
    const found = new Set(this.terms.map((term) => blockOf.get(term) ?? term));
    return [...found]
      .filter((name) => !own.has(name) && this.blocks.get(name)?.length !== 1 && !this.ofFormulas.has(name))
      .map((name) => [this.named(name)]);
  }

  // The columns that a categorical factor stands for.
  categories({ name, reference }, all) {
    const of = this.blocks.get(name);
    if (of.length === 1 && !all) throw this.wrong(`${name} has one category, so it stands for nothing. Write ${of[0]}.`);
    if (!all) return of.filter((term) => term !== (reference ?? of[0]));
    if (of.includes("")) throw this.wrong(`the first category of ${name} has no column here.`);
    return of;
  }
}

// A formula as what the page computes with, or a RefusedFormula that says why not.
function readFormula(text, names) {
  const tokens = cutFormula(text),
    tildes = tokens.filter(([kind, value]) => kind === "sign" && value === "~").length;
  if (tildes !== 1 || tokens[1]?.[1] !== "~") {
    throw new RefusedFormula("expected one response, ~ and regressors, e.g. income ~ age + educ.");
  }
  const response = names.factors(tokens[0]);
  if (response.length !== 1 || response[0].categories) throw names.wrong("the response must be one column.");
  const read = new TermReader(tokens.slice(2), names, response[0]).whole(),
    needed = columnsOf(read, names);
  const found = foundColumn({ ...response[0], key: keyOf(response[0].expression) }, names),
    regressors = [...new Set(needed.map((one) => foundColumn(one, names)))];
  if (regressors.includes(found)) throw names.wrong(`${found} is on both sides.`);
  if (!regressors.length && !read.intercept) throw names.wrong("nothing to regress on.");
  for (const [name, of] of names.blocks) {
    if (read.intercept && of.length > 1 && of.every((term) => regressors.includes(term))) {
      throw names.wrong(`all columns of ${name} and the intercept say the same. Write ${name}, or add - 1.`);
    }
  }
  return { response: found, regressors, intercept: read.intercept };
}

// The released column that is what a formula needs; a term that was not released is refused.
function foundColumn({ name, key, expression }, names) {
  const found = names.released.get(key);
  if (found !== undefined) return found;
  const made = namesIn(expression),
    alike = [...names.madeOf]
      .filter(([, atoms]) => made.some((one) => atoms.has(one)))
      .map(([term]) => quotedName(term))
      .slice(0, 8);
  const has = alike.length ? ` It has ${alike.join(", ")}.` : "";
  throw names.wrong(
    `no column ${name} in this release.${has} A product or a function is a column of its own, which only the publisher can add, under release.regressions in the conf.`,
  );
}

function cutFormula(text) {
  const token =
    /\s*(?:`(?<quoted>[^`]+)`|(?<call>[\p{L}_][\p{L}\p{N}_.]*)\s*\(|(?<name>[\p{L}_][\p{L}\p{N}_.]*(?:\[[^\]]*\])?)|(?<number>\d+)|(?<sign>\*\*|[~+.:*^()/-]))/uy;
  const tokens = [],
    whole = text.trimEnd();
  while (token.lastIndex < whole.length) {
    const at = token.lastIndex,
      match = token.exec(whole);
    if (!match) {
      throw new RefusedFormula(`cannot read it from ${whole.slice(at).trim().slice(0, 20)} on. Put odd names in backticks.`);
    }
    const [kind, value] = Object.entries(match.groups).find(([, found]) => found !== undefined);
    if (kind === "call") {
      const end = closedAt(whole, token.lastIndex);
      tokens.push(["call", whole.slice(at, end).trimStart().replace(/^([^\s(]+)\s+\(/, "$1(")]);
      token.lastIndex = end;
    } else tokens.push([kind === "quoted" ? "name" : kind, value]);
  }
  return tokens;
}

// The end of a call: quotes and backticks may have parentheses in them.
function closedAt(text, start) {
  let depth = 1,
    inside = "";
  for (let at = start; at < text.length; at += 1) {
    const letter = text[at];
    if (inside) inside = letter === inside ? "" : inside;
    else if ("`'\"".includes(letter)) inside = letter;
    else depth += (letter === "(") - (letter === ")");
    if (!depth) return at + 1;
  }
  throw new RefusedFormula("a parenthesis is not closed.");
}

const readCall = (text) => (text.startsWith("I(") ? readArithmetic(text.slice(2, -1)) : readArithmetic(text));

// Whether the name of a column is a product or a function, as formulas ask for them.
function isProductName(name) {
  if (!name.includes(":") && !name.includes("(")) return false;
  try {
    const parts = cutFormula(name);
    const whole = parts.every(([kind, value], i) => (i % 2 ? value === ":" : kind === "name" || kind === "call"));
    if (!whole || parts.length % 2 === 0) return false;
    parts.filter(([kind]) => kind === "call").forEach(([, value]) => readCall(value));
    return parts.length > 1 || parts[0][0] === "call";
  } catch (error) {
    if (error instanceof RefusedFormula || error instanceof NotArithmetic) return false;
    throw error;
  }
}

// A name in backticks, if it cannot be read without.
const quotedName = (name) =>
  /^[\p{L}_][\p{L}\p{N}_.]*(\[[^\]]*\])?$/u.test(name) || isProductName(name) ? name : `\`${name}\``;

const formulaText = ({ response, regressors, intercept }) =>
  `${quotedName(response)} ~ ${regressors.map(quotedName).join(" + ") || "1"}${intercept ? "" : " - 1"}`;
