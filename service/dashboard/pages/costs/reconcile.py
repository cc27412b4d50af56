"""The page of bills that were compared with the ledger: the totals, and where the two disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from service.application.reconciliations import Reconciliation
from service.application.services import Services
from service.dashboard.kit.amounts import format_chip_hours
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_duration,
    format_money,
    format_units,
    to_moment,
)
from service.dashboard.kit.visible_text import to_sentence
from service.domain.costs.display_rounding import in_units, places_for, unit_for
from service.domain.money import parse_usd
from service.domain.reconciliation.bill import ApartRows, Bill, BillTally, why_no_commitments
from service.domain.reconciliation.bill_row import CURRENCY, SkipReason
from service.domain.reconciliation.commitments import BilledCommitment
from service.domain.reconciliation.invoice import Invoice
from service.domain.reconciliation.variance import DISAGREEING, Comparison, Seen, Verdict

SHOWN = 100
"""The most comparisons on the page, those with the largest variance first."""

BILLS = 12
"""The most bills that a visitor can choose from."""

COVERED = 12
"""The most nodes of a commitment on the page, those with the most covered hours."""

UNKNOWN = "not known"

VERDICTS: Mapping[Verdict, str] = {
    Verdict.BILL_WITHOUT_NODE: "On the bill, no node of ours",
    Verdict.NODE_WITHOUT_BILL: "A node of ours, not on the bill",
    Verdict.AMOUNT_DIFFERS: "Both know it, the amounts differ",
    Verdict.TOLERATED: "Within the tolerance",
    Verdict.PENDING: "Pending, less than 48 h old",
    Verdict.MATCHED: "Matched",
}
_TONES = {
    Verdict.BILL_WITHOUT_NODE: "trouble",
    Verdict.NODE_WITHOUT_BILL: "trouble",
    Verdict.AMOUNT_DIFFERS: "going",
    Verdict.TOLERATED: "still",
    Verdict.PENDING: "coming",
    Verdict.MATCHED: "up",
}
_SEEN = {
    Seen.OBSERVED: "the inventory saw it",
    Seen.RECORDED: "on record, never seen",
    Seen.ORPHAN: "seen, and no node of ours",
    Seen.NEVER: "never seen",
}


@dataclass(frozen=True, slots=True)
class BillChoice:
    """One bill that a visitor can choose."""

    id: str
    name: str
    at: Moment


@dataclass(frozen=True, slots=True)
class SumRow:
    """The sum of some comparisons, in words; `key` names it in the address."""

    key: str
    name: str
    tone: str
    hours: str
    billed: str
    charged: str
    variance: str


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One comparison in words. `node_id` is empty if there is no node."""

    hour: Moment
    verdict: str
    tone: str
    resource: str
    node_id: str
    what: str
    project: str
    billed: str
    charged: str
    variance: str
    seen: str
    reason: str


@dataclass(frozen=True, slots=True)
class PartRow:
    """Rows of an invoice with the same result, in the currency of the invoice."""

    name: str
    reason: str
    rows: str
    amount: str


@dataclass(frozen=True, slots=True)
class InvoiceRow:
    """An invoice; its parts add up to its amount."""

    name: str
    amount: str
    rows: str
    parts: tuple[PartRow, ...]


@dataclass(frozen=True, slots=True)
class BilledCoveredRow:
    """A node that a commitment covered. `node_id` is empty if there is no node."""

    name: str
    node_id: str
    hours: str
    amortised: str


@dataclass(frozen=True, slots=True)
class BilledCommitmentRow:
    """A commitment in words. Figures that the bill lacks are `not known`."""

    name: str
    story: str
    reasons: tuple[str, ...]
    fee: str
    used: str
    unused: str
    utilisation: str
    coverage: str
    saving: str
    nodes: tuple[BilledCoveredRow, ...]
    left_out: str


@dataclass(frozen=True, slots=True)
class ReconciledBill:
    """The bill that is shown."""

    id: str
    name: str
    start: Moment | None
    end: Moment | None
    rows: str
    apart: str
    machines: str
    variance: str
    percent: str
    more: str
    less: str
    matched: str
    net: str
    verdicts: tuple[SumRow, ...]
    skus: tuple[SumRow, ...]
    projects: tuple[SumRow, ...]
    shown: str
    lines: tuple[ComparisonRow, ...]
    left_out: int
    credits: str
    joined: tuple[str, ...]
    joined_into: str
    invoices: tuple[InvoiceRow, ...]
    commitments: tuple[BilledCommitmentRow, ...]
    commitments_reason: str
    others: str
    """A sentence about usage of commitments by other projects, if the bill has rows of them."""


@dataclass(frozen=True, slots=True)
class ReconcilePage:
    """Everything on the page; `found` is None if no bill was ever sent."""

    as_of: Moment
    choices: tuple[BillChoice, ...]
    found: ReconciledBill | None


def build_reconcile_page(services: Services, bill_id: str = "", verdict: str = "") -> ReconcilePage:
    """The page of one bill, the newest by default. Raises NotFound for an unknown bill."""
    service = services.reconciliations
    outcomes = service.list_newest(BILLS)
    chosen = service.get_outcome(bill_id) if bill_id else next(iter(outcomes), None)
    if chosen and why_no_commitments(chosen.bill):
        chosen = service.get_outcome(chosen.bill.id)  # a list does not read the rows of old bills
    known = verdict in set(Verdict)
    verdicts = (Verdict(verdict),) if known else DISAGREEING
    lines = service.list_largest(chosen.bill.id, verdicts, SHOWN) if chosen else ()
    ids = {comparison.line.node_id for comparison in lines}
    covered = chosen.bill.commitments or () if chosen else ()
    ids |= {node.node_id for commitment in covered for node in commitment.nodes[:COVERED]}
    names = services.costs.find_names(ids - {""})
    shown = [_build_comparison(comparison.line, names) for comparison in lines]
    return ReconcilePage(
        as_of=to_moment(services.health.read_fleet().as_of),
        choices=tuple(
            BillChoice(
                outcome.bill.id, outcome.bill.name or "unnamed", to_moment(outcome.bill.created_at)
            )
            for outcome in outcomes
        ),
        found=_build_bill(
            chosen,
            verdicts,
            shown,
            verdict if known else "",
            tuple(_build_commitment(commitment, names) for commitment in covered),
        )
        if chosen
        else None,
    )


def _build_bill(
    outcome: Reconciliation,
    verdicts: Sequence[Verdict],
    lines: Sequence[ComparisonRow],
    shown: str,
    commitments: tuple[BilledCommitmentRow, ...],
) -> ReconciledBill:
    bill, headline, total = outcome.bill, outcome.headline, outcome.headline.total
    counts, number = bill.counts, sum(headline.verdicts[verdict].lines for verdict in verdicts)
    return ReconciledBill(
        id=bill.id,
        name=bill.name or "unnamed",
        start=None if counts.start is None else to_moment(counts.start),
        end=None if counts.end is None else to_moment(counts.end),
        rows=_describe_rows(outcome),
        apart="; ".join(_describe_excluded(kind, rows) for kind, rows in bill.apart.items()),
        machines=format_money(counts.machine_nanos) if counts.machine_entries else "",
        variance=_format_signed(total.variance),
        percent="" if total.percent is None else f"{total.percent} % of what matched",
        more=_format_signed(total.more),
        less=_format_signed(total.less),
        matched=format_money(total.matched),
        net=format_money(total.net),
        verdicts=tuple(
            _build_sum(verdict, name, headline.verdicts[verdict], _TONES[verdict])
            for verdict, name in VERDICTS.items()
        ),
        skus=tuple(
            _build_sum(
                "", " ".join((*filter(None, (generation, model.replace("_", " "))), sku)), tally
            )
            for (sku, generation, model), tally in headline.skus.items()
        ),
        projects=tuple(_build_sum("", name, tally) for name, tally in headline.projects.items()),
        shown=shown,
        lines=tuple(lines),
        left_out=max(0, number - len(lines)),
        credits=to_sentence(total.explanation) if total.credits else "",
        joined=tuple(
            f"{format_count(other.rows, 'row')} of {other.name or 'a file without a name'},"
            f" of which {other.again:,} are in both and count once"
            for other in bill.joined
        ),
        joined_into=bill.joined_into,
        invoices=tuple(map(_build_invoice, bill.invoices)),
        commitments=commitments,
        commitments_reason=to_sentence(why) if (why := why_no_commitments(bill)) else "",
        others=_describe_others(bill) if commitments else "",
    )


def _describe_others(bill: Bill) -> str:
    parts = [part for invoice in bill.invoices for part in invoice.parts]
    rows = sum(part.rows for part in parts if part.name == SkipReason.OTHER_PROJECT)
    if not rows:
        return ""
    return (
        f"The bill has {format_count(rows, 'row')} of other projects. What these used of a"
        " commitment is not known here, and counts as unused."
    )


def _build_commitment(billed: BilledCommitment, names: Mapping[str, str]) -> BilledCommitmentRow:
    term = format_count(billed.term, "year") if billed.term else "term not known"
    nodes, left = billed.nodes[:COVERED], sum(node.nodes for node in billed.nodes[COVERED:])
    # The used part, the unused part, and the parts of the nodes, rounded so that they add up.
    amounts = [node.amortised for node in billed.nodes]
    used, unused, parts = UNKNOWN, UNKNOWN, [UNKNOWN] * len(amounts)
    if billed.fee is not None and billed.unused is not None and None not in amounts:
        places = places_for(billed.fee)
        known = [amount or 0 for amount in amounts]
        *units, rest = in_units([*known, billed.unused], unit_for(places))
        used, unused = format_units(sum(units), places), format_units(rest, places)
        parts = [format_units(unit, places) for unit in units]
    committed, covered, eligible = (
        UNKNOWN if chip_seconds is None else format_chip_hours(chip_seconds)
        for chip_seconds in (billed.committed, billed.covered, billed.eligible)
    )
    story = f"Committed chip-hours: {committed}. Covered: {covered}, of {eligible} that could be."
    if billed.list_cost:
        story += f" At list price the covered hours cost {format_money(billed.list_cost)}."
    return BilledCommitmentRow(
        name=f"{billed.generation} in {billed.region}, {term}, {billed.month}",
        story=story,
        reasons=tuple(map(to_sentence, billed.reasons)),
        fee=UNKNOWN if billed.fee is None else format_money(billed.fee),
        used=used,
        unused=unused,
        utilisation=_format_percent(billed.utilisation),
        coverage=_format_percent(billed.coverage),
        saving=UNKNOWN if billed.saving is None else _format_signed(billed.saving),
        nodes=tuple(
            BilledCoveredRow(
                name=node.resource.rstrip("/").rpartition("/")[2]
                or names.get(node.node_id, "")
                or (f"{node.nodes:,} other nodes" if node.nodes > 1 else "no resource named"),
                node_id=node.node_id,
                hours=format_chip_hours(node.covered),
                amortised=part,
            )
            for node, part in zip(nodes, parts, strict=False)
        ),
        left_out=format_count(left, "node") if left else "",
    )


def _format_percent(said: str | None) -> str:
    """A percentage such as `88.8889`, to one decimal: `88.9 %`."""
    return UNKNOWN if said is None else f"{Decimal(said):.1f} %"


def _describe_excluded(kind: str, rows: ApartRows) -> str:
    """The amount of one kind of excluded rows, in dollars; in their currency if the rows have no
    conversion rate."""
    amount = format_money(rows.cost)
    if rows.local and not rows.cost:
        amount = ", ".join(_format_local(text, currency) for currency, text in rows.local.items())
    reason = f" ({rows.reason})" if rows.reason else ""
    return f"{kind.replace('_', ' ')} {amount}{reason}"


def _format_local(text: str, currency: str) -> str:
    """An amount in any currency: `EUR 8.83`."""
    amount = format_money(parse_usd(text))
    return amount if currency == CURRENCY else f"{currency} {amount.replace('$', '')}"


def _build_invoice(invoice: Invoice) -> InvoiceRow:
    who = f", {invoice.account}" if invoice.account else ""
    return InvoiceRow(
        name=f"{invoice.month or 'no month named'}{who}, {invoice.currency}",
        amount=_format_local(invoice.total.local_total, invoice.currency),
        rows=f"{invoice.total.rows:,}",
        parts=tuple(
            PartRow(
                VERDICTS[Verdict(part.name)]
                if part.name in set(Verdict)
                else part.name.replace("_", " "),
                to_sentence(part.reason) if part.reason else "",
                f"{part.rows:,}",
                _format_local(part.local_total, invoice.currency),
            )
            for part in invoice.parts
        ),
    )


def _describe_rows(outcome: Reconciliation) -> str:
    bill = outcome.bill
    ignored = bill.counts.other_projects + bill.counts.not_tpu
    return (
        f"{format_count(bill.counts.rows, 'row')}, {bill.duplicates:,} duplicates and"
        f" {ignored:,} of other resources"
    )


def _build_sum(key: str, name: str, tally: BillTally, tone: str = "") -> SumRow:
    return SumRow(
        key=key,
        name=name,
        tone=tone,
        hours=f"{tally.lines:,}",
        billed=format_money(tally.billed),
        charged=format_money(tally.charged),
        variance=_format_signed(tally.variance),
    )


def _build_comparison(line: Comparison, names: Mapping[str, str]) -> ComparisonRow:
    """A comparison in words. Our names stand in for those that the bill lacks."""
    words = " ".join(part for part in (line.generation, line.model.replace("_", " ")) if part)
    seconds = line.billed_chip_seconds
    apart = None if seconds is None else seconds - line.charged_chip_seconds
    longer = (
        f"; {format_duration(abs(apart))} of chip time {'more' if apart > 0 else 'less'}"
        if apart
        else ""
    )
    return ComparisonRow(
        hour=to_moment(line.hour),
        verdict=VERDICTS[line.verdict],
        tone=_TONES[line.verdict],
        resource=line.resource.rstrip("/").rpartition("/")[2]
        or names.get(line.node_id, line.node_id)
        or line.reservation,
        node_id=line.node_id,
        what=line.description or words,
        project=line.project,
        billed=format_money(line.billed),
        charged=format_money(line.charged),
        variance=_format_signed(line.variance),
        seen=_SEEN[line.seen],
        reason=to_sentence(line.reason + longer) if line.reason else "",
    )


def _format_signed(nanos: int) -> str:
    """An amount with its sign, for differences."""
    return f"+{format_money(nanos)}" if nanos > 0 else format_money(nanos)
