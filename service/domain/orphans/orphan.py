"""An orphan: a node or a queued resource in the cloud without a live record in this service."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from service.domain.catalog import catalog
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.nodes.node import LOST, CloudNode, Place
from service.domain.nodes.queued_resource import IN_LINE, QueuedResource
from service.domain.pricing.billing_rules import is_billable
from service.domain.pricing.burn import BilledUnits, burn_of
from service.domain.pricing.estimate import sku_of
from service.domain.pricing.price_book import PriceBook

STEWARD = "steward"
"""The requester of automatic deletions."""

DELETE, ADOPTED = "delete", "adopted"
"""The values of `Orphan.wanted`: its deletion; or nothing more, because it has a record now."""

_PATH = re.compile(
    r"projects/([^/\s]{1,100})/locations/([a-z0-9-]{1,63})/(nodes|queuedResources)/([^/\s]{1,100})"
)
_PEOPLE = (
    *("owner", "user", "username", "creator", "created-by", "created_by", "requested-by", "email"),
    *("contact", "maintainer", "team", "group", "cost-center", "cost_center"),
)
_TOOLS = (
    *("skypilot-user", "skypilot-cluster-name"),
    *("dstack_user", "dstack_project", "dstack_name"),
    *("ray-cluster-name", "marin-ray-cluster-name"),
    *("goog-k8s-cluster-name", "goog-terraform-provisioned"),
)
"""Labels that SkyPilot, dstack, Ray, Marin, GKE and Terraform set (source: their code)."""


class OrphanKind(StrEnum):
    """Whose an orphan is, and how much of it is left."""

    STRANGER = "stranger"
    """A resource without our label, or with the label of another installation."""

    OURS = "ours_without_record"
    """A resource with our label whose record has ended, is at another attempt, or is missing."""

    ZOMBIE = "zombie_queue"
    """A queued resource of ours that creates no more nodes, and whose record has ended."""

    LEFTOVER = "leftover"
    """A node of ours whose hardware was taken back, and whose record has ended."""


class OrphanVerdict(StrEnum):
    """What becomes of an orphan by itself."""

    OBSERVE = "observe"
    """It is deleted once nothing prevents the deletion any more."""

    COLLECT = "collect"
    """It is deleted now."""

    LEAVE = "leave"
    """Nothing is done until somebody requests its adoption or its deletion."""


@dataclass(frozen=True, slots=True)
class ShownResource:
    """One node or one queued resource as the cloud showed it. Times are whole UTC seconds.

    A queued resource has no uid and no runtime version, but the ids of its `nodes`.
    """

    place: Place
    queued: bool
    state: str
    uid: str = ""
    accelerator_type: str = ""
    provisioning_model: str = ""
    runtime_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at: int | None = None
    queued_resource: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Google's full name of the resource."""
        return self.place.queue_path if self.queued else self.place.path

    @property
    def ticket(self) -> str:
        """The full name of the queued resource of a node; empty if there is none.

        The queued resource remains after the node is deleted. Google may name the project by its
        number; this name has the project id.
        """
        cloud_id = self.queued_resource.rpartition("/")[2]
        return replace(self.place, cloud_id=cloud_id).queue_path if cloud_id else ""

    @property
    def is_adoptable(self) -> bool:
        """Whether it can be adopted once it is READY; see `service.domain.orphans.adoption`."""
        known = bool(self.uid) and self.accelerator is not None
        return known and not (self.queued or self.ticket or self.state in LOST)

    @property
    def incarnation(self) -> tuple[str, int | None]:
        """The identity among resources of the same name."""
        return self.uid, self.created_at

    @property
    def accelerator(self) -> AcceleratorType | None:
        """The accelerator type; None if the catalogue does not know it."""
        return catalog.load_catalog().accelerators.get(self.accelerator_type)


@dataclass(frozen=True, slots=True)
class Orphan:
    """The stored record of an orphan.

    `certain` says that the records show its attempt as ours and as ended. `since` is when it was
    first seen with its present kind, `last_seen` is the last recorded poll. `looks` counts the
    polls, up to the two that matter, and only if it may be deleted automatically. `wanted` is
    DELETE once its deletion is requested by `asked_by`, ADOPTED once it has a record, and else
    empty. `confirmed` says that the caller repeated its full name for the deletion. `next_try_at`
    is when it is polled by name next; None if that is not needed. `gone_at` is when the cloud
    answered that it does not exist.
    """

    kind: OrphanKind
    certain: bool
    shown: ShownResource
    first_seen: int
    since: int
    last_seen: int
    looks: int = 1
    digest: bytes = b""
    verdict: OrphanVerdict = OrphanVerdict.LEAVE
    reason: str = ""
    wanted: str = ""
    asked_by: str = ""
    confirmed: bool = False
    next_try_at: int | None = None
    tries: int = 0
    last_error: str = ""
    gone_at: int | None = None
    version: int = 0

    @property
    def id(self) -> str:
        """The id for callers, derived from the full name."""
        return orphan_id(self.shown.path)

    @property
    def project(self) -> str:
        """The project of the resource."""
        return self.shown.place.project

    @property
    def to_be_deleted(self) -> bool:
        """Whether its deletion was requested, by anybody or automatically."""
        return self.wanted == DELETE

    @property
    def is_adopted(self) -> bool:
        """Whether it was adopted. The row is kept to answer a repeated request."""
        return self.wanted == ADOPTED

    @property
    def is_automatic(self) -> bool:
        """Whether its deletion is automatic, so that every limit may still stop it."""
        return self.to_be_deleted and self.asked_by == STEWARD


def orphan_id(path: str) -> str:
    """A stable, opaque id of an orphan by its full name; safe in a URL."""
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def place_in(path: str) -> Place | None:
    """The place in the full name of an orphan, node or queued resource; None for other text.

    The answers of the cloud are not trusted to contain valid names.
    """
    found = _PATH.fullmatch(path)
    if found is None or not path.isprintable():
        return None
    return Place(found[1], found[2], found[4])


def node_shown(place: Place, sight: CloudNode) -> ShownResource:
    """The stored fields of an orphan that is a node."""
    return ShownResource(
        place=place,
        queued=False,
        state=sight.state,
        uid=sight.uid,
        accelerator_type=sight.accelerator_type,
        provisioning_model=sight.provisioning_model,
        runtime_version=sight.runtime_version,
        labels=dict(sight.labels),
        created_at=sight.created_at,
        queued_resource=sight.queued_resource,
    )


def queue_shown(place: Place, entry: QueuedResource) -> ShownResource:
    """The stored fields of an orphan that is a queued resource."""
    return ShownResource(
        place=place,
        queued=True,
        state=entry.state,
        accelerator_type=entry.accelerator_type,
        labels=dict(entry.labels),
        created_at=entry.created_at,
        nodes=entry.nodes,
        provisioning_model=entry.provisioning_model,
    )


def is_model_in_doubt(shown: ShownResource) -> bool:
    """Whether an orphan may be flex-start: lists do not distinguish that from on demand."""
    if shown.queued:
        return not shown.provisioning_model
    return bool(shown.ticket) and shown.provisioning_model == ProvisioningModel.ON_DEMAND


def is_billed(shown: ShownResource) -> bool:
    """Whether an orphan is charged now, by its state. A queued resource is never charged, but its
    nodes are."""
    return not shown.queued and is_billable(shown.state)


def hourly_cost(shown: ShownResource, book: PriceBook, now: int) -> int | None:
    """The cost of an orphan in nano-dollars an hour; None if not billed, or without a known
    price."""
    accelerator = shown.accelerator
    if accelerator is None or not is_billed(shown):
        return None
    sku = sku_of(accelerator, shown.provisioning_model, shown.place.zone)
    return burn_of([BilledUnits(sku, accelerator.chips)], book, now)


def hourly_cost_to_come(shown: ShownResource, book: PriceBook, now: int) -> int | None:
    """The cost of a waiting orphan, once it is granted, in nano-dollars an hour at present prices.

    None if it does not wait, or if no price is known.
    """
    accelerator = shown.accelerator
    if accelerator is None or not shown.queued or shown.state not in IN_LINE:
        return None
    sku = sku_of(accelerator, shown.provisioning_model, shown.place.zone)
    return burn_of([BilledUnits(sku, accelerator.chips * max(1, len(shown.nodes)))], book, now)


def owner_hints(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels with which people and their tools name the owner of an orphan."""
    return {key: labels[key] for key in (*_PEOPLE, *_TOOLS) if labels.get(key)}
