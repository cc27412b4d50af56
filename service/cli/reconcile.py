"""`costs reconcile`: Google's bill held against our ledger, and where they disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from service.cli.jobs_of_node import is_at_terminal
from service.cli.terminal import options
from service.cli.terminal.client import Client, connected
from service.cli.terminal.formatting import NOTHING, counted, moment, money, parts
from service.cli.terminal.render import as_json, echo, facts, table
from service.cli.terminal.resolve import names_of

SHOWN = 20
"""Disagreements on the screen; --json and the dashboard have them all."""

DISAGREEING = ("bill_without_node", "node_without_bill", "amount_differs")
_WORDS = {
    "matched": "matched",
    "tolerated": "within the tolerance",
    "pending": "pending, under 48 h old",
    "bill_without_node": "on the bill, no node",
    "node_without_bill": "a node, not on the bill",
    "amount_differs": "amounts differ",
}


def reconcile(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            readable=True,
            help="The detailed billing export as CSV or JSON lines, or a FOCUS export.",
        ),
    ],
    tolerance: Annotated[
        str | None,
        typer.Option(metavar="USD", help="Tolerance for an hour of a node. Default 0.01."),
    ] = None,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone", help="Exclude this file from earlier and later files of its months."
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Reconcile Google's bill with the ledger. A later file of a month joins those sent before.

    The same file twice changes nothing."""
    asked = {"name": file.name[:200], "tolerance": tolerance, "alone": "true" if alone else None}
    with connected() as client, file.open("rb") as content:
        answer = client.send("/v1/reconciliations", content, asked)
        if json:
            as_json(answer)
            return
        _show(answer.value)
        _show_lines(client, answer.value)


def reconciliations(
    delete: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Delete this one, for instance of a wrong file."),
    ] = None,
    json: options.Json = False,
) -> None:
    """List the reconciled bills, or delete one.

    The earlier files that had joined it are deleted as well. Send those that are right again."""
    with connected() as client:
        if delete is not None:
            _delete(client, delete, json=json)
            return
        answer = client.pages("/v1/reconciliations", "reconciliations")
    if json:
        as_json(answer)
        return
    found = answer.value["reconciliations"]
    if not found:
        echo(
            "no bill has been reconciled yet; reconcile one with: tpu-steward costs reconcile FILE"
        )
        return
    whole = [one for one in found if not one["joined_into"]]
    table(
        ["ID", "SENT (UTC)", ">ROWS", ">VARIANCE", "FILE"],
        (
            [
                one["id"],
                one["created_at"][:10],
                f"{one['rows']['read']:,}",
                money(one["total"]["variance"]),
                one["name"] or NOTHING,
            ]
            for one in whole
        ),
    )
    if joined := len(found) - len(whole):
        echo(f"and {counted(joined, 'earlier file')} that these were joined with")


def _delete(client: Client, bill_id: str, *, json: bool) -> None:
    path = f"/v1/reconciliations/{quote(bill_id, safe='')}"
    if not json and is_at_terminal():
        one = client.get(path).value
        earlier = [other["name"] or other["id"] for other in one["joined"]]
        also = f", with the earlier files {', '.join(earlier)}" if earlier else ""
        if not typer.confirm(f"Delete the reconciliation of {one['name'] or bill_id}{also}?"):
            raise typer.Exit(code=1)
    answer = client.ask("DELETE", path)
    if json:
        as_json(answer)
        return
    for one in answer.value["removed"]:
        echo(f"deleted {one['id']}, {one['name'] or 'a file without a name'}")


def _show(found: Mapping[str, Any]) -> None:
    """What became of the rows, each verdict, and the headline."""
    rows, total = found["rows"], found["total"]
    known = " (sent before; nothing has changed)" if found["known"] else ""
    echo(
        f"{counted(rows['read'], 'row')}{known}: {rows['duplicates']:,} duplicates,"
        f" {rows['other_projects']:,} of other projects, {rows['not_tpu']:,} of other things",
        f"from {moment(found['start'])} to {moment(found['end'])} UTC",
        *_joined(found),
        "",
    )
    variances = _variances(found)
    table(
        ["RESULT", ">HOURS", ">BILLED", ">CHARGED", ">VARIANCE"],
        (
            [
                _WORDS.get(name, name),
                f"{one['lines']:,}",
                money(one["billed"]),
                money(one["charged"]),
                variances[name],
            ]
            for name, one in found["verdicts"].items()
            if one["lines"]
        ),
    )
    for kind, one in found["apart"].items():
        told = f"apart from that, {kind}: {counted(one['rows'], 'row')}, {_amount(one)}"
        echo(told, *([f"  {one['reason']}"] if one.get("reason") else []))
    _show_credits(total)
    _show_invoices(found.get("invoices", []))
    _show_commitments(found)
    machines = found["machines"]
    if machines["entries"]:
        left = money(machines["charged"])
        echo(f"left out: {left} of users' own VMs beside TPU Nodes, which are not billed as TPUs")
    percent = total["variance_percent"]
    share = f", {percent} % of what matched" if percent is not None else ""
    more, less = parts(total["variance"], [total["more"], total["less"]])
    echo(
        "",
        f"the bill differs from the ledger by {money(total['variance'])}{share}:",
        f"{more} more, {less} less",
        f"id {found['id']}",
    )


def _amount(apart: Mapping[str, Any]) -> str:
    """Dollars, or the currency of rows that have no conversion rate."""
    local = apart.get("local", {})
    if apart["cost"].strip("0.") or not local:
        return money(apart["cost"])
    return ", ".join(_local(amount, currency) for currency, amount in local.items())


def _local(amount: str, currency: str) -> str:
    """An amount of any currency: `EUR 8.83`."""
    if currency == "USD":
        return money(amount)
    return f"{currency} {money(amount).replace('$', '')}"


def _show_credits(total: Mapping[str, Any]) -> None:
    """What Google takes off, by kind, and whether it accounts for what differs."""
    kinds = total.get("credits_by_kind", {})
    if not kinds:
        return
    echo("")
    table(["CREDITS", ">AMOUNT"], ([kind, money(amount)] for kind, amount in kinds.items()))
    explained, lines = total["explained"], total["explanation"].partition(":")[0]
    echo(
        f"billed {money(total['billed'])}, to be paid {money(total['net'])},"
        f" charged {money(total['charged'])}",
        lines if explained else f"not explained: {lines}",
    )


def _show_invoices(invoices: Sequence[Mapping[str, Any]]) -> None:
    """Each invoice with its parts, in its own currency; they add up to its total."""
    if not invoices:
        return
    echo("")
    table(
        ["INVOICE", "RESULT", ">ROWS", ">AMOUNT"],
        (
            [
                month if part is one["total"] else "",
                _WORDS.get(part["name"], part["name"].replace("_", " ")),
                f"{part['rows']:,}",
                _local(part["local_total"], one["currency"]),
            ]
            for one in invoices
            for month in [one["month"] or "not said"]
            for part in (one["total"], *one["parts"])
        ),
    )


def _show_commitments(found: Mapping[str, Any]) -> None:
    """What committed-use discounts cost, covered and saved; and why something is not known."""
    if why := found.get("commitments_reason"):
        echo("")
        facts([("commitments", f"not shown: {why}")])
    several = found.get("commitments", [])
    of_invoices = [part for one in found.get("invoices", []) for part in one["parts"]]
    others = sum(part["rows"] for part in of_invoices if part["name"] == "other_project")
    for one in several:
        years = counted(one["term_years"], "year") if one["term_years"] else "term not known"
        echo("")
        facts(
            [
                ("commitment", f"{one['generation']} in {one['region']}, {years}, {one['month']}"),
                ("fee", f"{_known(one['fee'])}; unused part {_known(one['unused'])}"),
                ("used", _share(one["utilisation_percent"], "the committed hours")),
                ("covers", _share(one["coverage_percent"], "the on-demand hours")),
                ("saves", _known(one["saving"], " against list price")),
                *(("because", reason) for reason in one["reasons"]),
            ]
        )
    if several and others:
        echo(
            "",
            f"{counted(others, 'row')} of other projects: what these used of a commitment counts",
            "as unused here",
        )


def _known(amount: str | None, of: str = "") -> str:
    """An amount of money; what the bill does not tell is not known, and not unpriced."""
    return "not known" if amount is None else f"{money(amount)}{of}"


def _share(percent: str | None, of: str) -> str:
    """`88.8889` as 88.9% of something."""
    return "not known" if percent is None else f"{Decimal(percent):.1f}% of {of}"


def _joined(found: Mapping[str, Any]) -> list[str]:
    """The other files of the same months."""
    lines = [
        f"with {counted(one['rows'], 'row')} of {one['name'] or one['id']}, sent before;"
        f" {one['again']:,} are in both and count once"
        for one in found.get("joined", [])
    ]
    if found.get("alone"):
        lines.append("alone (--alone): not joined with other files of its months")
    if found.get("joined_into"):
        lines.append(f"a later file was joined with it: see {found['joined_into']}")
    return lines


def _variances(found: Mapping[str, Any]) -> Mapping[str, str]:
    """The variance of each verdict; what is pending is in none but its own."""
    of = {name: one["variance"] for name, one in found["verdicts"].items()}
    counted_in = [name for name in of if name != "pending"]
    shown = parts(found["total"]["variance"], [of[name] for name in counted_in])
    return {name: money(of[name]) for name in of} | dict(zip(counted_in, shown, strict=True))


def _show_lines(client: Client, found: Mapping[str, Any]) -> None:
    number = sum(found["verdicts"][name]["lines"] for name in DISAGREEING)
    if not number:
        return
    asked = {"verdict": list(DISAGREEING), "page_size": SHOWN}
    answer = client.get(f"/v1/reconciliations/{found['id']}/lines", asked)
    lines = answer.value["lines"]
    names = names_of(client, {one["node_id"] for one in lines if _is_unnamed(one)})
    reasons = {_why(line): None for line in lines}
    numbers = {reason: str(number) for number, reason in enumerate(reasons, start=1)}
    echo("")
    table(
        ["HOUR (UTC)", "RESOURCE", "PROJECT", ">BILLED", ">CHARGED", ">WHY"],
        (
            [
                moment(line["hour"]),
                _resource(line, names),
                line["project"],
                money(line["billed"]),
                money(line["charged"]),
                numbers[_why(line)],
            ]
            for line in lines
        ),
    )
    echo("")
    table([">WHY", ""], ([number, reason] for reason, number in numbers.items()))
    if number > SHOWN:
        echo(f"and {number - SHOWN:,} more; the page Reconcile of the dashboard has the largest")


def _why(line: Mapping[str, Any]) -> str:
    return f"{_WORDS.get(line['verdict'], line['verdict'])}: {line['reason']}"


def _is_unnamed(line: Mapping[str, Any]) -> bool:
    """Whether it is a node that the bill has no name for."""
    return bool(line["node_id"]) and not line["resource"]


def _resource(line: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """What the bill calls it, or else what we do."""
    if _is_unnamed(line):
        return names.get(line["node_id"], line["node_id"])
    return line["resource"].rpartition("/")[2] or line["reservation"] or NOTHING
