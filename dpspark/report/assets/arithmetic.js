// Arithmetic of columns, as dpspark.core.arithmetic reads it: two expressions are the same if they are the same polynomial
// of the same columns and functions. An expression is [operation, ...arguments]; a polynomial is a Map from the key of a
// monomial to { powers, factor }, where powers is a Map from the key of an atom to its power.

const MOST_POWER = 8,
  MOST_MONOMIALS = 200,
  FUNCTIONS = ["log", "log10", "log2", "log1p", "sqrt", "exp", "expm1"];

class NotArithmetic extends Error {}

const columnOf = (name) => ["name", name];
const productOf = (...parts) => (parts.length === 1 ? parts[0] : ["*", ...parts]);

function readArithmetic(text) {
  const reader = new ArithmeticReader(cutArithmetic(text)),
    found = reader.sum();
  if (reader.at < reader.tokens.length) throw new NotArithmetic(text);
  return found;
}

function cutArithmetic(text) {
  const token =
    /\s*(?:`(?<quoted>[^`]+)`|(?<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)|(?<name>[\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*)*(?:\[[^\]]*\])?)|(?<sign>\*\*|[-+*/^(),]))/uy;
  const tokens = [],
    whole = text.trimEnd();
  while (token.lastIndex < whole.length) {
    const match = token.exec(whole);
    if (!match) throw new NotArithmetic(text);
    const [kind, value] = Object.entries(match.groups).find(([, found]) => found !== undefined);
    tokens.push([kind === "quoted" ? "name" : kind, value]);
  }
  return tokens;
}

// Tokens one after the other; a sign is taken if it is one of those that are asked for.
class TokenReader {
  constructor(tokens) {
    this.tokens = tokens;
    this.at = 0;
  }

  next(...signs) {
    const [kind, value] = this.tokens[this.at] ?? [];
    if (kind !== "sign" || !signs.includes(value)) return null;
    this.at += 1;
    return value;
  }
}

class ArithmeticReader extends TokenReader {
  sum() {
    const parts = [this.product()];
    for (let sign = this.next("+", "-"); sign; sign = this.next("+", "-")) {
      const part = this.product();
      parts.push(sign === "+" ? part : productOf(["number", -1], part));
    }
    return parts.length === 1 ? parts[0] : ["+", ...parts];
  }

  product() {
    const parts = [this.signed()];
    for (let sign = this.next("*", "/"); sign; sign = this.next("*", "/")) {
      const part = this.signed();
      parts.push(sign === "*" ? part : ["**", part, -1]);
    }
    return productOf(...parts);
  }

  signed() {
    if (this.next("-")) return productOf(["number", -1], this.signed());
    this.next("+");
    return this.power();
  }

  power() {
    const base = this.atom();
    return this.next("**", "^") ? powerOf(base, this.signed()) : base;
  }

  atom() {
    if (this.next("(")) {
      const found = this.sum();
      this.close();
      return found;
    }
    const [kind, text] = this.tokens[this.at] ?? ["sign", ""];
    if (kind === "sign") throw new NotArithmetic();
    this.at += 1;
    if (kind === "number") return ["number", Number(text)];
    return this.next("(") ? this.call(text) : columnOf(text);
  }

  call(name) {
    const called = name.replace(/^(np|numpy)\./, ""),
      inside = [this.sum()];
    while (this.next(",")) inside.push(this.sum());
    this.close();
    if ((called === "pow" || called === "power") && inside.length === 2) return powerOf(...inside);
    if (!FUNCTIONS.includes(called) || inside.length !== 1) throw new NotArithmetic();
    return [called, ...inside];
  }

  close() {
    if (!this.next(")")) throw new NotArithmetic();
  }
}

// A power by a written number.
function powerOf(base, exponent) {
  const found = polynomialOf(exponent);
  if ([...found.values()].some(({ powers }) => powers.size)) throw new NotArithmetic();
  const value = found.get("")?.factor ?? 0;
  return value === 1 ? base : ["**", base, value];
}

// The columns that an expression is made of, each once.
function namesIn([op, ...parts]) {
  if (op === "name") return [parts[0]];
  return [...new Set(parts.filter(Array.isArray).flatMap(namesIn))];
}

const keyOfMonomial = (powers) =>
  [...powers]
    .map(([atom, power]) => `${atom}^${power}`)
    .sort()
    .join("\u0001");

const keyOfPolynomial = (found) =>
  JSON.stringify(
    [...found]
      .filter(([, { factor }]) => factor)
      .map(([key, { factor }]) => [key, factor])
      .sort(([one], [other]) => (one < other ? -1 : 1)),
  );

// What an expression is, however it is written.
const keyOf = (expression) => keyOfPolynomial(polynomialOf(expression));

function addTo(found, powers, factor) {
  const key = keyOfMonomial(powers);
  found.set(key, { powers, factor: (found.get(key)?.factor ?? 0) + factor });
  return found;
}

function polynomialOf([op, ...parts]) {
  const single = (atom) => addTo(new Map(), new Map([[atom, 1]]), 1);
  if (op === "number") return addTo(new Map(), new Map(), parts[0]);
  if (op === "name") return single(JSON.stringify(parts[0]));
  if (op === "**") return raisedTo(polynomialOf(parts[0]), parts[1]);
  if (op === "*") return parts.map(polynomialOf).reduce(timesPolynomial);
  if (op !== "+") return single(JSON.stringify([op, keyOf(parts[0])]));
  const found = new Map();
  for (const part of parts)
    for (const { powers, factor } of polynomialOf(part).values()) addTo(found, powers, factor);
  return found;
}

function timesPolynomial(one, other) {
  const found = new Map();
  for (const left of one.values()) {
    for (const right of other.values()) {
      const powers = new Map(left.powers);
      for (const [atom, power] of right.powers) powers.set(atom, (powers.get(atom) ?? 0) + power);
      addTo(found, new Map([...powers].filter(([, power]) => power)), left.factor * right.factor);
    }
  }
  if (found.size > MOST_MONOMIALS) throw new NotArithmetic();
  return found;
}

function raisedTo(base, exponent) {
  const whole = Number.isInteger(exponent) && Math.abs(exponent) <= MOST_POWER;
  if (whole && exponent >= 0) {
    return Array.from({ length: exponent }, () => base).reduce(timesPolynomial, addTo(new Map(), new Map(), 1));
  }
  const [only] = base.values();
  if (whole && base.size === 1 && only.factor) {
    const powers = new Map([...only.powers].map(([atom, power]) => [atom, power * exponent]));
    return addTo(new Map(), powers, only.factor ** exponent);
  }
  return addTo(new Map(), new Map([[JSON.stringify(["**", keyOfPolynomial(base), exponent]), 1]]), 1);
}

// The same of a key that dpspark wrote: monomials, each a list of atoms with their powers, and its factor.
function keyOfReleased(monomials) {
  const atomKey = (atom) => {
    if (typeof atom === "string") return JSON.stringify(atom);
    const [op, of, ...exponent] = atom;
    return JSON.stringify([op, keyOfReleased(of), ...exponent]);
  };
  const found = new Map();
  for (const [atoms, factor] of monomials)
    addTo(found, new Map(atoms.map(([atom, power]) => [atomKey(atom), power])), factor);
  return keyOfPolynomial(found);
}

// The columns that such a key is made of.
const atomsIn = (monomials) =>
  monomials.flatMap(([atoms]) => atoms.flatMap(([atom]) => (typeof atom === "string" ? [atom] : atomsIn(atom[1]))));
