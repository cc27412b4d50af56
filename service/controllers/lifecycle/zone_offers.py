"""Asks a zone what it has before it is asked for a node, at most once an hour and zone."""

from __future__ import annotations

from service.cloud.ports import TpuCloud
from service.domain.clock import Clock
from service.domain.errors import CloudError
from service.domain.nodes.node import Node
from service.domain.placement.zone_offers import DOUBT_SECONDS, KEEP_SECONDS, OfferedTypes, refusal

Key = tuple[str, str, str]
"""Project, zone and architecture."""


class ZoneOffers:
    """The zones' own lists, kept in this process.

    Where a list is not to be had, that is kept as well, and nothing is refused: a create must not
    wait for a list, and the cloud has the last word anyhow.
    """

    def __init__(self, cloud: TpuCloud, clock: Clock) -> None:
        self._cloud = cloud
        self._clock = clock
        self._known: dict[Key, OfferedTypes] = {}

    def check(self, node: Node) -> None:
        """Raises InvalidRequest when the zone of the present attempt lacks what the node needs."""
        refused = refusal(node.spec, node.zone, self._offered(node, KEEP_SECONDS))
        if refused is not None:
            refused = refusal(node.spec, node.zone, self._offered(node, DOUBT_SECONDS))
        if refused is not None:
            raise refused

    def _offered(self, node: Node, seconds: int) -> OfferedTypes:
        key = node.spec.project, node.zone, node.spec.architecture
        known = self._known.get(key)
        if known is None or not known.is_fresh(self._clock(), seconds):
            known = self._known[key] = self._listed(node)
        return known

    def _listed(self, node: Node) -> OfferedTypes:
        where = node.spec.project, node.zone, node.spec.architecture
        try:
            versions = self._cloud.runtime_versions(*where)
            types = self._cloud.accelerator_types(*where)
        except CloudError:
            versions = types = ()
        return OfferedTypes(versions, types, self._clock())
