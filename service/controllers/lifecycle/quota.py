"""Learns quota limits from refusals, and names the candidates that they rule out."""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.errors import CloudError
from service.domain.nodes.node import Node, NodeSpec
from service.domain.nodes.placement import HardwareKey
from service.domain.placement.cooldown import Cooldown
from service.domain.placement.quota import FRESH_SECONDS, learn_limit
from service.domain.placement.quota_admission import claims_by_key, filter_limits, find_barred
from service.store.unit import Unit


def save_learned_limit(unit: Unit, node: Node, error: CloudError | None, now: int) -> None:
    """Save the limit that a refusal names, in the unit of work that ends the attempt."""
    limit = None if error is None else learn_limit(node.spec, node.zone, error, now)
    if limit is not None:
        unit.quotas.save(limit)


def read_barred(unit: Unit, spec: NodeSpec, now: int) -> Mapping[HardwareKey, Cooldown]:
    """Candidates that a recently learned quota limit rules out, each with its cooldown."""
    known = unit.quotas.list_all([spec.project], now - FRESH_SECONDS)
    if not known:
        return {}
    wanted = claims_by_key(spec)
    return find_barred(
        wanted, unit.quotas.tally_limits(spec.project, filter_limits(known, wanted.values()), now)
    )
