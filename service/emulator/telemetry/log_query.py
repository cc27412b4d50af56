"""Logging filters, compiled into a test of log entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from service.emulator.errors import ApiError, Code
from service.emulator.telemetry.filters import Term, evaluate_tree, list_terms, parse_filter
from service.emulator.telemetry.selection import compile_search
from service.emulator.telemetry.tokens import FilterError
from service.emulator.world.log_buffer import BufferedLog, to_nanoseconds

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
# An absent field below these is missing: no comparison with it holds, not even `!=`.
# Every other field of an entry has a default.
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


def compile_filter(text: str) -> Holds:
    """Return the test of log entries that a filter describes. Raises ApiError."""
    try:
        tree = parse_filter(text)
    except FilterError as error:
        raise _filter_error(str(error)) from None
    tests = {id(term): _compile_term(term) for term in list_terms(tree)}
    return lambda entry: bool(evaluate_tree(tree, lambda term: tests[id(term)](entry)))


def _compile_term(term: Term) -> Holds:
    if term.operator == "function":
        if term.value.function != "log_id" or len(term.value.texts) != 1:
            raise _filter_error(f"unsupported function {term.value.function}")
        log_id = "/logs/" + term.value.text.replace("/", "%2F")
        return lambda entry: entry.log.endswith(log_id)
    if term.value.function:
        raise _filter_error(f"unsupported function {term.value.function}")
    if not term.path:
        wanted = term.value.text.lower()
        return lambda entry: any(wanted in text.lower() for text in _list_texts(entry.plain))
    path = tuple(_to_camel(part) if index == 0 else part for index, part in enumerate(term.path))
    if path[0] in TIMES and len(path) == 1:
        return _time_test(path[0], term)
    if path == ("severity",):
        compare, name = _get_comparison(term), term.value.text.upper()
        if name not in SEVERITIES and not (name.isdecimal() and len(name) <= MAX_DIGITS):
            raise _filter_error(f"invalid severity {term.value.text}")
        severity = SEVERITIES[name] if name in SEVERITIES else int(name)
        return lambda entry: compare(SEVERITIES[entry.plain.get("severity", "DEFAULT")], severity)
    test_value, lacking = _value_comparison(term), () if path[0] in LOOSE else ("",)
    return lambda entry: any(map(test_value, tuple(_look_up(entry.plain, path)) or lacking))


def _time_test(field: str, term: Term) -> Holds:
    compare, wanted = _get_comparison(term), _parse_moment(term.value.text)
    if field == "timestamp":
        return lambda entry: compare(entry.at, wanted)
    return lambda entry: compare(_parse_moment(entry.plain[field]), wanted)


def _value_comparison(term: Term) -> Callable[[Any], bool]:
    """Return the test of one value. Texts ignore case, numbers are numeric, patterns heed case."""
    wanted = term.value.text
    if term.operator in {"=~", "!~"}:
        try:
            has_match = compile_search(wanted)
        except ValueError as error:
            raise _filter_error(f"invalid regular expression: {error}") from None
        is_positive = term.operator == "=~"
        return lambda value: has_match(_to_text(value)) is is_positive
    if term.operator == ":":
        return lambda value: wanted == "*" or wanted.lower() in _to_text(value).lower()
    compare = COMPARISONS[term.operator]
    number: float | None = None
    with suppress(ValueError):
        number = float(wanted)

    def compare_value(value: Any) -> bool:
        if isinstance(value, int | float) and not isinstance(value, bool) and number is not None:
            return compare(value, number)
        return compare(_to_text(value).lower(), wanted.lower())

    return compare_value


def _look_up(plain: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values at a path: each item of a list, and every text of a message."""
    if isinstance(plain, list):
        for item in plain:
            yield from _look_up(item, path)
    elif not path:
        yield from _list_texts(plain) if isinstance(plain, dict) else (plain,)
    elif isinstance(plain, dict):
        for key in {path[0], _to_camel(path[0])}:
            if key in plain:
                yield from _look_up(plain[key], path[1:])
        # A label may have dots in its name.
        rest = ".".join(path)
        if len(path) > 1 and rest in plain:
            yield plain[rest]


def _list_texts(plain: Any) -> Iterator[str]:
    if isinstance(plain, dict):
        for value in plain.values():
            yield from _list_texts(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _list_texts(value)
    else:
        yield _to_text(plain)


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_moment(text: str) -> int:
    """Return a day or a moment of RFC 3339 as nanoseconds; UTC is the default offset."""
    fraction = FRACTION.search(text)
    try:
        when = datetime.fromisoformat(FRACTION.sub("", text))
    except ValueError:
        raise _filter_error(f'invalid timestamp "{text}"') from None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    nanos = int(fraction[1].ljust(9, "0")[:9]) if fraction else 0
    return to_nanoseconds(when.timestamp()) + nanos


def _get_comparison(term: Term) -> Callable[[Any, Any], bool]:
    if term.operator not in COMPARISONS:
        field = ".".join(term.path)
        raise _filter_error(f"the operator {term.operator} cannot be used with {field}")
    return COMPARISONS[term.operator]


def _to_camel(part: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), part)


def _filter_error(why: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, f"Unparseable filter: {why}")
