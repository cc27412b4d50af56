"""What a seed has in store: every run draws its own rates, and some of them are zero."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random

from service.domain.clock import HOUR


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates are per crossing of a seam (a cloud call, a commit) unless the name says otherwise."""

    replicas: int
    nodes: int
    hours: float
    kill: float
    pause: float
    late: float
    """A call that fails for its caller and takes effect a while later."""
    preemptions_per_hour: float
    host_errors_per_day: float
    storms_per_hour: float
    """Faults of the cloud, each for some minutes."""
    strangers: int
    meddling_per_hour: float
    """Somebody deletes a node of ours in Google's console."""
    capacity: int
    """Chips of v5e in each zone; 0 for any."""
    queued: float
    """The share of the requests that go through the queue."""
    squalls_per_hour: float
    """Zones in which creates are lost and done later, or refused, each for some minutes."""
    legacy: float
    """The share of the requests that are for legacy TPU Nodes."""
    castaways: int
    """Nodes that bear our labels and have no record, as after a database was restored."""
    prices_per_hour: float
    """How often a price changes; where any does, nodes change hands as well."""
    log_lost: float
    """The share of ends that Google's log says nothing of; 1 where there is no log."""
    reservations: int
    """How many the lab buys by the calendar."""
    machines: float
    """The share of the legacy TPU Nodes that name the VM which drives them."""
    early: float
    """The share of the preemptible ones among them that are taken back in their first minute."""
    oversleeps: float
    """The share of the last postings within an hour after which a daemon sleeps until it is over.
    """
    restarts_per_hour: float
    """Somebody else stops a node of ours and starts it again."""
    budgets: int
    """How many there are; none where capacity is bought by the calendar."""
    hook_failing: float
    """The share of the calls of the webhook that fail, and of the answers that are lost."""
    flexible: float
    """The share of the requests for TPU VMs out of no reservation that are for flex-start."""
    store_failing: float
    """The share of the commits that fail, and of those of which nobody hears."""
    outages_per_hour: int
    """The database is out for some minutes."""
    jumps_per_hour: int
    """The clock of a daemon's machine is set wrong, or right again."""
    jobs: int
    """How many are submitted; none where there are budgets."""
    projects: int
    """In how many projects there are nodes."""
    ahead: int
    """By how many seconds the clock of the machine is ahead at which callers are served."""
    crowd: int
    """How many nodes more are asked for; in few seeds, since they take long."""
    stops_per_hour: float
    """A daemon is told to stop, and started again."""
    is_patient: bool
    """Whether what the cloud does not answer is asked again at once, as outside of tests."""
    keeps_leases: bool
    """Whether a daemon renews its leases though a call holds it up, as by a thread of their own."""
    catalogue_per_hour: float
    """How often the cloud's price list changes; without budgets."""

    def as_text(self) -> str:
        return ", ".join(f"{key} {value:g}" for key, value in asdict(self).items())


def drawn(luck: Random) -> Rates:
    """Draw what will happen; each rate is zero one time in three, so that its fault is absent."""

    def rate(highest: float) -> float:
        return 0.0 if luck.random() < 1 / 3 else luck.uniform(0, highest)

    return Rates(
        replicas=luck.choice([1, 1, 2]),
        nodes=luck.randint(2, 8),
        hours=luck.uniform(0.5, 2.0),
        kill=rate(0.02),
        pause=rate(0.01),
        late=rate(0.15),
        preemptions_per_hour=rate(2.0),
        host_errors_per_day=rate(12.0),
        storms_per_hour=rate(6.0),
        strangers=luck.randint(0, 3),
        meddling_per_hour=rate(1.0),
        capacity=luck.choice([0, 0, 16, 32]),
        queued=luck.choice([0.0, 0.5, 1.0]),
        # What is drawn later comes last, so that the rest of a seed stays what it was.
        squalls_per_hour=luck.choice([0, 0, 10, 30]),
        legacy=luck.choice([0.0, 0.0, 0.0, 0.5]),
        castaways=luck.choice([0, 0, 0, 1, 2]),
        prices_per_hour=luck.choice([0, 0, 2, 20]),
        log_lost=luck.choice([1.0, 1.0, 0.3, 0.0]),
        reservations=luck.choice([0, 0, 1, 2]),
        machines=luck.choice([0.0, 0.5, 1.0]),
        early=luck.choice([0.0, 0.3]),
        oversleeps=luck.choice([0.0, 0.0, 0.5]),
        restarts_per_hour=luck.choice([0, 0, 2, 6]),
        budgets=luck.choice([0, 0, 3, 4]),
        hook_failing=luck.choice([0.0, 0.2, 0.5]),
        flexible=luck.choice([0.0, 0.0, 0.0, 0.6]),
        store_failing=luck.choice([0.0, 0.0, 0.0, 0.02]),
        outages_per_hour=luck.choice([0, 0, 0, 2]),
        jumps_per_hour=luck.choice([0, 0, 0, 6]),
        jobs=luck.choice([0, 3, 6]),
        projects=luck.choice([1, 1, 2]),
        ahead=luck.choice([0, 0, 0, 20, -20, HOUR, -HOUR]),
        crowd=luck.choice([0] * 99 + [240]),
        stops_per_hour=luck.choice([0, 0, 1, 6]),
        is_patient=luck.choice([False, True]),
        keeps_leases=luck.choice([False, True]),
        catalogue_per_hour=luck.choice([0, 0, 1, 4]),
    )
