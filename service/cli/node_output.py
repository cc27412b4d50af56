"""Nodes, their stories and their costs, as tables and blocks for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.text import Text

from service.cli.idle_terms import rule_words
from service.cli.queue import (
    bought,
    gives_up,
    made_of,
    queue_line,
    show_slices,
)
from service.cli.terminal.formatting import (
    NOTHING,
    age,
    chip_hours,
    column,
    counted,
    exact,
    moment,
    money,
    parts,
    since,
)
from service.cli.terminal.render import Cell, echo, facts, state, table
from service.domain.clock import parse_rfc3339, wall_clock
from service.domain.nodes.node import ENDED, NodeState

View = Mapping[str, Any]

NOTHING_POSTED = "nothing is posted yet; what runs is posted at each full hour"

_ON_ITS_WAY = {
    "absent": (" (to be deleted)", frozenset({"DELETING", *ENDED})),
    "stopped": (" (to be stopped)", frozenset({"STOPPING", "STOPPED", *ENDED})),
}


def shown_state(node: View, waited: str = "") -> Text:
    """The state, how long it has waited if that is said, and what is asked for if it is else."""
    note, there = _ON_ITS_WAY.get(node["asked"], ("", frozenset()))
    return state(node["state"], waited + ("" if node["state"] in there else note))


def _listed_state(node: View, now: int) -> Text:
    """The state; of what is in the queue also how long it has been there."""
    queued = node["state"] == NodeState.QUEUED
    return shown_state(node, f" for {since(node['state_since'], now)}" if queued else "")


def show_nodes(nodes: Sequence[View], *, everything: bool, fleet: View | None = None) -> None:
    """A line for each node, and what all of them cost an hour; those that ended only on demand.
    `fleet` says what is paid beside the nodes; None where only some nodes were asked for."""
    shown = [node for node in nodes if everything or node["state"] not in ENDED]
    ended = len(nodes) - len(shown)
    if shown:
        _table(shown, ids=everything)
        echo("")
    echo(summary(shown) + (f"; {ended:,} more ended (--all shows them)" if ended else ""))
    if fleet is not None and Decimal(fleet["unused_reservations_hourly_cost"]):
        unused = money(fleet["unused_reservations_hourly_cost"])
        echo(
            f"reserved chips that no node uses cost {unused} an hour more:"
            f" {money(fleet['hourly_cost'])} in all"
        )


def _table(nodes: Sequence[View], *, ids: bool) -> None:
    now = wall_clock()
    columns = ["NAME", "STATE", "TYPE", "MODEL", "ZONE", ">AGE", ">PER HOUR", ">COST", "TEAM"]
    rates = iter(parts(_burn(nodes), [node["hourly_cost"] for node in nodes if _is_ready(node)]))
    rows: list[list[Cell]] = [
        [
            node["name"],
            _listed_state(node, now),
            made_of(node),
            node["provisioning_model"],
            node["zone"] or NOTHING,
            since(node["created_at"], now),
            next(rates) if _is_ready(node) else money(node["hourly_cost"]),
            money(node["cost"]),
            node["team"] or NOTHING,
            *([node["id"]] if ids else []),
        ]
        for node in nodes
    ]
    table([*columns, "ID"] if ids else columns, rows)


def summary(nodes: Sequence[View]) -> str:
    """How many there are, and what those that are READY cost an hour."""
    if not nodes:
        return "no nodes"
    ready = list(filter(_is_ready, nodes))
    burn = money(_burn(nodes))
    unpriced = sum(node["hourly_cost"] is None for node in ready)
    note = f", and {counted(unpriced, 'node')} without a known price" if unpriced else ""
    queued = sum(node["state"] == NodeState.QUEUED for node in nodes)
    waiting = f"; {queued:,} in the queue" if queued else ""
    return f"{counted(len(nodes), 'node')}, {len(ready):,} ready at {burn} an hour{note}{waiting}"


def _is_ready(node: View) -> bool:
    return bool(node["state"] == NodeState.READY)


def _burn(nodes: Sequence[View]) -> str:
    """Dollars an hour of those that are READY, as far as their prices are known."""
    rates = (node["hourly_cost"] for node in nodes if _is_ready(node))
    return str(sum((Decimal(rate) for rate in rates if rate is not None), Decimal(0)))


def show_asked_for(node: View) -> None:
    """What was written down, and what to mind."""
    zones = node["zones"]
    where = " or ".join(zones[:3]) + (f" or {len(zones) - 3} more" if len(zones) > 3 else "")
    types = " or ".join([made_of(node), *_other_types(node)])
    echo(
        f"{node['name']}: {types} ({bought(node)}), {where},"
        f" {node['runtime_version']}, {exact(node['hourly_cost'])} an hour",
        f"id {node['id']}",
    )
    echo(*(f"note: {warning}" for warning in node.get("warnings") or ()))


def show_node(node: View) -> None:
    """Everything about one node."""
    facts(_facts(node, wall_clock()))
    if node["slice_states"]:
        echo("")
        show_slices(node)
    if node["placements"]:
        echo("")
        table(
            [">TRY", "ZONE", "TYPE", "MODEL", "BEGAN (UTC)", "ENDED (UTC)", "OUTCOME", "REASON"],
            (_placement(placement) for placement in node["placements"]),
        )


def _facts(node: View, now: int) -> Iterator[tuple[str, Cell]]:
    yield "Name", node["name"]
    yield "Id", node["id"]
    yield "State", Text.assemble(shown_state(node), f", for {since(node['state_since'], now)}")
    yield "Queue", queue_line(node)
    yield "Gives up", gives_up(node, now)
    yield "Overdue", _overdue(node, now)
    yield "Last error", node["last_error"]
    yield "Hardware", _hardware(node)
    yield "Or made of", " or ".join(_other_types(node))
    yield "Runtime", _runtime(node)
    yield "Its VM", _vm(node)
    yield "Model", bought(node)
    yield "Reservation", node["reservation"]
    yield "Place", f"{node['zone'] or 'no zone yet'}, project {node['project']}"
    yield "In the cloud", node["cloud_id"] or ""
    yield "Health", node["health"] or ""
    yield "Workers", ", ".join(_worker(one) for one in node["endpoints"])
    yield "Owner", node["owner"]
    yield "Team", node["team"]
    yield "Labels", ", ".join(f"{key}={value}" for key, value in node["labels"].items())
    yield "Requested", f"{moment(node['created_at'])} UTC, {since(node['created_at'], now)} ago"
    yield from _dates(node, now)
    yield "Per hour", exact(node["hourly_cost"])
    yield "Cost so far", money(node["cost"])


def _dates(node: View, now: int) -> Iterator[tuple[str, str]]:
    if node["ready_at"]:
        yield "Ready", f"{moment(node['ready_at'])} UTC"
    if node["deletes_at"]:
        left = parse_rfc3339(node["deletes_at"]) - now
        when = f", in {age(left)}" if left > 0 and not node["ended_at"] else ""
        yield "Deletes itself", f"{moment(node['deletes_at'])} UTC{when}"
    yield "Kept until", _kept(node, now)
    yield "Goes after that", node.get("ends_after_keep") or ""
    if node.get("idle"):
        yield "Idle policy", _own_policy(node["idle"])
    if node["ended_at"]:
        yield "Ended", f"{moment(node['ended_at'])} UTC"
    yield "Deleted for", node["delete_reason"] or ""


def _kept(node: View, now: int) -> str:
    """Until when somebody keeps it, and why; empty where nobody does now."""
    keep = node.get("keep")
    if not keep or node["ended_at"]:
        return ""
    if keep["until"] is None:
        return f"an invalid date ({keep['reason']})"
    is_over = parse_rfc3339(keep["until"]) <= now
    return "" if is_over else f"{moment(keep['until'])} UTC ({keep['reason']})"


def _own_policy(idle: View) -> str:
    """What the node says of its own idleness."""
    return rule_words({**idle, "idle_after_seconds": idle["after_seconds"]})


def show_update(node: View, said: View) -> None:
    """What holds of a node now that some of it was changed."""
    name = node["name"]
    if said.keys() & {"team", "owner", "labels"}:
        whose = ", ".join(node[field] for field in ("team", "owner") if node[field])
        echo(f"{name} is charged from now on to {whose or 'nobody'}")
    if "ttl_seconds" in said:
        ttl = node["ttl_seconds"]
        then = "" if node["deletes_at"] is None else f": until {moment(node['deletes_at'])} UTC"
        lives = "until it is deleted" if ttl is None else f"{age(ttl)} from READY{then}"
        echo(f"{name} lives {lives}")
    if "idle" in said:
        policy = node["policy"]
        whose = "its own" if policy["source"] == "node" else f"that of {policy['source']}"
        echo(f"the idle policy of {name} is {whose}: {rule_words(policy)}")
    echo(*(f"note: {warning}" for warning in node.get("warnings") or ()))


def _overdue(node: View, now: int) -> str:
    """What is wrong where its deletion does not end."""
    if not node.get("overdue_since"):
        return ""
    asked = node["delete_requested_at"] or node["replacing_since"]
    what = "its deletion" if node["delete_requested_at"] else "its deletion before the next attempt"
    return (
        f"{what} was requested {since(asked, now)} ago and has not ended; it is retried"
        " indefinitely"
    )


def _other_types(node: View) -> list[str]:
    return [one for one in node["accelerator_types"] if one != node["accelerator_type"]]


def _hardware(node: View) -> str:
    each = " each" if node["slices"] > 1 else ""
    return (
        f"{made_of(node)}: {counted(node['chips'], 'chip')} of {node['generation']},"
        f" {counted(node['hosts'], 'host')}, topology {node['topology']}{each}"
    )


def _runtime(node: View) -> str:
    legacy = node.get("architecture") == "node"
    return f"{node['runtime_version']}{', on a legacy TPU Node' if legacy else ''}"


def _vm(node: View) -> str:
    """The user's own VM that drives a legacy TPU Node."""
    vm = node.get("vm")
    return f"{vm['machine_type']}, {vm['provisioning_model']}" if vm else ""


def _worker(endpoint: View) -> str:
    outside = f" ({endpoint['external_ip']})" if endpoint.get("external_ip") else ""
    return f"{endpoint['ip']}{outside}"


def _placement(placement: View) -> list[Cell]:
    return [
        str(placement["attempt"]),
        placement["zone"],
        placement["accelerator_type"] or NOTHING,
        placement["provisioning_model"],
        moment(placement["started_at"]),
        moment(placement["ended_at"]),
        placement["outcome"],
        placement["reason"],
    ]


def show_events(events: Sequence[View]) -> None:
    """The story of a node, oldest first."""
    table(
        ["WHEN (UTC)", "WHAT", "WHO", "HOW"],
        ([moment(one["at"]), one["kind"], one["actor"], one["message"]] for one in events),
    )


def show_cost(cost: View) -> None:
    """What a node cost, and how sure that is."""
    unpriced, listed = cost["unpriced_seconds"], cost["list_cost"]
    facts(
        [
            ("Cost", exact(cost["cost"]) + (_not_final(cost) if cost["estimated"] else "")),
            *_lines(cost.get("lines") or ()),
            (
                "Uncertain by",
                "" if _is_zero(cost["uncertainty"]) else f"± {exact(cost['uncertainty'])}",
            ),
            ("At list price", "" if listed == cost["cost"] else exact(listed)),
            ("Free", "; ".join(cost.get("free") or ())),
            ("Unpriced", _unpriced(cost) if unpriced else ""),
            ("Chip-hours", chip_hours(cost["chip_seconds"])),
            ("Not included", "; ".join(cost.get("not_included") or ())),
            ("As of", f"{moment(cost['as_of'])} UTC"),
        ]
    )


def _unpriced(cost: View) -> str:
    return f"{age(cost['unpriced_seconds'])} with unknown price"


def _lines(lines: Sequence[View]) -> Iterator[tuple[str, str]]:
    """What the cost is the sum of, where that is more than one thing."""
    if len(lines) < 2:
        return
    unknown = [line["unpriced_seconds"] and _is_zero(line["cost"]) for line in lines]
    costs = zip(lines, unknown, strict=True)
    amounts = column([None if left_out else line["cost"] for line, left_out in costs])
    for line, amount in zip(lines, amounts, strict=True):
        what = f"  VM {line['what']}" if line["kind"] == "vm" else f"  {line['what']}"
        yield what, f"{amount} for {age(line['seconds'])}"


def _not_final(cost: View) -> str:
    """What is sure to the second is not final only while it runs."""
    return ", and it still runs" if _is_zero(cost["uncertainty"]) else ", and it may still change"


def _is_zero(amount: str) -> bool:
    return not Decimal(amount)


def nothing_posted(node: View, cost: View) -> str:
    """Why the ledger of a node is empty."""
    if node["state"] not in ENDED:
        return NOTHING_POSTED
    if cost["unpriced_seconds"]:
        return f"nothing is posted: {_unpriced(cost)}"
    if not _is_zero(cost["cost"]):
        return f"nothing is posted yet of the {exact(cost['cost'])} that it cost"
    never = "" if node["ready_at"] else "it was never READY"
    why = "; ".join(cost["free"]) or never
    return f"nothing is posted: it has ended and cost nothing{f' ({why})' if why else ''}"


def newest(line: View | None, cost: View) -> Iterator[Sequence[str]]:
    """The explanation of a line, if there is one, and of each stretch that is not posted yet."""
    if line is not None:
        yield line["explanation"]
    for one in cost["unposted"]:
        seconds = f"{moment(one['start'])} to {moment(one['end'])} UTC"
        yield (f"not in the ledger yet, {one['what']}, {seconds}:", *one["explanation"])


def show_ledger(entries: Sequence[View]) -> None:
    """What was posted, and its sum."""
    prices = column([entry["usd_per_chip_hour"] for entry in entries])
    amounts = column([entry["amount"] for entry in entries])
    named = any(_is_of_vm(entry) for entry in entries)
    what = ("WHAT", "KIND", ">QUANTITY", ">PER HOUR OF ONE") if named else _OF_CHIPS
    table(
        [">NO.", "FROM (UTC)", "TO (UTC)", *what, ">AMOUNT"],
        (
            [
                str(entry["number"]),
                moment(entry["start"]),
                moment(entry["end"]),
                *([entry["what"]] if named else []),
                _kind(entry),
                _quantity(entry, named=named),
                price,
                amount,
            ]
            for entry, price, amount in zip(entries, prices, amounts, strict=True)
        ),
    )
    total = sum((Decimal(entry["amount"]) for entry in entries), Decimal(0))
    echo(
        "", f"{exact(str(total))} in {len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"
    )


_OF_CHIPS = ("KIND", ">CHIP-SECONDS", ">PER CHIP-HOUR")


def _is_of_vm(entry: View) -> bool:
    return bool(entry.get("unit") == "vm_hour")


def _quantity(entry: View, *, named: bool) -> str:
    """Chip-seconds, or seconds of the VM; `named` where that has to be said."""
    if _is_of_vm(entry):
        return f"{entry['vm_seconds']:,} VM-seconds"
    return f"{entry['chip_seconds']:,}{' chip-seconds' if named else ''}"


def _kind(entry: View) -> str:
    corrects = "" if entry["corrects"] is None else f" of {entry['corrects']}"
    return f"{entry['kind']}{corrects}"
