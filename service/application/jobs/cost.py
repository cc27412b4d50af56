"""The cost of jobs and their attempts: the meters of the ledger, cut by what the workers
reported."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.jobs.job import Attempt, Job
from service.domain.jobs.log import estimated_cost
from service.domain.jobs.phases import (
    PhaseCost,
    PhasePeriod,
    charged_to,
    list_claims,
    list_periods,
    lost_seconds,
    price_phases,
    seconds_without_charge,
    unpriced_seconds,
)
from service.domain.metering.line_items import make_meters
from service.domain.metering.meter import Meter
from service.domain.pricing.price_book import PriceBook
from service.store.unit import Unit


@dataclass(frozen=True, slots=True)
class JobCost:
    """Nano-dollars that are charged to a job as of `as_of`; `estimated` while they may change.

    `logs` is the approximate charge of Cloud Logging for the output. No ledger has it, so `cost`
    leaves it out. `waited_seconds` is how long nothing was charged between submission and end;
    `unpriced_seconds` is how long the job used nodes at an unknown price, and is in no figure.
    """

    cost: int
    estimated: bool
    as_of: int
    waited_seconds: int = 0
    unpriced_seconds: int = 0
    logs: int = 0


@dataclass(frozen=True, slots=True)
class AttemptCost:
    """An attempt, the name of its node, and the cost of each phase. The phases of all attempts add
    up to the cost of the job. `periods` are the phases in time; the first and the last may have no
    bound. `lost_seconds` ran after the last checkpoint and were lost; None if that is unknown."""

    attempt: Attempt
    node_name: str
    amounts: tuple[PhaseCost, ...]
    lost_seconds: int | None = 0
    periods: tuple[PhasePeriod, ...] = ()

    @property
    def cost(self) -> int:
        """Nano-dollars of all phases."""
        return sum(phase.cost for phase in self.amounts)


def job_cost(unit: Unit, job: Job, book: PriceBook, now: int) -> JobCost:
    """What the ledger charges to a job, including the open tail."""
    attempts = unit.jobs.list_attempts(job.id)
    node_ids = {attempt.node_id for attempt in attempts}
    found = [meter for node_id in node_ids for meter in _read_meters(unit, node_id, book, now)]
    estimated = any(meter.usage.end is None or meter.usage.uncertain_seconds for meter in found)
    until = now if job.ended_at is None else job.ended_at
    return JobCost(
        cost=sum(charged_to(meter, job.id) for meter in found),
        estimated=estimated,
        as_of=now,
        waited_seconds=seconds_without_charge(found, job.id, job.created_at, until),
        unpriced_seconds=sum(unpriced_seconds(meter, job.id) for meter in found),
        logs=estimated_cost(report for attempt in attempts for report in attempt.own_reports),
    )


def attempt_costs(unit: Unit, job: Job, book: PriceBook, now: int) -> list[AttemptCost]:
    """Every attempt with its phases, first to last."""
    attempts = unit.jobs.list_attempts(job.id)
    nodes = unit.nodes.find_many({attempt.node_id for attempt in attempts})
    by_id: dict[str, AttemptCost] = {}
    saves = bool(job.spec.checkpoint_dir)
    for node_id, node in nodes.items():
        found = _read_meters(unit, node_id, book, now)
        for claim in list_claims(attempts, node_id, own_node=job.own_node):
            attempt = claim.attempt
            phases = price_phases(claim, found, job.id, saves=saves)
            lost = lost_seconds(attempt, phases, saves=saves)
            periods = list_periods(claim, saves=saves)
            by_id[attempt.id] = AttemptCost(attempt, node.name, phases, lost, periods)
    return [by_id[attempt.id] for attempt in attempts]


def _read_meters(unit: Unit, node_id: str, book: PriceBook, now: int) -> list[Meter]:
    whose = {node_id: unit.attributions.list_by_node(node_id)}
    return list(make_meters(unit.usage.list_by_node(node_id), book, now, whose))
