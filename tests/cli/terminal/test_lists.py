"""The options of every command that prints a list."""

from __future__ import annotations

import csv
import io
import json

import pytest
import typer
import yaml

from service.cli.app import app
from service.cli.terminal import live
from service.cli.terminal.client import Unreachable
from service.cli.terminal.lists import ListCommand, ListGroup, add_watch_seconds
from tests.cli.given import ID, OTHER, node, page, steward

NODES = page(
    node(hourly_cost="9.000000000"),
    node(id=OTHER, name="helper", hourly_cost="11.500000000"),
    node(id=ID[:-1] + "9", name="old", state="DELETED", hourly_cost="0.000000000"),
)


def commands_of(command, path=()):
    """Every command with its path."""
    below = getattr(command, "commands", {})
    yield path, command
    for name in below:
        yield from commands_of(below[name], (*path, name))


def test_every_command_that_lists_has_the_options_and_no_other_has():
    listing = {
        " ".join(path)
        for path, command in commands_of(typer.main.get_command(app))
        if isinstance(command, (ListCommand, ListGroup))
    }
    named = {path for path, _ in commands_of(typer.main.get_command(app)) if path[-1:] == ("list",)}
    assert {" ".join(path) for path in named} <= listing
    assert listing - {" ".join(path) for path in named} == {
        *("nodes events", "nodes ledger", "costs", "costs statement", "costs reconciliations"),
        *("catalog accelerators", "catalog zones", "catalog capacity", "catalog quotas"),
        *("cleanup history", "cleanup policies"),
    }


def test_a_list_is_printed_in_each_format(api):
    api.when("GET", "/v1/nodes", NODES)
    assert steward("nodes", "list", "-o", "name").stdout == "trainer\nhelper\n"
    assert json.loads(steward("nodes", "list", "-o", "json").stdout) == NODES
    assert yaml.safe_load(steward("nodes", "list", "-o", "yaml").stdout) == NODES
    rows = csv.DictReader(io.StringIO(steward("nodes", "list", "-o", "csv").stdout))
    assert [row["name"] for row in rows] == ["trainer", "helper", "old"]
    wide = steward("nodes", "list", "-o", "wide").stdout.splitlines()
    assert [line.split()[0] for line in wide[:3]] == ["NAME", "trainer", "helper"]


def test_a_list_is_sorted_by_a_column_or_by_a_field(api):
    api.when("GET", "/v1/nodes", NODES)
    for sort_by, names in (
        ("per-hour", ["trainer", "helper"]),
        ("-PER HOUR", ["helper", "trainer"]),
    ):
        shown = steward("nodes", "list", "-o", "name", "--sort-by", sort_by).stdout
        assert shown.split() == names
    found = json.loads(steward("nodes", "list", "--json", "--sort-by", "name").stdout)
    assert [node["name"] for node in found["nodes"]] == ["helper", "old", "trainer"]


def test_a_list_without_headings_is_rows_alone(api):
    api.when("GET", "/v1/nodes", NODES)
    shown = steward("nodes", "list", "--no-headers").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["trainer", "helper"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("nodes", "list", "--sort-by", "colour"),
        ("nodes", "list", "-o", "xml"),
        ("nodes", "list", "--json", "-o", "yaml"),
        ("nodes", "list", "--watch", "0"),
        ("costs", "-o", "csv", "statement"),
    ],
)
def test_options_that_make_no_sense_are_a_usage_error(api, arguments):
    api.when("GET", "/v1/nodes", NODES)
    result = steward(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")


def test_watching_needs_no_number():
    assert add_watch_seconds([]) == []
    assert add_watch_seconds(["--watch"]) == ["--watch", "2"]
    assert add_watch_seconds(["--watch", "5", "--all"]) == ["--watch", "5", "--all"]
    assert add_watch_seconds(["--watch", "--all"]) == ["--watch", "2", "--all"]


def test_watching_prints_until_it_is_interrupted(api, monkeypatch):
    api.when("GET", "/v1/nodes", NODES)
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("service.cli.terminal.live.time.sleep", sleep)
    result = steward("nodes", "list", "-o", "name", "--watch", "7")
    assert (result.exit_code, pauses) == (0, [7, 7])
    assert result.stdout.split("\n\n") == ["trainer\nhelper", "trainer\nhelper\n"]


def test_what_does_not_fit_the_terminal_is_counted():
    text = "".join(f"line {number}\n" for number in range(9))
    assert live.cut_lines(text, 10) == text
    assert live.cut_lines(text, 6).splitlines() == [
        *(f"line {number}" for number in range(4)),
        "(5 more lines)",
    ]


def test_a_service_that_does_not_answer_is_tried_again_once_it_has_answered(monkeypatch, capsys):
    answers = iter(["first", Unreachable("nothing answers"), "second", KeyboardInterrupt()])

    def draw():
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        typer.echo(answer)

    monkeypatch.setattr("service.cli.terminal.live.time.sleep", lambda _: None)
    live.keep_printing(draw, 1)
    said = capsys.readouterr()
    assert said.out.split() == ["first", "second"]
    assert said.err == "nothing answers\n"
    answers = iter([Unreachable("nothing answers")])
    with pytest.raises(Unreachable):
        live.keep_printing(draw, 1)


def test_on_a_terminal_an_update_replaces_what_was_there(monkeypatch, capsys):
    monkeypatch.setattr(live, "is_terminal", lambda _: True)
    monkeypatch.setenv("LINES", "4")
    monkeypatch.setenv("COLUMNS", "80")
    rounds = iter([None, KeyboardInterrupt()])

    def sleep(_):
        if (interrupt := next(rounds)) is not None:
            raise interrupt

    monkeypatch.setattr("service.cli.terminal.live.time.sleep", sleep)
    live.keep_printing(lambda: typer.echo("a\nb\nc\nd\ne"), 1)
    first, *updates = capsys.readouterr().out.split(live.HOME_AND_CLEAR)
    assert (first, [update.split() for update in updates]) == (
        "",
        [["a", "b", "(3", "more", "lines)"]] * 2,
    )
