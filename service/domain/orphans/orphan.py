"""An orphan: a node or a queued resource in the cloud that no live record of ours accounts for."""

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
from service.domain.pricing.estimate import hourly, sku_of
from service.domain.pricing.price_book import PriceBook

STEWARD = "steward"
"""Who asks for a deletion that nobody else asked for."""

DELETE, ADOPTED = "delete", "adopted"
"""What can be wanted of an orphan: its end; or nothing more, as a record was made for it."""

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
"""Labels that SkyPilot, dstack, Ray, Marin, GKE and Terraform put on what they make (source: their
code)."""


class OrphanKind(StrEnum):
    """Whose an orphan is, and how much of it is left."""

    STRANGER = "stranger"
    """It bears no label of ours, or that of another installation."""

    OURS = "ours_without_record"
    """It bears our label, but its record is over, is at another attempt, or is not there at all."""

    ZOMBIE = "zombie_queue"
    """A queued resource of ours that brings no node about any more, and whose record is over."""

    LEFTOVER = "leftover"
    """A node of ours whose hardware was taken away, and whose record is over."""


class OrphanVerdict(StrEnum):
    """What becomes of an orphan by itself."""

    OBSERVE = "observe"
    """It will be deleted once nothing speaks against it any more."""

    COLLECT = "collect"
    """It is to be deleted now."""

    LEAVE = "leave"
    """Nothing, until somebody asks for its adoption or its deletion."""


@dataclass(frozen=True, slots=True)
class ShownResource:
    """What the cloud shows of one node or of one queued resource, which then has no uid and no
    runtime version but the ids of its `nodes`. Times are whole UTC seconds."""

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
        """Google's full name of it."""
        return self.place.queue_path if self.queued else self.place.path

    @property
    def ticket(self) -> str:
        """The full name of the queued resource that a node belongs to, which stays when the node
        goes; empty where there is none. Google may spell the project by its number: we do not."""
        cloud_id = self.queued_resource.rpartition("/")[2]
        return replace(self.place, cloud_id=cloud_id).queue_path if cloud_id else ""

    @property
    def adoptable(self) -> bool:
        """Whether a record can be made for it once it is READY; see
        `service.domain.orphans.adoption`."""
        known = bool(self.uid) and self.accelerator is not None
        return known and not (self.queued or self.ticket or self.state in LOST)

    @property
    def incarnation(self) -> tuple[str, int | None]:
        """What tells it from another one of the same name."""
        return self.uid, self.created_at

    @property
    def accelerator(self) -> AcceleratorType | None:
        """Its hardware; None where the catalogue does not know it."""
        return catalog.load().accelerators.get(self.accelerator_type)


@dataclass(frozen=True, slots=True)
class Orphan:
    """What is remembered of an orphan between two looks.

    `certain` says that the books show its attempt as ours and as over. `since` is when it was first
    seen as what it is now, `last_seen` the last look that was written down, `looks` how many there
    were, counted up to the two that matter, and only where it may go by itself. `wanted` is DELETE
    once it is to go, at the wish of `asked_by`, ADOPTED once it is an orphan no more, and else
    empty; `confirmed` says that its full name was repeated for its deletion. `next_try_at` is when
    it is asked for by name next, None when it need not be. `gone_at` is when the cloud answered
    that there is no such thing.
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
        """The id by which callers speak of it: the same for the same full name."""
        return orphan_id(self.shown.path)

    @property
    def project(self) -> str:
        """Whose inventory it is in."""
        return self.shown.place.project

    @property
    def to_be_deleted(self) -> bool:
        """Whether its end was asked for, by whomever."""
        return self.wanted == DELETE

    @property
    def is_adopted(self) -> bool:
        """Whether a record was made for it: it is kept so that asking again is answered well."""
        return self.wanted == ADOPTED

    @property
    def by_itself(self) -> bool:
        """Whether its end is our own idea, which every rail may still stop."""
        return self.to_be_deleted and self.asked_by == STEWARD


def orphan_id(path: str) -> str:
    """A stable id that says nothing by itself and is safe in an address."""
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def place_in(path: str) -> Place | None:
    """The place that the full name of a node or of a queued resource speaks of; None for any other
    text. What the cloud answers is not trusted to be a name."""
    found = _PATH.fullmatch(path)
    if found is None or not path.isprintable():
        return None
    return Place(found[1], found[2], found[4])


def node_shown(place: Place, sight: CloudNode) -> ShownResource:
    """What is kept of a node that was seen there."""
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
    """What is kept of a queued resource that was seen there."""
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
    """Whether it may be flex-start: lists do not tell that from on demand."""
    if shown.queued:
        return not shown.provisioning_model
    return bool(shown.ticket) and shown.provisioning_model == ProvisioningModel.ON_DEMAND


def is_billed(shown: ShownResource) -> bool:
    """Whether it costs money now: a queued resource never does, its nodes do."""
    return not shown.queued and is_billable(shown.state)


def hourly_cost(shown: ShownResource, book: PriceBook, now: int) -> int | None:
    """Nano-dollars an hour; None where it is not billed, or at a price that nobody knows."""
    accelerator = shown.accelerator
    if accelerator is None or not is_billed(shown):
        return None
    price = book.at(sku_of(accelerator, shown.provisioning_model, shown.place.zone), now)
    return hourly(accelerator.chips, price)


def hourly_cost_to_come(shown: ShownResource, book: PriceBook, now: int) -> int | None:
    """Nano-dollars an hour that the nodes of a queued resource which waits will cost once it is
    granted, at the prices of now; None where it does not wait, or nobody knows a price."""
    accelerator = shown.accelerator
    if accelerator is None or not shown.queued or shown.state not in IN_LINE:
        return None
    price = book.at(sku_of(accelerator, shown.provisioning_model, shown.place.zone), now)
    return hourly(accelerator.chips * max(1, len(shown.nodes)), price)


def owner_hints(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels by which people, and the tools that they use, say whose something is."""
    return {key: labels[key] for key in (*_PEOPLE, *_TOOLS) if labels.get(key)}
