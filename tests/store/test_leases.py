"""Leases: one holder at a time, told apart by an epoch, by the database's own clock."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from sqlalchemy import text, update

from service.daemon.leaseholder import LEASE_SECONDS
from service.domain.clock import precise_clock
from service.domain.errors import LeaseLost, StoreUnavailable
from service.domain.lease import Lease
from service.store import leases as store
from service.store.engine import make_engine
from service.store.tables import leases
from service.store.unit import Units
from tests.databases import fresh_database
from tests.hands import NOON

OVER = -10
"""A time to live that ran out before it began, so that no test waits."""


def take(units, holder, ttl=60, project="lab", looked_at=0):
    with units() as unit:
        return unit.leases.take(project, holder, ttl, looked_at)


def test_the_first_to_come_holds_the_lease(units):
    assert take(units, "one") == Lease("lab", "one", 1)
    assert take(units, "two") is None


def test_a_holder_that_renews_keeps_its_epoch(units):
    first = take(units, "one")
    assert take(units, "one") == first
    assert take(units, "one") == first


def test_the_epoch_grows_with_every_change_of_hands(units):
    epochs = [take(units, holder, OVER).epoch for holder in ("one", "two", "one", "one", "two")]
    assert epochs == [1, 2, 3, 3, 4]


def test_a_change_of_hands_is_no_gap_and_a_minute_without_a_holder_is_one(units, engine):
    def held_since():
        with units.reading() as unit:
            return unit.leases.held_since("lab") - int(precise_clock())

    assert held_since() < -1_000, "nobody ever held it"
    released = take(units, "one")
    first = held_since()
    assert first in (-1, 0, 1), "PostgreSQL rounds to whole seconds"
    with units() as unit:
        unit.leases.release(released)
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=1_000))
    take(units, "two", -59)
    take(units, "two", -59)
    assert held_since() < -1_000, "nobody held it for less than a minute"
    take(units, "two", -62)
    take(units, "three")
    assert held_since() in (-1, 0, 1)


def test_projects_spread_over_holders(units):
    assert take(units, "one").epoch == take(units, "two", project="other").epoch == 1


def test_what_was_released_can_be_taken_at_once(units):
    lease = take(units, "one")
    with units() as unit:
        unit.leases.release(lease)
    assert take(units, "two") == Lease("lab", "two", 2)


def test_releasing_what_another_one_holds_releases_nothing(units):
    old = take(units, "one", OVER)
    take(units, "two")
    with units() as unit:
        unit.leases.release(old)
    assert take(units, "three") is None


def test_a_lease_that_ran_out_but_that_nobody_took_can_still_be_written_under(units):
    lease = take(units, "one", OVER)
    with units(lease):
        pass


@pytest.mark.parametrize(
    "changes", [{"holder": "two"}, {"epoch": 2}, {"project": "other"}, {"epoch": 0}]
)
def test_any_other_lease_is_lost(units, changes):
    lease = take(units, "one")
    with pytest.raises(LeaseLost), units(replace(lease, **changes)):
        pass


def test_a_holder_that_lost_the_lease_and_has_it_again_may_not_use_the_old_one(units):
    old = take(units, "one", OVER)
    take(units, "two", OVER)
    new = take(units, "one")
    with pytest.raises(LeaseLost), units(old):
        pass
    with units(new):
        pass


def test_when_a_project_was_last_looked_at_outlives_the_holder(units):
    take(units, "one", looked_at=NOON)
    take(units, "one", OVER)
    take(units, "two", looked_at=NOON - 500)
    with units.reading() as unit:
        assert unit.leases.looked_at("lab") == NOON
        assert unit.leases.read_sight("lab") == (NOON, "two")
        assert unit.leases.looked_at("other") == 0
        assert unit.leases.read_sight("other") == (0, "")


def test_who_takes_a_project_over_has_heard_nothing_of_its_log(units):
    old = take(units, "one", OVER)
    with units() as unit:
        unit.leases.save_log_release(old, releases_deletions=True)
    new = take(units, "two")
    with units() as unit:
        unit.leases.save_log_release(old, releases_deletions=True)
        assert (
            unit.leases.list_waiting_for_log() == unit.leases.list_waiting_for_log("lab") == ["lab"]
        )
        assert unit.leases.list_waiting_for_log("other") == []
        unit.leases.save_log_release(new, releases_deletions=True)
        assert unit.leases.list_waiting_for_log() == []
    take(units, "two", looked_at=NOON)
    with units() as unit:
        assert unit.leases.list_waiting_for_log() == []
        unit.leases.save_log_release(new, releases_deletions=False)
        assert unit.leases.list_waiting_for_log() == ["lab"]


def test_nobody_is_said_to_hold_a_lease_that_ran_out(units):
    take(units, "one", OVER)
    with units.reading() as unit:
        assert unit.leases.read_sight("lab") == (0, "")


def test_of_several_that_come_at_once_exactly_one_holds_it(units):
    start, found = threading.Barrier(5), []

    def work(holder):
        start.wait()
        found.append(take(units, holder))

    threads = [threading.Thread(target=work, args=(f"daemon-{n}",)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [lease is None for lease in found].count(False) == 1


@pytest.fixture
def on_postgres(tmp_path):
    """Units on PostgreSQL, where several write at once; those of SQLite wait for their turns."""
    with fresh_database("postgresql", tmp_path) as address:
        engine = make_engine(address)
        yield Units(engine)
        engine.dispose()


def test_a_lease_is_renewed_while_others_write_under_it(on_postgres):
    """Each writer locks the lease until its commit; none of them keeps it from being renewed."""
    lease = take(on_postgres, "one")
    with on_postgres(lease), on_postgres(lease):
        assert take(on_postgres, "one") == lease


def test_a_lease_is_renewed_while_it_is_written_that_its_holder_heard_the_log(on_postgres):
    lease = take(on_postgres, "one")
    with on_postgres(lease) as unit:
        unit.leases.save_log_release(lease, releases_deletions=True)
        assert take(on_postgres, "one") == lease


def test_who_takes_over_waits_for_those_who_write_under_the_lease_but_not_for_long(on_postgres):
    lease = take(on_postgres, "one", OVER)
    with on_postgres(lease), pytest.raises(StoreUnavailable, match="too long"):
        take(on_postgres, "two")
    assert take(on_postgres, "two").epoch == lease.epoch + 1


PAUSE = text("select current_setting('idle_in_transaction_session_timeout')")


def test_a_transaction_under_a_lease_may_pause_for_as_long_as_a_lease_holds(on_postgres):
    lease = take(on_postgres, "one")
    with on_postgres(lease) as unit:
        assert unit.nodes._connection.execute(PAUSE).scalar_one() == f"{LEASE_SECONDS}s"
    with on_postgres() as unit:
        assert unit.nodes._connection.execute(PAUSE).scalar_one() == "5min", "it is over with it"


def test_who_hangs_within_a_transaction_keeps_no_lease(on_postgres, monkeypatch):
    """As a daemon does that is stopped between two statements, or whose machine sleeps."""
    monkeypatch.setattr(store, "LONGEST_PAUSE", "500ms")
    lease = take(on_postgres, "one", OVER)

    def hang():
        with on_postgres(lease) as unit:
            unit.leases.save_log_release(lease, releases_deletions=True)
            time.sleep(1.5)
            assert take(on_postgres, "two").epoch == lease.epoch + 1
            unit.leases.save_log_release(lease, releases_deletions=False)

    with pytest.raises(StoreUnavailable, match="paused for too long"):
        hang()
    with on_postgres.reading() as unit:
        assert unit.leases.list_waiting_for_log("lab") == ["lab"], "nothing of it is written"


@pytest.mark.parametrize("holder", ["one", "two"])
def test_who_hangs_while_it_renews_or_takes_a_lease_does_not_keep_it(
    on_postgres, monkeypatch, holder
):
    """As above, but between the write of the lease and its commit, which nobody holds yet."""
    monkeypatch.setattr(store, "LONGEST_PAUSE", "500ms")
    lease = take(on_postgres, "one", OVER)

    def hang():
        with on_postgres() as unit:
            assert unit.leases.take("lab", holder, 60) is not None
            time.sleep(1.5)
            assert take(on_postgres, "three").epoch == lease.epoch + 1
            unit.leases.list_free(["lab"])

    with pytest.raises(StoreUnavailable, match="paused for too long"):
        hang()


def test_who_hangs_while_it_gives_a_lease_back_does_not_keep_it(on_postgres, monkeypatch):
    monkeypatch.setattr(store, "LONGEST_PAUSE", "500ms")
    lease = take(on_postgres, "one", OVER)

    def hang():
        with on_postgres() as unit:
            unit.leases.release(lease)
            time.sleep(1.5)
            assert take(on_postgres, "two").epoch == lease.epoch + 1
            unit.leases.list_free(["lab"])

    with pytest.raises(StoreUnavailable, match="paused for too long"):
        hang()


def test_a_lease_is_held_until_the_last_second_that_it_was_given_is_over(units):
    """The database counts whole seconds, and its holder parts of them: were the last second not
    waited for, two would hold the lease for a part of it."""
    for number in range(50):
        project = f"lab-{number}"
        with units() as unit:
            began = unit.leases.read_clock()
            assert unit.leases.take(project, "one", 0) is not None
            other = unit.leases.take(project, "two", 60)
            ended = unit.leases.read_clock()
        if int(began) == int(ended) and round(began) == round(ended):
            assert other is None
            return
    raise AssertionError("the database's clock never showed one second for long enough")


def test_those_that_nobody_holds_are_free(units):
    take(units, "one")
    take(units, "one", OVER, "over")
    with units.reading() as unit:
        assert unit.leases.list_free(["lab", "over", "new"]) == ["over", "new"]


def test_the_databases_clock_is_told_with_its_fractions(units):
    with units.reading() as unit:
        moments = [unit.leases.read_clock() for _ in range(200)]
    assert abs(moments[0] - precise_clock()) < 3_600
    assert moments == sorted(moments)
    assert any(moment % 1 for moment in moments)
