"""A keep: until its end, neither idleness nor the time to live nor a job's end deletes the node.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, parse_rfc3339, to_rfc3339
from service.domain.errors import Conflict, Rejected
from service.domain.nodes.node import Asked, Node

TTL_HELD = "its time to live expired while it was kept"
TTL_TOLD = "its time to live expired while it was kept, and its owner was notified"
"""Two values of `Node.ends_after_keep`. With the first, a keep holds the time to live back. With
the second, the keep is over, the owner was notified, and `kept_until` is the end of that notice.
Any other value is the reason of a job's end."""

ABOUT_TTL = ("", TTL_HELD, TTL_TOLD)
"""The values of `Node.ends_after_keep` that say nothing about a job."""

LONGEST_SECONDS = 30 * DAY
LABEL = "keep-until"
"""A label that keeps a node without a request to this service, as in `2026-12-01`."""

MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class Keep:
    """Until when a node is kept, and why.

    `until` is None if the date cannot be read: that protects the node, and raises an alarm.
    """

    until: int | None
    reason: str

    @property
    def is_unreadable(self) -> bool:
        """Whether the date of the keep cannot be read."""
        return self.until is None

    def is_active(self, now: int) -> bool:
        """Whether the keep protects the node now."""
        return self.until is None or now < self.until


def keep_of(
    now: int,
    reason: str,
    *,
    until: int | None = None,
    for_seconds: int | None = None,
    ends_at: int | None = None,
) -> Keep:
    """A keep of a node until an instant or for some time.

    Raises Rejected without a reason, for more than 30 days, for the past, and beyond `ends_at`, at
    which Google itself ends the node.
    """
    if (until is None) == (for_seconds is None):
        raise Rejected("give exactly one of until and for_seconds", field="until")
    at = now + for_seconds if for_seconds is not None else until
    assert at is not None
    field = "for_seconds" if until is None else "until"
    if not reason.strip():
        raise Rejected("give a reason: why is the node kept?", field="reason")
    if at <= now:
        raise Rejected(f"{to_rfc3339(at)} is in the past; give a later time", field=field)
    if at > now + LONGEST_SECONDS:
        latest = to_rfc3339(now + LONGEST_SECONDS)
        raise Rejected(f"a node is kept for 30 days at most, until {latest}", field=field)
    if ends_at is not None and at > ends_at:
        raise Rejected(
            f"Google ends this node at {to_rfc3339(ends_at)}; keep it until then at most",
            field=field,
            ends_at=to_rfc3339(ends_at),
        )
    return Keep(at, reason.strip()[:MAX_REASON])


def keep_by_label(labels: Mapping[str, str]) -> Keep | None:
    """The keep that a label asks for; None without the label.

    Google's labels allow neither colons nor capitals, so a date is enough: the node is kept until
    that day begins in UTC.
    """
    text = labels.get(LABEL)
    if text is None:
        return None
    reason = f"label {LABEL}={text}"
    try:
        return Keep(parse_rfc3339(text if "t" in text.lower() else f"{text}T00:00:00Z"), reason)
    except (ValueError, OverflowError):
        return Keep(None, reason)


def keep_of_node(node: Node) -> Keep | None:
    """The keep of a node, active or over: the later one of the requested keep and of its label.

    A label that cannot be read protects the node. None if the node was never kept.
    """
    by_label = keep_by_label(node.labels)
    if node.kept_until is None:
        return by_label
    asked = Keep(node.kept_until, node.kept_because)
    if by_label is None:
        return asked
    is_longer = by_label.until is None or by_label.until > node.kept_until
    return by_label if is_longer else asked


def is_on_notice(node: Node) -> bool:
    """Whether `kept_until` is the end of a notice, and not a requested keep."""
    return node.ends_after_keep == TTL_TOLD


def waits_for_job_end(node: Node) -> bool:
    """Whether only a keep holds the node, as its job has ended."""
    return names_job_end(node.ends_after_keep)


def names_job_end(ends_after_keep: str) -> bool:
    """Whether this text of a node says that its job has ended, and nothing about its time to
    live."""
    return ends_after_keep not in ABOUT_TTL


def keep_sentence(node: Node) -> str:
    """The sentence that says until when a keep holds a node, and why. Empty if it was never
    kept."""
    keep = keep_of_node(node)
    if keep is None:
        return ""
    until = "an invalid date" if keep.until is None else to_rfc3339(keep.until)
    return f"it is kept until {until} ({keep.reason})"


def asked_keep(node: Node, now: int) -> Keep | None:
    """The requested keep that is active now; None if there is none. Labels do not count."""
    if node.kept_until is None or is_on_notice(node) or now >= node.kept_until:
        return None
    return Keep(node.kept_until, node.kept_because)


def describe_keep_end(node: Node, now: int, *, is_deletion: bool) -> str:
    """The sentence that a keep ends with the node; empty if no keep is active.

    A stop ends no keep by a label: the label stays, and so does the node.
    """
    keep = keep_of_node(node) if is_deletion else asked_keep(node, now)
    is_notice = is_on_notice(node) and keep is not None and keep.until == node.kept_until
    if keep is None or is_notice or not keep.is_active(now):
        return ""
    until = "an invalid date" if keep.until is None else to_rfc3339(keep.until)
    return f"the keep until {until} ends with that ({keep.reason})"


def cloud_ends_at(node: Node) -> int | None:
    """The end of a node that no keep can delay, because Google itself ends it. None unless it is a
    flex-start node."""
    is_flex = node.spec.provisioning_model is ProvisioningModel.FLEX_START
    return node.deletes_at if is_flex else None


def with_keep(node: Node, keep: Keep, now: int) -> Node:
    """The node with a keep; unchanged if it is kept for as long already.

    A new keep does not shorten an earlier one. Raises Conflict for a node that is being deleted.
    """
    if node.has_ended or node.asked is Asked.ABSENT:
        raise Conflict(
            f"node {node.name} is {node.state}: it was deleted, and a deletion cannot be undone"
        )
    assert keep.until is not None
    before = asked_keep(node, now)
    if before is not None and before.until is not None and before.until >= keep.until:
        return node
    over = TTL_HELD if is_on_notice(node) else node.ends_after_keep
    return replace(node, kept_until=keep.until, kept_because=keep.reason, ends_after_keep=over)


def without_keep(node: Node) -> Node:
    """The node without its keep. `ends_after_keep` still says what the keep held back."""
    return replace(node, kept_until=None, kept_because="")


def goes_at(node: Node) -> int | None:
    """When a node is deleted for its time to live or its job's end, after its keep. No keep delays
    the end of a flex-start node.

    None if neither ends it, or if the end of the keep cannot be read.
    """
    keep, google = keep_of_node(node), cloud_ends_at(node)
    at = 0 if waits_for_job_end(node) else node.deletes_at
    if at is None or (keep is not None and keep.until is None):
        return google
    if keep is None:
        return node.deletes_at
    kept_until = max(at, keep.until or 0)
    return kept_until if google is None else min(kept_until, google)
