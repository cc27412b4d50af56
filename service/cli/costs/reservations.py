"""`reservations`: calendar-mode reservations, with the cost of their used and unused time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.costs.ledger import show_ledger
from service.cli.terminal import options
from service.cli.terminal.client import Client, open_client
from service.cli.terminal.errors import Failure
from service.cli.terminal.formatting import (
    NOTHING,
    format_age,
    format_count,
    format_exact,
    format_span,
    format_term_state,
    format_time,
    format_usd,
)
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.render import (
    print_facts,
    print_json,
    print_lines,
    print_paragraphs,
    print_table,
)
from service.domain.clock import parse_rfc3339

View = Mapping[str, Any]

app = typer.Typer(
    help="Manage calendar-mode reservations.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NONE = "no reservations; record one with: tpu-steward reservations add NAME ..."
NOTHING_POSTED = "nothing is posted yet; what no node uses is posted at each full hour"

_PATH = "/v1/reservations"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Which = Annotated[
    str, typer.Argument(callback=options.require_name, metavar="RESERVATION", help="Name or id.")
]


@app.command("list", cls=ListCommand)
def list_reservations(
    everything: Annotated[
        bool, typer.Option("--all", help="Also withdrawn records; with ids.")
    ] = False,
    json: options.Json = False,
) -> None:
    """List the reservations and their cost, the latest start first."""
    with open_client() as client:
        answer = client.get_all(_PATH, "reservations")
    if json:
        print_json(answer)
        return
    known = answer.value["reservations"]
    if not known:
        print_lines(NONE)
        return
    shown = [
        reservation for reservation in known if everything or reservation["state"] != "withdrawn"
    ]
    hidden = len(known) - len(shown)
    if shown:
        _print_reservations(shown, ids=everything)
        print_lines("")
    running = [reservation for reservation in shown if reservation["state"] == "running"]
    rates = [
        reservation["chips"] * Decimal(reservation["usd_per_chip_hour"])
        for reservation in running
        if reservation["usd_per_chip_hour"] is not None
    ]
    burn = format_usd(str(sum(rates, Decimal(0))))  # used or not
    unpriced = len(running) - len(rates)
    note = f", and {unpriced:,} without a known price" if unpriced else ""
    more = f"; {hidden:,} more withdrawn (--all shows them)" if hidden else ""
    number = format_count(len(shown), "reservation")
    print_lines(f"{number}, {len(running):,} running at {burn} an hour{note}{more}")


@app.command()
def add(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    name: Annotated[
        str,
        typer.Argument(callback=options.require_name, metavar="NAME", help="Name at Google."),
    ],
    zone: Annotated[str, typer.Option("--zone", metavar="ZONE", help="Zone.")],
    generation: Annotated[str, typer.Option(metavar="NAME", help="Generation, such as v5e.")],
    chips: Annotated[int, typer.Option(metavar="N", min=1, help="Number of chips.")],
    start: Annotated[
        str,
        typer.Option(metavar="TIME", help="Start: a timestamp or a date."),
    ],
    end: Annotated[str, typer.Option(metavar="TIME", help="End: a timestamp or a date.")],
    project: Annotated[str | None, typer.Option(metavar="ID", help="Project.")] = None,
    owner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Owner, charged for unused time.")
    ] = None,
    team: Annotated[str | None, typer.Option(metavar="NAME", help="Team.")] = None,
    label: options.Labels = None,
    json: options.Json = False,
) -> None:
    """Record a reservation."""
    said = {
        "name": name,
        "project": project,
        "zone": zone,
        "generation": generation,
        "chips": chips,
        "starts_at": start,
        "ends_at": end,
        "owner": owner,
        "team": team,
        "labels": options.parse_mapping(label, "--label"),
    }
    body = {key: value for key, value in said.items() if value is not None}
    with open_client() as client:
        answer = client.send_request("POST", _PATH, body=body)
    if json:
        print_json(answer)
    else:
        made = answer.value
        whole = (
            "with unknown price"
            if made["whole"] is None
            else f"{format_exact(made['whole'])} in all"
        )
        print_paragraphs(
            f"{made['name']}: {_describe_chips(made)}, {_describe_period(made)}, {whole}",
            f"id {made['id']}",
        )


@app.command()
def show(reservation: Which, json: options.Json = False) -> None:
    """Show a reservation and its cost."""
    with open_client() as client:
        answer = client.get(f"{_PATH}/{find_reservation(client, reservation, to_read=True)}")
    if json:
        print_json(answer)
        return
    found = answer.value
    price = format_exact(found["usd_per_chip_hour"])
    if found["usd_per_chip_hour"] is not None:
        price = f"{price} a chip-hour, used or not"
    used = str(Decimal(found["cost"]) - Decimal(found["unused"]))
    used_seconds = found["chip_seconds"] - found["unused_chip_seconds"]
    unpriced = f"{format_age(found['unpriced_seconds'])} with unknown price, in no figure"
    withdrawn = f"{format_time(found['withdrawn_at'])} UTC: {found['reason']}"
    print_facts(
        [
            ("Name", found["name"]),
            ("Id", found["id"]),
            ("State", format_term_state(found)),
            ("What", f"{_describe_chips(found)}, project {found['project']}"),
            ("Period", _describe_period(found)),
            ("Price", "" if found["state"] == "withdrawn" else price),
            ("Cost so far", format_exact(found["cost"])),
            ("Used by nodes", _format_share(found, used_seconds, used)),
            ("Unused", _format_share(found, found["unused_chip_seconds"], found["unused"])),
            ("At its end", format_exact(found["whole"])),
            ("Unpriced", unpriced if found["unpriced_seconds"] else ""),
            ("Owner", found["owner"]),
            ("Team", found["team"]),
            ("Labels", ", ".join(f"{key}={value}" for key, value in found["labels"].items())),
            ("Recorded", f"{format_time(found['recorded_at'])} UTC by {found['recorded_by']}"),
            ("Withdrawn", "" if found["withdrawn_at"] is None else withdrawn),
            ("As of", f"{format_time(found['as_of'])} UTC"),
        ]
    )


@app.command()
def withdraw(
    reservation: Which,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason: what is wrong with the record.")
    ],
    json: options.Json = False,
) -> None:
    """Withdraw a wrong record. Its charges are credited; nothing is cancelled at Google."""
    with open_client() as client:
        found = find_reservation(client, reservation)
        answer = client.send_request("DELETE", f"{_PATH}/{found}", params={"reason": reason})
    if json:
        print_json(answer)
    else:
        print_paragraphs(
            f"{answer.value['name']} is withdrawn: {answer.value['reason']}",
            "its charges are credited when its ledger is next posted",
        )


@app.command()
def ledger(reservation: Which, json: options.Json = False) -> None:
    """List the ledger lines of unused time."""
    with open_client() as client:
        found = find_reservation(client, reservation, to_read=True)
        answer = client.get_all(f"{_PATH}/{found}/ledger", "entries")
    if json:
        print_json(answer)
    elif answer.value["entries"]:
        show_ledger(answer.value["entries"])
    else:
        print_lines(NOTHING_POSTED)


def find_reservation(client: Client, name_or_id: str, *, to_read: bool = False) -> str:
    """Id of the reservation with a name or an id. Raises Failure for an unknown or ambiguous name.

    With `to_read` a withdrawn reservation is found too, if no other reservation has had its name.
    """
    if _ID.fullmatch(name_or_id):
        return name_or_id
    known = client.get_all(_PATH, "reservations").value["reservations"]
    named = [reservation for reservation in known if reservation["name"] == name_or_id]
    standing = [reservation for reservation in named if reservation["state"] != "withdrawn"]
    meant = standing or (named if to_read else [])
    if len(meant) == 1:
        return str(meant[0]["id"])
    if meant:
        ids = ", ".join(
            f"{reservation['id']} in {reservation['zone']}, {_describe_period(reservation)}"
            for reservation in meant
        )
        raise Failure(f"{name_or_id!r} is the name of several; give its id: {ids}")
    if named:
        ids = ", ".join(reservation["id"] for reservation in named[:3])
        raise Failure(f"every reservation named {name_or_id!r} is withdrawn: {ids}")
    raise Failure(f"no reservation is named {name_or_id!r}; see: tpu-steward reservations list")


def _print_reservations(reservations: Sequence[View], *, ids: bool) -> None:
    columns = [
        *("NAME", "STATE", ">CHIPS", "OF", "ZONE", "FROM (UTC)", "UNTIL (UTC)"),
        *(">PER CHIP-HOUR", ">COST", ">UNUSED", ">AT ITS END", "TEAM"),
    ]
    rows = (
        [
            reservation["name"],
            reservation["state"],
            f"{reservation['chips']:,}",
            reservation["generation"],
            reservation["zone"],
            format_time(reservation["starts_at"]),
            format_time(reservation["ends_at"]),
            format_exact(reservation["usd_per_chip_hour"])
            if reservation["state"] != "withdrawn"
            else NOTHING,
            format_usd(reservation["cost"]),
            format_usd(reservation["unused"]),
            format_usd(reservation["whole"]),
            reservation["team"] or NOTHING,
            *([reservation["id"]] if ids else []),
        ]
        for reservation in reservations
    )
    spare = ("ID", "FROM (UTC)", "PER CHIP-HOUR", "TEAM", "AT ITS END", "ZONE", "OF", "UNTIL (UTC)")
    print_table([*columns, "ID"] if ids else columns, rows, spare=spare)


def _describe_chips(record: View) -> str:
    return f"{format_count(record['chips'], 'chip')} of {record['generation']} in {record['zone']}"


def _describe_period(record: View) -> str:
    lasts = format_span(parse_rfc3339(record["ends_at"]) - parse_rfc3339(record["starts_at"]))
    return f"{format_time(record['starts_at'])} to {format_time(record['ends_at'])} UTC ({lasts})"


def _format_share(record: View, chip_seconds: int, amount: str) -> str:
    """An amount, and the share of `chip_seconds` in the time so far: `<1%` for a small share above
    0, `>99%` for one just below all of it."""
    whole = record["chip_seconds"]
    if not whole:
        return format_exact(amount)
    percent = str(round(100 * Decimal(chip_seconds) / whole))
    if percent == "0" and chip_seconds:
        percent = "<1"
    if percent == "100" and chip_seconds < whole:
        percent = ">99"
    return f"{format_exact(amount)}, {percent}%"
