"""The filter language that Monitoring and Logging share: parsed into a tree, then evaluated.

NOT binds closest, then OR, then AND. Two terms side by side are joined by AND.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.emulator.telemetry.tokens import (
    FilterError,
    Token,
    parse_path,
    remove_quotes,
    split_tokens,
    syntax_error,
)

WORDS = {"AND", "OR", "NOT"}
MAX_DEPTH = 50


@dataclass(frozen=True)
class Value:
    """The right side of a comparison: a text, or a function of texts such as `one_of`."""

    texts: tuple[str, ...]
    function: str = ""

    @property
    def text(self) -> str:
        return self.texts[0] if self.texts else ""


@dataclass(frozen=True)
class Term:
    """A comparison; without a path, a search of all fields for a text."""

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


def evaluate_tree(tree: Tree, test: Test) -> bool | None:
    """Whether the filter holds; None if the test knows too few fields to decide."""
    match tree:
        case Term():
            return test(tree)
        case Not(inner):
            held = evaluate_tree(inner, test)
            return None if held is None else not held
        case All(parts):
            results = [evaluate_tree(part, test) for part in parts]
            return False if False in results else None if None in results else True
        case Either(parts):
            results = [evaluate_tree(part, test) for part in parts]
            return True if True in results else None if None in results else False


def list_terms(tree: Tree) -> list[Term]:
    """Return every comparison of a filter."""
    match tree:
        case Term():
            return [tree]
        case Not(inner):
            return list_terms(inner)
        case All(parts) | Either(parts):
            return [term for part in parts for term in list_terms(part)]


def parse_filter(text: str) -> Tree:
    """Return the tree of a filter; an empty filter always holds. Raises FilterError."""
    return _Reader(text).read_filter()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = split_tokens(text)
        self._index = 0
        self._depth = 0

    def read_filter(self) -> Tree:
        if not self._tokens:
            return All(())
        tree = self._read_conjunction()
        if self._peek_token() is not None:
            raise self._make_error()
        return tree

    def _read_conjunction(self) -> Tree:
        parts = [self._read_disjunction()]
        while (token := self._peek_token()) is not None and token.text not in {")", ","}:
            if self._take_text("AND") is None and (token.kind == "operator" or token.text == "OR"):
                raise self._make_error()
            parts.append(self._read_disjunction())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _read_disjunction(self) -> Tree:
        parts = [self._read_negation()]
        while self._take_text("OR") is not None:
            parts.append(self._read_negation())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _read_negation(self) -> Tree:
        negated = False
        while self._take_text("NOT") is not None or self._take_minus():
            negated = not negated
        tree = (
            self._read_term()
            if self._take_text("(") is None
            else self._read_bracketed(self._read_conjunction)
        )
        return Not(tree) if negated else tree

    def _take_minus(self) -> bool:
        """Take the `-` before a word, an abbreviation of NOT; False if there is none."""
        token = self._peek_token()
        if token is None or token.kind != "word" or not token.text.startswith("-"):
            return False
        if not token.text[1:2].isalpha():
            return False
        self._tokens[self._index] = Token("word", token.text[1:], token.at + 1)
        return True

    def _read_bracketed(self, inside: Callable[[], Tree]) -> Tree:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._make_error()
        tree = inside()
        self._depth -= 1
        if self._take_text(")") is None:
            raise self._make_error()
        return tree

    def _read_term(self) -> Tree:
        left = self._next_token({"word", "quoted"})
        if left.text in WORDS:
            self._index -= 1
            raise self._make_error()
        if left.kind == "word" and self._take_text("(") is not None:
            value = Value(self._read_arguments(), left.text)
            return Term((), "function", value)
        token = self._peek_token()
        if token is None or token.kind != "operator":
            return Term((), ":", Value((remove_quotes(left.text),)))
        self._index += 1
        field, operator = parse_path(left), token.text
        if self._take_text("(") is not None:
            # `field=(a OR b)` compares the field with each value.
            return self._read_bracketed(
                lambda: _apply_field(self._read_conjunction(), field, operator)
            )
        right = self._next_token({"word", "quoted"})
        if right.kind == "quoted":
            value = Value((remove_quotes(right.text),))
        elif self._take_text("(") is not None:
            value = Value(self._read_arguments(), right.text)
        else:
            value = Value((right.text,))
        return Term(field, operator, value)

    def _read_arguments(self) -> tuple[str, ...]:
        found: list[str] = []
        while self._take_text(")") is None:
            if found and self._take_text(",") is None:
                raise self._make_error()
            found.append(remove_quotes(self._next_token({"word", "quoted"}).text))
        return tuple(found)

    def _peek_token(self) -> Token | None:
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def _take_text(self, text: str) -> Token | None:
        token = self._peek_token()
        if token is None or token.kind == "quoted" or token.text != text:
            return None
        self._index += 1
        return token

    def _next_token(self, kinds: set[str]) -> Token:
        token = self._peek_token()
        if token is None or token.kind not in kinds:
            raise self._make_error()
        self._index += 1
        return token

    def _make_error(self) -> FilterError:
        token = self._peek_token()
        at = len(self._text) if token is None else token.at
        return syntax_error(self._text, at, "EOF" if token is None else token.text[:1])


def _apply_field(tree: Tree, field: tuple[str, ...], operator: str) -> Tree:
    match tree:
        case Term(value=value):
            return Term(field, operator, value)
        case Not(inner):
            return Not(_apply_field(inner, field, operator))
        case All(parts):
            return All(tuple(_apply_field(part, field, operator) for part in parts))
        case Either(parts):
            return Either(tuple(_apply_field(part, field, operator) for part in parts))
