"""The page of a link in a message: what the link does, what it did, or why it does nothing."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.cleanup.links import LinkOffer, UnknownLink
from service.dashboard.actions.answers import status_of
from service.dashboard.kit.figures import format_money, to_moment
from service.domain.errors import BudgetExceeded, Conflict, RateLimited, Rejected, StoreUnavailable
from service.domain.idle.links import Verb

UNKNOWN_PRICE = "an unknown price"
HEADERS = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex, nofollow"}


@dataclass(frozen=True, slots=True)
class LinkPage:
    """The contents of the page. `button` is empty if there is nothing left to do."""

    status: int
    heading: str
    sentence: str
    rows: tuple[tuple[str, str], ...] = ()
    button: str = ""
    is_alarm: bool = False
    retry_after: int = 0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer, in addition to those of every answer."""
        later = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        return HEADERS | later


def build_link_page(found: LinkOffer | UnknownLink) -> LinkPage:
    """The page of a link that was shown or used."""
    if isinstance(found, UnknownLink):
        return LinkPage(404, "There is no such link", "Copy the whole address from the message.")
    name, rows = found.node.name, _list_facts(found)
    if found.done:
        return LinkPage(200, "Done", f"Node {name}: {found.done}.", rows)
    if found.refusal is not None:
        sentence = f"Nothing was changed: {found.refusal}."
        return LinkPage(410, f"This link does nothing for node {name}", sentence, rows)
    if found.verb is Verb.KEEP:
        return LinkPage(
            200,
            f"Keep node {name} for 4 hours?",
            f"The node is kept until {to_moment(found.kept_until).full}, and costs money until"
            " then. This link works once.",
            rows,
            "Keep the node",
        )
    lost = "The node and all data on its disks will be lost. This link works once."
    question, button = f"Delete node {name} now?", "Delete the node"
    if found.job_id:
        question = f"Delete node {name} although a job runs on it?"
        lost = f"Job {found.job_id} runs on the node, and ends with it. {lost}"
        button = "Delete the node all the same"
    return LinkPage(200, question, lost, rows, button, is_alarm=True)


def build_limit_page(error: RateLimited) -> LinkPage:
    """The page that says how long to wait."""
    seconds = error.facts["retry_after"]
    assert isinstance(seconds, int)
    sentence = f"Nothing was changed: {error}. Try again in {seconds} s."
    return LinkPage(429, "Too many requests", sentence, retry_after=seconds)


def build_failure_page(error: BudgetExceeded | Conflict | Rejected | StoreUnavailable) -> LinkPage:
    """The page that says why nothing was changed."""
    return LinkPage(status_of(error), "Nothing was changed", f"{error}.", is_alarm=True)


def _list_facts(offer: LinkOffer) -> tuple[tuple[str, str], ...]:
    node, cost = offer.node, offer.cost
    hourly = offer.hourly
    spent = format_money(cost.cost)
    if cost.unpriced_seconds:
        spent += f", and {cost.unpriced_seconds:,} s at {UNKNOWN_PRICE}"
    rows = [
        ("Node", f"{node.name} ({node.id})"),
        ("State", node.state),
        ("Project", f"{node.spec.project}, zone {node.zone}"),
        ("Type", f"{node.spec.accelerator_type}, {node.spec.provisioning_model}"),
        ("Owner", node.owner or "nobody"),
        ("Team", node.team or "none"),
        ("Cost so far", spent),
        ("Message sent", to_moment(offer.notified_at).full),
    ]
    if not offer.done and offer.refusal is None:
        rows.append(("Link expires", to_moment(offer.expires_at).full))
    if not node.has_ended:
        now = UNKNOWN_PRICE if hourly is None else format_money(hourly)
        rows.insert(6, ("Cost per hour", now))
    if node.kept_until is not None:
        rows.append(("Kept until", f"{to_moment(node.kept_until).full}: {node.kept_because}"))
    if offer.job_id:
        end = ", and ends with it" if offer.verb is Verb.DELETE else ""
        rows.append(("Job", f"{offer.job_id} runs on the node{end}"))
    return tuple(rows)
