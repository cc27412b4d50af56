"""Log entries: how they are found again, page by page."""

from __future__ import annotations

import pytest

from service.emulator.errors import Code
from service.emulator.surfaces import control
from tests.emulator.entries import found, refusal, write
from tests.emulator.factories import Cloud


@pytest.fixture
def full(cloud) -> Cloud:
    """Three entries, a second apart."""
    write(cloud, {"text_payload": "Loss is NaN", "severity": "ERROR", "labels": {"a.b/c": "x"}})
    cloud.wait(1)
    write(cloud, {"json_payload": {"step": 7, "at": {"loss": 0.25}}, "severity": "INFO"})
    cloud.wait(1)
    write(cloud, {"text_payload": "done", "http_request": {"status": 200}})
    return cloud


AT = "2027-01-15T08:00:01.25Z"
QUERIES = {
    "": "012",
    "severity>=INFO": "01",
    "severity=error": "0",
    "severity=(ERROR OR INFO)": "01",
    "severity!=ERROR": "12",
    'textPayload:"nan"': "0",
    'textPayload="loss is nan"': "0",
    'textPayload=~"^Loss"': "0",
    'textPayload=~"^loss"': "",
    'textPayload!~"^Loss"': "12",
    "text_payload:done": "2",
    '"loss is"': "0",
    "done": "2",
    "NOT done": "01",
    "-done": "01",
    "jsonPayload.step=7": "1",
    "jsonPayload.step>=10": "",
    "jsonPayload.at.loss<0.3": "1",
    "jsonPayload.at:*": "1",
    "jsonPayload.step!=8": "1",
    "NOT jsonPayload.step=8": "012",
    "httpRequest.status=200": "2",
    'labels."a.b/c"=x': "0",
    "labels.a.b/c=x": "0",
    f'timestamp>="{AT}"': "12",
    f'timestamp<"{AT}"': "0",
    f'timestamp="{AT}"': "1",
    'timestamp>="2027-01-15"': "012",
    'timestamp>="2027-01-15T10:00:01.25+02:00"': "12",
    f'receiveTimestamp>"{AT}"': "2",
    'logName="projects/lab/logs/mine"': "012",
    'log_id("mine")': "012",
    'log_id("yours")': "",
    'resource.type="global"': "012",
    'resource.labels.project_id="lab"': "012",
    # OR binds closer than AND.
    "severity=ERROR OR done severity=INFO": "",
    "(severity=ERROR OR done) AND NOT done": "0",
    "severity=ERROR -- who looks\nOR done": "02",
}


@pytest.mark.parametrize(("text", "wanted"), QUERIES.items(), ids=QUERIES)
def test_a_filter_finds_entries(full, text, wanted):
    everything = found(full)
    entries = found(full, text)
    assert "".join(str(everything.index(entry)) for entry in entries) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("timestamp>=2027-01-15T08:00:00Z", "syntax error at line 1, column 25, token ':'"),
        ("severity>=LOUD", "invalid severity LOUD"),
        ('timestamp>"yesterday"', 'invalid timestamp "yesterday"'),
        ("severity=~ERR", "the operator =~ cannot be used with severity"),
        ('textPayload=~"("', "invalid regular expression"),
        ("a AND", "syntax error at line 1, column 6, token 'EOF'"),
        ('a\nAND OR "b"', "syntax error at line 2, column 5, token 'O'"),
        ("sample(insertId, 0.1)", "unsupported function sample"),
        ("(" * 500, "syntax error"),
    ],
)
def test_a_filter_that_cannot_be_read_says_where(cloud, text, why):
    error = refusal(found, cloud, text)
    assert error.code is Code.INVALID_ARGUMENT
    assert f"Unparseable filter: {why}" in error.message


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_names": []},
        {"resource_names": ["lab"]},
        {"order_by": "severity"},
        {"page_size": 1001},
        {"page_size": -1},
        {"page_token": "x"},
    ],
)
def test_a_list_that_makes_no_sense_is_refused(cloud, fields):
    assert refusal(found, cloud, **fields).code is Code.INVALID_ARGUMENT


def test_another_project_sees_nothing(full):
    assert found(full, resource_names=["projects/other"]) == []
    view = "projects/lab/locations/global/buckets/_Default/views/_AllLogs"
    assert len(found(full, resource_names=["projects/other", view])) == 3


@pytest.mark.parametrize("order", ["timestamp asc", "timestamp desc"])
def test_pages_lose_nothing_while_entries_come(cloud, order):
    for number in range(7):
        write(cloud, {"text_payload": str(number)}, {"text_payload": f"also {number}"})
        cloud.wait(1)
    asked = {"resource_names": ["projects/lab"], "order_by": order, "page_size": 3}
    everything = found(cloud, order_by=order)
    seen, token = [], ""
    while True:
        page = cloud.ask("ListLogEntries", page_token=token, **asked)
        seen += page.entries
        token = page.next_page_token
        if not token:
            break
    assert seen == everything
    times = [entry.timestamp.seconds for entry in seen]
    assert times == sorted(times, reverse=order.endswith("desc"))


def test_fifty_entries_are_a_page_unless_more_are_asked_for(cloud):
    write(cloud, *({"text_payload": str(number)} for number in range(60)))
    assert len(found(cloud, page_size=0)) == 50


def test_logs_are_listed(full):
    record = full.world.nodes[full.ready()]
    assert record.state == "READY"
    names = full.ask("ListLogs", parent="projects/lab").log_names
    assert list(names) == [
        "projects/lab/logs/cloudaudit.googleapis.com%2Factivity",
        "projects/lab/logs/mine",
        "projects/lab/logs/tpu.googleapis.com%2Fruntime_monitor",
    ]
    control.add_fault(full.world, {"rpc": "ListLogs", "action": "empty_list"})
    assert list(full.ask("ListLogs", parent="projects/lab").log_names) == []


def test_a_reset_forgets_all_entries(full):
    control.reset_world(full.world)
    assert found(full) == []
