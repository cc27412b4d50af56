"""Actions on orphans: adopt a node, or delete a resource."""

from __future__ import annotations

from collections.abc import Iterator

from service.application.orphans import OrphanKind, SeenOrphan
from service.application.services import Services
from service.dashboard.actions.bodies import Bodies
from service.dashboard.actions.form import Form
from service.dashboard.actions.nodes import UNKNOWN_PRICE, ActionLink
from service.dashboard.actions.page import ActionPage, ActionResult, Confirmation, Input
from service.dashboard.kit.figures import Fact, format_money, to_moment
from service.dashboard.kit.links import node_address
from service.dashboard.kit.visible_text import escape_invisible
from service.domain.nodes.node import NodeState
from service.domain.orphans.orphan import STEWARD, Orphan, owner_hints

PAGE = "/orphans"


def list_orphan_actions(orphan: Orphan) -> tuple[ActionLink, ...]:
    """The actions that are possible on an orphan now."""
    address = f"{PAGE}/{orphan.id}"
    actions = []
    if not _find_adoption_obstacle(orphan):
        actions.append(ActionLink(f"{address}/adopt", "Adopt"))
    if not _find_deletion_obstacle(orphan):
        actions.append(ActionLink(f"{address}/delete", "Delete", is_alarm=True))
    return tuple(actions)


def build_adopt_page(services: Services, _form: Form, orphan_id: str) -> ActionPage:
    """The form with the owner, team and name of an adopted node. Raises NotFound."""
    seen = services.orphans.get(orphan_id)
    shown = seen.orphan.shown
    hints = owner_hints(shown.labels)
    return ActionPage(
        heading=f"Adopt {escape_invisible(shown.place.cloud_id)}",
        button="Adopt the node",
        back=(PAGE, "Orphans"),
        sentences=(
            "The node is managed like any other from now on, and charged from this second.",
            "Its idle policy applies to it, so it may be deleted for idleness.",
        ),
        facts=tuple(_list_facts(seen)),
        inputs=(
            Input("name", "Name", hint="By default the name in the cloud.", max_length=80),
            Input("owner", "Owner", escape_invisible(hints.get("owner", ""))),
            Input("team", "Team", escape_invisible(hints.get("team", ""))),
        ),
        refusal=_find_adoption_obstacle(seen.orphan),
    )


def adopt_orphan(services: Services, form: Form, orphan_id: str, bodies: Bodies) -> ActionResult:
    """Make the record of a node for an orphan."""
    said = {name: form.get_text(name) for name in ("name", "owner", "team")}
    node = services.orphans.adopt(orphan_id, bodies.parse_adopter(said))
    message = f"Node {escape_invisible(node.name)} is adopted. It is charged from now on."
    return ActionResult(node_address(node.id), message)


def build_delete_page(services: Services, _form: Form, orphan_id: str) -> ActionPage:
    """The page that requests the name of an orphan before its deletion. Raises NotFound."""
    seen = services.orphans.get(orphan_id)
    orphan, shown = seen.orphan, seen.orphan.shown
    sentences = ["The resource and all data on its disks will be lost."]
    expected = Confirmation("its name", shown.place.cloud_id)
    if orphan.kind is OrphanKind.STRANGER:
        sentences.append("It is unmanaged: this service did not create it. Ask its owner first.")
        expected = Confirmation("its full name", shown.path)
    if shown.ticket:
        sentences.append("Its queued resource is not deleted with it: delete that too.")
    return ActionPage(
        heading=f"Delete {escape_invisible(shown.place.cloud_id)}?",
        button="Delete it from the cloud",
        back=(PAGE, "Orphans"),
        sentences=tuple(sentences),
        facts=tuple(_list_facts(seen)),
        confirmation=expected,
        is_alarm=True,
        refusal=_find_deletion_obstacle(orphan),
    )


def delete_orphan(services: Services, _form: Form, orphan_id: str) -> ActionResult:
    """Request the deletion of an orphan whose name was typed."""
    orphan = services.orphans.get(orphan_id).orphan
    is_stranger = orphan.kind is OrphanKind.STRANGER
    services.orphans.delete(orphan_id, confirm=orphan.shown.path if is_stranger else "")
    name = escape_invisible(orphan.shown.place.cloud_id)
    message = (
        f"The deletion of {name} is requested. The daemon checks it once more, then deletes it."
    )
    return ActionResult(PAGE, message)


def _find_adoption_obstacle(orphan: Orphan) -> str:
    shown = orphan.shown
    if orphan.gone_at is not None:
        return "This resource is gone."
    if orphan.to_be_deleted:
        return "This resource is being deleted. A deletion cannot be undone."
    if not shown.is_adoptable or shown.state != NodeState.READY:
        return "Only a READY node of a known type, without a queued resource, can be adopted."
    return ""


def _find_deletion_obstacle(orphan: Orphan) -> str:
    if orphan.gone_at is not None:
        return "This resource is gone."
    if orphan.to_be_deleted and orphan.asked_by != STEWARD:
        return "The deletion of this resource is already requested."
    return ""


def _list_facts(seen: SeenOrphan) -> Iterator[Fact]:
    shown = seen.orphan.shown
    yield Fact("Full name", escape_invisible(shown.path))
    yield Fact("State", shown.state)
    if seen.hourly is not None:
        yield Fact("Cost per hour", f"{format_money(seen.hourly)} an hour")
    elif seen.billed:
        yield Fact("Cost per hour", UNKNOWN_PRICE)
    elif seen.to_come is not None:
        yield Fact("Cost per hour", f"{format_money(seen.to_come)} an hour once READY")
    yield Fact("Type", escape_invisible(shown.accelerator_type))
    at = to_moment(seen.orphan.first_seen)
    yield Fact("First seen", at.full, at)
    for key, value in owner_hints(shown.labels).items():
        yield Fact(f"Label {escape_invisible(key)}", escape_invisible(value))
