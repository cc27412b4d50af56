"""The filter language that Monitoring and Logging share: read into a tree, weighed by a test.

Both bind NOT closest, then OR, then AND, and take two terms side by side for AND.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.emulator.telemetry.tokens import (
    FilterError,
    Token,
    path,
    split,
    syntax_error,
    unquoted,
)

WORDS = {"AND", "OR", "NOT"}
MAX_DEPTH = 50


@dataclass(frozen=True)
class Value:
    """What a field is compared with: a text, or a function of texts such as `one_of`."""

    texts: tuple[str, ...]
    function: str = ""

    @property
    def text(self) -> str:
        return self.texts[0] if self.texts else ""


@dataclass(frozen=True)
class Term:
    """A comparison; no path means a search of the whole thing for a text."""

    path: tuple[str, ...]
    operator: str
    value: Value


@dataclass(frozen=True)
class Not:
    inner: Tree


@dataclass(frozen=True)
class All:
    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Either:
    parts: tuple[Tree, ...]


Tree = Term | Not | All | Either
Test = Callable[[Term], bool | None]


def weigh(tree: Tree, test: Test) -> bool | None:
    """Say whether the filter holds, or None where the test does not know enough to say."""
    match tree:
        case Term():
            return test(tree)
        case Not(inner):
            held = weigh(inner, test)
            return None if held is None else not held
        case All(parts):
            found = [weigh(part, test) for part in parts]
            return False if False in found else None if None in found else True
        case Either(parts):
            found = [weigh(part, test) for part in parts]
            return True if True in found else None if None in found else False


def terms(tree: Tree) -> list[Term]:
    """List every comparison of a filter."""
    match tree:
        case Term():
            return [tree]
        case Not(inner):
            return terms(inner)
        case All(parts) | Either(parts):
            return [term for part in parts for term in terms(part)]


def parse(text: str) -> Tree:
    """Read a filter, an empty one as one that always holds; raises FilterError."""
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = split(text)
        self._index = 0
        self._depth = 0

    def whole(self) -> Tree:
        if not self._tokens:
            return All(())
        tree = self._all()
        if self._peek() is not None:
            raise self._error()
        return tree

    def _all(self) -> Tree:
        parts = [self._either()]
        while (token := self._peek()) is not None and token.text not in {")", ","}:
            if self._take("AND") is None and (token.kind == "operator" or token.text == "OR"):
                raise self._error()
            parts.append(self._either())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _either(self) -> Tree:
        parts = [self._not()]
        while self._take("OR") is not None:
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _not(self) -> Tree:
        negated = False
        while self._take("NOT") is not None or self._take_minus():
            negated = not negated
        tree = self._term() if self._take("(") is None else self._bracketed(self._all)
        return Not(tree) if negated else tree

    def _take_minus(self) -> bool:
        """Take the `-` before a word, which is short for NOT."""
        token = self._peek()
        if token is None or token.kind != "word" or not token.text.startswith("-"):
            return False
        if not token.text[1:2].isalpha():
            return False
        self._tokens[self._index] = Token("word", token.text[1:], token.at + 1)
        return True

    def _bracketed(self, inside: Callable[[], Tree]) -> Tree:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error()
        tree = inside()
        self._depth -= 1
        if self._take(")") is None:
            raise self._error()
        return tree

    def _term(self) -> Tree:
        left = self._next({"word", "quoted"})
        if left.text in WORDS:
            self._index -= 1
            raise self._error()
        if left.kind == "word" and self._take("(") is not None:
            value = Value(self._arguments(), left.text)
            return Term((), "function", value)
        operator = self._operator()
        if not operator:
            return Term((), ":", Value((unquoted(left.text),)))
        field = path(left)
        if self._take("(") is not None:
            return self._bracketed(lambda: self._values(field, operator))
        return Term(field, operator, self._value())

    def _values(self, field: tuple[str, ...], operator: str) -> Tree:
        """Read `field=(a OR b)`, which compares the field with each."""
        return _applied(self._all(), field, operator)

    def _value(self) -> Value:
        token = self._next({"word", "quoted"})
        if token.kind == "quoted":
            return Value((unquoted(token.text),))
        if self._take("(") is not None:
            return Value(self._arguments(), token.text)
        return Value((token.text,))

    def _arguments(self) -> tuple[str, ...]:
        found: list[str] = []
        while self._take(")") is None:
            if found and self._take(",") is None:
                raise self._error()
            found.append(unquoted(self._next({"word", "quoted"}).text))
        return tuple(found)

    def _operator(self) -> str:
        token = self._peek()
        if token is None or token.kind != "operator":
            return ""
        self._index += 1
        return token.text

    def _peek(self) -> Token | None:
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def _take(self, text: str) -> Token | None:
        token = self._peek()
        if token is None or token.kind == "quoted" or token.text != text:
            return None
        self._index += 1
        return token

    def _next(self, kinds: set[str]) -> Token:
        token = self._peek()
        if token is None or token.kind not in kinds:
            raise self._error()
        self._index += 1
        return token

    def _error(self) -> FilterError:
        token = self._peek()
        at = len(self._text) if token is None else token.at
        return syntax_error(self._text, at, "EOF" if token is None else token.text[:1])


def _applied(tree: Tree, field: tuple[str, ...], operator: str) -> Tree:
    match tree:
        case Term(value=value):
            return Term(field, operator, value)
        case Not(inner):
            return Not(_applied(inner, field, operator))
        case All(parts):
            return All(tuple(_applied(part, field, operator) for part in parts))
        case Either(parts):
            return Either(tuple(_applied(part, field, operator) for part in parts))
