"""The selection of a Monitoring filter: one metric, and its series with matching labels."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import re2

from service.emulator.errors import ApiError, Code
from service.emulator.telemetry.filters import Term, evaluate_tree, list_terms, parse_filter
from service.emulator.telemetry.metrics import METRICS, Metric, by_type
from service.emulator.telemetry.tokens import FilterError

OPTIONS = re2.Options()
OPTIONS.log_errors = False


@lru_cache(maxsize=256)
def compile_search(pattern: str) -> Callable[[str], bool]:
    """Return a test whether a text contains a match. Raises ValueError with the reason."""
    compiled = _compile_pattern(pattern)
    return lambda text: compiled.search(text) is not None


@lru_cache(maxsize=256)
def compile_full_match(pattern: str) -> Callable[[str], bool]:
    """Return a test whether a whole text matches. Raises ValueError with the reason."""
    compiled = _compile_pattern(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _compile_pattern(pattern: str) -> re2._Regexp:
    try:
        return re2.compile(pattern, OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(text) from None


Facts = Mapping[str, str]
LISTS = {"label": "labels"}
COMBINATION = (
    "The supplied filter does not specify a valid combination of metric and monitored resource"
    " descriptors. The query will not return any time series."
)
NO_TYPE = (
    'must specify a restriction on "metric.type" in the filter; see'
    ' "https://cloud.google.com/monitoring/api/metrics" for a list of available metric types.'
)
FUNCTIONS: Mapping[str, Callable[[str, tuple[str, ...]], bool]] = {
    "": lambda text, wanted: text == wanted[0],
    "starts_with": lambda text, wanted: text.startswith(wanted[0]),
    "ends_with": lambda text, wanted: text.endswith(wanted[0]),
    "has_substring": lambda text, wanted: wanted[0] in text,
    "one_of": lambda text, wanted: text in wanted,
    "monitoring.regex.full_match": lambda text, wanted: compile_full_match(wanted[0])(text),
}

ORDERINGS: Mapping[str, Callable[[str, str], bool]] = {
    ":": lambda text, wanted: wanted in text,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


class Selection:
    """A valid filter of a list request. The constructor raises ApiError."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._tree = parse_filter(text)
        except FilterError as error:
            raise self._filter_error(f"{error}.") from None
        for term in list_terms(self._tree):
            field = field_of(term)
            known = field in {"metric.type", "resource.type", "project"} or field.startswith(
                ("metric.labels.", "resource.labels.", "metadata.")
            )
            if not known:
                raise self._filter_error(f'the field "{field}" is not known here.')
            if term.operator not in {"=", "!=", *ORDERINGS}:
                raise self._filter_error(f'the operator "{term.operator}" is not known here.')
            if term.value.function not in FUNCTIONS or not term.value.texts:
                raise self._filter_error(f'the function "{term.value.function}" is not known here.')
            if "regex" in term.value.function:
                try:
                    compile_full_match(term.value.text)
                except ValueError as error:
                    raise self._filter_error(
                        f"the regular expression is invalid: {error}."
                    ) from None

    def get_metric(self) -> Metric:
        """Return the only metric that the filter selects. Raises ApiError."""
        asked = [term for term in list_terms(self._tree) if field_of(term) == "metric.type"]
        if not asked:
            raise self._filter_error(NO_TYPE)
        found = [metric for metric in METRICS if self._may_hold({"metric.type": metric.type})]
        if not found:
            if any(term.value.text in by_type() for term in asked):
                raise ApiError(Code.INVALID_ARGUMENT, COMBINATION)
            # Google answers a filter without a matching metric with an error, not an empty list.
            names = " or ".join(f'"{term.value.text}"' for term in asked)
            raise ApiError(
                Code.NOT_FOUND,
                f"Cannot find metric(s) that match type = {names}. If a metric was created"
                " recently, it could take up to 10 minutes to become available. Please try again"
                " soon.",
            )
        if len(found) > 1:
            raise self._filter_error(f"{NO_TYPE} It selects {len(found)} of them.")
        metric = found[0]
        labels = {
            field.replace(".labels.", ".")
            for field in map(field_of, list_terms(self._tree))
            if field.startswith(("metric.labels.", "resource.labels."))
        }
        if not labels <= metric.known_labels or not self._may_hold(_type_facts(metric)):
            raise ApiError(Code.INVALID_ARGUMENT, COMBINATION)
        return metric

    def list_metrics(self) -> list[Metric]:
        return [metric for metric in METRICS if self._may_hold(_type_facts(metric))]

    def matches_facts(self, facts: Facts) -> bool:
        """Whether a series is selected; a field without a fact is empty."""
        return bool(
            evaluate_tree(
                self._tree, lambda term: _compare_text(term, facts.get(field_of(term), ""))
            )
        )

    def _may_hold(self, facts: Facts) -> bool:
        """Whether the filter can hold for some values of the fields without a fact."""

        def test_term(term: Term) -> bool | None:
            value = facts.get(field_of(term))
            return None if value is None else _compare_text(term, value)

        return evaluate_tree(self._tree, test_term) is not False

    def _filter_error(self, why: str) -> ApiError:
        return ApiError(
            Code.INVALID_ARGUMENT, f'Field filter had an invalid value of "{self._text}": {why}'
        )


def field_of(term: Term) -> str:
    """Return a term's field in one spelling: `metric.label.x` becomes `metric.labels.x`."""
    return field_name(term.path)


def field_name(path: Iterable[str]) -> str:
    parts = list(path)
    if len(parts) > 2:
        parts = [parts[0], LISTS.get(parts[1], parts[1]), ".".join(parts[2:])]
    return ".".join(parts)


def facts_of(
    metric: Metric, project: str, labels: Mapping[str, str], resource: Mapping[str, str]
) -> dict[str, str]:
    """Return the values of all fields of a series that a filter may name."""
    return {
        **_type_facts(metric),
        "project": project,
        "resource.labels.project_id": project,
        **{f"metric.labels.{key}": value for key, value in labels.items()},
        **{f"resource.labels.{key}": value for key, value in resource.items()},
    }


def _type_facts(metric: Metric) -> dict[str, str]:
    return {"metric.type": metric.type, "resource.type": metric.resource}


def _compare_text(term: Term, text: str) -> bool:
    if term.operator in ORDERINGS:
        return ORDERINGS[term.operator](text, term.value.text)
    held = FUNCTIONS[term.value.function](text, term.value.texts)
    return held == (term.operator == "=")
