"""The hardware of the emulated cloud, where a limit is set: it runs out late, not at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from service.emulator.config.config import Config
from service.emulator.config.limit_keys import MODELS
from service.emulator.errors import ApiError, Code, stocked_out, with_eid
from service.emulator.limits.spot_cycle import left_for_spot
from service.emulator.nodes.nodes import NodeRecord

# A state that is named in neither set changes nothing: a node being deleted keeps what it had.
HOLDS_HARDWARE = {"READY", "STOPPING", "REPAIRING", "RESTARTING", "REIMAGING"}
HOLDS_NOTHING = {"", "STOPPED", "STARTING", "PREEMPTED", "TERMINATED"}


class Kind(NamedTuple):
    """Hardware of one sort in one zone; chips are counted by it."""

    zone: str
    generation: str
    model: str


def kind_of(record: NodeRecord) -> Kind:
    return Kind(record.place.zone, record.accelerator.generation, record.provisioning_model)


class Hardware:
    """Chips in use by kind, kept up to date so that nobody has to count the nodes."""

    def __init__(self) -> None:
        self._used: Counter[Kind] = Counter()

    def note(self, record: NodeRecord, state: str) -> bool:
        """Follow a node into a state; say whether hardware came free."""
        holds = _holds(record, state)
        if holds == record.holds_hardware:
            return False
        record.holds_hardware = holds
        self._used[kind_of(record)] += record.accelerator.chips if holds else -_chips(record)
        return not holds

    def has_room(self, config: Config, wanted: Mapping[Kind, int], at: float) -> bool:
        """Say whether all of it is to be had together, of the zone and of the model's own share.

        Spot takes only what others leave, which changes with the hour of the week.
        """
        return not config.capacity or all(
            used + chips <= _left(config, kind, limit, at)
            for kind, chips in wanted.items()
            for limit, used in self._limits(config.capacity, kind)
        )

    def clear(self) -> None:
        self._used.clear()

    def _limits(self, capacity: Mapping[str, int], kind: Kind) -> list[tuple[int, int]]:
        whole = f"{kind.zone}/{kind.generation}"
        limits = []
        if whole in capacity:
            used = sum(self._used[kind._replace(model=model)] for model in MODELS)
            limits.append((capacity[whole], used))
        if f"{whole}/{kind.model}" in capacity:
            limits.append((capacity[f"{whole}/{kind.model}"], self._used[kind]))
        return limits


def shortage(zone: str, model: str, code: int) -> ApiError:
    """Word a stock-out; with code 13 it is the opaque text seen for spot v5e."""
    if model == "reserved":
        text = (
            "Insufficient reserved capacity. Contact customer support to increase your reservation."
        )
        return ApiError(Code.FAILED_PRECONDITION, with_eid(text))
    if code == Code.INTERNAL:
        return ApiError(Code.INTERNAL, "an internal error has occurred")
    return stocked_out(zone)


def _holds(record: NodeRecord, state: str) -> bool:
    if state in HOLDS_HARDWARE:
        return True
    if state == "CREATING":
        # A queued resource is given its hardware first and its nodes then.
        return bool(record.queued_resource)
    return record.holds_hardware and state not in HOLDS_NOTHING


def _left(config: Config, kind: Kind, limit: int, at: float) -> int:
    if kind.model not in {"spot", "preemptible"} or not config.odds.spot_rhythm:
        return limit
    return left_for_spot(limit, config.odds.spot_rhythm, at)


def _chips(record: NodeRecord) -> int:
    return record.accelerator.chips
