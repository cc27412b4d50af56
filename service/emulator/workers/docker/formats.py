"""The output formats of docker: Go templates, as far as scripts use them, tables and ages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from service.emulator.workers.docker.clock import now_ns

TAG = re.compile(r"\{\{\s*(.*?)\s*\}\}")
PATH = re.compile(r"\.[\w.]*")
INDEX = re.compile(r'index\s+(\.[\w.]*)\s+(?:"([^"]*)"|(\d+))')
LABEL = re.compile(r'\.Label\s+"([^"]*)"')
LENGTH = re.compile(r"len\s+(\.[\w.]*)")
RANGE = re.compile(r"\{\{-?\s*range\s+(\.[\w.]*)\s*-?\}\}(.*?)\{\{-?\s*end\s*-?\}\}", re.DOTALL)
DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
NANOS = 1_000_000_000
ESCAPES = {r"\t": "\t", r"\n": "\n"}
NEVER = "0001-01-01T00:00:00Z"


class BadTemplate(Exception):
    """A template with an error."""


def fill_template(template: str, content: Any) -> str:
    """Return a filled template. Raises BadTemplate.

    It may hold `{{.A.B}}`, `{{json .A}}`, `{{len .A}}`, `{{index .A "b"}}`, `{{index .A 0}}`,
    `{{.Label "b"}}` and `{{range .A}}…{{end}}`.
    """
    for escape, character in ESCAPES.items():
        template = template.replace(escape, character)
    template = RANGE.sub(
        lambda found: "".join(
            fill_template(found[2], item) for item in _look_up(found[1], content) or ()
        ),
        template,
    )
    return TAG.sub(lambda found: _format_value(found[1], content), template)


def format_table(template: str, rows: list[dict[str, Any]], what: str) -> list[str]:
    """Return the lines of a `table …` template: a heading, and the rows in columns."""
    body = template.removeprefix("table").strip().replace(r"\t", "\t")
    heads = TAG.sub(lambda found: _column_heading(found[1], what), body)
    lines = [heads, *(fill_template(body, row) for row in rows)]
    cells = [line.split("\t") for line in lines]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def format_rows(
    template: str, default: str, rows: list[dict[str, Any]], what: str = "CONTAINER"
) -> list[str]:
    """Return rows by a command's template, a table by default; `what` is the heading of the id."""
    if not template or template.startswith("table"):
        return format_table(template if template not in {"", "table"} else default, rows, what)
    if template == "json":
        template = "{{json .}}"
    return [fill_template(template, row) for row in rows]


def format_age(seconds: float) -> str:
    """Return a duration as docker writes it."""
    steps: list[tuple[float, Callable[[int], str]]] = [
        (1, lambda _: "Less than a second"),
        (60, lambda _: _format_count(int(seconds), "second")),
        (120, lambda _: "About a minute"),
        (3600, lambda _: _format_count(int(seconds // 60), "minute")),
        (7200, lambda _: "About an hour"),
        (48 * 3600, lambda _: _format_count(int(seconds // 3600), "hour")),
    ]
    for limit, words in steps:
        if seconds < limit:
            return words(0)
    return _format_count(int(seconds // 86400), "day")


def format_moment(at: float) -> str:
    """Return a moment as docker writes it; year 1 for none."""
    if not at:
        return NEVER
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def format_nanos(at: int) -> str:
    """Return nanoseconds since 1970 as `docker logs --timestamps` writes them: with nine digits."""
    seconds, nanos = divmod(at, NANOS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos:09}Z"


def parse_moment(text: str) -> int:
    """Return the moment of `--since` in nanoseconds since 1970. Raises ValueError.

    The text is RFC 3339, unix seconds, or a duration before now.
    """
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return _parse_nanos(text)
    ago = DURATION.fullmatch(text)
    if ago is not None and text:
        hours, minutes, seconds = (float(part or 0) for part in ago.groups())
        return now_ns() - int((hours * 3600 + minutes * 60 + seconds) * NANOS)
    whole, point, rest = text.partition(".")
    fraction = re.match(r"\d*", rest)
    digits = fraction[0] if fraction else ""
    try:
        at = datetime.fromisoformat(whole + rest[len(digits) :])
    except ValueError:
        raise ValueError(f'failed to parse value as time or duration: "{text}"') from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return int(at.timestamp()) * NANOS + (_parse_nanos(f"0.{digits}") if point else 0)


def _parse_nanos(text: str) -> int:
    """Return decimal seconds as nanoseconds, without the errors of binary fractions."""
    seconds, _, fraction = text.partition(".")
    return int(seconds) * NANOS + int(fraction[:9].ljust(9, "0"))


def _format_count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _format_value(expression: str, content: Any) -> str:
    for pattern, read in (
        (INDEX, _look_up_index),
        (LABEL, lambda found, content: content.get("LabelMap", {}).get(found[1], "")),
        (LENGTH, lambda found, content: len(_look_up(found[1], content))),
    ):
        found = pattern.fullmatch(expression)
        if found is not None:
            return _to_text(read(found, content))
    verb, _, path = expression.rpartition(" ")
    if PATH.fullmatch(path) is None or verb.strip() not in {"", "json"}:
        raise BadTemplate(f'the emulator\'s stand-in does not know "{{{{{expression}}}}}"')
    value = _look_up(path, content)
    if path == "." and "LabelMap" in value:
        value = {key: item for key, item in value.items() if key != "LabelMap"}
    return json.dumps(value, separators=(",", ":")) if verb else _to_text(value)


def _look_up_index(found: re.Match[str], content: Any) -> Any:
    """Return the value of a map's key, or a list's item."""
    collection = _look_up(found[1], content)
    if found[3] is None:
        return (collection or {}).get(found[2], "")
    try:
        return collection[int(found[3])]
    except (IndexError, TypeError):
        raise BadTemplate(
            f'template: :1:2: executing "" at <index {found[1]} {found[3]}>: error calling'
            f" index: index out of range: {found[3]}"
        ) from None


def _look_up(path: str, content: Any) -> Any:
    for name in filter(None, path.split(".")):
        if not isinstance(content, dict) or name not in content:
            raise BadTemplate(
                f'template: :1:2: executing "" at <{path}>: map has no entry for key "{name}"'
            )
        content = content[name]
    return content


def _to_text(value: Any) -> str:
    """Return a value as Go's templates write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "<no value>"
    if isinstance(value, list):
        return f"[{' '.join(_to_text(item) for item in value)}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_to_text(item)}' for key, item in sorted(value.items()))}]"
    return str(value)


def _column_heading(expression: str, what: str) -> str:
    name = expression.rpartition(".")[2]
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return {"ID": f"{what} ID", "RunningFor": "CREATED", "CreatedSince": "CREATED"}.get(
        name, spaced.upper()
    )
