"""What a Logging filter says about an entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from service.emulator.errors import ApiError, Code
from service.emulator.telemetry.filters import Term, Tree, parse, terms, weigh
from service.emulator.telemetry.patterns import search
from service.emulator.telemetry.tokens import FilterError
from service.emulator.world.log_buffer import BufferedLog, nanoseconds

SEVERITIES = {
    "DEFAULT": 0,
    "DEBUG": 100,
    "INFO": 200,
    "NOTICE": 300,
    "WARNING": 400,
    "ERROR": 500,
    "CRITICAL": 600,
    "ALERT": 700,
    "EMERGENCY": 800,
}
MAX_DIGITS = 9
FRACTION = re.compile(r"(?<=:\d\d)\.(\d+)")
TIMES = {"timestamp", "receiveTimestamp"}
# What is not there in these is missing, and no comparison with it holds, not even `!=`;
# every other field of an entry has a default.
LOOSE = {"jsonPayload", "protoPayload", "labels", "resource"}
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda value, wanted: bool(value == wanted),
    "!=": lambda value, wanted: bool(value != wanted),
    ">": lambda value, wanted: bool(value > wanted),
    "<": lambda value, wanted: bool(value < wanted),
    ">=": lambda value, wanted: bool(value >= wanted),
    "<=": lambda value, wanted: bool(value <= wanted),
}
Holds = Callable[[BufferedLog], bool]


def read(text: str) -> Holds:
    """Give the test that a filter is; raises ApiError."""
    try:
        tree = parse(text)
    except FilterError as error:
        raise _refused(str(error)) from None
    tests = {id(term): _test(term) for term in terms(tree)}
    return lambda entry: _holds(tree, tests, entry)


def _holds(tree: Tree, tests: Mapping[int, Holds], entry: BufferedLog) -> bool:
    return bool(weigh(tree, lambda term: tests[id(term)](entry)))


def _test(term: Term) -> Holds:
    if term.operator == "function":
        return _function(term)
    if term.value.function:
        raise _refused(f"unsupported function {term.value.function}")
    if not term.path:
        wanted = term.value.text.lower()
        return lambda entry: any(wanted in text.lower() for text in _texts(entry.plain))
    path = tuple(_camel(part) if index == 0 else part for index, part in enumerate(term.path))
    if path[0] in TIMES and len(path) == 1:
        return _time_test(path[0], term)
    if path == ("severity",):
        return _severity_test(term)
    return _value_test(path, term)


def _function(term: Term) -> Holds:
    if term.value.function != "log_id" or len(term.value.texts) != 1:
        raise _refused(f"unsupported function {term.value.function}")
    wanted = "/logs/" + term.value.text.replace("/", "%2F")
    return lambda entry: entry.log.endswith(wanted)


def _time_test(field: str, term: Term) -> Holds:
    compare, wanted = _comparison(term), _moment(term.value.text)
    if field == "timestamp":
        return lambda entry: compare(entry.at, wanted)
    return lambda entry: compare(_moment(entry.plain[field]), wanted)


def _severity_test(term: Term) -> Holds:
    compare, name = _comparison(term), term.value.text.upper()
    if name not in SEVERITIES and not (name.isdecimal() and len(name) <= MAX_DIGITS):
        raise _refused(f"invalid severity {term.value.text}")
    wanted = SEVERITIES[name] if name in SEVERITIES else int(name)
    return lambda entry: compare(SEVERITIES[entry.plain.get("severity", "DEFAULT")], wanted)


def _value_test(path: tuple[str, ...], term: Term) -> Holds:
    one = _one_value(term)

    def holds(entry: BufferedLog) -> bool:
        values = list(_look_up(entry.plain, path))
        if not values and path[0] not in LOOSE:
            values = [""]
        return any(one(value) for value in values)

    return holds


def _one_value(term: Term) -> Callable[[Any], bool]:
    """Compare texts whatever their case, numbers by their size, and by patterns case and all."""
    wanted = term.value.text
    if term.operator in {"=~", "!~"}:
        pattern, found = _pattern(wanted), term.operator == "=~"
        return lambda value: pattern(_text(value)) is found
    if term.operator == ":":
        return lambda value: wanted == "*" or wanted.lower() in _text(value).lower()
    compare = COMPARISONS[term.operator]
    number = _number(wanted)

    def test(value: Any) -> bool:
        if isinstance(value, int | float) and not isinstance(value, bool) and number is not None:
            return compare(value, number)
        return compare(_text(value).lower(), wanted.lower())

    return test


def _look_up(plain: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Give what lies at a path; a list gives each of its items, a message its texts."""
    if isinstance(plain, list):
        for item in plain:
            yield from _look_up(item, path)
    elif not path:
        yield from _texts(plain) if isinstance(plain, dict) else (plain,)
    elif isinstance(plain, dict):
        for key in {path[0], _camel(path[0])}:
            if key in plain:
                yield from _look_up(plain[key], path[1:])
        # A label may have dots in its name.
        rest = ".".join(path)
        if len(path) > 1 and rest in plain:
            yield plain[rest]


def _texts(plain: Any) -> Iterator[str]:
    if isinstance(plain, dict):
        for value in plain.values():
            yield from _texts(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _texts(value)
    else:
        yield _text(plain)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _moment(text: str) -> int:
    """Read a day or a moment of RFC 3339, UTC where it has no offset, as nanoseconds."""
    fraction = FRACTION.search(text)
    try:
        when = datetime.fromisoformat(FRACTION.sub("", text))
    except ValueError:
        raise _refused(f'invalid timestamp "{text}"') from None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    nanos = int(fraction[1].ljust(9, "0")[:9]) if fraction else 0
    return nanoseconds(when.timestamp()) + nanos


def _comparison(term: Term) -> Callable[[Any, Any], bool]:
    if term.operator not in COMPARISONS:
        field = ".".join(term.path)
        raise _refused(f"the operator {term.operator} cannot be used with {field}")
    return COMPARISONS[term.operator]


def _pattern(text: str) -> Callable[[str], bool]:
    try:
        return search(text)
    except ValueError as error:
        raise _refused(f"invalid regular expression: {error}") from None


def _camel(part: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), part)


def _refused(why: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, f"Unparseable filter: {why}")
