"""Quota: what a project may hold, and how often it may ask for more; both refuse at once."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from functools import cache

from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from service.emulator.catalog import region_of, zones
from service.emulator.config.limit_keys import MODELS
from service.emulator.errors import ApiError, Code, quota_exceeded
from service.emulator.limits.capacity import Kind

# These share one limit, which has Preemptible in its name.
PREEMPTIBLE = ("spot", "preemptible", "flex_start")
FAMILIES = {"v5e": "V5sLitepod"}
MINUTE = 60.0


class Holdings:
    """Chips by project and kind of all that is listed: dead nodes, and requests in the queue."""

    def __init__(self) -> None:
        self._held: Counter[tuple[str, Kind]] = Counter()

    def take(self, project: str, wanted: Mapping[Kind, int]) -> None:
        for kind, chips in wanted.items():
            self._held[project, kind] += chips

    def give_back(self, project: str, wanted: Mapping[Kind, int]) -> None:
        for kind, chips in wanted.items():
            self._held[project, kind] -= chips

    def refusal(
        self, quotas: Mapping[str, int], project: str, wanted: Mapping[Kind, int]
    ) -> ApiError | None:
        """Refuse what would go over a limit, in the words of the first one that it breaks."""
        if not quotas:
            return None
        for kind, chips in wanted.items():
            for where, models in _scopes(kind):
                limit = _limit(quotas, where, kind, models)
                if limit is not None and self._sum(project, where, kind, models) + chips > limit:
                    return out_of_quota(kind.generation, kind.model, limit, where, project)
        return None

    def clear(self) -> None:
        self._held.clear()

    def _sum(self, project: str, where: str, kind: Kind, models: tuple[str, ...]) -> int:
        return sum(
            self._held[project, Kind(zone, kind.generation, model)]
            for zone in _zones_of(where)
            for model in models
        )


class Rates:
    """When each project asked for something new; a minute is of the world's clock."""

    def __init__(self) -> None:
        self._asked: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, rpc: str, project: str, limit: int, now: float) -> None:
        """Count a request, or refuse it if the last minute had as many as allowed; 0 is no limit.

        Whether the request then succeeds does not matter; one refused here is not counted.
        """
        if not limit:
            return
        asked = self._asked[project]
        while asked and asked[0] <= now - MINUTE:
            asked.popleft()
        if len(asked) >= limit:
            raise _too_often(rpc, project, limit, asked[-limit] + MINUTE - now)
        asked.append(now)

    def clear(self) -> None:
        self._asked.clear()


def out_of_quota(generation: str, model: str, limit: int, where: str, project: str) -> ApiError:
    """Refuse in the words of the API's own quota, by zone or by region as `where` is one."""
    family = FAMILIES.get(generation, generation.upper())
    preemptible = "Preemptible" if model in PREEMPTIBLE else ""
    scope = "zone" if where in zones() else "region"
    name = f"TPU{family}{preemptible}PerProjectPer{scope.title()}ForTPUAPI"
    return quota_exceeded(name, limit, f"{scope} {where}", project)


@cache
def _zones_of(where: str) -> tuple[str, ...]:
    return tuple(zone for zone in zones() if where in {zone, region_of(zone)})


def _scopes(kind: Kind) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give each place and set of models that a limit over this kind may be set for."""
    own = PREEMPTIBLE if kind.model in PREEMPTIBLE else (kind.model,)
    for where in (kind.zone, region_of(kind.zone)):
        yield where, MODELS
        yield where, own


def _limit(
    quotas: Mapping[str, int], where: str, kind: Kind, models: tuple[str, ...]
) -> int | None:
    whole = f"{where}/{kind.generation}"
    keys = [whole] if models is MODELS else [f"{whole}/{model}" for model in models]
    return min((quotas[key] for key in keys if key in quotas), default=None)


def _too_often(rpc: str, project: str, limit: int, seconds: float) -> ApiError:
    text = (
        f"Maximum number of {rpc} requests per minute has been exceeded for project {project}."
        f" Limit: {limit}."
    )
    violation = error_details_pb2.QuotaFailure.Violation(
        subject=f"project:{project}", description=text
    )
    info = error_details_pb2.ErrorInfo(
        reason="RATE_LIMIT_EXCEEDED",
        domain="googleapis.com",
        metadata={
            "service": "tpu.googleapis.com",
            "consumer": f"projects/{project}",
            "quota_metric": "tpu.googleapis.com/qps/create",
            "quota_limit": "CreateRequestsPerMinutePerProject",
            "quota_limit_value": str(limit),
        },
    )
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=math.ceil(seconds)))
    details = [error_details_pb2.QuotaFailure(violations=[violation]), info, retry]
    return ApiError(Code.RESOURCE_EXHAUSTED, text, details)
