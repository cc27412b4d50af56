"""`costs reconcile`: Google's bill compared with the ledger, and their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from service.cli.terminal import options
from service.cli.terminal.client import Client, open_client
from service.cli.terminal.formatting import (
    NOTHING,
    format_count,
    format_parts,
    format_time,
    format_usd,
)
from service.cli.terminal.render import (
    can_ask,
    print_facts,
    print_json,
    print_lines,
    print_paragraphs,
    print_table,
)
from service.cli.terminal.resolve import names_of

SHOWN = 20
"""Largest number of differences to print. --json and the dashboard have all of them."""

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
    with open_client() as client, file.open("rb") as content:
        answer = client.send_file("/v1/reconciliations", content, asked)
        if json:
            print_json(answer)
            return
        _print_bill(answer.value)
        _print_differences(client, answer.value)


def reconciliations(
    delete: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Delete this one, for instance of a wrong file."),
    ] = None,
    json: options.Json = False,
) -> None:
    """List the reconciled bills, or delete one.

    The earlier files that had joined it are deleted as well. Send those that are right again."""
    with open_client() as client:
        if delete is not None:
            _delete_bill(client, delete, json=json)
            return
        answer = client.get_all("/v1/reconciliations", "reconciliations")
    if json:
        print_json(answer)
        return
    found = answer.value["reconciliations"]
    if not found:
        print_lines(
            "no bill has been reconciled yet; reconcile one with: tpu-steward costs reconcile FILE"
        )
        return
    whole = [bill for bill in found if not bill["joined_into"]]
    print_table(
        ["ID", "SENT (UTC)", ">ROWS", ">VARIANCE", "FILE"],
        (
            [
                bill["id"],
                bill["created_at"][:10],
                f"{bill['rows']['read']:,}",
                format_usd(bill["total"]["variance"]),
                bill["name"] or NOTHING,
            ]
            for bill in whole
        ),
        spare=("ROWS", "SENT (UTC)"),
    )
    if joined := len(found) - len(whole):
        print_lines(f"and {format_count(joined, 'earlier file')} that these were joined with")


def _delete_bill(client: Client, bill_id: str, *, json: bool) -> None:
    path = f"/v1/reconciliations/{quote(bill_id, safe='')}"
    if not json and can_ask():
        bill = client.get(path).value
        earlier = [other["name"] or other["id"] for other in bill["joined"]]
        also = f", with the earlier files {', '.join(earlier)}" if earlier else ""
        if not typer.confirm(f"Delete the reconciliation of {bill['name'] or bill_id}{also}?"):
            raise typer.Exit(code=1)
    answer = client.send_request("DELETE", path)
    if json:
        print_json(answer)
        return
    for removed in answer.value["removed"]:
        print_lines(f"deleted {removed['id']}, {removed['name'] or 'a file without a name'}")


def _print_bill(found: Mapping[str, Any]) -> None:
    """Print the numbers of rows, the sums of each verdict, and the variance of the bill."""
    rows, total = found["rows"], found["total"]
    known = " (sent before; nothing has changed)" if found["known"] else ""
    print_paragraphs(
        f"{format_count(rows['read'], 'row')}{known}: {rows['duplicates']:,} duplicates,"
        f" {rows['other_projects']:,} of other projects, {rows['not_tpu']:,} of other things",
        f"from {format_time(found['start'])} to {format_time(found['end'])} UTC",
        *_describe_joined(found),
        "",
    )
    variances = _format_variances(found)
    print_table(
        ["RESULT", ">HOURS", ">BILLED", ">CHARGED", ">VARIANCE"],
        (
            [
                _WORDS.get(name, name),
                f"{verdict['lines']:,}",
                format_usd(verdict["billed"]),
                format_usd(verdict["charged"]),
                variances[name],
            ]
            for name, verdict in found["verdicts"].items()
            if verdict["lines"]
        ),
    )
    for kind, apart in found["apart"].items():
        amount = format_usd(apart["cost"])
        if apart.get("local") and not apart["cost"].strip("0."):  # rows without a conversion rate
            amounts = (_format_local(text, currency) for currency, text in apart["local"].items())
            amount = ", ".join(amounts)
        line = f"apart from that, {kind}: {format_count(apart['rows'], 'row')}, {amount}"
        print_paragraphs(line, *([f"  {apart['reason']}"] if apart.get("reason") else []))
    _print_credits(total)
    _print_invoices(found.get("invoices", []))
    _print_commitments(found)
    if found["machines"]["entries"]:
        left = format_usd(found["machines"]["charged"])
        print_paragraphs(
            f"left out: {left} of users' own VMs beside TPU Nodes, which are not billed as TPUs"
        )
    percent = total["variance_percent"]
    share = f", {percent} % of what matched" if percent is not None else ""
    more, less = format_parts(total["variance"], [total["more"], total["less"]])
    print_paragraphs(
        "",
        f"the bill differs from the ledger by {format_usd(total['variance'])}{share}:",
        f"{more} more, {less} less",
        f"id {found['id']}",
    )


def _format_local(amount: str, currency: str) -> str:
    """Amount in any currency: `EUR 8.83`."""
    if currency == "USD":
        return format_usd(amount)
    return f"{currency} {format_usd(amount).replace('$', '')}"


def _print_credits(total: Mapping[str, Any]) -> None:
    """Print Google's credits by kind, and whether they explain the variance."""
    kinds = total.get("credits_by_kind", {})
    if not kinds:
        return
    print_lines("")
    print_table(
        ["CREDITS", ">AMOUNT"], ([kind, format_usd(amount)] for kind, amount in kinds.items())
    )
    explained, lines = total["explained"], total["explanation"].partition(":")[0]
    print_paragraphs(
        f"billed {format_usd(total['billed'])}, to be paid {format_usd(total['net'])},"
        f" charged {format_usd(total['charged'])}",
        lines if explained else f"not explained: {lines}",
    )


def _print_invoices(invoices: Sequence[Mapping[str, Any]]) -> None:
    """Print each invoice with its parts, in its own currency. The parts add up to its total."""
    if not invoices:
        return
    print_lines("")
    print_table(
        ["INVOICE", "RESULT", ">ROWS", ">AMOUNT"],
        (
            [
                month if part is invoice["total"] else "",
                _WORDS.get(part["name"], part["name"].replace("_", " ")),
                f"{part['rows']:,}",
                _format_local(part["local_total"], invoice["currency"]),
            ]
            for invoice in invoices
            for month in [invoice["month"] or "not said"]
            for part in (invoice["total"], *invoice["parts"])
        ),
    )


def _print_commitments(found: Mapping[str, Any]) -> None:
    """Print fee, coverage and saving of each commitment, with the reasons for unknown values."""
    if why := found.get("commitments_reason"):
        print_lines("")
        print_facts([("commitments", f"not shown: {why}")])
    several = found.get("commitments", [])
    of_invoices = [part for invoice in found.get("invoices", []) for part in invoice["parts"]]
    others = sum(part["rows"] for part in of_invoices if part["name"] == "other_project")
    for commitment in several:
        years = (
            format_count(commitment["term_years"], "year")
            if commitment["term_years"]
            else "term not known"
        )
        fee, unused = _format_known(commitment["fee"]), _format_known(commitment["unused"])
        month = commitment["month"]
        print_lines("")
        print_facts(
            [
                (
                    "commitment",
                    f"{commitment['generation']} in {commitment['region']}, {years}, {month}",
                ),
                ("fee", f"{fee}; unused part {unused}"),
                ("used", _format_share(commitment["utilisation_percent"], "the committed hours")),
                ("covers", _format_share(commitment["coverage_percent"], "the on-demand hours")),
                ("saves", _format_known(commitment["saving"], " against list price")),
                *(("because", reason) for reason in commitment["reasons"]),
            ]
        )
    if several and others:
        rows = format_count(others, "row")
        print_lines("")
        print_paragraphs(
            f"{rows} of other projects: what these used of a commitment counts as unused here"
        )


def _format_known(amount: str | None, of: str = "") -> str:
    """Amount in dollars. `not known` where the bill does not have it: that is not `unpriced`."""
    return "not known" if amount is None else f"{format_usd(amount)}{of}"


def _format_share(percent: str | None, of: str) -> str:
    """`88.8889` as `88.9% of` something."""
    return "not known" if percent is None else f"{Decimal(percent):.1f}% of {of}"


def _describe_joined(found: Mapping[str, Any]) -> list[str]:
    """Other files of the same months that the bill is joined with, one line each."""
    lines = [
        f"with {format_count(other['rows'], 'row')} of {other['name'] or other['id']}, sent before;"
        f" {other['again']:,} are in both and count once"
        for other in found.get("joined", [])
    ]
    if found.get("alone"):
        lines.append("alone (--alone): not joined with other files of its months")
    if found.get("joined_into"):
        lines.append(f"a later file was joined with it: see {found['joined_into']}")
    return lines


def _format_variances(found: Mapping[str, Any]) -> Mapping[str, str]:
    """Variance of each verdict. All but that of `pending` add up to the variance of the bill."""
    of = {name: verdict["variance"] for name, verdict in found["verdicts"].items()}
    counted_in = [name for name in of if name != "pending"]
    shown = format_parts(found["total"]["variance"], [of[name] for name in counted_in])
    return {name: format_usd(of[name]) for name in of} | dict(zip(counted_in, shown, strict=True))


def _print_differences(client: Client, found: Mapping[str, Any]) -> None:
    number = sum(found["verdicts"][name]["lines"] for name in DISAGREEING)
    if not number:
        return
    asked = {"verdict": list(DISAGREEING), "page_size": SHOWN}
    answer = client.get(f"/v1/reconciliations/{found['id']}/lines", asked)
    lines = answer.value["lines"]
    names = names_of(client, {line["node_id"] for line in lines if _is_unnamed(line)})
    reasons = {_format_reason(line): None for line in lines}
    numbers = {reason: str(number) for number, reason in enumerate(reasons, start=1)}
    print_lines("")
    print_table(
        ["HOUR (UTC)", "RESOURCE", "PROJECT", ">BILLED", ">CHARGED", ">WHY"],
        (
            [
                format_time(line["hour"]),
                names.get(line["node_id"], line["node_id"])
                if _is_unnamed(line)
                else line["resource"].rpartition("/")[2] or line["reservation"] or NOTHING,
                line["project"],
                format_usd(line["billed"]),
                format_usd(line["charged"]),
                numbers[_format_reason(line)],
            ]
            for line in lines
        ),
    )
    print_lines("")
    print_table([">WHY", ""], ([number, reason] for reason, number in numbers.items()))
    if number > SHOWN:
        print_paragraphs(
            f"and {number - SHOWN:,} more; the page Reconcile of the dashboard has the largest"
        )


def _format_reason(line: Mapping[str, Any]) -> str:
    return f"{_WORDS.get(line['verdict'], line['verdict'])}: {line['reason']}"


def _is_unnamed(line: Mapping[str, Any]) -> bool:
    """Whether the line is of a node that the bill does not name."""
    return bool(line["node_id"]) and not line["resource"]
