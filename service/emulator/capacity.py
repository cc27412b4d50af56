"""Limits of the emulated cloud, where some are set: hardware runs out late, quota at once."""

from __future__ import annotations

from collections.abc import Iterable

from service.emulator.errors import ApiError
from service.emulator.faults import out_of_quota
from service.emulator.nodes import NodeRecord
from service.emulator.world import World

HOLDS_HARDWARE = {"READY", "STOPPING", "REPAIRING", "RESTARTING", "REIMAGING"}


def is_full(world: World, newcomer: NodeRecord) -> bool:
    """Say whether the zone's hardware is taken by nodes that have it already."""
    limit = world.config.capacity.get(_key(newcomer))
    if limit is None:
        return False
    holders = (each for each in world.nodes.values() if each.state in HOLDS_HARDWARE)
    return _chips(holders, newcomer) + newcomer.accelerator.chips > limit


def quota_refusal(world: World, newcomer: NodeRecord) -> ApiError | None:
    """Refuse what goes over quota; every listed node counts, a preempted one too."""
    limit = world.config.quotas.get(_key(newcomer))
    if limit is None:
        return None
    project = newcomer.place.project
    listed = (each for each in world.nodes.values() if each.place.project == project)
    if _chips(listed, newcomer) + newcomer.accelerator.chips <= limit:
        return None
    facts = {
        "project": project,
        "zone": newcomer.place.zone,
        "generation": newcomer.accelerator.generation,
        "provisioning_model": newcomer.provisioning_model,
    }
    return out_of_quota(facts, limit)


def _chips(records: Iterable[NodeRecord], like: NodeRecord) -> int:
    key = _key(like)
    return sum(each.accelerator.chips for each in records if _key(each) == key)


def _key(record: NodeRecord) -> str:
    return f"{record.place.zone}/{record.accelerator.generation}"
