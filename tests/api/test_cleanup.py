"""The cleanup over HTTP: what is shown, what is refused, and what a plan does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.domain.clock import parse_rfc3339, to_rfc3339
from service.domain.idle.policy import Action
from service.domain.idle.rails import Breaker
from tests.controllers.idle.conftest import REST, TIMES, WORK, FakeWorkers, IdleLab

MINUTES = (TIMES.warmup + 1_800 + TIMES.telemetry) // 60 + 1


@pytest.fixture
def lab(units, clock, services):
    """Nodes that a daemon looks at, behind the API."""
    made = IdleLab(units, clock, Action.OBSERVE)
    mode = IdleMode(Action.OBSERVE, TIMES)
    object.__setattr__(
        services, "cleanup", CleanupService(units, made.prices, clock, ["lab"], mode)
    )
    return made


def test_a_project_that_nobody_looks_at_says_so(client):
    answer = client.get("/v1/cleanup").json()
    assert answer["mode"] == "observe"
    assert answer["idle_seconds"] == 60
    (project,) = answer["projects"]
    assert (project["ticked_at"], project["next_tick_at"], project["rails"]) == (None, None, [])


def test_how_an_idle_node_stands_is_shown_with_its_signals(client, lab):
    idle, busy = lab.add(REST), lab.add(WORK)
    lab.minute(MINUTES)
    shown = client.get(f"/v1/nodes/{idle.id}/idle").json()
    assert (shown["state"], shown["policy"], shown["action"]) == ("CANDIDATE", "node", "observe")
    assert shown["limits"] == ["STEWARD_IDLE_MODE is observe"]
    assert shown["verdict"]["level"] == "QUIET"
    assert shown["verdict"]["coverage_percent"] == 100
    assert (shown["node_state"], shown["idle_at"], shown["kept_until"]) == ("READY", None, None)
    assert {signal["signal"] for signal in shown["signals"]} == {
        "tensorcore_idle_duration",
        "cpu",
        "network",
    }
    assert all(signal["level"] == "QUIET" for signal in shown["signals"])
    cpu = next(signal for signal in shown["signals"] if signal["signal"] == "cpu")
    assert (cpu["worker"], cpu["value"], cpu["coverage_percent"]) == (0, 2.0, 100)
    assert cpu["reason"] == "quiet since 2026-11-05T12:00:00Z"
    shown = client.get(f"/v1/nodes/{busy.id}/idle").json()
    assert (shown["state"], shown["due_at"]) == ("ACTIVE", None)
    assert "active" in shown["verdict"]["reason"]
    assert client.get("/v1/nodes/nobody/idle").status_code == 404


def test_a_state_that_only_google_knows_is_shown_as_it_is(client, lab, units):
    node = lab.add(REST)
    with units() as unit:
        unit.nodes.save(replace(unit.nodes.get(node.id), state="HIBERNATING"))
    assert client.get(f"/v1/nodes/{node.id}/idle").json()["node_state"] == "HIBERNATING"


def test_a_quiet_node_says_when_it_becomes_idle_and_a_kept_one_until_when_it_is_kept(client, lab):
    node = lab.add(REST)
    lab.minute(20)
    shown = client.get(f"/v1/nodes/{node.id}/idle").json()
    assert shown["state"] == "QUIET"
    lab.minute((parse_rfc3339(shown["idle_at"]) - lab.clock()) // 60 - 1)
    assert client.get(f"/v1/nodes/{node.id}/idle").json()["state"] == "QUIET"
    lab.minute(2)
    client.post(f"/v1/nodes/{node.id}:keep", json={"reason": "a demo", "for_seconds": 600})
    found = client.get(f"/v1/nodes/{node.id}/idle").json()
    assert (found["state"], found["idle_at"]) == ("CANDIDATE", None)
    assert found["kept_until"] == to_rfc3339(lab.clock() + 600)


def signals_of(client, node):
    shown = client.get(f"/v1/nodes/{node.id}/idle").json()
    return {(signal["worker"], signal["signal"]): signal for signal in shown["signals"]}


def test_a_signal_that_cannot_be_read_or_has_stopped_is_unknown_and_not_its_last_level(client, lab):
    idle = lab.add(REST)
    lab.minute(20)
    lab.telemetry.broken.add("cpu")
    lab.doing[idle.id] = {kind: value for kind, value in REST.items() if kind != "network"}
    lab.minute(15)
    found = signals_of(client, idle)
    cpu, network = found[0, "cpu"], found[0, "network"]
    assert (cpu["level"], cpu["reason"], cpu["value"]) == ("UNKNOWN", "cannot be read", 2.0)
    assert (network["level"], network["reason"]) == ("UNKNOWN", "has stopped")
    assert network["age_seconds"] >= 900
    assert 30 <= network["coverage_percent"] <= 70
    assert found[0, "tensorcore_idle_duration"]["level"] == "QUIET"


def test_signals_are_unknown_when_no_daemon_looks_any_more(client, lab):
    idle = lab.add(REST)
    lab.minute(20)
    lab.clock.pass_(3_600)
    reasons = {signal["reason"] for signal in signals_of(client, idle).values()}
    assert reasons == {"cannot be read"}


def test_a_heartbeat_is_shown_as_a_signal_of_the_whole_node(client, lab):
    idle = lab.add(REST)
    lab.minute(2)
    assert client.post(f"/v1/nodes/{idle.id}/heartbeat", json={}).status_code < 300
    lab.minute()
    beat = signals_of(client, idle)[None, "heartbeat"]
    assert (beat["level"], beat["value"], beat["coverage_percent"]) == ("ACTIVE", None, 0)
    assert beat["reason"] == "a heartbeat says that it is active"


def test_the_signals_of_a_deleted_node_stay_as_the_last_look_found_them(client, lab):
    idle = lab.add(REST)
    lab.minute(MINUTES)
    plan = client.post("/v1/cleanup:plan", json={}).json()
    client.post("/v1/cleanup:apply", json={"plan_id": plan["plan_id"]})
    lab.clock.pass_(7_200)
    shown = client.get(f"/v1/nodes/{idle.id}/idle").json()
    assert {signal["level"] for signal in shown["signals"]} == {"QUIET"}
    assert all(7_200 <= signal["age_seconds"] <= 7_500 for signal in shown["signals"])
    fields = shown["signals"][0].keys()
    for signal in shown["ended"][0]["evidence"]["signals"]:
        assert signal.keys() == fields
        assert (signal["level"], signal["coverage_percent"]) == ("QUIET", 100)
        assert signal["age_seconds"] <= 300


def test_what_workers_report_is_shown_with_its_age(client, lab):
    lab.workers = FakeWorkers(lab.clock)
    lab.start_daemon("two")
    node = lab.add(None, supervisor=True)
    lab.workers.add(node.cloud_id)
    lab.workers.machines[node.cloud_id][0].do(lab.clock(), sessions=2, holder="process 7 holds it")
    lab.minute(8)
    shown = client.get(f"/v1/nodes/{node.id}/idle").json()
    (report,) = shown["reports"]
    age = lab.clock() - parse_rfc3339(report["at"])
    assert report["age_seconds"] == age < 600
    assert (report["worker"], report["sessions"], report["holder"]) == (0, 2, "process 7 holds it")
    device = signals_of(client, node)[0, "device"]
    said = f"process 7 holds it, since at least {report['held_since']}"
    assert (device["level"], device["reason"]) == ("UNKNOWN", said)
    assert parse_rfc3339(report["held_since"]) <= parse_rfc3339(report["at"])
    assert (device["value"], device["coverage_percent"]) == (1.0, 0)
    assert parse_rfc3339(shown["reports_read_at"]) >= parse_rfc3339(report["at"])


@pytest.mark.deep
def test_a_plan_is_shown_applied_once_and_found_in_the_history(client, lab):
    idle = lab.add(REST)
    lab.minute(MINUTES)
    plan = client.post("/v1/cleanup:plan", json={}).json()
    (entry,) = plan["entries"]
    assert (entry["node_id"], entry["action"], entry["due_at"]) == (idle.id, "delete", None)
    applied = client.post("/v1/cleanup:apply", json={"plan_id": plan["plan_id"]})
    assert applied.status_code == 200
    assert applied.json()["entries"] == plan["entries"]
    again = client.post("/v1/cleanup:apply", json={"plan_id": plan["plan_id"]})
    assert again.status_code == 409
    assert again.json()["changed"] == [f"node {idle.name} is no longer in the plan"]
    assert client.get(f"/v1/nodes/{idle.id}").json()["asked"] == "absent"
    (ended,) = client.get("/v1/cleanup/history").json()["history"]
    assert (ended["actor"], ended["plan_id"]) == ("caller", plan["plan_id"])
    shown = client.get(f"/v1/nodes/{idle.id}/idle").json()
    assert shown["state"] == "DELETING"
    assert shown["ended"][0]["evidence"]["verdict"]["level"] == "QUIET"


@pytest.mark.deep
def test_a_plan_is_applied_while_the_mass_rail_holds_the_daemon(client, units, clock):
    lab = IdleLab(units, clock, Action.DELETE)
    nodes = [lab.add(REST) for _ in range(6)]
    lab.minute(MINUTES + 10)
    (project,) = client.get("/v1/cleanup").json()["projects"]
    assert "mass" in [held["rail"] for held in project["rails"]]
    assert len(project["waiting"]) == 6
    plan = client.post("/v1/cleanup:plan", json={}).json()
    assert "mass" in plan["held_by"]
    assert lab.ended() == []
    applied = client.post("/v1/cleanup:apply", json={"plan_id": plan["plan_id"]})
    assert applied.status_code == 200
    assert len(applied.json()["entries"]) == 6
    for node in nodes:
        assert client.get(f"/v1/nodes/{node.id}").json()["asked"] == "absent"


@pytest.mark.parametrize("plan_id", ["", "x", "0" * 31, "G" * 32, "0" * 33, "../../etc"])
def test_what_is_no_plan_id_is_refused(client, lab, plan_id):
    assert client.post("/v1/cleanup:apply", json={"plan_id": plan_id}).status_code == 422
    assert lab.ended() == []


def test_a_forged_plan_id_is_a_conflict_that_says_what_to_do(client, lab):
    answer = client.post("/v1/cleanup:apply", json={"plan_id": "0" * 32})
    assert answer.status_code == 409
    assert "make a plan" in answer.json()["detail"]


def test_a_pause_is_shown_with_its_reason_and_ends_when_it_is_resumed(client, lab):
    assert client.post("/v1/cleanup:pause", json={"reason": " "}).status_code == 422
    assert client.post("/v1/cleanup:resume", json={}).status_code == 409
    answer = client.post("/v1/cleanup:pause", json={"reason": "a demo"})
    assert answer.json()["projects"][0]["pause_reason"] == "a demo"
    lab.minute(1)
    (project,) = client.get("/v1/cleanup").json()["projects"]
    assert [rail["rail"] for rail in project["rails"]] == ["pause", "start"]
    next_tick = parse_rfc3339(project["next_tick_at"])
    assert next_tick == lab.clock() + TIMES.period
    assert client.post("/v1/cleanup:resume", json={}).json()["projects"][0]["paused_at"] is None
    assert client.post("/v1/cleanup:pause", json={"project": "x", "reason": "y"}).status_code == 404


def test_the_nodes_that_wait_are_named_and_so_is_who_waits_for_each_rail(client, units, clock):
    lab = IdleLab(units, clock, Action.DELETE)
    idle = lab.add(REST)
    lab.minute(MINUTES)
    paused = client.post("/v1/cleanup:pause", json={"reason": "a demo"}).json()
    lab.minute(6)
    (project,) = client.get("/v1/cleanup").json()["projects"]
    assert [(waiting["name"], waiting["rail"]) for waiting in project["waiting"]] == [
        (idle.name, "pause")
    ]
    named = {rail["rail"]: rail["waiting"] for rail in project["rails"]}
    assert named == {"pause": [idle.name], "start": [idle.name]}
    assert paused["projects"][0]["waiting"] == []
    assert client.get(f"/v1/nodes/{idle.id}/idle").json()["waiting"]["name"] == idle.name
    resumed = client.post("/v1/cleanup:resume", json={}).json()
    assert resumed["projects"][0]["waiting"][0]["name"] == idle.name
    (place,) = resumed["projects"][0]["waiting"]
    assert parse_rfc3339(place["since"]) <= lab.clock() - 60, "it has waited for some checks"
    assert client.get(f"/v1/nodes/{idle.id}/idle").json()["waiting"] == place


def test_a_breaker_is_closed_by_hand_with_a_reason_only_where_it_is_open(client, lab):
    closing = {"project": "lab", "breaker": True}
    assert client.post("/v1/cleanup:resume", json=closing).status_code == 422
    wanted = {**closing, "reason": "metrics are back"}
    assert client.post("/v1/cleanup:resume", json=wanted).status_code == 409
    opened_at = lab.clock()
    with lab.units() as unit:
        row = unit.cleanups.get("lab")
        breaker = Breaker(opened_at=opened_at, reason="metrics went dark")
        unit.cleanups.save(replace(row, breaker=breaker))
    shown = client.get("/v1/cleanup").json()["projects"][0]
    assert (shown["breaker_open_since"], shown["breaker_reason"]) == (
        to_rfc3339(opened_at),
        "metrics went dark",
    )
    closed = client.post("/v1/cleanup:resume", json=wanted)
    assert closed.status_code == 200
    shown = closed.json()["projects"][0]
    assert shown["breaker_open_since"] is None
    assert shown["breaker_closed_at"] == to_rfc3339(lab.clock())
    assert shown["breaker_closed_by"] == "caller"
    assert shown["breaker_closed_reason"] == "metrics are back"
    lab.minute(3)
    still = client.get("/v1/cleanup").json()["projects"][0]
    assert still["breaker_closed_at"] == shown["breaker_closed_at"], "kept until it opens again"


def test_the_coverage_names_each_metric_and_what_nobody_sees(client, lab):
    lab.add(REST)
    lab.add(None)
    lab.minute(20)
    (project,) = client.get("/v1/cleanup/coverage").json()["projects"]
    assert (project["nodes"], project["known"], project["unknown"]) == (2, 1, 1)
    assert project["never_deleted"] == 1
    by_signal = {family["signal"]: family for family in project["families"]}
    assert by_signal["cpu"]["state"] == "present"
    assert by_signal["cpu"]["nodes"] == 1
    assert by_signal["scheduled_chips"]["state"] == "absent"
    lab.telemetry.broken.update(by_signal)
    lab.minute(1)
    (project,) = client.get("/v1/cleanup/coverage").json()["projects"]
    assert {family["state"] for family in project["families"]} == {"failed"}
    assert project["families"][0]["error"] == "no answer"
