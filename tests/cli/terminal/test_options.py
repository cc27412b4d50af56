"""How what is typed is read."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from service.cli.app import app
from service.cli.terminal import options
from service.domain.nodes.request import MAX_SCRIPT_BYTES


def names_of(command):
    """The names of all options of a command, and of the commands below it."""
    below = getattr(command, "commands", {}).values()
    own = [name for param in command.params for name in param.opts if name.startswith("-")]
    return own + [name for child in below for name in names_of(child)]


def test_every_option_is_named_in_lower_case():
    """typer 0.27 names an option after its metavar where the two differ in case alone."""
    names = names_of(typer.main.get_command(app))
    assert len(names) > 200
    assert [name for name in names if name != name.lower()] == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1_800), ("2h", 7_200), ("1h30m", 5_400), ("7d", 604_800)],
)
def test_durations_are_read(text, seconds):
    assert options.parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1h", "2 h", "1.5h", "2w", "h", "1h30", "²"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(typer.BadParameter, match="is not a duration"):
        options.parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (None, None),
        ("jax", {"name": "jax"}),
        ("JAX=0.4.30", {"name": "jax", "version": "0.4.30"}),
        ("tensorflow==2.15", {"name": "tensorflow", "version": "2.15"}),
    ],
)
def test_frameworks_are_read_with_or_without_a_version(text, meant):
    assert options.parse_framework(text) == meant


@pytest.mark.parametrize(
    ("name", "spot", "preemptible", "meant"),
    [
        (None, False, False, None),
        (None, True, False, "spot"),
        (None, False, True, "preemptible"),
        ("on-demand", False, False, "on_demand"),
        ("spot", True, False, "spot"),
    ],
)
def test_the_model_may_be_said_in_several_ways(name, spot, preemptible, meant):
    assert options.choose_model(name, spot=spot, preemptible=preemptible) == meant


def test_two_models_at_once_are_a_mistake():
    for said in ({"spot": True}, {"flex_start": True}):
        with pytest.raises(typer.BadParameter):
            options.choose_model("reserved", **said)
    with pytest.raises(typer.BadParameter):
        options.choose_model(None, preemptible=True, flex_start=True)


def test_flex_start_may_be_said_twice_in_two_spellings():
    assert options.choose_model("Flex-Start", flex_start=True) == "flex_start"


@pytest.mark.parametrize(
    "text", ["2026-11-05T18:00:00Z", "2026-11-06", "2026-11-05T18:00:00+01:00"]
)
def test_an_instant_is_passed_on_as_it_was_typed(text):
    assert options.require_instant(f" {text} ") == text


@pytest.mark.parametrize("texts", [["a"], ["=b"], ["a=1", "a=2"]])
def test_labels_are_key_and_value_once(texts):
    with pytest.raises(typer.BadParameter):
        options.parse_mapping(texts, "--label")


def test_a_value_may_hold_an_equals_sign():
    assert options.parse_mapping(["a=b=c", "d="], "--label") == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_a_blank_name_means_nothing(text):
    with pytest.raises(typer.BadParameter, match="is empty; give a name"):
        options.require_name(text)


@pytest.mark.parametrize("text", ["", "ü", "a\nb"])
def test_a_key_that_no_header_can_carry_is_refused(text):
    with pytest.raises(typer.BadParameter):
        options.require_key(text)


def test_a_script_is_read_as_it_is(tmp_path):
    script = tmp_path / "start.sh"
    script.write_text("echo ü\r\n", newline="")
    assert options.read_script(script) == "echo ü\r\n"
    script.write_text("x" * MAX_SCRIPT_BYTES)
    assert options.read_script(script) == "x" * MAX_SCRIPT_BYTES


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"x" * (MAX_SCRIPT_BYTES + 1), "is longer than 256 KiB"), (b"\xff", "is not UTF-8 text")],
)
def test_a_script_that_nobody_could_run_is_refused(tmp_path, content, why):
    script = tmp_path / "start.sh"
    script.write_bytes(content)
    with pytest.raises(typer.BadParameter, match=why):
        options.read_script(script)


def test_a_script_is_a_file_that_has_an_end():
    with pytest.raises(typer.BadParameter, match="/dev/zero is not a regular file"):
        options.read_script(Path("/dev/zero"))
