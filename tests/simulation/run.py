"""One run: a fleet lives through its hours, then all is asked to go, and the books are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from google.api_core.retry import retry_base, retry_unary
from google.api_core.timeout import TimeToDeadlineTimeout
from sqlalchemy import Engine
from structlog.processors import format_exc_info
from structlog.testing import capture_logs

from service.application.nodes.nodes import NodeChange
from service.application.nodes.requests import NodeRequests
from service.application.orphans import OrphanService
from service.application.pricing.reservations import ReservationService
from service.application.timekeeping import PERIOD_SECONDS, Timekeeper
from service.cloud.google import pages
from service.cloud.google.retries import ONCE, PATIENT
from service.controllers.base import Controller
from service.controllers.jobs.jobs import JobsController
from service.controllers.prices import PricesController
from service.domain.catalog.provisioning import Architecture
from service.domain.clock import DAY, Clock, floor_to
from service.domain.database_clock import AgreedClock
from service.domain.errors import BudgetExceeded, Conflict, QuotaTooSmall, Rejected
from service.domain.idempotency import RequestKey
from service.domain.ids import IdSource, ids_from
from service.domain.lease import Lease
from service.domain.lifecycle.reimaging import Software
from service.domain.metering.attribution import Reattribution
from service.domain.nodes.node import Node, Place
from service.domain.nodes.request import RequestedNode
from service.emulator.app import build_world
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.databases import fresh_database
from tests.simulation.api_front import ApiFront
from tests.simulation.budget_lab import BudgetLab
from tests.simulation.buyer import Buyer
from tests.simulation.catalogue import (
    DUE_SECONDS,
    PRICES_SECONDS,
    READ_SECONDS,
    Catalogue,
    CatalogueUnits,
)
from tests.simulation.client_retries import RetryingClients
from tests.simulation.clock import Agenda, set_databases_clock
from tests.simulation.clock_skew import ClockSkew
from tests.simulation.cloud_faults import CloudFaults
from tests.simulation.crash_points import CrashPoints, SeamedCloud, Unfenced
from tests.simulation.daemon_restarts import DaemonRestarts
from tests.simulation.database_outages import DatabaseOutages
from tests.simulation.external_restarts import ExternalRestarts
from tests.simulation.flex_start_limits import SEEN_SECONDS, FlexStartLimits
from tests.simulation.invariants import Invariants, Violation
from tests.simulation.jobs.accidents import Accidents, LaggingCloud, SeamedRegistry
from tests.simulation.jobs.oracle import JobOracle
from tests.simulation.jobs.submitters import Submitters
from tests.simulation.jobs.watching import WatchedUnits
from tests.simulation.liveness import Liveness
from tests.simulation.orphans import Orphans
from tests.simulation.price_changes import PATIENCE, PriceChanges
from tests.simulation.process import Process
from tests.simulation.rates import Rates, drawn
from tests.simulation.replica import PROJECT, Replica
from tests.simulation.request_generator import (
    LEGACY_VERSIONS,
    brief,
    direct,
    driven,
    flexible,
    legacy,
    otherwise,
    paid,
    reserved,
)
from tests.simulation.slices import SliceDeletions
from tests.simulation.zombies import Zombies
from tests.simulation.zone_outages import ZoneOutages

OTHER = "workshop"
"""The second project, where there are two."""
REST_HOURS = 3
"""How long it may take to come to rest: the longest storm, back-off and horizon together."""
JOB_HOURS = 4
"""How long jobs may take to end once nothing goes wrong any more: the longest of them, again after
lost hardware, after others on the same node."""
REQUEST_HOURS = 2
"""How long it may take until each node is what was asked for, once nothing is in the way: the
longest back-off, and what learns of a quota."""
RESERVED_SHARE = 0.7
"""Of the requests for TPU VMs, where the lab has bought any."""
ZOMBIES = (0,) * 7 + (2,)
"""How many queued resources of ended nodes come back: in one seed of eight."""
SPREES, TOGETHER = 3, 4
"""How often somebody asks for so many nodes within seconds, where there are budgets."""
RESTED = 0.4
"""The share of those that are stopped for a while."""
BROKEN = ("failed", "broke")
"""Ends of the names of log events by which the service tells of a defect of its own."""
EXPECTED = {"tick.failed"}
"""Those by which it tells of the cloud and of the database, as long as anything befalls them."""


@dataclass
class Run:
    """Everything of one run; `seed` decides all of it."""

    seed: int
    engine: Engine
    agenda: Agenda
    fortune: Rates = field(init=False)
    nodes: list[Node] = field(default_factory=list)
    deaths: int = 0
    logs: list[MutableMapping[str, Any]] = field(default_factory=list)
    in_peace: int | None = None
    """How much had been logged when nothing had befallen cloud and database for a while."""

    def __post_init__(self) -> None:
        self.fortune = drawn(self._luck("fortune"))
        self.world = build_world(seed=self.seed, clock=lambda: self.agenda.now)
        self.truth = Invariants(self.world)
        self.units = Units(self.engine)
        self.projects = [PROJECT, OTHER][: self.fortune.projects]
        self._set_callers_clock()
        shared = self.units, PriceBookCache(), self.clock, self.projects
        fortune, luck = self.fortune, self._luck("buyer")
        self.buyer = Buyer(
            self.agenda, ReservationService(*shared), luck, fortune.reservations, fortune.hours
        )
        luck, set_aside = self._luck("weather"), self.buyer.capacity()
        self.weather = CloudFaults(self.agenda, self.world, luck, fortune, set_aside)
        rate = self.fortune.squalls_per_hour
        luck, zones = self._luck("squalls"), self.weather.zones
        self.squalls = ZoneOutages(self.agenda, self.world, luck, zones, rate)
        luck = self._luck("outages")
        self.outages = DatabaseOutages(
            self.agenda, luck, fortune.store_failing, fortune.outages_per_hour
        )
        luck = self._luck("askers")
        self.service: RetryingClients | ApiFront = RetryingClients(
            self.agenda, self.engine, self.outages, luck, self.clock, self.projects
        )
        orphans, luck = OrphanService(*shared), self._luck("castaways")
        self.castaways = Orphans(self.agenda, self.weather, self.truth, orphans, luck)
        luck = self._luck("zombies")
        self.zombies = Zombies(
            self.agenda, self.weather, self.truth, self.units, luck, luck.choice(ZOMBIES)
        )
        self.slices = SliceDeletions(self.truth)
        self._add_money_and_jobs()

    def _add_money_and_jobs(self) -> None:
        fortune = self.fortune
        rate, luck = self.fortune.prices_per_hour, self._luck("purse")
        self.price_changes = PriceChanges(
            self.agenda, self.units, self.service, self.buyer, luck, rate
        )
        self.catalogue = Catalogue(
            self.agenda,
            self.world,
            self._luck("catalogue"),
            0.0 if self._has_budgets else fortune.catalogue_per_hour,
            self.price_changes.entered,
        )
        self.more_seams: list[CrashPoints] = []
        self.curfews = FlexStartLimits(self.agenda, self.world, self.truth)
        self.funds: BudgetLab | None = None
        if self._has_budgets:
            self._add_budgets()
        self.job_oracle: JobOracle | None = None
        if fortune.jobs and not fortune.budgets:
            self._add_jobs()
        self.liveness = Liveness(
            self.agenda, self.units, self.truth, self._has_budgets or fortune.jobs > 0
        )
        self._add_daemons()

    @property
    def _has_budgets(self) -> bool:
        return self.fortune.budgets > 0 and not self.fortune.reservations

    def _set_callers_clock(self) -> None:
        """Callers are served on a machine of their own, whose clock goes by the database's."""
        self.clock = AgreedClock(
            lambda: self.agenda.now + self.fortune.ahead, lambda: self.agenda.now
        )
        timekeeper = Timekeeper(self.units, self.clock)

        def look() -> None:
            timekeeper.set_clock()
            self.agenda.after(PERIOD_SECONDS, look)

        look()

    def _add_daemons(self) -> None:
        self.replicas = [self._replica(f"r{number}") for number in range(self.fortune.replicas)]
        rate, luck = self.fortune.restarts_per_hour, self._luck("restarts")
        self.jumps = ClockSkew(
            self.agenda, self.replicas, self._luck("jumps"), self.fortune.jumps_per_hour
        )
        self.restarts = ExternalRestarts(self.agenda, self.weather, self.replicas, luck, rate)
        self.stops = DaemonRestarts(
            self.agenda, self.replicas, self._luck("stops"), self.fortune.stops_per_hour
        )

    def _add_budgets(self) -> None:
        about = self.price_changes.entered, self.truth, self.clock, self.projects
        self.funds = BudgetLab(self.agenda, self.engine, self.fortune, self._luck, *about)
        self.service = self.price_changes.nodes = self.funds.desk

    def _add_jobs(self) -> None:
        about = self.agenda, self.world, self.units, self.truth
        self.job_oracle = JobOracle(*about)
        lucks = (self._luck(of) for of in ("accidents", "blackouts", "notices"))
        self.accidents = Accidents(self.agenda, self.weather, *lucks)
        self.submitters = Submitters(
            self.agenda,
            self.engine,
            self.outages,
            self._luck("submitters"),
            self.fortune,
            self.nodes,
            self.service.stop,
        )
        self.accidents.supplant = self.submitters.supplant

    def live(self) -> None:
        """Raises Violation with what went wrong."""
        self._begin_world()
        for replica in self.replicas:
            replica.begin()
        self._callers()
        if self.job_oracle is not None:
            self.accidents.begin()
            self.submitters.begin()
        if self.funds is not None:
            self.funds.begin()
            self._sprees()
        self.agenda.pass_(self.fortune.hours * 3600)
        self._come_to_rest()
        self._let_daemons_finish()
        self.deaths = sum(replica.deaths for replica in self.replicas)
        nodes = [*self.nodes, *self._nodes_of_jobs()]
        self.truth.at_rest(self.units, nodes, lied=self.weather.lied)
        self._check_uncertain(nodes)
        self.price_changes.check(nodes)
        self._check_chores()
        if self.job_oracle is not None:
            self.job_oracle.at_rest(self.submitters.jobs)
        if self.funds is not None:
            self.funds.at_rest(self._away)

    def _let_daemons_finish(self) -> None:
        """Nothing changes any more: time for them to read and to post what just did."""
        if self.catalogue.find_unread():
            self.agenda.pass_(READ_SECONDS)  # it changed after the last read
        if self._is_unposted():
            self.agenda.pass_(600)  # a price was read in the last second
        if self.buyer.written:
            self.agenda.pass_(PATIENCE)  # until the last full hour is posted

    def _is_unposted(self) -> bool:
        """Whether the ledger does not say yet what is known of a node."""
        nodes = [*self.nodes, *self._nodes_of_jobs()]
        with self.units.reading() as unit:
            return any(usage.dirty for node in nodes for usage in unit.usage.list_by_node(node.id))

    def _check_chores(self) -> None:
        """What is done now and then was done."""
        self.catalogue.at_rest()
        with self.units.reading() as unit:
            if not unit.forecasts.has_day(floor_to(self.agenda.seconds(), DAY)):
                raise Violation("there is no forecast of today")

    def _check_uncertain(self, nodes: list[Node]) -> None:
        with self.units.reading() as unit:
            for node in nodes:
                self.agenda.fog.check(node, unit.usage.list_by_node(node.id))

    def _begin_world(self) -> None:
        self.weather.begin()
        self.squalls.begin()
        self.castaways.begin()
        self.zombies.begin(self.nodes)
        self.curfews.begin()
        self.liveness.begin()
        self.outages.begin()
        self.price_changes.begin(self.fortune.hours, self._luck("other prices"))
        self.buyer.begin()
        self.restarts.begin()
        self.jumps.begin()
        self.stops.begin()
        self.catalogue.begin(self.fortune.hours)

    def _let_requests_come_true(self) -> None:
        """Raises Violation for one that does not, although nothing is in its way any more."""
        unmet: list[str] = []
        for _ in range(REQUEST_HOURS * 12):
            named = self.weather.named_a_quota or self.squalls.named_a_quota
            unmet = self.liveness.unmet(self.nodes, named_a_quota=named)
            if not unmet:
                return
            self.agenda.pass_(300)
        raise Violation(f"in {REQUEST_HOURS} hours of fair weather, {unmet[0]}")

    def _come_to_rest(self) -> None:
        self.weather.clear_up()
        self.squalls.clear_up()
        self.outages.calm = True
        self.jumps.clear_up()
        self.stops.per_hour = 0
        for seams in [*(replica.seams for replica in self.replicas), *self.more_seams]:
            seams.calm = True
        if self.funds is not None:
            self.funds.clear_up(self._away)
        if self.curfews.overdue(self.units):
            self.agenda.pass_(self._away + SEEN_SECONDS)
            self.curfews.check_noticed(self.units)
        self._let_requests_come_true()
        self.in_peace = len(self.logs)
        self._let_jobs_end()
        self.castaways.let_go()
        self.nodes += self.castaways.adopted
        for node in self.nodes:
            self.liveness.told.add(node.id)
            self.service.delete(node.id)
        self.agenda.pass_(600)
        for _ in range(REST_HOURS * 6):
            self.castaways.let_go()  # a daemon that died often notices them only now
            nodes = [*self.nodes, *self._nodes_of_jobs()]
            ended = all(self.service.get(node.id).has_ended for node in nodes)
            if ended and not self.truth.left() and not self._waiting():
                return
            self.agenda.pass_(600)

    def _let_jobs_end(self) -> None:
        """Raises Violation for one that waits for what there is."""
        if self.job_oracle is None:
            return
        waiting: list[str] = []
        for _ in range(JOB_HOURS * 12):
            waiting = self._waiting()
            if not waiting:
                self.submitters.cancel_all()  # those whose node waits for hardware, or is stopped
                return
            self.agenda.pass_(300)
        raise Violation(f"in {JOB_HOURS} hours of fair weather, {waiting[0]}")

    def _waiting(self) -> list[str]:
        """The jobs that have not ended although there is what they wait for."""
        if self.job_oracle is None:
            return []
        return self.job_oracle.waiting(self.submitters.jobs)

    def _nodes_of_jobs(self) -> list[Node]:
        """The nodes that were made for jobs."""
        if self.job_oracle is None:
            return []
        with self.units.reading() as unit:
            ids = {
                attempt.node_id
                for job in self.submitters.jobs
                if job.own_node
                for attempt in unit.jobs.list_attempts(job.id)
            }
            return [unit.nodes.get(node_id) for node_id in sorted(ids)]

    @property
    def _away(self) -> float:
        """Seconds until all daemons are there again."""
        return max(replica.away for replica in self.replicas)

    def _callers(self) -> None:
        luck = self._luck("callers")
        for number in range(self.fortune.nodes + self.fortune.crowd):
            when = luck.uniform(0, self.fortune.hours * 1800)
            self.agenda.after(when, partial(self._ask, luck, number))

    def _ask(self, luck: Random, number: int) -> None:
        """Ask for a node, now and then twice with the same key, and decide what will be wanted."""
        own, key = self._luck(f"legacy {number}"), RequestKey(f"key-{number}", str(number))
        wanted = self._wanted(luck, own, number)
        try:
            asked = self.service.request(wanted, key=key)
        except (QuotaTooSmall, BudgetExceeded):
            return  # a storm has just named a limit of 0 in every zone that would do; or no money
        if luck.random() < 0.3:
            again = self.service.request(wanted, key=key)
            if again.node.id != asked.node.id:
                raise Violation("the same key made two nodes")
        self.nodes.append(asked.node)
        self.curfews.mind(asked.node, wanted)
        self.price_changes.mind(asked.node, self.fortune.hours)
        self._change_minds(luck, asked.node)
        if wanted.architecture is Architecture.NODE:
            self._change_software(own, asked.node)

    def _wanted(self, luck: Random, own: Random, number: int) -> RequestedNode:
        wanted = otherwise(direct(luck), self._luck(f"queue {number}"), self.fortune.queued)
        luck_of_its = self._luck(f"beside {number}")
        if own.random() < self.fortune.legacy:
            wanted = legacy(wanted, own)
            if luck_of_its.random() < self.fortune.machines:
                wanted = driven(wanted, luck_of_its)
        elif self.buyer.bought and luck_of_its.random() < RESERVED_SHARE:
            wanted = reserved(wanted, luck_of_its, self.buyer.bought)
        wanted = self._turned(wanted, number)
        if wanted.provisioning_model == "reserved":
            return wanted  # what was bought, one project has
        where = self._luck(f"project {number}").choice(self.projects)
        return replace(wanted, project=where)

    def _change_minds(self, luck: Random, node: Node) -> None:
        for _ in range(luck.choice([0, 0, 1, 2, 4])):
            verb = luck.choice(["delete", "stop", "start", "stop", "start"])
            when = luck.uniform(0, self.fortune.hours * 3600)
            self.agenda.after(when, partial(self._tell, node, verb))

    def _change_software(self, luck: Random, node: Node) -> None:
        for _ in range(luck.choice([0, 1, 2])):
            software = Software(runtime_version=luck.choice(LEGACY_VERSIONS))
            when = luck.uniform(0, self.fortune.hours * 1800)
            self.agenda.after(when, partial(self._tell, node, "reimage", software))

    def _turned(self, wanted: RequestedNode, number: int) -> RequestedNode:
        """The same as flex-start, and for somebody's money, where there is that."""
        luck = self._luck(f"flex {number}")
        free = wanted.architecture is Architecture.VM and wanted.provisioning_model != "reserved"
        if free and luck.random() < self.fortune.flexible:
            wanted = flexible(wanted, luck)
        return wanted if self.funds is None else paid(wanted, self._luck(f"payer {number}"))

    def _sprees(self) -> None:
        """Now and then somebody asks for many at once, each for minutes."""
        luck = self._luck("sprees")
        when = luck.uniform(0, self.fortune.hours * 1800)
        for spree in range(SPREES):
            for number in range(TOGETHER):
                key, wanted = RequestKey(f"spree-{spree}-{number}", ""), brief(luck)
                ask = partial(self._ask_briefly, wanted, key)
                self.agenda.after(when + luck.uniform(0, 3), ask)
            when += luck.uniform(60, 1200)

    def _ask_briefly(self, wanted: RequestedNode, key: RequestKey) -> None:
        with suppress(QuotaTooSmall, BudgetExceeded):
            node = self.service.request(wanted, key=key).node
            self.nodes.append(node)
            luck = self._luck(f"keeper {key.text}")
            for _ in range(luck.choice([0, 0, 1, 2])):
                whose = Reattribution(owner=luck.choice(["ada", "bob"]), labels={"run": "17"})
                change = partial(self._tell, node, "update", NodeChange(whose))
                self.agenda.after(luck.uniform(0, 900), change)
            if luck.random() < RESTED:
                stops = luck.uniform(60, 300)
                self.agenda.after(stops, partial(self._tell, node, "stop"))
                starts = stops + luck.uniform(60, 1200)
                self.agenda.after(starts, partial(self._tell, node, "start"))

    def _tell(self, node: Node, verb: str, *more: object) -> None:
        if verb == "delete":
            self.liveness.told.add(node.id)
        try:
            getattr(self.service, verb)(node.id, *more)
        except (Conflict, Rejected, BudgetExceeded):
            """Too late for that, or never possible; the caller is told so."""

    def _replica(self, name: str) -> Replica:
        luck = self._luck(f"seams {name}")
        seams = CrashPoints(
            self.agenda, luck, self.fortune, squalls=self.squalls, outages=self.outages
        )
        return Replica(
            name,
            self.agenda,
            self.world,
            self.engine,
            seams,
            partial(self._saved, name),
            self._luck(f"replica {name}"),
            posted=self._look,
            commanded=partial(self._commanded, name),
            asked=partial(self._asked, name),
            answered=partial(self._answered, name),
            projects=self.projects,
            more=self._more(name),
            patience=PATIENT if self.fortune.is_patient else ONCE,
            keeps_leases=self.fortune.keeps_leases,
            jobs=None if self.job_oracle is None else partial(self._jobs_controller, seams, name),
        )

    def _commanded(self, daemon: str, verb: str, place: Place) -> None:
        self.liveness.commanded(verb, place)
        self.slices.commanded(daemon, verb, place)

    def _asked(self, daemon: str, verb: str, subject: object) -> None:
        self.zombies.asked(daemon, verb, subject)
        self.slices.asked(daemon, verb, subject)

    def _answered(self, daemon: str, verb: str, subject: object, answer: object) -> None:
        self.zombies.answered(daemon, verb, answer)
        self.slices.answered(daemon, verb, subject, answer)

    def _saved(self, daemon: str, nodes: list[Node], lease: Lease | None) -> None:
        self.truth.committed(nodes, lease)
        self.slices.saved(daemon, nodes)

    def _more(self, name: str) -> Callable[[Process], Sequence[tuple[int, Controller]]]:
        """Who else works in the daemon of that name."""
        if self.funds is not None:
            return self.funds.staff(name)
        if not self.catalogue.per_hour:
            return lambda _: ()
        seams = CrashPoints(self.agenda, self._luck(f"prices {name}"), self.fortune)
        self.more_seams.append(seams)

        def staff(process: Process) -> Sequence[tuple[int, Controller]]:
            of = process.of(seams)
            units = CatalogueUnits(self.engine, of, self.catalogue)
            feed, clock = self.catalogue.feed(of), self.agenda.seconds
            reader = PricesController(units, feed, PriceBookCache(), clock, PRICES_SECONDS)
            return [(DUE_SECONDS, reader)]

        return staff

    def _look(self) -> None:
        """Check the books in the middle of it all."""
        self.price_changes.look(self.nodes)
        if self.job_oracle is not None:
            self.job_oracle.check_sums(self.submitters.jobs)

    def _jobs_controller(
        self, of: CrashPoints, name: str, cloud: SeamedCloud, clock: Clock, process: Process
    ) -> Controller:
        assert self.job_oracle is not None
        seams = process.of(of)
        saved = self.truth.committed, self.job_oracle.committed
        units = WatchedUnits(self.engine, seams, *saved)
        registry = SeamedRegistry(seams, self._luck(f"registry {name}"))
        requests = NodeRequests(units, PriceBookCache(), clock, [PROJECT])
        lags, rivals = self._luck(f"lags {name}"), self._luck(f"rivals {name}")
        lagging: Any = LaggingCloud(cloud, self.agenda, seams, self.accidents, lags, rivals)
        controller = JobsController(units, lagging, registry, requests, clock)
        controller.workers = 1
        return controller

    def _luck(self, of: str) -> Random:
        return Random(f"{self.seed}/{of}")


def run(seed: int) -> Run:
    """Live through one seed; raises Violation with the seed and what was in store for it."""
    with ExitStack() as stack:
        agenda = Agenda()
        engine = stack.enter_context(database(agenda))
        stack.enter_context(repeatable_ids(seed, agenda))
        stack.enter_context(steady_deadlines())
        logs = stack.enter_context(capture_logs([format_exc_info]))
        # Even these small fleets come in several pages.
        stack.enter_context(patch.object(pages, "PAGE_SIZE", 3))
        stack.enter_context(retries_on(agenda, Random(f"{seed}/retries")))
        living = Run(seed, engine, agenda, logs=logs)
        try:
            _lived(living)
            _check_logs(logs, living.in_peace)
        except (Exception, Violation) as error:
            error.add_note(f"seed {seed}: {living.fortune.as_text()}")
            error.add_note(f"again with: python -m tests.simulation {seed}")
            raise
        return living


def _lived(living: Run) -> None:
    try:
        living.live()
    except Unfenced as error:
        raise Violation("a controller was about to write without a lease") from error


def _check_logs(logs: list[MutableMapping[str, Any]], in_peace: int | None) -> None:
    """What the service itself took for a defect is one, though it lived on."""
    broken = [
        entry
        for number, entry in enumerate(logs)
        if entry["event"].endswith(BROKEN)
        and (entry["event"] not in EXPECTED or (in_peace is not None and number >= in_peace))
    ]
    if broken:
        raise Violation("an error inside: " + ", ".join(f"{k}={v}" for k, v in broken[0].items()))


@contextmanager
def database(agenda: Agenda) -> Iterator[Engine]:
    """A fresh database in memory-backed files, whose own clock is the agenda's."""
    with TemporaryDirectory() as folder, fresh_database("sqlite", Path(folder)) as address:
        engine = make_engine(address)
        set_databases_clock(engine, agenda)
        try:
            yield engine
        finally:
            engine.dispose()


@contextmanager
def retries_on(agenda: Agenda, luck: Random) -> Iterator[None]:
    """What Google's client tries again, it waits for on the agenda."""
    clock = SimpleNamespace(monotonic=lambda: agenda.now, sleep=agenda.pass_)
    with (
        patch.object(retry_unary, "time", clock),
        patch.object(retry_base, "time", clock),
        patch.object(retry_base, "random", luck),
    ):
        yield


@contextmanager
def steady_deadlines() -> Iterator[None]:
    """Google's client subtracts from the time of an answer what this machine took to ask for it.
    Here that is nothing, so that a seed lives the same life on a slow machine."""
    always = datetime.fromtimestamp(0, UTC)
    defaults = (None, lambda: always)
    with patch.object(TimeToDeadlineTimeout.__init__, "__defaults__", defaults):
        yield


@contextmanager
def repeatable_ids(seed: int, agenda: Agenda) -> Iterator[None]:
    """Ids hold the time and chance; here both are the run's own."""
    luck = Random(f"{seed}/ids")
    with ids_from(IdSource(lambda: agenda.now, luck.getrandbits)):
        yield
