"""The page of one line of the ledger, explained down to the price list."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.costs.explanations import Explanation
from service.application.services import Services
from service.dashboard.kit.amounts import ExactAmount, amount_of
from service.dashboard.kit.figures import Moment, format_count, format_exact, to_moment
from service.dashboard.kit.links import node_address, reservation_address
from service.dashboard.kit.visible_text import to_sentence
from service.dashboard.kit.worked_sum import subject_of
from service.dashboard.pages.costs.ledger import read_lines, read_unused_lines
from service.dashboard.pages.costs.prices import address_of_price
from service.domain.billing_period import period_of
from service.domain.metering.attribution import ALWAYS
from service.store.usage_versions import UsageVersion


@dataclass(frozen=True, slots=True)
class BeliefRow:
    """One version of the recorded interval, in words: its start and end, the evidence for each, and
    why its seconds are free, if they are."""

    recorded: Moment
    begins: Moment
    begins_latest: Moment | None
    begins_by: str
    ends: Moment | None
    ends_earliest: Moment | None
    ends_by: str
    free: str


@dataclass(frozen=True, slots=True)
class LinePage:
    """Everything on the page. `home` is the page of the node or reservation that the line belongs
    to; `corrects` and `corrected_by` are numbers of other lines; `notes` explain what is not plain
    in the sum. `bought` is the page of the reservation that a node ran in."""

    home: str
    name: str
    number: int
    kind: str
    amount: ExactAmount
    sum: str
    notes: tuple[str, ...]
    bought: str
    start: Moment
    end: Moment
    posted: Moment
    price: str
    price_source: str
    price_address: str
    listed: str
    evidence: tuple[str, ...]
    beliefs: tuple[BeliefRow, ...]
    charged: str
    charged_since: Moment | None
    labels: tuple[tuple[str, str], ...]
    job: str
    hardware: str
    corrects: int | None
    corrected_by: tuple[int, ...]
    month: str
    other_month: bool
    json: str


def build_line_page(services: Services, node_id: str, number: int) -> LinePage:
    """The page of a line of a node, or of the unused part of a reservation. Raises NotFound."""
    found = services.explanations.explain_line(node_id, number)
    line, price, usage = found.line, found.price, found.usage
    if found.reservation is not None and usage.is_purchase:
        home, name = reservation_address(found.reservation.id), found.reservation.name
        lines = read_unused_lines(services, line.node_id)
    else:
        home, name = node_address(line.node_id), services.nodes.get(line.node_id).name
        lines = read_lines(services, line.node_id)
    billed = period_of(line.charge_start if line.period is None else line.period)
    bought = ""
    if found.reservation is not None and not usage.is_purchase:
        bought = reservation_address(found.reservation.id)
    hardware = usage.accelerator_type
    if usage.is_purchase:
        hardware = (
            f"{format_count(usage.chips, 'chip')} of {usage.sku.generation} that were reserved"
        )
    return LinePage(
        home=home,
        name=name,
        number=number,
        kind=f"{line.kind} of {subject_of(line)}" if line.is_vm else line.kind,
        amount=amount_of(line.amount_nanos),
        sum=to_sentence(found.sum),
        notes=tuple(map(to_sentence, found.notes)),
        bought=bought,
        start=to_moment(line.charge_start),
        end=to_moment(line.charge_end),
        posted=to_moment(line.posted_at),
        price=format_exact(line.price_nanos),
        price_source=to_sentence(found.source),
        price_address="" if price is None else address_of_price(price, line.charge_start),
        listed=_describe_list_price(found),
        evidence=tuple(map(to_sentence, found.evidence)),
        beliefs=tuple(map(_build_belief_row, found.beliefs)),
        charged=to_sentence(found.charged),
        charged_since=None if found.whose.since == ALWAYS else to_moment(found.whose.since),
        labels=tuple(sorted(found.whose.labels.items())),
        job=found.whose.job,
        hardware=hardware,
        corrects=line.corrects_id,
        corrected_by=tuple(other.id for other in lines if other.corrects_id == number),
        month=billed.name,
        other_month=line.period is not None,
        json=f"/v1{home}/ledger/{number}",
    )


def _describe_list_price(found: Explanation) -> str:
    """The on-demand cost of the same seconds at list price. Empty if no list price is known, or if
    the line is charged at it."""
    line = found.line
    if line.list_nanos is None or line.list_price_nanos in (None, line.price_nanos):
        return ""
    return (
        f"On demand at list price the same seconds are {format_exact(line.list_nanos)}, at"
        f" {format_exact(line.list_price_nanos or 0)} {'an hour' if line.is_vm else 'a chip-hour'}."
    )


def _build_belief_row(version: UsageVersion) -> BeliefRow:
    open_start = version.start_at < version.start_hi
    end, earliest = version.end_at, version.end_lo
    return BeliefRow(
        recorded=to_moment(version.recorded_at),
        begins=to_moment(version.start_at),
        begins_latest=to_moment(version.start_hi) if open_start else None,
        begins_by=version.start_evidence,
        ends=None if end is None else to_moment(end),
        ends_earliest=None if earliest is None or earliest == end else to_moment(earliest),
        ends_by=version.end_evidence or "",
        free=version.free,
    )
