"""`commitments`: committed-use discounts, and what each covers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli import commitments_recommended
from service.cli.terminal import options
from service.cli.terminal.client import Client, connected
from service.cli.terminal.failure import Failure
from service.cli.terminal.formatting import NOTHING, age, chip_hours, counted, exact, moment, money
from service.cli.terminal.render import Cell, as_json, cleaned, echo, facts, table
from service.domain.clock import parse_rfc3339

View = Mapping[str, Any]

app = typer.Typer(
    help="Manage committed-use discounts.", no_args_is_help=True, rich_markup_mode=None
)

app.command("recommended")(commitments_recommended.recommended)

NONE = "no commitment is recorded; record one with: tpu-steward commitments add NAME ..."

_PATH = "/v1/commitments"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Which = Annotated[
    str, typer.Argument(callback=options.named, metavar="COMMITMENT", help="Name or id.")
]


@app.command("list")
def list_commitments(
    everything: Annotated[
        bool, typer.Option("--all", help="Also withdrawn records; with ids.")
    ] = False,
    json: options.Json = False,
) -> None:
    """List the commitments and their fees, the latest start first."""
    with connected() as client:
        answer = client.pages(_PATH, "commitments")
    if json:
        as_json(answer)
    else:
        _show_list(answer.value["commitments"], everything=everything)


@app.command()
def add(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    name: Annotated[
        str,
        typer.Argument(callback=options.named, metavar="NAME", help="Name at Google."),
    ],
    region: Annotated[
        str,
        typer.Option("--region", metavar="REGION", help="Region. All of its zones are covered."),
    ],
    generation: Annotated[str, typer.Option(metavar="NAME", help="Generation, such as v5e.")],
    chips: Annotated[int, typer.Option(metavar="N", min=1, help="Number of chips.")],
    term: Annotated[str, typer.Option(metavar="1y|3y", help="Term: 1y or 3y.")],
    start: Annotated[
        str, typer.Option(metavar="TIME", help="Start of the term: a timestamp, or a date in UTC.")
    ],
    rate: Annotated[
        str | None,
        typer.Option(metavar="USD", help="Dollars a chip-hour; the list price by default."),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Project that pays and is covered. Default: all."),
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Owner.")] = None,
    team: Annotated[str | None, typer.Option(metavar="NAME", help="Team.")] = None,
    label: options.Labels = None,
    json: options.Json = False,
) -> None:
    """Record a committed-use discount."""
    said = {
        "name": name,
        "project": project,
        "region": region,
        "generation": generation,
        "chips": chips,
        "term": term,
        "starts_at": start,
        "usd_per_chip_hour": rate,
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
        echo(f"{one['name']}: {_what(one)}", f"{_period(one)}, {_whole(one)}", f"id {one['id']}")


@app.command()
def show(commitment: Which, json: options.Json = False) -> None:
    """Show a commitment and its fee."""
    with connected() as client:
        answer = client.get(f"{_PATH}/{find_commitment(client, commitment, to_read=True)}")
    if json:
        as_json(answer)
    else:
        facts(_facts(answer.value))


@app.command()
def withdraw(
    commitment: Which,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason: what is wrong with the record.")
    ],
    json: options.Json = False,
) -> None:
    """Withdraw a wrong record, so that it counts in no figure. At Google nothing is cancelled."""
    with connected() as client:
        found = find_commitment(client, commitment)
        answer = client.ask("DELETE", f"{_PATH}/{found}", params={"reason": reason})
    if json:
        as_json(answer)
    else:
        one = answer.value
        echo(f"{one['name']} is withdrawn: {one['reason']}")


@app.command()
def usage(
    window: Annotated[
        str,
        typer.Option(
            "--window", metavar="WINDOW", help="today, 7d, 24h, mtd, or two timestamps: A,B."
        ),
    ] = "mtd",
    tz: Annotated[str, typer.Option(metavar="ZONE", help="IANA time zone of the calendar.")] = (
        "UTC"
    ),
    json: options.Json = False,
) -> None:
    """Show coverage, unused fees, and costs after commitments."""
    with connected() as client:
        answer = client.get(f"{_PATH}/usage", {"window": window, "tz": tz})
        names = {} if json or not answer.value["unpriced"] else _names(client)
    if json:
        as_json(answer)
    else:
        _show_usage(answer.value, names)


def find_commitment(client: Client, name_or_id: str, *, to_read: bool = False) -> str:
    """The id of the one that is meant. Raises Failure when that is none, or not clear.

    What is only to be read may have been withdrawn, where but one ever had that name.
    """
    if _ID.fullmatch(name_or_id):
        return name_or_id
    known = client.pages(_PATH, "commitments").value["commitments"]
    named = [one for one in known if one["name"] == name_or_id]
    standing = [one for one in named if one["state"] != "withdrawn"]
    meant = standing or (named if to_read else [])
    if len(meant) == 1:
        return str(meant[0]["id"])
    if meant:
        ids = ", ".join(f"{one['id']} in {one['region']}, {_period(one)}" for one in meant)
        raise Failure(f"{name_or_id!r} is the name of several; give its id: {ids}")
    if named:
        ids = ", ".join(one["id"] for one in named[:3])
        raise Failure(f"every commitment named {name_or_id!r} is withdrawn: {ids}")
    raise Failure(f"no commitment is named {name_or_id!r}; see: tpu-steward commitments list")


def _names(client: Client) -> Mapping[str, str]:
    known = client.pages(_PATH, "commitments").value["commitments"]
    return {one["id"]: one["name"] for one in known}


def _show_list(known: Sequence[View], *, everything: bool) -> None:
    shown = [one for one in known if everything or one["state"] != "withdrawn"]
    hidden = len(known) - len(shown)
    if not known:
        echo(NONE)
        return
    if shown:
        columns = ["NAME", "STATE", "CHIPS", "REGION", "TERM ENDS", ">RATE", ">FEE"]
        rows = (_row(one) + ([one["id"]] if everything else []) for one in shown)
        table([*columns, "ID"] if everything else columns, rows)
        echo("")
    running = sum(one["state"] == "running" for one in shown)
    more = f"; {hidden:,} more withdrawn (--all shows them)" if hidden else ""
    echo(f"{counted(len(shown), 'commitment')}, {running:,} running{more}")


def _row(one: View) -> list[Cell]:
    return [
        one["name"],
        one["state"],
        f"{one['chips']:,} {one['generation']}",
        one["region"],
        one["ends_at"][:10],
        exact(one["usd_per_chip_hour"]),
        money(one["fee"]),
    ]


def _facts(one: View) -> Iterator[tuple[str, Cell]]:
    yield "Name", one["name"]
    yield "Id", one["id"]
    yield "State", _state(one)
    yield "What", _what(one)
    yield "Covers", _scope(one)
    yield "Term", _period(one)
    yield "Rate", _rate(one)
    yield "Fee so far", exact(one["fee"])
    yield "Whole fee", exact(one["whole_fee"])
    yield "Owner", one["owner"]
    yield "Team", one["team"]
    yield "Labels", ", ".join(f"{key}={value}" for key, value in one["labels"].items())
    yield "Recorded", f"{moment(one['recorded_at'])} UTC by {one['recorded_by']}"
    if one["withdrawn_at"] is not None:
        yield "Withdrawn", f"{moment(one['withdrawn_at'])} UTC: {one['reason']}"
    yield "As of", f"{moment(one['as_of'])} UTC"


def _what(one: View) -> str:
    return f"{counted(one['chips'], 'chip')} of {one['generation']} in {one['region']}"


def _scope(one: View) -> str:
    return f"project {one['project']}" if one["project"] else "every project of the billing account"


def _period(one: View) -> str:
    return f"{moment(one['starts_at'])} to {moment(one['ends_at'])} UTC ({one['term']})"


def _whole(one: View) -> str:
    if one["whole_fee"] is None:
        return "no rate is known; give yours with --rate"
    return f"{exact(one['whole_fee'])} in all"


def _rate(one: View) -> str:
    rate = exact(one["usd_per_chip_hour"])
    if one["usd_per_chip_hour"] is None:
        return f"{rate}: no list price is known for its start, so it is in no figure"
    origin = "your contract" if one["rate_origin"] == "contract" else "list price"
    return f"{rate} a chip-hour ({origin}), used or not"


def _state(one: View) -> str:
    now = parse_rfc3339(one["as_of"])
    match one["state"]:
        case "planned":
            return f"planned, begins in {age(parse_rfc3339(one['starts_at']) - now)}"
        case "running":
            return f"running, ends in {age(parse_rfc3339(one['ends_at']) - now)}"
        case other:
            return cleaned(str(other))


def _show_usage(found: View, names: Mapping[str, str]) -> None:
    window = found["window"]
    echo(f"{moment(window['start'])} to {moment(window['end'])} UTC")
    if found["commitments"]:
        columns = ["COMMITMENT", ">USED", ">COVERAGE", ">FEE", ">UNUSED", ">NET SAVING"]
        table(columns, map(_standing, found["commitments"]))
        echo("")
        _show_teams(found)
        echo(_worth(found), *_losses(found["commitments"]))
    else:
        echo("no commitment with a known rate is in its term then")
    for one in found["unpriced"]:
        echo(f"{names.get(one, one)}: no rate is known, so it is in no figure, and not free")


def _show_teams(found: View) -> None:
    if not found["teams"]:
        return
    rows = [
        [one["team"] or NOTHING, chip_hours(one["covered_chip_seconds"])]
        + [money(one[name]) for name in ("charged", "amortised")]
        for one in found["teams"]
    ]
    table(["TEAM", ">COVERED CHIP-HOURS", ">CHARGED", ">AFTER COMMITMENTS"], rows)
    echo("")


def _standing(one: View) -> list[Cell]:
    return [
        one["name"],
        _percent(one["utilisation"]),
        _percent(one["coverage"]),
        money(one["fee"]),
        money(one["unused"]),
        money(one["net_saving"]),
    ]


def _percent(fraction: str | None) -> str:
    """A fraction in whole percent; a small one is not called nothing, nor one that lacks little
    all of it."""
    if fraction is None:
        return NOTHING
    value = 100 * Decimal(fraction)
    percent = round(value)
    if not percent and value:
        return "<1%"
    return ">99%" if percent == 100 and value < 100 else f"{percent}%"


def _worth(found: View) -> str:
    saving, avoided = Decimal(found["net_saving"]), found["total"]["avoided"]
    word = "saved" if saving >= 0 else "lost"
    return (
        f"together they {word} {money(str(abs(saving)))}: {money(avoided)} of charges avoided,"
        f" {money(found['fee'])} of fees"
    )


def _losses(standings: Sequence[View]) -> Iterator[str]:
    for one in standings:
        lost = -Decimal(one["net_saving"])
        if lost > 0:
            yield f"{one['name']} loses money: its fee is {money(str(lost))} more than it avoids"
