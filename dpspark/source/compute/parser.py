"""Expressions as trees, by the rules of Spark's own grammar (SqlBaseParser.g4), for the part that can be compiled.

sqlglot's trees are not Spark's in all cases: it binds `x between 1 and 2 = true` otherwise, reads 'a''b' as one version
of Spark does, and gives functions other names and arguments. Here, what is not known to be read alike is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpspark.source.compute.syntax import Case, CastTo, Constant, Moment, Name, Number, Operation, Syntax, Text
from dpspark.source.compute.tokens import NotCompiled, Token, cut

DEEPEST = 60  # nested levels
COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
# Words with a meaning of their own, wherever they stand: no columns of these names, unless in backticks.
RESERVED = {
    *("and", "or", "not", "in", "is", "between", "like", "ilike", "rlike", "regexp", "div", "case", "when", "then"),
    *("else", "end", "cast", "try_cast", "as", "from", "for", "exists", "select", "distinct", "all", "any", "some"),
    *("interval", "escape", "null", "true", "false", "current_date", "current_timestamp", "current_user", "user"),
    *("session_user", "current_time", "localtime", "localtimestamp", "collate", "over", "filter", "within", "where"),
    *("struct", "array", "map", "named_struct", "unbounded", "lateral", "at", "ignore", "respect"),
}


def parse(text: str) -> Syntax:
    """Parse one expression."""
    parser = _Parser(cut(text))
    found = parser.disjunction()
    parser.expect_end()
    return found


@dataclass
class _Parser:
    tokens: list[Token]
    at: int = 0
    depth: int = 0

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take_word(self, *words: str) -> str | None:
        """Take one of these words if it is next."""
        token = self.peek()
        if token.kind == "word" and token.text.lower() in words:
            self.at += 1
            return token.text.lower()
        return None

    def take_sign(self, *signs: str) -> str | None:
        token = self.peek()
        if token.kind == "sign" and token.text in signs:
            self.at += 1
            return token.text
        return None

    def need(self, text: str) -> None:
        if not (self.take_sign(text) or self.take_word(text)):
            raise self.refuse()

    def refuse(self) -> NotCompiled:
        token = self.peek()
        if token.kind == "word" and token.text.lower() in ("rlike", "ilike", "regexp", "escape"):
            return NotCompiled(f"{token.text.lower()} is evaluated by Spark")
        shown = {"text": "text", "end": "an end"}.get(token.kind, token.text)
        return NotCompiled(f"{shown} at this place is read by Spark")

    def expect_end(self) -> None:
        if self.peek().kind != "end":
            raise self.refuse()

    def disjunction(self) -> Syntax:
        self.depth += 1
        if self.depth > DEEPEST:
            raise NotCompiled("it is nested deeply")
        parts = [self.conjunction()]
        while self.take_word("or"):
            parts.append(self.conjunction())
        self.depth -= 1
        return _balance("or", parts)

    def conjunction(self) -> Syntax:
        parts = [self.negation()]
        while self.take_word("and"):
            parts.append(self.negation())
        return _balance("and", parts)

    def negation(self) -> Syntax:
        count = 0
        while self.take_word("not") or self.take_sign("!"):
            count += 1
        if count > 3:
            raise NotCompiled("it has many NOTs")
        found = self.predicate()
        for _ in range(count):
            found = Operation("not", (found,))
        return found

    def predicate(self) -> Syntax:
        """One value, or one predicate on it: `a between 1 and 2 = true` compares 2 with true."""
        value = self.comparison()
        if self.take_word("is"):
            return self.negated(self.take_word("not") is not None, self.after_is(value))
        negated = self.take_word("not") is not None
        if self.take_word("between"):
            low = self.comparison()
            self.need("and")
            parts = (Operation(">=", (value, low)), Operation("<=", (value, self.comparison())))
            return self.negated(negated, Operation("and", parts))
        if self.take_word("in"):
            self.need("(")
            return self.negated(negated, Operation("in", (value, *self.arguments())))
        if self.take_word("like"):
            return self.negated(negated, Operation("like", (value, self.comparison())))
        if negated:
            raise self.refuse()
        return value

    def after_is(self, value: Syntax) -> Syntax:
        word = self.take_word("null", "true", "false")
        if word is None:
            raise self.refuse()
        return Operation("isnull", (value,)) if word == "null" else Operation("<=>", (value, Constant(word == "true")))

    def negated(self, negated: bool, found: Syntax) -> Syntax:
        return Operation("not", (found,)) if negated else found

    def comparison(self) -> Syntax:
        found = self.sum()
        while sign := self.take_sign(*COMPARISONS):
            found = self.deepen(sign, found, self.sum())
        return found

    def sum(self) -> Syntax:
        found = self.product()
        while sign := self.take_sign("+", "-", "||"):
            found = self.deepen(sign, found, self.product())
        return found

    def product(self) -> Syntax:
        found = self.signed()
        while sign := self.take_sign("*", "/", "%") or self.take_word("div"):
            found = self.deepen(sign, found, self.signed())
        return found

    def deepen(self, sign: str, one: Syntax, other: Syntax) -> Syntax:
        if depth_of(one) > DEEPEST:
            raise NotCompiled("it is a very long sum or product")
        return Operation(sign, (one, other))

    def signed(self) -> Syntax:
        """Signs bind tighter than operators, and a minus before a number belongs to the number."""
        signs = []
        while sign := self.take_sign("+", "-"):
            signs.append(sign)
        if len(signs) > 3:
            raise NotCompiled("it has many signs")
        minus = bool(signs) and signs[-1] == "-" and self.peek().kind == "number"
        found = self.primary("-" if minus else "")
        for sign in reversed(signs[:-1] if minus else signs):
            found = Operation("negative" if sign == "-" else "positive", (found,))
        return found

    def primary(self, minus: str) -> Syntax:
        found = self.atom(minus)
        while self.take_sign("::"):
            found = CastTo(found, self.type_name())
        return found

    def atom(self, minus: str) -> Syntax:
        token = self.peek()
        self.at += 1
        if token.kind == "number":
            return Number(minus + token.text)
        if token.kind == "text":
            return Text(token.text)
        if token.kind == "quoted":
            return Name(token.text)
        if token.kind == "sign" and token.text == "(":
            found = self.disjunction()
            self.need(")")
            return found
        if token.kind == "word":
            return self.word(token.text.lower(), token.text)
        self.at -= 1
        raise self.refuse()

    def word(self, word: str, written: str) -> Syntax:
        after = self.peek()
        if word in ("true", "false", "null"):
            return Constant({"true": True, "false": False, "null": None}[word])
        if word in ("date", "timestamp") and after.kind == "text":
            self.at += 1
            return Moment(word, after.text)
        if word == "case":
            return self.case()
        if word == "cast" and self.take_sign("("):
            found = self.disjunction()
            self.need("as")
            kind = self.type_name()
            self.need(")")
            return CastTo(found, kind)
        if word == "extract" and self.take_sign("("):
            return self.extract()
        if word in RESERVED:
            raise NotCompiled(f"{word} is evaluated by Spark")
        if self.take_sign("("):
            return Operation(word, () if self.take_sign(")") else self.arguments(), is_function=True)
        return Name(written)

    def arguments(self) -> tuple[Syntax, ...]:
        found = [self.disjunction()]
        while self.take_sign(","):
            found.append(self.disjunction())
        self.need(")")
        return tuple(found)

    def extract(self) -> Syntax:
        field = self.peek()
        self.at += 1
        self.need("from")
        found = self.comparison()
        self.need(")")
        return Operation("date_part", (Text(field.text if field.kind == "word" else ""), found), is_function=True)

    def case(self) -> Syntax:
        subject = None if self.peek().text.lower() == "when" and self.peek().kind == "word" else self.disjunction()
        branches = []
        while self.take_word("when"):
            condition = self.disjunction()
            self.need("then")
            branches.append(
                (condition if subject is None else Operation("=", (subject, condition)), self.disjunction())
            )
        otherwise = self.disjunction() if self.take_word("else") else Constant(None)
        self.need("end")
        if not branches:
            raise self.refuse()
        return Case(tuple(branches), otherwise)

    def type_name(self) -> str:
        token = self.peek()
        if token.kind != "word":
            raise self.refuse()
        self.at += 1
        digits = []
        if self.take_sign("("):
            while self.peek().kind == "number" and self.peek().text.isdigit():
                digits.append(self.peek().text)
                self.at += 1
                if not self.take_sign(","):
                    break
            self.need(")")
        return token.text.lower() + (f"({','.join(digits)})" if digits else "")


def _balance(name: str, parts: list[Syntax]) -> Syntax:
    """Make one tree of many conditions, as flat as can be: their order does not matter."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Operation(name, (_balance(name, parts[:middle]), _balance(name, parts[middle:])))


def depth_of(node: Syntax) -> int:
    """How many operators stand one on the other's left."""
    depth = 0
    while isinstance(node, Operation) and node.inputs:
        node, depth = node.inputs[0], depth + 1
    return depth
