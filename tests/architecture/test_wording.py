"""Every text that a user reads is short and plain, and a bad one does not go unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from tests.architecture.wording import (
    KINDS,
    MEAN_WORDS,
    MOST_WORDS,
    ODD,
    Text,
    command_texts,
    commands,
    faults_of,
    summaries_of,
)

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 80

BAD = "Whoever asked for this has to read it twice"
LONG = " ".join(["word"] * (MOST_WORDS + 1))

PLANTED = {
    "a title": ("problems", "service/api/http/problems.py", 'GONE = Kind(410, "gone", "{}")'),
    "a detail": ("problems", "service/application/one.py", 'raise Rejected("{}")'),
    "a value in a detail": ("problems", "service/domain/one.py", 'raise Rejected(f"{{name}} {}")'),
    "a part of an f-string": ("problems", "service/store/a/b.py", "f\"{{one or (1, '{}')}}: no\""),
    "a joined string": ("problems", "service/cloud/one.py", 'say("" f"{{name}} " "{}")'),
    "a message": (
        "notifications",
        "service/domain/notifications/letters.py",
        'def head() -> str:\n  return "{}"',
    ),
    "what a command prints": ("command line", "service/cli/one.py", 'typer.echo("{}")'),
    "the help of a target": ("targets", "Makefile", "check: all ## {}"),
    "an element": ("dashboard", "service/dashboard/templates/one.html", "<td>{}</td>"),
    "a sentence with a link": (
        "dashboard",
        "service/dashboard/templates/one.html",
        '<p>See <a href="/">this</a>: {} {{{{ page.name }}}}</p>',
    ),
    "a title that hovers": (
        "dashboard",
        "service/dashboard/templates/one.html",
        '<a title="{} {{{{ page.name }}}}">x</a>',
    ),
    "a label": ("dashboard", "service/dashboard/templates/one.html", '<nav aria-label="{}"></nav>'),
    "a picture": ("dashboard", "service/dashboard/templates/one.html", '<img alt="{}">'),
    "a string in a template": (
        "dashboard",
        "service/dashboard/templates/one.html",
        "<p>{{{{ '{}' if page.name else 'yes' }}}}</p>",
    ),
    "a string that fills a page": ("dashboard", "service/dashboard/one.py", 'NOTE = "{}"'),
    "a log message": ("logs", "service/daemon/one.py", 'log.warning("{}", name=name)'),
    "a line of the changelog": ("changelog", "CHANGELOG.md", "# Changelog\n\n- Fine.\n- {}\n"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_short_and_plain(kind: str) -> None:
    texts = [text for text in KINDS[kind](ROOT) if text.words]
    assert texts, "texts of this kind are found"
    assert faults_of(texts) == []


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("words", [BAD, LONG], ids=["odd", "long"])
def test_a_bad_text_is_found_wherever_it_is_planted(name: str, words: str, tmp_path: Path) -> None:
    kind, path, source = PLANTED[name]
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(source.format("Some fine words"))
    assert faults_of(KINDS[kind](tmp_path)) == [], "nothing is wrong with a plain text"
    (tmp_path / path).write_text(source.format(words))
    assert [fault for fault in faults_of(KINDS[kind](tmp_path)) if words in fault]


def planted_commands(words: str) -> list[Text]:
    below = typer.Typer()

    @below.command("list")
    def listed(zone: str = typer.Option("", help=words)) -> None:
        """List what is there."""

    @below.command(help=words)
    def show() -> None:
        pass

    above = typer.Typer(cls=TyperGroup)
    above.add_typer(below, name="nodes", help="Nodes.")
    return command_texts(typer.main.get_command(above), "program")


@pytest.mark.parametrize("words", [BAD, LONG], ids=["odd", "long"])
def test_a_bad_help_of_a_command_or_an_option_is_found(words: str) -> None:
    assert faults_of(planted_commands("Some fine words.")) == []
    faulty = {fault.partition(":")[0] for fault in faults_of(planted_commands(words))}
    assert {"program nodes list zone", "program nodes show"} <= faulty


@pytest.mark.parametrize("word", ODD)
def test_each_odd_word_is_found_within_a_sentence_and_not_within_a_word(word: str) -> None:
    text = Text("here", f"The node {word.capitalize()}, and it costs money")
    assert any(repr(word) in fault for fault in faults_of([text]))
    assert faults_of([Text("here", f"The node x{word}x runs and costs money")]) == []


def test_sentences_that_are_long_on_average_are_found() -> None:
    texts = [Text("here", " ".join(["word"] * (MEAN_WORDS + 1))) for _ in range(3)]
    assert len(faults_of(texts)) == 1


def test_a_docstring_and_a_pattern_are_no_texts_of_a_caller(tmp_path: Path) -> None:
    path = tmp_path / "service/cli/one.py"
    path.parent.mkdir(parents=True)
    path.write_text(f'"""{BAD}"""\nPATTERN = re.compile("{BAD}")\n')
    assert KINDS["command line"](tmp_path) == []


def test_what_a_list_of_commands_says_of_each_is_not_cut() -> None:
    summaries = summaries_of(commands(), "tpu-steward", COLUMNS)
    assert len(summaries) > 50
    assert [text for text in summaries if text.words.endswith("...")] == []
