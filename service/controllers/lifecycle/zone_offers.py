"""Reads what a zone offers before a node is created there, at most once an hour and zone."""

from __future__ import annotations

from service.cloud.ports import TpuCloud
from service.domain.clock import Clock
from service.domain.errors import CloudError
from service.domain.nodes.node import Node
from service.domain.placement.zone_offers import (
    DOUBT_SECONDS,
    KEEP_SECONDS,
    OfferedTypes,
    find_refusal,
)

Key = tuple[str, str, str]
"""Project, zone and architecture."""


class ZoneOffers:
    """The lists of the zones, cached in this process.

    A list that cannot be read is cached as empty and refuses nothing: a create must not wait for a
    list, and the cloud has the last word.
    """

    def __init__(self, cloud: TpuCloud, clock: Clock) -> None:
        self._cloud = cloud
        self._clock = clock
        self._known: dict[Key, OfferedTypes] = {}

    def require_offered(self, node: Node) -> None:
        """Raise InvalidRequest if the zone of the current attempt lacks what the node needs."""
        refused = find_refusal(node.spec, node.zone, self._get_offered(node, KEEP_SECONDS))
        if refused is not None:
            refused = find_refusal(node.spec, node.zone, self._get_offered(node, DOUBT_SECONDS))
        if refused is not None:
            raise refused

    def _get_offered(self, node: Node, seconds: int) -> OfferedTypes:
        key = node.spec.project, node.zone, node.spec.architecture
        known = self._known.get(key)
        if known is None or not known.is_fresh(self._clock(), seconds):
            try:
                versions = self._cloud.runtime_versions(*key)
                types = self._cloud.accelerator_types(*key)
            except CloudError:
                versions = types = ()
            known = self._known[key] = OfferedTypes(versions, types, self._clock())
        return known
