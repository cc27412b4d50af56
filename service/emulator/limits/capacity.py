"""The capacity of the emulated cloud, if a limit is set. A stockout comes inside an operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from service.emulator.config.config import Config
from service.emulator.config.limit_keys import MODELS
from service.emulator.errors import ApiError, Code, stocked_out, with_eid
from service.emulator.limits.spot_cycle import left_for_spot
from service.emulator.nodes.nodes import NodeRecord

# A state in neither set changes nothing: a node that is being deleted keeps its hardware.
HOLDS_HARDWARE = {"READY", "STOPPING", "REPAIRING", "RESTARTING", "REIMAGING"}
HOLDS_NOTHING = {"", "STOPPED", "STARTING", "PREEMPTED", "TERMINATED"}


class Kind(NamedTuple):
    """The key by which chips are counted."""

    zone: str
    generation: str
    model: str


def kind_of(record: NodeRecord) -> Kind:
    return Kind(record.place.zone, record.accelerator.generation, record.provisioning_model)


class Hardware:
    """Chips in use by kind, updated with each change so that nodes need not be counted."""

    def __init__(self) -> None:
        self._used: Counter[Kind] = Counter()

    def count_change(self, record: NodeRecord, state: str) -> bool:
        """Count a node's change of state. Returns whether hardware became free."""
        if state == "CREATING":
            # A queued resource gets its hardware first, and creates its nodes then.
            holds = bool(record.queued_resource)
        else:
            kept = record.holds_hardware and state not in HOLDS_NOTHING
            holds = kept or state in HOLDS_HARDWARE
        if holds == record.holds_hardware:
            return False
        record.holds_hardware = holds
        chips = record.accelerator.chips
        self._used[kind_of(record)] += chips if holds else -chips
        return not holds

    def has_room(self, config: Config, wanted: Mapping[Kind, int], at: float) -> bool:
        """Whether all wanted chips are available together, in the zone and for their model.

        Spot gets only the capacity that others leave, which changes with the hour of the week.
        """
        if not config.capacity:
            return True
        rhythm = config.odds.spot_rhythm
        for kind, chips in wanted.items():
            is_spot = kind.model in {"spot", "preemptible"}
            whole = f"{kind.zone}/{kind.generation}"
            used = sum(self._used[kind._replace(model=model)] for model in MODELS)
            for key, held in ((whole, used), (f"{whole}/{kind.model}", self._used[kind])):
                if key not in config.capacity:
                    continue
                limit = config.capacity[key]
                left = left_for_spot(limit, rhythm, at) if is_spot and rhythm else limit
                if held + chips > left:
                    return False
        return True

    def clear(self) -> None:
        self._used.clear()


def shortage_error(zone: str, model: str, code: int) -> ApiError:
    """Make the error of a stockout; with code 13, the text that was seen for spot v5e."""
    if model == "reserved":
        text = (
            "Insufficient reserved capacity. Contact customer support to increase your reservation."
        )
        return ApiError(Code.FAILED_PRECONDITION, with_eid(text))
    if code == Code.INTERNAL:
        return ApiError(Code.INTERNAL, "an internal error has occurred")
    return stocked_out(zone)
