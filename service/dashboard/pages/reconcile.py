"""The page of bills that were held against the ledger: a headline, and where they disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from service.application.reconciliations import Reconciliation
from service.application.services import Services
from service.dashboard.kit.amounts import chip_hours
from service.dashboard.kit.figures import Moment, count, duration, moment, money, spelled
from service.dashboard.pages.node import sentence
from service.domain.costs.display_rounding import in_units, places_for, unit_for
from service.domain.money import parse_usd
from service.domain.reconciliation.bill import ApartRows, Bill, BillTally, why_no_commitments
from service.domain.reconciliation.bill_row import CURRENCY, SkipReason
from service.domain.reconciliation.commitments import BilledCommitment
from service.domain.reconciliation.invoice import Invoice
from service.domain.reconciliation.variance import DISAGREEING, Comparison, Seen, Verdict

SHOWN = 100
"""Comparisons on the page, those that make the most of the variance first."""

BILLS = 12
"""Bills that can be chosen."""

COVERED = 12
"""Nodes of a commitment on the page, those with the most covered hours."""

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
    """One bill that can be looked at."""

    id: str
    name: str
    at: Moment


@dataclass(frozen=True, slots=True)
class SumRow:
    """Comparisons that have something in common, in words; `key` names it in the address."""

    key: str
    name: str
    tone: str
    hours: str
    billed: str
    charged: str
    variance: str


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One comparison in words. `node_id` is empty where there is no node to look at."""

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
    """Rows of an invoice that one thing became of, in the currency of the invoice."""

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
    """A node that a commitment covered. `node_id` is empty where there is no node to look at."""

    name: str
    node_id: str
    hours: str
    amortised: str


@dataclass(frozen=True, slots=True)
class BilledCommitmentRow:
    """A commitment in words; what the bill does not tell is `not known`."""

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
    """The bill that is looked at."""

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
    """What is not known of commitments, as the bill has rows of other projects; else empty."""


@dataclass(frozen=True, slots=True)
class ReconcilePage:
    """Everything on the page; `found` is None where no bill was ever sent."""

    as_of: Moment
    choices: tuple[BillChoice, ...]
    found: ReconciledBill | None


def reconcile_of(services: Services, bill_id: str = "", verdict: str = "") -> ReconcilePage:
    """The page of one bill, the newest by default. Raises NotFound for one that is not there."""
    service = services.reconciliations
    outcomes = service.all(BILLS)
    chosen = service.outcome(bill_id) if bill_id else next(iter(outcomes), None)
    if chosen and why_no_commitments(chosen.bill):
        chosen = service.outcome(chosen.bill.id)  # a list does not read the rows of old bills
    known = verdict in set(Verdict)
    verdicts = (Verdict(verdict),) if known else DISAGREEING
    lines = service.largest(chosen.bill.id, verdicts, SHOWN) if chosen else ()
    ids = {one.line.node_id for one in lines}
    covered = chosen.bill.commitments or () if chosen else ()
    ids |= {node.node_id for one in covered for node in one.nodes[:COVERED]}
    names = services.costs.names(ids - {""})
    shown = [_line(one.line, names) for one in lines]
    return ReconcilePage(
        as_of=moment(services.health.fleet().as_of),
        choices=tuple(
            BillChoice(one.bill.id, one.bill.name or "unnamed", moment(one.bill.created_at))
            for one in outcomes
        ),
        found=_found(
            chosen,
            verdicts,
            shown,
            verdict if known else "",
            tuple(_commitment(one, names) for one in covered),
        )
        if chosen
        else None,
    )


def _found(
    outcome: Reconciliation,
    verdicts: Sequence[Verdict],
    lines: Sequence[ComparisonRow],
    shown: str,
    commitments: tuple[BilledCommitmentRow, ...],
) -> ReconciledBill:
    bill, total = outcome.bill, outcome.headline.total
    counts, number = bill.counts, sum(outcome.headline.verdicts[one].lines for one in verdicts)
    return ReconciledBill(
        id=bill.id,
        name=bill.name or "unnamed",
        start=None if counts.start is None else moment(counts.start),
        end=None if counts.end is None else moment(counts.end),
        rows=_rows(outcome),
        apart="; ".join(_apart(kind, one) for kind, one in bill.apart.items()),
        machines=money(counts.machine_nanos) if counts.machine_entries else "",
        variance=_signed(total.variance),
        percent="" if total.percent is None else f"{total.percent} % of what matched",
        more=_signed(total.more),
        less=_signed(total.less),
        matched=money(total.matched),
        net=money(total.net),
        verdicts=tuple(
            _sum(verdict, name, outcome.headline.verdicts[verdict], _TONES[verdict])
            for verdict, name in VERDICTS.items()
        ),
        skus=tuple(
            _sum("", " ".join((*filter(None, (key[1], key[2].replace("_", " "))), key[0])), one)
            for key, one in outcome.headline.skus.items()
        ),
        projects=tuple(_sum("", key, one) for key, one in outcome.headline.projects.items()),
        shown=shown,
        lines=tuple(lines),
        left_out=max(0, number - len(lines)),
        credits=sentence(total.explanation) if total.credits else "",
        joined=tuple(
            f"{count(one.rows, 'row')} of {one.name or 'a file without a name'}, of which"
            f" {one.again:,} are in both and count once"
            for one in bill.joined
        ),
        joined_into=bill.joined_into,
        invoices=tuple(map(_invoice, bill.invoices)),
        commitments=commitments,
        commitments_reason=sentence(why) if (why := why_no_commitments(bill)) else "",
        others=_others(bill) if commitments else "",
    )


def _others(bill: Bill) -> str:
    parts = [part for invoice in bill.invoices for part in invoice.parts]
    rows = sum(part.rows for part in parts if part.name == SkipReason.OTHER_PROJECT)
    if not rows:
        return ""
    return (
        f"The bill has {count(rows, 'row')} of other projects. What these used of a commitment is"
        " not known here, and counts as unused."
    )


def _commitment(one: BilledCommitment, names: Mapping[str, str]) -> BilledCommitmentRow:
    nodes, term = one.nodes[:COVERED], count(one.term, "year") if one.term else "term not known"
    left, shown = sum(node.nodes for node in one.nodes[COVERED:]), _parts_of_fee(one)
    return BilledCommitmentRow(
        name=f"{one.generation} in {one.region}, {term}, {one.month}",
        story=_story(one),
        reasons=tuple(map(sentence, one.reasons)),
        fee=_or_unknown(one.fee),
        used=shown[0],
        unused=shown[1],
        utilisation=_percent(one.utilisation),
        coverage=_percent(one.coverage),
        saving=UNKNOWN if one.saving is None else _signed(one.saving),
        nodes=tuple(
            BilledCoveredRow(
                name=node.resource.rstrip("/").rpartition("/")[2]
                or names.get(node.node_id, "")
                or (f"{node.nodes:,} other nodes" if node.nodes > 1 else "no resource named"),
                node_id=node.node_id,
                hours=chip_hours(node.covered),
                amortised=part,
            )
            for node, part in zip(nodes, shown[2:], strict=False)
        ),
        left_out=count(left, "node") if left else "",
    )


def _parts_of_fee(one: BilledCommitment) -> list[str]:
    """The used part, the unused one, and those of the nodes, so that what is shown adds up."""
    amounts = [node.amortised for node in one.nodes]
    if one.fee is None or one.unused is None or None in amounts:
        return [UNKNOWN] * (2 + len(amounts))
    places = places_for(one.fee)
    known = [amount or 0 for amount in amounts]
    *nodes, unused = in_units([*known, one.unused], unit_for(places))
    return [spelled(units, places) for units in (sum(nodes), unused, *nodes)]


def _story(one: BilledCommitment) -> str:
    """The hours in one sentence."""
    committed = UNKNOWN if one.committed is None else chip_hours(one.committed)
    covered = UNKNOWN if one.covered is None else chip_hours(one.covered)
    eligible = UNKNOWN if one.eligible is None else chip_hours(one.eligible)
    at_list = ""
    if one.list_cost:
        at_list = f" At list price the covered hours cost {money(one.list_cost)}."
    return (
        f"Committed chip-hours: {committed}. Covered: {covered}, of {eligible} that could be."
        f"{at_list}"
    )


def _or_unknown(nanos: int | None) -> str:
    return UNKNOWN if nanos is None else money(nanos)


def _percent(said: str | None) -> str:
    """`88.8889` as 88.9 %."""
    return UNKNOWN if said is None else f"{Decimal(said):.1f} %"


def _apart(kind: str, one: ApartRows) -> str:
    """What was set apart, in dollars, or in the currency of rows that have no conversion rate."""
    amount = money(one.cost)
    if one.local and not one.cost:
        amount = ", ".join(_local(text, currency) for currency, text in one.local.items())
    reason = f" ({one.reason})" if one.reason else ""
    return f"{kind.replace('_', ' ')} {amount}{reason}"


def _local(text: str, currency: str) -> str:
    """An amount in any currency: `EUR 8.83`."""
    amount = money(parse_usd(text))
    return amount if currency == CURRENCY else f"{currency} {amount.replace('$', '')}"


def _invoice(one: Invoice) -> InvoiceRow:
    who = f", {one.account}" if one.account else ""
    return InvoiceRow(
        name=f"{one.month or 'no month named'}{who}, {one.currency}",
        amount=_local(one.total.local_total, one.currency),
        rows=f"{one.total.rows:,}",
        parts=tuple(
            PartRow(
                VERDICTS[Verdict(part.name)]
                if part.name in set(Verdict)
                else part.name.replace("_", " "),
                sentence(part.reason) if part.reason else "",
                f"{part.rows:,}",
                _local(part.local_total, one.currency),
            )
            for part in one.parts
        ),
    )


def _rows(outcome: Reconciliation) -> str:
    bill = outcome.bill
    ignored = bill.counts.other_projects + bill.counts.not_tpu
    return (
        f"{count(bill.counts.rows, 'row')}, {bill.duplicates:,} duplicates and"
        f" {ignored:,} of other resources"
    )


def _sum(key: str, name: str, tally: BillTally, tone: str = "") -> SumRow:
    return SumRow(
        key=key,
        name=name,
        tone=tone,
        hours=f"{tally.lines:,}",
        billed=money(tally.billed),
        charged=money(tally.charged),
        variance=_signed(tally.variance),
    )


def _line(line: Comparison, names: Mapping[str, str]) -> ComparisonRow:
    """A comparison; what the bill has no name for is called as we do."""
    words = " ".join(one for one in (line.generation, line.model.replace("_", " ")) if one)
    seconds = line.billed_chip_seconds
    apart = None if seconds is None else seconds - line.charged_chip_seconds
    longer = (
        f"; {duration(abs(apart))} of chip time {'more' if apart > 0 else 'less'}" if apart else ""
    )
    return ComparisonRow(
        hour=moment(line.hour),
        verdict=VERDICTS[line.verdict],
        tone=_TONES[line.verdict],
        resource=line.resource.rstrip("/").rpartition("/")[2]
        or names.get(line.node_id, line.node_id)
        or line.reservation,
        node_id=line.node_id,
        what=line.description or words,
        project=line.project,
        billed=money(line.billed),
        charged=money(line.charged),
        variance=_signed(line.variance),
        seen=_SEEN[line.seen],
        reason=sentence(line.reason + longer) if line.reason else "",
    )


def _signed(nanos: int) -> str:
    """An amount with its sign, as differences are told."""
    return f"+{money(nanos)}" if nanos > 0 else money(nanos)
