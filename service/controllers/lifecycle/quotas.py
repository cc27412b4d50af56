"""Learns quota limits from refusals, and names the candidates that they rule out."""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.errors import CloudError
from service.domain.nodes.node import Node, NodeSpec
from service.domain.nodes.placement import HardwareKey
from service.domain.placement.cooldown import Cooldown
from service.domain.placement.quota import FRESH_SECONDS, learned
from service.domain.placement.quota_admission import barred, claims, concerned
from service.store.unit import Unit


def learn(unit: Unit, node: Node, error: CloudError | None, now: int) -> None:
    """Save the limit that a refusal names, in the unit of work that ends the attempt."""
    limit = None if error is None else learned(node.spec, node.zone, error, now)
    if limit is not None:
        unit.quotas.learn(limit)


def too_small(unit: Unit, spec: NodeSpec, now: int) -> Mapping[HardwareKey, Cooldown]:
    """Candidates that a recently learned quota limit rules out, each with its cooldown."""
    known = unit.quotas.all([spec.project], now - FRESH_SECONDS)
    if not known:
        return {}
    wanted = claims(spec)
    return barred(wanted, unit.quotas.tallies(spec.project, concerned(known, wanted.values()), now))
