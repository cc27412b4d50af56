"""`reservations`: what was bought by the calendar, and what it comes to, used and unused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.node_output import show_ledger
from service.cli.terminal import options
from service.cli.terminal.client import Client, connected
from service.cli.terminal.failure import Failure
from service.cli.terminal.formatting import NOTHING, age, counted, exact, moment, money, span
from service.cli.terminal.render import Cell, as_json, cleaned, echo, facts, table
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
    str, typer.Argument(callback=options.named, metavar="RESERVATION", help="Name or id.")
]


@app.command("list")
def list_reservations(
    everything: Annotated[
        bool, typer.Option("--all", help="Also withdrawn records; with ids.")
    ] = False,
    json: options.Json = False,
) -> None:
    """List the reservations and their cost, the latest start first."""
    with connected() as client:
        answer = client.pages(_PATH, "reservations")
    if json:
        as_json(answer)
    else:
        _show_list(answer.value["reservations"], everything=everything)


@app.command()
def add(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    name: Annotated[
        str,
        typer.Argument(callback=options.named, metavar="NAME", help="Name at Google."),
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
        "labels": options.mapping(label, "--label"),
    }
    body = {key: value for key, value in said.items() if value is not None}
    with connected() as client:
        answer = client.ask("POST", _PATH, body=body)
    if json:
        as_json(answer)
    else:
        one = answer.value
        echo(f"{one['name']}: {_what(one)}, {_period(one)}, {_whole(one)}", f"id {one['id']}")


@app.command()
def show(reservation: Which, json: options.Json = False) -> None:
    """Show a reservation and its cost."""
    with connected() as client:
        answer = client.get(f"{_PATH}/{find_reservation(client, reservation, to_read=True)}")
    if json:
        as_json(answer)
    else:
        facts(_facts(answer.value))


@app.command()
def withdraw(
    reservation: Which,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason: what is wrong with the record.")
    ],
    json: options.Json = False,
) -> None:
    """Withdraw a wrong record. Its charges are credited; nothing is cancelled at Google."""
    with connected() as client:
        found = find_reservation(client, reservation)
        answer = client.ask("DELETE", f"{_PATH}/{found}", params={"reason": reason})
    if json:
        as_json(answer)
    else:
        one = answer.value
        echo(
            f"{one['name']} is withdrawn: {one['reason']}",
            "its charges are credited when its ledger is next posted",
        )


@app.command()
def ledger(reservation: Which, json: options.Json = False) -> None:
    """List the ledger lines of unused time."""
    with connected() as client:
        found = find_reservation(client, reservation, to_read=True)
        answer = client.pages(f"{_PATH}/{found}/ledger", "entries")
    if json:
        as_json(answer)
    elif answer.value["entries"]:
        show_ledger(answer.value["entries"])
    else:
        echo(NOTHING_POSTED)


def find_reservation(client: Client, name_or_id: str, *, to_read: bool = False) -> str:
    """The id of the one that is meant. Raises Failure when that is none, or not clear.

    What is only to be read may have been withdrawn, where but one ever had that name.
    """
    if _ID.fullmatch(name_or_id):
        return name_or_id
    known = client.pages(_PATH, "reservations").value["reservations"]
    named = [one for one in known if one["name"] == name_or_id]
    standing = [one for one in named if one["state"] != "withdrawn"]
    meant = standing or (named if to_read else [])
    if len(meant) == 1:
        return str(meant[0]["id"])
    if meant:
        ids = ", ".join(f"{one['id']} in {one['zone']}, {_period(one)}" for one in meant)
        raise Failure(f"{name_or_id!r} is the name of several; give its id: {ids}")
    if named:
        ids = ", ".join(one["id"] for one in named[:3])
        raise Failure(f"every reservation named {name_or_id!r} is withdrawn: {ids}")
    raise Failure(f"no reservation is named {name_or_id!r}; see: tpu-steward reservations list")


def _show_list(known: Sequence[View], *, everything: bool) -> None:
    shown = [one for one in known if everything or one["state"] != "withdrawn"]
    hidden = len(known) - len(shown)
    if not known:
        echo(NONE)
        return
    if shown:
        columns = [
            *("NAME", "STATE", ">CHIPS", "OF", "ZONE", "FROM (UTC)", "UNTIL (UTC)"),
            *(">PER CHIP-HOUR", ">COST", ">UNUSED", ">AT ITS END", "TEAM"),
        ]
        rows = (_row(one) + ([one["id"]] if everything else []) for one in shown)
        table([*columns, "ID"] if everything else columns, rows)
        echo("")
    echo(_summary(shown) + (f"; {hidden:,} more withdrawn (--all shows them)" if hidden else ""))


def _row(one: View) -> list[Cell]:
    return [
        one["name"],
        one["state"],
        f"{one['chips']:,}",
        one["generation"],
        one["zone"],
        moment(one["starts_at"]),
        moment(one["ends_at"]),
        exact(one["usd_per_chip_hour"]) if one["state"] != "withdrawn" else NOTHING,
        money(one["cost"]),
        money(one["unused"]),
        money(one["whole"]),
        one["team"] or NOTHING,
    ]


def _summary(shown: Sequence[View]) -> str:
    """How many there are, and what those that run now cost an hour, used or not."""
    running = [one for one in shown if one["state"] == "running"]
    rates = [
        one["chips"] * Decimal(one["usd_per_chip_hour"])
        for one in running
        if one["usd_per_chip_hour"] is not None
    ]
    unpriced = len(running) - len(rates)
    note = f", and {unpriced:,} without a known price" if unpriced else ""
    burn = money(str(sum(rates, Decimal(0))))
    return f"{counted(len(shown), 'reservation')}, {len(running):,} running at {burn} an hour{note}"


def _facts(one: View) -> Iterator[tuple[str, Cell]]:
    yield "Name", one["name"]
    yield "Id", one["id"]
    yield "State", _state(one)
    yield "What", f"{_what(one)}, project {one['project']}"
    yield "Period", _period(one)
    yield "Price", _price(one)
    yield "Cost so far", exact(one["cost"])
    yield "Used by nodes", _share(one, one["chip_seconds"] - one["unused_chip_seconds"], _used(one))
    yield "Unused", _share(one, one["unused_chip_seconds"], one["unused"])
    yield "At its end", exact(one["whole"])
    if one["unpriced_seconds"]:
        yield "Unpriced", f"{age(one['unpriced_seconds'])} with unknown price, in no figure"
    yield "Owner", one["owner"]
    yield "Team", one["team"]
    yield "Labels", ", ".join(f"{key}={value}" for key, value in one["labels"].items())
    yield "Recorded", f"{moment(one['recorded_at'])} UTC by {one['recorded_by']}"
    if one["withdrawn_at"] is not None:
        yield "Withdrawn", f"{moment(one['withdrawn_at'])} UTC: {one['reason']}"
    yield "As of", f"{moment(one['as_of'])} UTC"


def _what(one: View) -> str:
    return f"{counted(one['chips'], 'chip')} of {one['generation']} in {one['zone']}"


def _period(one: View) -> str:
    lasts = span(parse_rfc3339(one["ends_at"]) - parse_rfc3339(one["starts_at"]))
    return f"{moment(one['starts_at'])} to {moment(one['ends_at'])} UTC ({lasts})"


def _whole(one: View) -> str:
    return "with unknown price" if one["whole"] is None else f"{exact(one['whole'])} in all"


def _price(one: View) -> str:
    if one["state"] == "withdrawn":
        return ""
    price = exact(one["usd_per_chip_hour"])
    return price if one["usd_per_chip_hour"] is None else f"{price} a chip-hour, used or not"


def _state(one: View) -> str:
    now = parse_rfc3339(one["as_of"])
    match one["state"]:
        case "planned":
            return f"planned, begins in {age(parse_rfc3339(one['starts_at']) - now)}"
        case "running":
            return f"running, ends in {age(parse_rfc3339(one['ends_at']) - now)}"
        case other:
            return cleaned(str(other))


def _used(one: View) -> str:
    return str(Decimal(one["cost"]) - Decimal(one["unused"]))


def _share(one: View, chip_seconds: int, amount: str) -> str:
    """An amount, and what part of the time so far that is; a small part is not called nothing, nor
    one that lacks little all of it."""
    whole = one["chip_seconds"]
    if not whole:
        return exact(amount)
    percent = str(round(100 * Decimal(chip_seconds) / whole))
    if percent == "0" and chip_seconds:
        percent = "<1"
    if percent == "100" and chip_seconds < whole:
        percent = ">99"
    return f"{exact(amount)}, {percent}%"
