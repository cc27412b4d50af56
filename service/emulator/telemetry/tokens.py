"""The tokens of both filter languages, each with its position."""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<space>(?:\s|--[^\n]*)+)
    |(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<operator>=~|!~|!=|>=|<=|=|>|<|:)
    |(?P<mark>[(),])
    |(?P<word>-?[\w@*/%+.$-]+)""",
    re.VERBOSE,
)
MAX_LENGTH = 20_000
"""Characters of a filter. Google documents the limit for Logging."""
ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class FilterError(ValueError):
    """A filter with a syntax error; the text names the position, as Google's does."""


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    at: int


def split_tokens(text: str) -> list[Token]:
    """Return the tokens of a filter without the space between them. Raises FilterError."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter is longer than {MAX_LENGTH} characters")
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise syntax_error(text, at, text[at])
        kind, piece = str(found.lastgroup), found[0]
        if tokens and _continues_path(tokens[-1], kind, piece, at):
            last = tokens.pop()
            tokens.append(Token("word", last.text + piece, last.at))
        elif kind != "space":
            tokens.append(Token(kind, piece, at))
        at = found.end()
    return tokens


def parse_path(token: Token) -> tuple[str, ...]:
    """Return the parts of a field such as `labels."a.b/c".d`."""
    return tuple(remove_quotes(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"|[^.]+', token.text))


def remove_quotes(text: str) -> str:
    if len(text) >= 2 and text[0] in "\"'" and text[-1] == text[0]:
        return ESCAPE.sub(_unescape_char, text[1:-1])
    return text


def _unescape_char(found: re.Match[str]) -> str:
    # A backslash stays before other characters, as regular expressions need it.
    plain = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
    return plain.get(found[1], found[0])


def syntax_error(text: str, at: int, token: str) -> FilterError:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1)
    return FilterError(f"syntax error at line {line}, column {column + 1}, token '{token}'")


def _continues_path(last: Token, kind: str, text: str, at: int) -> bool:
    """Whether a token continues a path, as in `labels."a/b".c`."""
    if last.kind != "word" or at != last.at + len(last.text):
        return False
    return (kind == "quoted" and last.text.endswith(".")) or (
        kind == "word" and last.text.endswith('"') and text.startswith(".")
    )
