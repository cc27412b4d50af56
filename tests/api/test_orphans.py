"""Orphans over HTTP: seen with what they cost, adopted once, deleted when somebody means it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.application.orphans import OrphanSum, sum_orphans
from service.domain.nodes.node import Place
from service.domain.orphans.orphan import STEWARD, OrphanKind, OrphanVerdict
from tests import factories
from tests.api.system.test_health import gauges
from tests.factories import PROJECT, ZONE
from tests.garbage import OURS, orphan, shown
from tests.hands import NOON

STRANGER = {"kind": OrphanKind.STRANGER, "certain": False, "verdict": OrphanVerdict.LEAVE}


def stranger(cloud_id="somebodys", **changes):
    labels = {"owner": "grace", "run": "17"}
    return orphan(shown=shown(cloud_id, labels=labels, **changes), **STRANGER)


@pytest.fixture
def there(units):
    """Write orphans down; answers the id of the first."""

    def write(*some):
        with units() as unit:
            for orphan_ in some:
                unit.orphans.add(orphan_)
        return some[0].id

    return write


@pytest.fixture
def kept(units):
    """An orphan as it is stored now."""

    def read(orphan_id):
        with units.reading() as unit:
            return unit.orphans.get(orphan_id, [PROJECT])

    return read


def post(client, orphan_id, verb, **body):
    return client.post(f"/v1/orphans/{orphan_id}:{verb}", json=body)


def test_an_orphan_is_shown_with_all_that_helps_to_decide(client, there):
    there(stranger())
    answer = client.get("/v1/orphans").json()
    assert answer["total_hourly_cost"] == "9.600000000"
    assert answer["unpriced"] == 0
    (one,) = answer["orphans"]
    assert one["name"] == "projects/lab/locations/us-west4-a/nodes/somebodys"
    assert (one["kind"], one["state"], one["chips"]) == ("stranger", "READY", 8)
    assert one["hourly_cost"] == "9.600000000"
    assert one["owner_hints"] == {"owner": "grace"}
    assert one["labels"]["run"] == "17"
    assert (one["first_seen"], one["last_seen"]) == (
        "2026-11-05T11:00:00Z",
        "2026-11-05T12:00:00Z",
    )
    assert not one["to_be_deleted"]


def test_the_dearest_comes_first_and_what_is_not_known_is_not_called_free(client, there):
    there(
        stranger("small"),
        stranger("large", accelerator_type="v5litepod-64"),
        stranger("odd", accelerator_type="v99-8"),
        stranger("stopped", state="STOPPED"),
        orphan(kind=OrphanKind.ZOMBIE, shown=shown("queue", queued=True, state="FAILED")),
    )
    answer = client.get("/v1/orphans").json()
    assert [orphan["cloud_id"] for orphan in answer["orphans"]][:2] == ["large", "small"]
    costs = {orphan["cloud_id"]: orphan["hourly_cost"] for orphan in answer["orphans"]}
    assert [costs[name] for name in ("odd", "stopped", "queue")] == [None, None, None]
    assert answer["total_hourly_cost"] == "86.400000000"
    assert answer["unpriced"] == 1


def test_the_list_is_narrowed_and_cut_into_pages_and_the_total_stays_whole(client, there):
    there(stranger("a"), stranger("b"), orphan())
    assert len(client.get("/v1/orphans?kind=stranger&project=lab").json()["orphans"]) == 2
    first = client.get("/v1/orphans?page_size=2").json()
    second = client.get(f"/v1/orphans?page_size=2&page_token={first['next_page_token']}").json()
    assert len(first["orphans"] + second["orphans"]) == 3
    assert first["total_hourly_cost"] == second["total_hourly_cost"] == "28.800000000"
    assert second["next_page_token"] == ""


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("kind=alien", "stranger"),
        ("project=theirs", "STEWARD_PROJECTS"),
        ("zone=x", "known query parameters are kind, page_size, page_token, project"),
        ("page_size=0", "greater than or equal to 1"),
        ("project=a%0Ab", "not allowed"),
    ],
)
def test_a_query_that_means_nothing_is_refused(client, query, said):
    answer = client.get(f"/v1/orphans?{query}")
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_orphans_of_a_project_that_is_not_ours_are_not_there(client, there):
    theirs = stranger()
    place = Place("theirs", ZONE, "somebodys")
    orphan_id = there(replace(theirs, shown=replace(theirs.shown, place=place)))
    assert client.get("/v1/orphans").json()["orphans"] == []
    assert post(client, orphan_id, "delete", confirm=place.path).status_code == 404
    assert post(client, orphan_id, "adopt").status_code == 404


@pytest.mark.parametrize("verb", ["adopt", "delete"])
@pytest.mark.parametrize(
    ("orphan_id", "status"), [("0" * 32, 404), ("x", 422), ("Z" * 32, 422), ("0" * 500, 422)]
)
def test_an_id_that_is_none_is_refused(client, verb, orphan_id, status):
    assert post(client, orphan_id, verb).status_code == status


def test_a_stranger_is_deleted_only_when_its_name_is_repeated(client, there, kept):
    orphan_id = there(stranger())
    name = kept(orphan_id).shown.path
    refused = post(client, orphan_id, "delete")
    assert refused.status_code == 409
    assert refused.json()["confirm"] == name
    assert client.post(f"/v1/orphans/{orphan_id}:delete").status_code == 409
    assert post(client, orphan_id, "delete", confirm=name[:-1]).status_code == 409
    assert post(client, orphan_id, "delete", confirm="somebodys").status_code == 409
    assert not kept(orphan_id).to_be_deleted
    accepted = post(client, orphan_id, "delete", confirm=name)
    assert accepted.status_code == 202
    assert accepted.json()["to_be_deleted"]
    one = kept(orphan_id)
    assert (one.confirmed, one.asked_by, one.next_try_at) == (True, "caller", NOON)


def test_asking_for_the_end_twice_is_asking_once(client, there, kept, clock):
    orphan_id = there(orphan())
    first = post(client, orphan_id, "delete")
    before = kept(orphan_id)
    clock.pass_(60)
    assert post(client, orphan_id, "delete").json() == first.json()
    assert kept(orphan_id) == before


def test_a_request_of_ours_becomes_one_of_the_caller(client, there, kept):
    orphan_id = there(orphan(wanted="delete", asked_by=STEWARD, next_try_at=NOON + 300, tries=4))
    assert post(client, orphan_id, "delete").status_code == 202
    one = kept(orphan_id)
    assert (one.asked_by, one.next_try_at, one.tries) == ("caller", NOON, 0)


def test_what_is_gone_is_answered_as_gone(client, there):
    orphan_id = there(replace(stranger(), gone_at=NOON))
    answer = post(client, orphan_id, "delete")
    assert answer.status_code == 202
    assert answer.json()["gone_at"] == "2026-11-05T12:00:00Z"
    assert post(client, orphan_id, "adopt").status_code == 409
    assert client.get("/v1/orphans").json()["orphans"] == []


def test_an_adopted_node_is_a_node(client, there, units):
    orphan_id = there(stranger())
    answer = post(client, orphan_id, "adopt", name="mine", owner="ada", team="vision")
    assert answer.status_code == 201
    node = answer.json()
    assert answer.headers["location"] == f"/v1/nodes/{node['id']}"
    assert client.get(answer.headers["location"]).json() == node
    assert (node["name"], node["owner"], node["team"]) == ("mine", "ada", "vision")
    assert (node["cloud_id"], node["zone"], node["state"]) == ("somebodys", ZONE, "READY")
    assert (node["chips"], node["generation"], node["asked"]) == (8, "v5e", "present")
    assert (node["cost"], node["hourly_cost"]) == ("0.000000000", "9.600000000")
    assert node["labels"] == {"owner": "grace", "run": "17"}
    assert client.get("/v1/orphans").json()["orphans"] == []
    (event,) = client.get(f"/v1/nodes/{node['id']}/events").json()["events"]
    assert event["kind"] == "adopted"
    assert "charged from now on" in event["message"]
    with units.reading() as unit:
        stored = unit.nodes.get(node["id"])
        (usage,) = unit.usage.list_by_node(node["id"])
    assert (stored.cloud_uid, stored.next_try_at) == ("7001", NOON)
    assert (usage.start, usage.start_hi, usage.end) == (NOON, NOON, None)


def test_adopting_twice_is_told_whose_it_is(client, there):
    orphan_id = there(stranger())
    node = post(client, orphan_id, "adopt").json()
    assert node["name"] == "somebodys"
    for verb in ("adopt", "delete"):
        answer = post(client, orphan_id, verb)
        assert answer.status_code == 409
        assert answer.json()["node_id"] == node["id"]
    assert len(client.get("/v1/nodes").json()["nodes"]) == 1


def test_what_a_live_record_is_at_cannot_be_adopted(client, there, units):
    node = factories.sent(cloud_id="somebodys", cloud_uid="7001")
    with units() as unit:
        unit.nodes.add(node)
    answer = post(client, there(stranger()), "adopt")
    assert answer.status_code == 409
    assert answer.json()["node_id"] == node.id


@pytest.mark.parametrize(
    ("one", "status", "said"),
    [
        (stranger(accelerator_type="v99-8"), 422, "there is no accelerator type"),
        (stranger(accelerator_type=""), 422, "there is no accelerator type"),
        (stranger(uid=""), 422, "shows no id"),
        (stranger(queued=True, state="FAILED"), 422, "its owner, or delete it"),
        (stranger(state="PREEMPTED"), 409, "is PREEMPTED"),
        (stranger(state="STOPPED"), 409, "is STOPPED"),
        (stranger("Not_a-name"), 422, "is not allowed"),
        (replace(stranger(), wanted="delete", asked_by="caller"), 409, "being deleted"),
        (orphan(wanted="delete", asked_by=STEWARD), 409, "being deleted"),
    ],
)
def test_what_cannot_be_managed_is_not_adopted(client, there, one, status, said):
    answer = post(client, there(one), "adopt")
    assert answer.status_code == status
    assert said in answer.json()["detail"]
    assert client.get("/v1/nodes").json()["nodes"] == []


def test_the_node_of_a_queued_resource_is_not_adopted_and_is_told_what_to_delete(client, there):
    """Its record could neither stop it nor see that its queued resource goes with it."""
    node = stranger("sq1-n", queued_resource="projects/17/locations/x/queuedResources/sq1")
    ticket = stranger("sq1", queued=True, state="ACTIVE", nodes=("sq1-n",))
    answer = post(client, there(node, ticket), "adopt")
    assert answer.status_code == 422
    said = answer.json()
    assert said["queued_resource"] == "projects/lab/locations/us-west4-a/queuedResources/sq1"
    assert said["orphan_id"] == ticket.id
    assert said["queued_resource"] in said["detail"]
    assert "delete both" in said["detail"]
    assert client.get("/v1/nodes").json()["nodes"] == []


def test_a_queued_resource_is_not_adopted_and_what_it_is_told_to_delete_can_be(client, there, kept):
    node = stranger("sq1-n", queued_resource="projects/17/locations/x/queuedResources/sq1")
    ticket = stranger("sq1", queued=True, uid="", state="ACTIVE", nodes=("sq1-n",))
    there(node, ticket)
    answer = post(client, ticket.id, "adopt")
    assert answer.status_code == 422
    said = answer.json()
    assert said["detail"] == (
        "a queued resource cannot be adopted, and neither can its nodes. Leave them to their"
        f" owner, or delete the nodes first (sq1-n as orphan {node.id}) and then the queued"
        " resource"
    )
    assert (said["nodes"], said["orphan_ids"]) == (["sq1-n"], [node.id])
    for id_ in (*said["orphan_ids"], ticket.id):
        path = kept(id_).shown.path
        assert post(client, id_, "delete", confirm=path).status_code == 202
        assert kept(id_).to_be_deleted
    assert client.get("/v1/nodes").json()["nodes"] == []


def test_whoever_deletes_a_node_is_told_of_the_queued_resource_that_stays(client, there, kept):
    node = stranger("sq1-n", queued_resource="projects/17/locations/x/queuedResources/sq1")
    orphan_id = there(node, stranger("plain"))
    answer = post(client, orphan_id, "delete", confirm=node.shown.path)
    assert answer.status_code == 202
    ticket = "projects/lab/locations/us-west4-a/queuedResources/sq1"
    assert answer.json()["queued_resource"] == ticket
    assert kept(orphan_id).to_be_deleted
    names = {orphan["cloud_id"]: orphan["queued_resource"] for orphan in all_of(client)}
    assert names == {"sq1-n": ticket, "plain": ""}


def all_of(client):
    return client.get("/v1/orphans").json()["orphans"]


def test_a_name_that_is_taken_is_refused_and_nothing_is_adopted(client, there, kept, ask):
    node = ask(name="mine")
    orphan_id = there(stranger())
    answer = post(client, orphan_id, "adopt", name="mine")
    assert answer.status_code == 409
    assert answer.json()["node_id"] == node["id"]
    assert not kept(orphan_id).is_adopted


def test_a_long_name_of_the_cloud_is_cut_to_one_of_ours(client, there):
    node = post(client, there(stranger("a" * 48 + "-" + "b" * 14)), "adopt").json()
    assert node["name"] == "a" * 48
    assert node["cloud_id"] == "a" * 48 + "-" + "b" * 14


def test_our_labels_do_not_come_along(client, there):
    one = orphan(certain=False, shown=shown(labels=OURS | {"run": "17"}))
    assert post(client, there(one), "adopt").json()["labels"] == {"run": "17"}


@pytest.mark.parametrize(
    ("verb", "body", "said"),
    [
        ("adopt", {"name": "Not A Name"}, "is not allowed"),
        ("adopt", {"owner": "a\nb"}, "not allowed"),
        ("adopt", {"owner": "x" * 201}, "at most 200"),
        ("adopt", {"ownr": "ada"}, "did you mean owner?"),
        ("delete", {"confrm": "x"}, "did you mean confirm?"),
        ("delete", {"confirm": "x" * 401}, "at most 400"),
        ("delete", {"confirm": 1}, "string"),
    ],
)
def test_a_body_that_means_nothing_is_refused(client, there, verb, body, said):
    answer = post(client, there(stranger()), verb, **body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_an_alarm_can_be_set_on_what_is_not_in_our_books(client, there):
    assert gauges(client)["steward_orphans", "stranger"] == 0
    there(stranger(), stranger("odd", accelerator_type="v99-8"), orphan())
    found = gauges(client)
    assert found["steward_orphans", "stranger"] == 2
    assert found["steward_orphans", "ours_without_record"] == 1
    assert found["steward_orphans", "leftover"] == 0
    assert found["steward_orphans_dollars_per_hour",] == 19.2
    assert found["steward_orphans_unpriced",] == 1


def test_counted_they_are_what_they_are_one_by_one(services, there):
    there(
        *(stranger(f"n{number}") for number in range(3)),
        stranger("odd", accelerator_type="v99-8"),
        stranger("spot", provisioning_model="spot"),
        orphan(shown=shown("queue", queued=True, state="SUSPENDED"), kind=OrphanKind.ZOMBIE),
        orphan(),
    )
    totals = services.orphans.sum_by_kind()
    assert list(totals) == list(OrphanKind)
    for kind, total in totals.items():
        assert total == sum_orphans(services.orphans.list_all(kind=kind))
    assert sum(totals.values(), OrphanSum()) == sum_orphans(services.orphans.list_all())


def test_hostile_labels_are_shown_as_what_they_are(client, there):
    labels = {"owner": "<img src=x onerror=alert(1)>", "x": "\u202e"}
    one = orphan(shown=shown(labels=labels), **STRANGER)
    there(one)
    answer = client.get("/v1/orphans")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["orphans"][0]["labels"] == labels
