// The right-hand side of a formula: its terms, and the columns that they stand for.

const sameTerm = (one, other) =>
  one.length === other.length && one.every((factor) => other.some((each) => each.id === factor.id));

const distinctTerms = (terms) =>
  terms.filter((term, i) => terms.findIndex((other) => sameTerm(term, other)) === i);

// Two columns of one poly(): a factor has no product with itself.
const ofOnePoly = (left, right) => left.some((a) => a.poly && right.some((b) => b.poly === a.poly && b.id !== a.id));

const productsOf = (one, other) =>
  distinctTerms(
    one.flatMap((left) =>
      other
        .filter((right) => !ofOnePoly(left, right))
        .map((right) => [...new Map([...left, ...right].map((f) => [f.id, f])).values()]),
    ),
  );

class TermReader extends TokenReader {
  constructor(tokens, names, response) {
    super(tokens);
    this.names = names;
    this.response = response;
  }

  whole() {
    const found = this.sum(false);
    if (this.at < this.tokens.length) {
      if (this.tokens[this.at][1] === "/") {
        throw this.names.wrong("a/b of terms is not known. Write a + a:b; a division of numbers is I(a/b).");
      }
      throw this.names.wrong(`a + is missing before ${this.tokens[this.at][1]}. Put names with spaces in backticks.`);
    }
    return found;
  }

  sum(inside) {
    const found = { terms: [], intercept: true, leftOut: new Set() };
    for (let sign = this.next("-") || "+"; sign; sign = this.next("+", "-")) {
      const [kind, value] = this.tokens[this.at] ?? [];
      if (kind === "number") {
        if (!["0", "1"].includes(value) || inside) {
          throw this.names.wrong(`${value} is no column; numbers are 0 and 1, for the intercept.`);
        }
        found.intercept = (value === "1") === (sign === "+");
        this.at += 1;
      } else for (const term of this.crossed()) this.add(found, sign, term);
    }
    return found;
  }

  add(found, sign, term) {
    const others = found.terms.filter((other) => !sameTerm(other, term));
    if (sign === "-") found.terms = others;
    else if (others.length === found.terms.length) found.terms.push(term);
    if (term.length === 1) found.leftOut[sign === "-" ? "add" : "delete"](term[0].name);
  }

  crossed() {
    let found = this.interacted();
    while (this.next("*")) {
      const other = this.interacted();
      found = distinctTerms([...found, ...other, ...productsOf(found, other)]);
    }
    return found;
  }

  interacted() {
    let found = this.raised();
    while (this.next(":")) found = productsOf(found, this.raised());
    return found;
  }

  raised() {
    const base = this.atom();
    if (!this.next("^", "**")) return base;
    const [kind, value] = this.tokens[this.at] ?? [];
    if (kind !== "number" || !(Number(value) >= 1 && Number(value) <= MOST_POWER)) {
      throw this.names.wrong("a power of terms is a small whole number, e.g. (a + b)^2.");
    }
    this.at += 1;
    let found = base;
    for (let i = 1; i < Number(value); i += 1) found = distinctTerms([...found, ...productsOf(found, base)]);
    return found;
  }

  atom() {
    if (this.at >= this.tokens.length) throw this.names.wrong("it ends too early.");
    if (this.next("(")) {
      const { terms } = this.sum(true);
      if (!this.next(")")) throw this.names.wrong("a parenthesis is not closed.");
      return terms;
    }
    if (this.next(".")) return this.names.everything(this.response);
    const token = this.tokens[this.at];
    if (token[0] === "sign") throw this.names.wrong(`expected a column at ${token[1]}.`);
    this.at += 1;
    return this.names.factors(token).map((factor) => [factor]);
  }
}

// The columns that the terms stand for, each as { name, key, expression }.
function columnsOf(read, names) {
  const terms = [...read.terms].sort((one, other) => one.length - other.length);
  const numbers = (term) =>
    term
      .filter((factor) => !factor.categories)
      .map((factor) => factor.id)
      .sort()
      .join("\n");
  const asked = terms.map((term) => [numbers(term), term.filter((factor) => factor.categories).map((f) => f.name)]);
  const codings = chooseCodings(read.intercept ? [["", []], ...asked] : asked).slice(read.intercept ? 1 : 0);
  return terms
    .flatMap((term, i) => codings[i].flatMap((part) => codedColumns(term, part, names)))
    .filter((one) => !read.leftOut.has(one.name));
}

// One column for each combination of the categories that a part of a term has.
function codedColumns(term, part, names) {
  let found = [[]];
  for (const factor of term) {
    if (factor.categories && !part.has(factor.name)) continue;
    const choices = factor.categories
      ? names.categories(factor, part.get(factor.name)).map((label) => names.number(columnOf(label), label))
      : [factor];
    found = found.flatMap((before) => choices.map((choice) => [...before, choice]));
  }
  return found
    .filter((chosen) => chosen.length)
    .map((chosen) => {
      const expression = productOf(...chosen.map((factor) => factor.expression)),
        name = chosen.length === 1 ? chosen[0].name : chosen.map((factor) => quotedName(factor.name)).join(":");
      return { name, expression, key: keyOf(expression) };
    });
}

// Which categories of each term get a column, so that no column repeats others: dpspark.core.coding says why.
function chooseCodings(terms) {
  const said = new Map(),
    keyOfSubset = (subset) => JSON.stringify([...subset].sort());
  return terms.map(([numbers, factors]) => {
    if (!said.has(numbers)) said.set(numbers, new Set());
    const earlier = said.get(numbers),
      fresh = subsetsOf(factors).filter((subset) => !earlier.has(keyOfSubset(subset)));
    fresh.forEach((subset) => earlier.add(keyOfSubset(subset)));
    return joinedParts(fresh.map((subset) => new Map(subset.map((factor) => [factor, false]))));
  });
}

// All subsets, the small ones first, each in the order of the whole.
function subsetsOf(all) {
  const found = all.reduce((subsets, one) => [...subsets, ...subsets.map((subset) => [...subset, one])], [[]]);
  const places = (subset) => subset.map((one) => String(all.indexOf(one)).padStart(3, "0")).join();
  return found.sort((a, b) => a.length - b.length || (places(a) < places(b) ? -1 : 1));
}

// Two parts that differ by one factor are one with all categories of it.
function joinedParts(parts) {
  const within = (short, long) => [...short].every(([factor, all]) => long.get(factor) === all);
  for (let at = 0; at < parts.length; at += 1) {
    const short = parts[at],
      long = parts.slice(at + 1).find((part) => part.size === short.size + 1 && within(short, part));
    if (long) {
      const [factor] = [...long.keys()].filter((name) => !short.has(name));
      const joined = new Map(short).set(factor, true);
      return joinedParts(parts.map((part) => (part === long ? joined : part)).filter((part) => part !== short));
    }
  }
  return parts;
}
