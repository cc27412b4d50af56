"""`costs export`: a file on the standard output, byte for byte."""

from __future__ import annotations

from tests.cli.given import steward

FILE = 'BilledCost,Tags\r\n9.600000000,"{""team"":""vision""}"\r\n'


def test_a_file_is_written_as_it_comes(api):
    api.when("GET", "/v1/exports/focus", FILE)
    result = steward("costs", "export", "--focus", "1.4", "--window", "2026-10-01,2026-11-01")
    assert result.exit_code == 0
    assert result.stdout_bytes == FILE.encode()
    (call,) = api.calls
    assert call.query == {"version": ["1.4"], "window": ["2026-10-01,2026-11-01"]}


def test_the_month_so_far_by_the_older_edition_is_the_default(api):
    api.when("GET", "/v1/exports/focus", FILE)
    steward("costs", "export")
    assert api.calls[0].query == {"version": ["1.2"], "window": ["mtd"]}


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
