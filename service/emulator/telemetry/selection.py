"""What a Monitoring filter selects: one metric, and of its series those with certain labels."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping

from service.emulator.errors import ApiError, Code
from service.emulator.telemetry.filters import Term, Tree, parse, terms, weigh
from service.emulator.telemetry.metrics import METRICS, Metric, by_type
from service.emulator.telemetry.patterns import full_match
from service.emulator.telemetry.tokens import FilterError

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
    "monitoring.regex.full_match": lambda text, wanted: full_match(wanted[0])(text),
}

ORDERINGS: Mapping[str, Callable[[str, str], bool]] = {
    ":": lambda text, wanted: wanted in text,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


class Selection:
    """A filter that was read and found to be of the kind that lists take; raises ApiError."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tree = self._read()
        for term in terms(self._tree):
            self._check(term)

    def metric(self) -> Metric:
        """Name the one metric that the filter asks for; raises ApiError."""
        asked = [term for term in terms(self._tree) if field_of(term) == "metric.type"]
        if not asked:
            raise self._refused(NO_TYPE)
        found = [each for each in METRICS if self._may_hold({"metric.type": each.type})]
        if not found:
            raise _no_metric(asked)
        if len(found) > 1:
            raise self._refused(f"{NO_TYPE} It selects {len(found)} of them.")
        self._check_combination(found[0])
        return found[0]

    def descriptors(self) -> list[Metric]:
        return [each for each in METRICS if self._may_hold(_described(each))]

    def holds(self, facts: Facts) -> bool:
        """Say whether a series is selected; what the facts do not name is empty."""
        return bool(weigh(self._tree, lambda term: _compare(term, facts.get(field_of(term), ""))))

    def _may_hold(self, facts: Facts) -> bool:
        """Say whether the filter can hold where no more than these facts is known."""

        def test(term: Term) -> bool | None:
            value = facts.get(field_of(term))
            return None if value is None else _compare(term, value)

        return weigh(self._tree, test) is not False

    def _check_combination(self, metric: Metric) -> None:
        labels = {
            field.replace(".labels.", ".")
            for field in map(field_of, terms(self._tree))
            if field.startswith(("metric.labels.", "resource.labels."))
        }
        if not labels <= metric.known_labels or not self._may_hold(_described(metric)):
            raise ApiError(Code.INVALID_ARGUMENT, COMBINATION)

    def _read(self) -> Tree:
        try:
            return parse(self._text)
        except FilterError as error:
            raise self._refused(f"{error}.") from None

    def _check(self, term: Term) -> None:
        field = field_of(term)
        known = field in {"metric.type", "resource.type", "project"} or field.startswith(
            ("metric.labels.", "resource.labels.", "metadata.")
        )
        if not known:
            raise self._refused(f'the field "{field}" is not known here.')
        if term.operator not in {"=", "!=", *ORDERINGS}:
            raise self._refused(f'the operator "{term.operator}" is not known here.')
        if term.value.function not in FUNCTIONS or not term.value.texts:
            raise self._refused(f'the function "{term.value.function}" is not known here.')
        if "regex" in term.value.function:
            self._check_regex(term.value.text)

    def _check_regex(self, pattern: str) -> None:
        try:
            full_match(pattern)
        except ValueError as error:
            raise self._refused(f"the regular expression is invalid: {error}.") from None

    def _refused(self, why: str) -> ApiError:
        return ApiError(
            Code.INVALID_ARGUMENT, f'Field filter had an invalid value of "{self._text}": {why}'
        )


def field_of(term: Term) -> str:
    """Spell a field in one way: `metric.label.x` is also written `metric.labels.x`."""
    return field_name(term.path)


def field_name(path: Iterable[str]) -> str:
    parts = list(path)
    if len(parts) > 2:
        parts = [parts[0], LISTS.get(parts[1], parts[1]), ".".join(parts[2:])]
    return ".".join(parts)


def facts_of(
    metric: Metric, project: str, labels: Mapping[str, str], resource: Mapping[str, str]
) -> dict[str, str]:
    """Give all that a filter may ask of a series."""
    return {
        **_described(metric),
        "project": project,
        "resource.labels.project_id": project,
        **{f"metric.labels.{key}": value for key, value in labels.items()},
        **{f"resource.labels.{key}": value for key, value in resource.items()},
    }


def _described(metric: Metric) -> dict[str, str]:
    return {"metric.type": metric.type, "resource.type": metric.resource}


def _compare(term: Term, text: str) -> bool:
    if term.operator in ORDERINGS:
        return ORDERINGS[term.operator](text, term.value.text)
    held = FUNCTIONS[term.value.function](text, term.value.texts)
    return held == (term.operator == "=")


def _no_metric(asked: list[Term]) -> ApiError:
    """Answer for a type nobody ever wrote a point of; an error, not an empty list."""
    names = " or ".join(f'"{term.value.text}"' for term in asked)
    known = [term for term in asked if term.value.text in by_type()]
    if known:
        return ApiError(Code.INVALID_ARGUMENT, COMBINATION)
    return ApiError(
        Code.NOT_FOUND,
        f"Cannot find metric(s) that match type = {names}. If a metric was created recently, it"
        " could take up to 10 minutes to become available. Please try again soon.",
    )
