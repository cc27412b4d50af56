"""Understands a request for a node and writes it down, for callers and for jobs alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from service.application.budgets import admission
from service.application.placement import quotas
from service.application.projects import chosen
from service.domain.catalog import catalog, provisioning_modes
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import Clock
from service.domain.idle.assess import LEAST_IDLE
from service.domain.idle.terms import check_idle
from service.domain.jobs import startup
from service.domain.jobs.job import Job
from service.domain.nodes import alternatives
from service.domain.nodes.creation import first_events, requested
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode, ResolvedRequest
from service.domain.pricing import driver_vm
from service.domain.pricing.estimate import hourly, sku_of
from service.domain.pricing.price_book import PriceBook
from service.domain.pricing.purchases import pool_of
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units


class NodeRequests:
    """`understand` reads, `record` writes; neither calls the cloud."""

    def __init__(
        self,
        units: Units,
        prices: PriceShelf,
        clock: Clock,
        projects: Sequence[str],
        least_idle: int = LEAST_IDLE,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = tuple(projects)
        self.least_idle = least_idle
        """The shortest idle time in seconds that signals can prove."""

    def understand(self, wanted: RequestedNode) -> tuple[RequestedNode, ResolvedRequest]:
        """The request with its project, and the spec that it means. Raises Rejected (with what
        would do) when it cannot be granted."""
        wanted = replace(wanted, project=chosen(wanted.project, self._projects))
        provisioning_modes.check_times(wanted.valid_until, wanted.max_wait_seconds, self._clock())
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.book(unit)
            meant = alternatives.settled(wanted, catalog.load(), _rate(wanted, book, now))
            expected = quotas.warnings(unit, meant.spec, now)
        check_idle(meant.spec, self.least_idle)
        startup.check_size(startup.metadata_of(meant.spec))
        if (vm := meant.spec.vm) is not None:
            expected = (*expected, *driver_vm.unpriced(vm, meant.spec.zones, book, now))
        return wanted, replace(meant, warnings=(*meant.warnings, *expected))

    def admit(self, unit: Unit, node: Node, job: Job) -> None:
        """Admit a job on a node that is there, in the unit in which the job claims it. Raises
        BudgetExceeded where what others hold meanwhile leaves no room for the job's worst case."""
        admission.check_job(unit, node, job, self._prices, self._clock())

    def record(
        self,
        unit: Unit,
        wanted: RequestedNode,
        meant: ResolvedRequest,
        actor: str,
        job: str = "",
        written: Callable[[Node], None] | None = None,
    ) -> Node:
        """Write the node and set aside what it may cost. Raises BudgetExceeded; then nothing of the
        unit may be kept.

        With a `job`, whose id it is, the node is charged to that job and sleeps until the job's
        controller wakes it: nothing is asked of the cloud before the image was looked at. `written`
        is called before any budget is asked, for what must exclude a second request first.
        """
        now = self._clock()
        node = requested(wanted, meant.spec, now)
        if job:
            node = replace(node, next_try_at=None)
        unit.nodes.add(node, job)
        if written is not None:
            written(node)
        admission.place(unit, node, self._prices, now)
        unit.events.add(*first_events(node, meant, actor))
        return node


def _rate(wanted: RequestedNode, book: PriceBook, now: int) -> alternatives.Rate:
    model = wanted.provisioning_model
    reserved = model == ProvisioningModel.RESERVED

    def rate(accelerator: AcceleratorType, zone: str) -> int | None:
        pool = pool_of(wanted.project, zone, wanted.reservation) if reserved else ""
        return hourly(accelerator.chips, book.at(sku_of(accelerator, model, zone, pool), now))

    return rate
