"""Resolves a request for a node and records it, for callers and for jobs alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from service.application.budgets import admission
from service.application.placement import quotas
from service.application.projects import choose_project
from service.domain.catalog import catalog
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import Clock
from service.domain.idle.assess import LEAST_IDLE
from service.domain.idle.terms import check_idle
from service.domain.jobs import startup
from service.domain.jobs.job import Job
from service.domain.nodes import alternatives
from service.domain.nodes.creation import first_events, make_node
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode, ResolvedRequest, check_times
from service.domain.pricing import driver_vm
from service.domain.pricing.burn import BilledUnits, burn_of
from service.domain.pricing.estimate import sku_of
from service.domain.pricing.purchases import pool_of
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units


class NodeRequests:
    """`resolve_in` reads, `record_node` writes; neither calls the cloud."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
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

    def resolve_request(self, wanted: RequestedNode) -> tuple[RequestedNode, ResolvedRequest]:
        """The request with its project, and the spec that it means. Raises Rejected (with the
        remedy) if the request cannot be granted."""
        with self._units.reading() as unit:
            return self.resolve_in(unit, wanted)

    def resolve_in(
        self, unit: Unit, wanted: RequestedNode
    ) -> tuple[RequestedNode, ResolvedRequest]:
        """`resolve_request`, in the caller's unit of work."""
        project = choose_project(wanted.project, self._projects)
        wanted = wanted if project == wanted.project else replace(wanted, project=project)
        now = self._clock()
        check_times(wanted.valid_until, wanted.max_wait_seconds, now)
        book = self._prices.get_book(unit)
        model = wanted.provisioning_model
        is_reserved = model == ProvisioningModel.RESERVED

        def hourly_rate(accelerator: AcceleratorType, zone: str) -> int | None:
            pool = pool_of(wanted.project, zone, wanted.reservation) if is_reserved else ""
            sku = sku_of(accelerator, model, zone, pool)
            return burn_of([BilledUnits(sku, accelerator.chips)], book, now)

        meant = alternatives.resolve_request(wanted, catalog.load_catalog(), hourly_rate)
        expected = quotas.list_warnings(unit, meant.spec, now)
        check_idle(meant.spec, self.least_idle)
        startup.check_size(startup.metadata_of(meant.spec))
        if (vm := meant.spec.vm) is not None:
            expected = (*expected, *driver_vm.describe_unpriced(vm, meant.spec.zones, book, now))
        if expected:
            meant = replace(meant, warnings=(*meant.warnings, *expected))
        return wanted, meant

    def admit_job(self, unit: Unit, node: Node, job: Job) -> None:
        """Admit a job on an existing node, in the unit in which the job claims it. Raises
        BudgetExceeded if the holds of others leave no room for the job's worst case."""
        admission.check_job(unit, node, job, self._prices, self._clock())

    def record_node(
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

        With a `job` (its id), the node is charged to that job and sleeps until the job's controller
        wakes it: nothing is requested from the cloud before the image was checked. `written` is
        called before any budget is asked, for work that must exclude a second request first.
        """
        now = self._clock()
        node = make_node(wanted, meant.spec, now)
        if job:
            node = replace(node, next_try_at=None)
        unit.nodes.add(node, job)
        if written is not None:
            written(node)
        admission.admit_node(unit, node, self._prices, now)
        unit.events.add(*first_events(node, meant, actor))
        return node
