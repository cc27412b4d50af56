"""`commitments`: committed-use discounts, and what each covers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.costs import commitments_recommended
from service.cli.terminal import options
from service.cli.terminal.client import Client, open_client
from service.cli.terminal.errors import Failure
from service.cli.terminal.formatting import (
    NOTHING,
    chip_hours,
    format_count,
    format_exact,
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

View = Mapping[str, Any]

app = typer.Typer(
    help="Manage committed-use discounts.", no_args_is_help=True, rich_markup_mode=None
)

app.command("recommended")(commitments_recommended.recommended)

NONE = "no commitment is recorded; record one with: tpu-steward commitments add NAME ..."

_PATH = "/v1/commitments"
_EVERY_PROJECT = "every project of the billing account"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Which = Annotated[
    str, typer.Argument(callback=options.require_name, metavar="COMMITMENT", help="Name or id.")
]


@app.command("list", cls=ListCommand)
def list_commitments(
    everything: Annotated[
        bool, typer.Option("--all", help="Also withdrawn records; with ids.")
    ] = False,
    json: options.Json = False,
) -> None:
    """List the commitments and their fees, the latest start first."""
    with open_client() as client:
        answer = client.get_all(_PATH, "commitments")
    if json:
        print_json(answer)
        return
    known = answer.value["commitments"]
    if not known:
        print_lines(NONE)
        return
    shown = [record for record in known if everything or record["state"] != "withdrawn"]
    hidden = len(known) - len(shown)
    if shown:
        columns = ["NAME", "STATE", "CHIPS", "REGION", "TERM ENDS", ">RATE", ">FEE"]
        rows = (
            [
                commitment["name"],
                commitment["state"],
                f"{commitment['chips']:,} {commitment['generation']}",
                commitment["region"],
                commitment["ends_at"][:10],
                format_exact(commitment["usd_per_chip_hour"]),
                format_usd(commitment["fee"]),
                *([commitment["id"]] if everything else []),
            ]
            for commitment in shown
        )
        spare = ("ID", "RATE", "REGION")
        print_table([*columns, "ID"] if everything else columns, rows, spare=spare)
        print_lines("")
    running = sum(commitment["state"] == "running" for commitment in shown)
    more = f"; {hidden:,} more withdrawn (--all shows them)" if hidden else ""
    print_lines(f"{format_count(len(shown), 'commitment')}, {running:,} running{more}")


@app.command()
def add(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    name: Annotated[
        str,
        typer.Argument(callback=options.require_name, metavar="NAME", help="Name at Google."),
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
        "labels": options.parse_mapping(label, "--label"),
    }
    body = {key: value for key, value in said.items() if value is not None}
    with open_client() as client:
        answer = client.send_request("POST", _PATH, body=body)
    if json:
        print_json(answer)
    else:
        made = answer.value
        if made["whole_fee"] is None:
            fee = "no rate is known; give yours with --rate"
        else:
            fee = f"{format_exact(made['whole_fee'])} in all"
        print_paragraphs(
            f"{made['name']}: {_describe_chips(made)}",
            f"{_describe_term(made)}, {fee}",
            f"id {made['id']}",
        )


@app.command()
def show(commitment: Which, json: options.Json = False) -> None:
    """Show a commitment and its fee."""
    with open_client() as client:
        answer = client.get(f"{_PATH}/{find_commitment(client, commitment, to_read=True)}")
    if json:
        print_json(answer)
        return
    found = answer.value
    withdrawn = f"{format_time(found['withdrawn_at'])} UTC: {found['reason']}"
    rate = format_exact(found["usd_per_chip_hour"])
    if found["usd_per_chip_hour"] is None:
        rate += ": no list price is known for its start, so it is in no figure"
    else:
        origin = "your contract" if found["rate_origin"] == "contract" else "list price"
        rate += f" a chip-hour ({origin}), used or not"
    print_facts(
        [
            ("Name", found["name"]),
            ("Id", found["id"]),
            ("State", format_term_state(found)),
            ("What", _describe_chips(found)),
            ("Covers", f"project {found['project']}" if found["project"] else _EVERY_PROJECT),
            ("Term", _describe_term(found)),
            ("Rate", rate),
            ("Fee so far", format_exact(found["fee"])),
            ("Whole fee", format_exact(found["whole_fee"])),
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
    commitment: Which,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason: what is wrong with the record.")
    ],
    json: options.Json = False,
) -> None:
    """Withdraw a wrong record, so that it counts in no figure. At Google nothing is cancelled."""
    with open_client() as client:
        found = find_commitment(client, commitment)
        answer = client.send_request("DELETE", f"{_PATH}/{found}", params={"reason": reason})
    if json:
        print_json(answer)
    else:
        print_lines(f"{answer.value['name']} is withdrawn: {answer.value['reason']}")


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
    with open_client() as client:
        answer = client.get(f"{_PATH}/usage", {"window": window, "tz": tz})
        names: dict[str, str] = {}
        if answer.value["unpriced"] and not json:
            known = client.get_all(_PATH, "commitments").value["commitments"]
            names = {commitment["id"]: commitment["name"] for commitment in known}
    if json:
        print_json(answer)
    else:
        _print_usage(answer.value, names)


def find_commitment(client: Client, name_or_id: str, *, to_read: bool = False) -> str:
    """Id of the commitment with a name or an id. Raises Failure for an unknown or ambiguous name.

    With `to_read` a withdrawn commitment is found too, if no other commitment has had its name.
    """
    if _ID.fullmatch(name_or_id):
        return name_or_id
    known = client.get_all(_PATH, "commitments").value["commitments"]
    named = [record for record in known if record["name"] == name_or_id]
    standing = [record for record in named if record["state"] != "withdrawn"]
    meant = standing or (named if to_read else [])
    if len(meant) == 1:
        return str(meant[0]["id"])
    if meant:
        ids = ", ".join(
            f"{record['id']} in {record['region']}, {_describe_term(record)}" for record in meant
        )
        raise Failure(f"{name_or_id!r} is the name of several; give its id: {ids}")
    if named:
        ids = ", ".join(record["id"] for record in named[:3])
        raise Failure(f"every commitment named {name_or_id!r} is withdrawn: {ids}")
    raise Failure(f"no commitment is named {name_or_id!r}; see: tpu-steward commitments list")


def _describe_chips(commitment: View) -> str:
    chips = format_count(commitment["chips"], "chip")
    return f"{chips} of {commitment['generation']} in {commitment['region']}"


def _describe_term(commitment: View) -> str:
    start, end = format_time(commitment["starts_at"]), format_time(commitment["ends_at"])
    return f"{start} to {end} UTC ({commitment['term']})"


def _print_usage(found: View, names: Mapping[str, str]) -> None:
    window = found["window"]
    print_lines(f"{format_time(window['start'])} to {format_time(window['end'])} UTC")
    if found["commitments"]:
        columns = ["COMMITMENT", ">USED", ">COVERAGE", ">FEE", ">UNUSED", ">NET SAVING"]
        rows = (
            [
                commitment["name"],
                _format_percent(commitment["utilisation"]),
                _format_percent(commitment["coverage"]),
                format_usd(commitment["fee"]),
                format_usd(commitment["unused"]),
                format_usd(commitment["net_saving"]),
            ]
            for commitment in found["commitments"]
        )
        print_table(columns, rows)
        print_lines("")
        if found["teams"]:
            by_team = [
                [team["team"] or NOTHING, chip_hours(team["covered_chip_seconds"])]
                + [format_usd(team[name]) for name in ("charged", "amortised")]
                for team in found["teams"]
            ]
            columns = ["TEAM", ">COVERED CHIP-HOURS", ">CHARGED", ">AFTER COMMITMENTS"]
            print_table(columns, by_team)
            print_lines("")
        saving = Decimal(found["net_saving"])
        word, amount = "saved" if saving >= 0 else "lost", format_usd(str(abs(saving)))
        avoided, fees = format_usd(found["total"]["avoided"]), format_usd(found["fee"])
        print_paragraphs(
            f"together they {word} {amount}: {avoided} of charges avoided, {fees} of fees"
        )
        for commitment in found["commitments"]:
            if (lost := -Decimal(commitment["net_saving"])) > 0:
                more = format_usd(str(lost))
                print_paragraphs(
                    f"{commitment['name']} loses money: its fee is {more} more than it avoids"
                )
    else:
        print_lines("no commitment with a known rate is in its term then")
    for unpriced in found["unpriced"]:
        name = names.get(unpriced, unpriced)
        print_paragraphs(f"{name}: no rate is known, so it is in no figure, and not free")


def _format_percent(fraction: str | None) -> str:
    """A fraction in whole percent: `<1%` for a small one above 0, `>99%` for one just below 1."""
    if fraction is None:
        return NOTHING
    value = 100 * Decimal(fraction)
    percent = round(value)
    if not percent and value:
        return "<1%"
    return ">99%" if percent == 100 and value < 100 else f"{percent}%"
