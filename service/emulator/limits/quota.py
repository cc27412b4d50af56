"""Quota: the chips that a project may hold, and its rate of requests; both fail a request."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from functools import cache
from itertools import product

from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from service.emulator.catalog import list_zones, region_of
from service.emulator.config.limit_keys import MODELS
from service.emulator.errors import ApiError, Code, quota_exceeded
from service.emulator.limits.capacity import Kind

# Models that share one limit, which has Preemptible in its name.
PREEMPTIBLE = ("spot", "preemptible", "flex_start")
FAMILIES = {"v5e": "V5sLitepod"}
MINUTE = 60.0


class Holdings:
    """Chips by project and kind of all listed nodes, lost ones included, and queued resources."""

    def __init__(self) -> None:
        self._held: Counter[tuple[str, Kind]] = Counter()

    def take_chips(self, project: str, wanted: Mapping[Kind, int]) -> None:
        for kind, chips in wanted.items():
            self._held[project, kind] += chips

    def give_back(self, project: str, wanted: Mapping[Kind, int]) -> None:
        for kind, chips in wanted.items():
            self._held[project, kind] -= chips

    def find_refusal(
        self, quotas: Mapping[str, int], project: str, wanted: Mapping[Kind, int]
    ) -> ApiError | None:
        """Return the error of the first limit that the wanted chips exceed; None if they fit.

        A limit counts one zone or region, and all models or those that share a limit.
        """
        if not quotas:
            return None
        for kind, chips in wanted.items():
            own = PREEMPTIBLE if kind.model in PREEMPTIBLE else (kind.model,)
            for where, models in product((kind.zone, region_of(kind.zone)), (MODELS, own)):
                whole = f"{where}/{kind.generation}"
                keys = [whole] if models is MODELS else [f"{whole}/{model}" for model in models]
                limit = min((quotas[key] for key in keys if key in quotas), default=None)
                if limit is None:
                    continue
                held = sum(
                    self._held[project, Kind(zone, kind.generation, model)]
                    for zone in _zones_of(where)
                    for model in models
                )
                if held + chips > limit:
                    return out_of_quota(kind.generation, kind.model, limit, where, project)
        return None

    def clear(self) -> None:
        self._held.clear()


class Rates:
    """The times of each project's creations, for a limit per minute of the world's clock."""

    def __init__(self) -> None:
        self._asked: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit_request(self, rpc: str, project: str, limit: int, now: float) -> None:
        """Count a request; raises ApiError, without counting, beyond the limit of a minute.

        A request that fails later counts too. A limit of 0 is no limit.
        """
        if not limit:
            return
        asked = self._asked[project]
        while asked and asked[0] <= now - MINUTE:
            asked.popleft()
        if len(asked) < limit:
            asked.append(now)
            return

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
        seconds = math.ceil(asked[-limit] + MINUTE - now)
        retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=seconds))
        details = [error_details_pb2.QuotaFailure(violations=[violation]), info, retry]
        raise ApiError(Code.RESOURCE_EXHAUSTED, text, details)

    def clear(self) -> None:
        self._asked.clear()


def out_of_quota(generation: str, model: str, limit: int, where: str, project: str) -> ApiError:
    """Make the error of an exceeded quota with Google's name; `where` is a zone or region."""
    family = FAMILIES.get(generation, generation.upper())
    preemptible = "Preemptible" if model in PREEMPTIBLE else ""
    scope = "zone" if where in list_zones() else "region"
    name = f"TPU{family}{preemptible}PerProjectPer{scope.title()}ForTPUAPI"
    return quota_exceeded(name, limit, f"{scope} {where}", project)


@cache
def _zones_of(where: str) -> tuple[str, ...]:
    return tuple(zone for zone in list_zones() if where in {zone, region_of(zone)})
