"""Prints nodes, their events, their costs and their ledgers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.text import Text

from service.cli.costs.ledger import NOTHING_POSTED
from service.cli.nodes.idle_terms import describe_rule
from service.cli.nodes.queue import (
    describe_model,
    gives_up,
    made_of,
    queue_line,
    show_slices,
)
from service.cli.terminal.formatting import (
    NOTHING,
    chip_hours,
    format_age,
    format_column,
    format_count,
    format_exact,
    format_parts,
    format_rate,
    format_since,
    format_time,
    format_usd,
)
from service.cli.terminal.printing import Output, current_printing
from service.cli.terminal.render import (
    Cell,
    print_facts,
    print_lines,
    print_paragraphs,
    print_table,
    style_state,
)
from service.domain.clock import parse_rfc3339, wall_clock
from service.domain.nodes.node import ENDED, NodeState

View = Mapping[str, Any]

_ON_ITS_WAY = {
    "absent": ("ends", "to be deleted", frozenset({"DELETING", *ENDED})),
    "stopped": ("stops", "to be stopped", frozenset({"STOPPING", "STOPPED", *ENDED})),
}


FAILING = "DELETING (failing)"
"""State of a node whose deletion fails, whatever the cloud shows."""


def is_failing(node: View) -> bool:
    """Whether the deletion of a node fails. A service that does not say it says the error."""
    if "deletion_failure" in node:
        return node["deletion_failure"] is not None
    is_ending = node["asked"] == "absent" and node["state"] not in ENDED
    return is_ending and bool(node["last_error"])


def shown_state(node: View, waited: str = "", *, in_list: bool = False) -> Text:
    """State of a node, followed by `waited`, and by ` (to be deleted)` or ` (to be stopped)` until
    the node is; in a list by ` (ends)` or ` (stops)`, which leave room for the other columns. A
    deletion that fails is a state of its own."""
    if is_failing(node):
        return Text(FAILING, style="red")
    brief, full, there = _ON_ITS_WAY.get(node["asked"], ("", "", frozenset({node["state"]})))
    note = "" if node["state"] in there else f" ({brief if in_list else full})"
    return style_state(node["state"], waited + note)


def show_nodes(nodes: Sequence[View], *, everything: bool, fleet: View | None = None) -> None:
    """Print a row for each node, and the cost of all nodes in an hour.

    Ended nodes are shown with `everything`. `fleet` has the cost of unused reservations; None when
    the list is filtered.
    """
    shown = [node for node in nodes if everything or node["state"] not in ENDED]
    ended = len(nodes) - len(shown)
    if shown:
        now = wall_clock()
        is_wide = current_printing().output is Output.WIDE
        columns = [
            *("NAME", "STATE", "TYPE", "MODEL", "ZONE", ">AGE", ">PER HOUR", ">COST", "TEAM"),
            *(("OWNER", "DELETES AT (UTC)") if is_wide else ()),
            *(("ID",) if everything or is_wide else ()),
        ]
        ready = [node for node in shown if is_ready(node)]
        rates = iter(format_parts(sum_rates(ready), [node["hourly_cost"] for node in ready]))
        rows: list[list[Cell]] = [
            [
                node["name"],
                shown_state(
                    node,
                    f" {format_since(node['state_since'], now)}"
                    if node["state"] == NodeState.QUEUED
                    else "",
                    in_list=True,
                ),
                made_of(node),
                node["provisioning_model"],
                node["zone"] or NOTHING,
                format_since(node["created_at"], now),
                next(rates) if is_ready(node) else NOTHING,
                format_usd(node["cost"]),
                node["team"] or NOTHING,
                *((node["owner"] or NOTHING, format_time(node["deletes_at"])) if is_wide else ()),
                *((node["id"],) if everything or is_wide else ()),
            ]
            for node in shown
        ]
        print_table(columns, rows, spare=_SPARE)
        print_lines("")
    print_paragraphs(
        summarize_nodes(shown) + (f"; {ended:,} more ended (--all shows them)" if ended else "")
    )
    if fleet is not None and Decimal(fleet["unused_reservations_hourly_cost"]):
        unused = format_usd(fleet["unused_reservations_hourly_cost"])
        print_paragraphs(
            f"reserved chips that no node uses cost {unused} an hour more:"
            f" {format_usd(fleet['hourly_cost'])} in all"
        )


_SPARE = ("ID", "DELETES AT (UTC)", "OWNER", "MODEL", "ZONE", "TYPE", "TEAM", "AGE", "COST")


def summarize_nodes(nodes: Sequence[View]) -> str:
    """Number of nodes, and the cost of the READY ones in an hour."""
    if not nodes:
        return "no nodes"
    ready = list(filter(is_ready, nodes))
    queued = sum(node["state"] == NodeState.QUEUED for node in nodes)
    waiting = f"; {queued:,} in the queue" if queued else ""
    failing = sum(map(is_failing, ready))
    stuck = f"; the deletion of {failing:,} of these fails" if failing else ""
    count = format_count(len(nodes), "node")
    return f"{count}, {len(ready):,} ready at {describe_rate(ready)}{stuck}{waiting}"


def describe_rate(ready: Sequence[View]) -> str:
    """`$9.60 an hour, and 1 node without a known price`."""
    unpriced = sum(node["hourly_cost"] is None for node in ready)
    note = f", and {format_count(unpriced, 'node')} without a known price" if unpriced else ""
    return f"{format_usd(sum_rates(ready))} an hour{note}"


def is_ready(node: View) -> bool:
    """Whether a node is READY, and so billed."""
    return bool(node["state"] == NodeState.READY)


def sum_rates(nodes: Iterable[View]) -> str:
    """Dollars an hour of all nodes with a known price."""
    rates = (node["hourly_cost"] for node in nodes)
    return str(sum((Decimal(rate) for rate in rates if rate is not None), Decimal(0)))


def show_asked_for(node: View) -> None:
    """Print a node that was just requested, with its warnings."""
    zones = node["zones"]
    where = " or ".join(zones[:3]) + (f" or {len(zones) - 3} more" if len(zones) > 3 else "")
    types = " or ".join([made_of(node), *_other_types(node)])
    print_paragraphs(
        f"{node['name']}: {types} ({describe_model(node)}), {where},"
        f" {node['runtime_version']}, {format_rate(node['hourly_cost'], exact=True)}",
        f"id {node['id']}",
    )
    print_paragraphs(*(f"note: {warning}" for warning in node.get("warnings") or ()))


def show_node(node: View, ends: Sequence[View] = ()) -> None:
    """Print all facts of a node, then its slices and its placement attempts. `ends` is what may end
    it, as the answer about its policy says."""
    now = wall_clock()
    print_facts([*_list_facts(node, now), *_list_ends(ends, now)])
    if node["slice_states"]:
        print_lines("")
        show_slices(node)
    if node["placements"]:
        print_lines("")
        print_table(
            [">TRY", "ZONE", "TYPE", "MODEL", "BEGAN (UTC)", "ENDED (UTC)", "OUTCOME"],
            (
                [
                    str(placement["attempt"]),
                    placement["zone"],
                    placement["accelerator_type"] or NOTHING,
                    placement["provisioning_model"],
                    format_time(placement["started_at"]),
                    format_time(placement["ended_at"]),
                    placement["outcome"],
                ]
                for placement in node["placements"]
            ),
            spare=("ENDED (UTC)", "BEGAN (UTC)"),
        )
        reasons = [
            f"try {placement['attempt']}: {placement['reason']}"
            for placement in node["placements"]
            if placement["reason"]
        ]
        if reasons:
            print_lines("")
            print_paragraphs(*reasons)


def _list_facts(node: View, now: int) -> Iterator[tuple[str, Cell]]:
    yield "Name", node["name"]
    yield "Id", node["id"]
    yield (
        "State",
        Text.assemble(shown_state(node), f", for {format_since(node['state_since'], now)}"),
    )
    yield "Queue", queue_line(node)
    yield "Gives up", gives_up(node, now)
    yield "Deletion", _describe_failure(node, now)
    yield "Overdue", _describe_overdue(node, now)
    yield "Last error", node["last_error"]
    chips, hosts = format_count(node["chips"], "chip"), format_count(node["hosts"], "host")
    each = " each" if node["slices"] > 1 else ""
    size = f"{chips} of {node['generation']}, {hosts}, topology {node['topology']}{each}"
    yield "Hardware", f"{made_of(node)}: {size}"
    yield "Or made of", " or ".join(_other_types(node))
    legacy = ", on a legacy TPU Node" if node.get("architecture") == "node" else ""
    yield "Runtime", f"{node['runtime_version']}{legacy}"
    vm = node.get("vm")  # the user's own VM that drives a legacy TPU Node
    yield "Its VM", f"{vm['machine_type']}, {vm['provisioning_model']}" if vm else ""
    yield "Model", describe_model(node)
    yield "Reservation", node["reservation"]
    yield "Place", f"{node['zone'] or 'no zone yet'}, project {node['project']}"
    yield "In the cloud", node["cloud_id"] or ""
    yield "Health", node["health"] or ""
    yield (
        "Workers",
        ", ".join(
            f"{endpoint['ip']} ({endpoint['external_ip']})"
            if endpoint.get("external_ip")
            else endpoint["ip"]
            for endpoint in node["endpoints"]
        ),
    )
    yield "Owner", node["owner"]
    yield "Team", node["team"]
    yield "Labels", ", ".join(f"{key}={value}" for key, value in node["labels"].items())
    yield (
        "Requested",
        f"{format_time(node['created_at'])} UTC, {format_since(node['created_at'], now)} ago",
    )
    yield from _list_dates(node, now)
    yield "Per hour", format_exact(node["hourly_cost"])
    yield "Cost so far", format_usd(node["cost"])


def _list_dates(node: View, now: int) -> Iterator[tuple[str, str]]:
    if node["ready_at"]:
        yield "Ready", f"{format_time(node['ready_at'])} UTC"
    if node["deletes_at"]:
        left = parse_rfc3339(node["deletes_at"]) - now
        when = f", in {format_age(left)}" if left > 0 and not node["ended_at"] else ""
        yield "Deletes itself", f"{format_time(node['deletes_at'])} UTC{when}"
    keep = node.get("keep")
    if keep and not node["ended_at"]:
        if keep["until"] is None:
            yield "Kept until", f"an invalid date ({keep['reason']})"
        elif parse_rfc3339(keep["until"]) > now:
            yield "Kept until", f"{format_time(keep['until'])} UTC ({keep['reason']})"
    yield "Goes after that", node.get("ends_after_keep") or ""
    if node.get("idle"):
        idle = node["idle"]
        yield "Idle policy", describe_rule({**idle, "idle_after_seconds": idle["after_seconds"]})
    if node["ended_at"]:
        yield "Ended", f"{format_time(node['ended_at'])} UTC"
    yield "Deleted for", node["delete_reason"] or ""


def _list_ends(ends: Iterable[View], now: int) -> Iterator[tuple[str, str]]:
    """What else ends a node: the ends by its time to live and its job are in the list of dates."""
    for end in ends:
        if end["ender"] not in {"ttl", "job_end"} and end["at"] and not end["held_by"]:
            left = parse_rfc3339(end["at"]) - now
            when = f"in {format_age(left)}" if left > 0 else "at the next check"
            yield "Ends by itself", f"{format_time(end['at'])} UTC, {when}: {end['reason']}"


def show_update(node: View, said: View) -> None:
    """Print the changed settings of a node. `said` is the body of the request that changed them."""
    name = node["name"]
    if said.keys() & {"team", "owner", "labels"}:
        whose = ", ".join(node[field] for field in ("team", "owner") if node[field])
        print_lines(f"{name} is charged from now on to {whose or 'nobody'}")
    if "ttl_seconds" in said:
        ttl = node["ttl_seconds"]
        then = (
            "" if node["deletes_at"] is None else f": until {format_time(node['deletes_at'])} UTC"
        )
        lives = "until it is deleted" if ttl is None else f"{format_age(ttl)} from READY{then}"
        print_lines(f"{name} lives {lives}")
    if "idle" in said:
        policy = node["policy"]
        whose = "its own" if policy["source"] == "node" else f"that of {policy['source']}"
        print_lines(f"the idle policy of {name} is {whose}: {describe_rule(policy)}")
    print_paragraphs(*(f"note: {warning}" for warning in node.get("warnings") or ()))


def _describe_failure(node: View, now: int) -> str:
    """`nodes.delete failed 3 times in a row; next try in 4m10s`. Empty without a failing
    deletion."""
    failure = node.get("deletion_failure")
    if not failure or not failure["tries"]:
        return ""
    left = 0 if failure["next_try_at"] is None else parse_rfc3339(failure["next_try_at"]) - now
    again = f"in {format_age(left)}" if left > 0 else "now"
    times = "once" if failure["tries"] == 1 else f"{failure['tries']:,} times in a row"
    return f"{failure['call']} failed {times}; next try {again}"


def _describe_overdue(node: View, now: int) -> str:
    """Age of a deletion that takes too long. Empty for a node that is not overdue."""
    if not node.get("overdue_since"):
        return ""
    asked = node["delete_requested_at"] or node["replacing_since"]
    what = "its deletion" if node["delete_requested_at"] else "its deletion before the next attempt"
    return (
        f"{what} was requested {format_since(asked, now)} ago and has not ended; it is retried"
        " indefinitely"
    )


def _other_types(node: View) -> list[str]:
    return [kind for kind in node["accelerator_types"] if kind != node["accelerator_type"]]


def show_events(events: Sequence[View]) -> None:
    """Print the events of a node, the oldest first."""
    print_table(
        ["WHEN (UTC)", "WHAT", "WHO", "HOW"],
        (
            [format_time(event["at"]), event["kind"], event["actor"], event["message"]]
            for event in events
        ),
    )


def show_cost(cost: View) -> None:
    """Print the cost of a node, with its uncertainty and what is not included."""
    unpriced, listed = cost["unpriced_seconds"], cost["list_cost"]
    # A cost that is certain to the second changes only while the node runs.
    not_final = "still runs" if _is_zero(cost["uncertainty"]) else "may still change"
    lines = cost.get("lines") or ()
    amounts = format_column(
        [
            None if line["unpriced_seconds"] and _is_zero(line["cost"]) else line["cost"]
            for line in lines
        ]
    )
    parts = [
        (
            f"  VM {line['what']}" if line["kind"] == "vm" else f"  {line['what']}",
            f"{amount} for {format_age(line['seconds'])}",
        )
        for line, amount in zip(lines, amounts, strict=True)
    ]
    print_facts(
        [
            (
                "Cost",
                format_exact(cost["cost"]) + (f", and it {not_final}" if cost["estimated"] else ""),
            ),
            *(parts if len(parts) > 1 else []),
            (
                "Uncertain by",
                "" if _is_zero(cost["uncertainty"]) else f"± {format_exact(cost['uncertainty'])}",
            ),
            ("At list price", "" if listed == cost["cost"] else format_exact(listed)),
            ("Free", "; ".join(cost.get("free") or ())),
            ("Unpriced", _describe_unpriced(cost) if unpriced else ""),
            ("Chip-hours", chip_hours(cost["chip_seconds"])),
            ("Not included", "; ".join(cost.get("not_included") or ())),
            ("As of", f"{format_time(cost['as_of'])} UTC"),
        ]
    )


def _describe_unpriced(cost: View) -> str:
    return f"{format_age(cost['unpriced_seconds'])} with unknown price"


def _is_zero(amount: str) -> bool:
    return not Decimal(amount)


def nothing_posted(node: View, cost: View) -> str:
    """Reason that the ledger of a node is empty."""
    if node["state"] not in ENDED:
        return NOTHING_POSTED
    if cost["unpriced_seconds"]:
        return f"nothing is posted: {_describe_unpriced(cost)}"
    if not _is_zero(cost["cost"]):
        return f"nothing is posted yet of the {format_exact(cost['cost'])} that it cost"
    never = "" if node["ready_at"] else "it was never READY"
    why = "; ".join(cost["free"]) or never
    return f"nothing is posted: it has ended and cost nothing{f' ({why})' if why else ''}"


def explain_newest(line: View | None, cost: View) -> Iterator[Sequence[str]]:
    """Explanation of the line, if there is one, then of each time range that is not posted yet."""
    if line is not None:
        yield line["explanation"]
    for charge in cost["unposted"]:
        seconds = f"{format_time(charge['start'])} to {format_time(charge['end'])} UTC"
        yield (f"not in the ledger yet, {charge['what']}, {seconds}:", *charge["explanation"])
