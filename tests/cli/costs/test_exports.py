"""`costs export`: a file on the standard output, byte for byte."""

from __future__ import annotations

import pytest

from tests.cli.given import answering, steward

FILE = 'BilledCost,Tags\r\n9.600000000,"{""team"":""vision""}"\r\n'


@pytest.fixture
def files(api):
    """The same API, where it answers with files as it does."""
    api.media_type = "text/csv; charset=utf-8; header=present"
    return api


def test_a_file_is_written_as_it_comes(files):
    files.when("GET", "/v1/exports/focus", FILE)
    result = steward("costs", "export", "--focus", "1.4", "--window", "2026-10-01,2026-11-01")
    assert result.exit_code == 0
    assert result.stdout_bytes == FILE.encode()
    (call,) = files.calls
    assert call.query == {"version": ["1.4"], "window": ["2026-10-01,2026-11-01"]}


def test_the_month_so_far_by_the_older_edition_is_the_default(files):
    files.when("GET", "/v1/exports/focus", FILE)
    steward("costs", "export")
    assert files.calls[0].query == {"version": ["1.2"], "window": ["mtd"]}


@pytest.mark.parametrize("said", ["hello", "{}", FILE])
def test_what_is_no_csv_is_no_file(api, said):
    api.when("GET", "/v1/exports/focus", said)
    result = steward("costs", "export")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "answered with no text/csv, and not as TPU Steward does" in result.stderr


@pytest.mark.parametrize("said", [FILE[:-5], ""])
def test_a_file_that_ends_in_the_middle_of_a_line_is_not_whole(files, said):
    files.when("GET", "/v1/exports/focus", said)
    result = steward("costs", "export")
    assert result.exit_code == 1
    assert result.stderr == "its last line is incomplete: the file that was written is incomplete\n"


def test_a_file_that_breaks_off_is_not_whole():
    """So does the service break off when its database fails: without the chunk that ends all."""
    with answering(BROKEN_OFF) as url:
        result = steward("costs", "export", STEWARD_URL=url)
    assert (result.exit_code, result.stdout_bytes) == (1, FILE.encode())
    assert result.stderr.splitlines()[-1] == "the file that was written is incomplete"


BROKEN_OFF = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n"
    f"{len(FILE):x}\r\n{FILE}\r\n"
)


def test_a_refusal_is_told_in_a_line_and_nothing_is_written(api):
    refusal = {"title": "Cannot be granted", "detail": "'x' is not a window", "status": 422}
    api.when("GET", "/v1/exports/focus", refusal, status=422)
    result = steward("costs", "export", "--window", "x")
    assert result.exit_code != 0
    assert result.stdout == ""
    assert "'x' is not a window" in result.stderr


def test_nobody_there_is_told_in_a_line(monkeypatch):
    monkeypatch.setenv("STEWARD_URL", "http://127.0.0.1:9")
    result = steward("costs", "export")
    assert result.exit_code == 1
    assert "nothing answers at http://127.0.0.1:9" in result.stderr


def test_costs_alone_still_says_what_was_spent(api):
    report = {
        "aggregate": [],
        "rows": [],
        "tz": "UTC",
        "total": "0.0",
        "list_total": "0.0",
        "uncertainty": "0.0",
        "unpriced_seconds": 0,
        "estimated": False,
        "as_of": "2026-11-05T12:00:00Z",
    }
    api.when("GET", "/v1/costs", report)
    assert steward("costs", "--window", "mtd").stdout.startswith("$0.00 in all")
