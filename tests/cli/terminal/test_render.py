"""Tables on terminals of all widths: no word and no amount is broken as long as that can be."""

from __future__ import annotations

import pytest
from rich.text import Text

from service.cli.terminal.columns import TableColumn, choose_widths
from service.cli.terminal.printing import Output, Printing, print_as
from service.cli.terminal.render import print_lines, print_table

COLUMNS = ("NAME", "MODEL", "STATE", ">PER HOUR", "ZONE", ">COST")
ROWS = (
    ("vision-notebook", "on_demand", "READY (to be deleted)", "$4.80", "us-west4-a", "$9,333.32"),
    ("exp", "spot", "QUEUED for 22h01m", "$172.80", "us-east1-d", "$0.00"),
)
WHOLE = [
    "NAME             MODEL      STATE                  PER HOUR  ZONE             COST",
    "vision-notebook  on_demand  READY (to be deleted)     $4.80  us-west4-a  $9,333.32",
    "exp              spot       QUEUED for 22h01m       $172.80  us-east1-d      $0.00",
]


def shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, *spare: str
) -> list[str]:
    monkeypatch.setattr("service.cli.terminal.render.PIPE_WIDTH", width)
    print_table(COLUMNS, ROWS, spare=spare)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("spare", [(), ("MODEL", "ZONE")])
def test_nothing_is_left_out_where_all_fits(monkeypatch, capsys, spare):
    assert shown(monkeypatch, capsys, 82, *spare) == WHOLE
    assert shown(monkeypatch, capsys, 4_000, *spare) == WHOLE


def test_cells_are_wrapped_between_words_before_a_column_is_left_out(monkeypatch, capsys):
    assert shown(monkeypatch, capsys, 74, "MODEL", "ZONE") == [
        "NAME             MODEL      STATE          PER HOUR  ZONE             COST",
        "vision-notebook  on_demand  READY (to be      $4.80  us-west4-a  $9,333.32",
        "                            deleted)",
        "exp              spot       QUEUED for      $172.80  us-east1-d      $0.00",
        "                            22h01m",
    ]


def test_the_first_spare_columns_are_left_out_where_words_would_be_broken(monkeypatch, capsys):
    assert shown(monkeypatch, capsys, 60, "MODEL", "ZONE") == [
        "NAME             STATE       PER HOUR  ZONE             COST",
        "vision-notebook  READY (to      $4.80  us-west4-a  $9,333.32",
        "                 be",
        "                 deleted)",
        "exp              QUEUED for   $172.80  us-east1-d      $0.00",
        "                 22h01m",
        "(a wider terminal also shows MODEL)",
    ]
    assert shown(monkeypatch, capsys, 50, "MODEL", "ZONE")[-1] == (
        "(a wider terminal also shows MODEL, ZONE)"
    )


@pytest.mark.parametrize("width", range(20, 84))
def test_every_word_of_a_shown_column_is_whole_at_any_width(monkeypatch, capsys, width):
    heading, *lines = shown(monkeypatch, capsys, width)
    assert max(map(len, (heading, *lines))) <= width
    at = next((at for at, line in enumerate(lines) if line.startswith("(a wider")), len(lines))
    note = " ".join(lines[at:])
    words = " ".join(lines).split()
    for place, column in enumerate(COLUMNS):
        name = column.removeprefix(">")
        is_shown = name in heading
        assert is_shown != (name in note), "a column is shown, or said to be left out"
        for row in ROWS:
            assert not is_shown or set(row[place].split()) <= set(words)
    assert "NAME" in heading


def test_amounts_outlive_texts_where_no_column_is_spare(monkeypatch, capsys):
    heading, *_ = shown(monkeypatch, capsys, 40)
    assert heading.split() == ["NAME", "PER", "HOUR", "COST"]


@pytest.mark.parametrize("width", range(30, 70))
def test_widths_add_up_to_the_screen_and_break_no_word(width):
    texts = ["a reason that is rather long and has many words", "short one"], ["two words", "x"]
    columns = [TableColumn("WHY", [Text(text) for text in some]) for some in texts]
    widths = choose_widths(columns, width)
    full = [column.full_width for column in columns]
    assert sum(widths) + 2 == min(width, sum(full) + 2)
    assert all(
        column.least_width <= found <= column.full_width
        for column, found in zip(columns, widths, strict=True)
    )


def test_a_wide_table_leaves_nothing_out_on_a_narrow_terminal(monkeypatch, capsys):
    monkeypatch.setattr("service.cli.terminal.render.is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "40")
    with print_as(Printing(Output.WIDE, is_list=True)):
        print_table(COLUMNS, ROWS, spare=("MODEL",))
    assert capsys.readouterr().out.splitlines() == WHOLE


def test_names_are_printed_once_and_nothing_else(capsys):
    with print_as(Printing(Output.NAME, is_list=True)):
        print_table(COLUMNS, [*ROWS, ROWS[0], ("-", "spot", "", "", "", "")])
        print_lines("2 nodes")
    assert capsys.readouterr().out == "vision-notebook\nexp\n"


def test_rows_without_headings_have_no_notes_either(monkeypatch, capsys):
    monkeypatch.setattr("service.cli.terminal.render.PIPE_WIDTH", 23)
    with print_as(Printing(has_headings=False, is_list=True)):
        print_table(COLUMNS, ROWS[1:], spare=("MODEL", "ZONE", "STATE"))
        print_lines("1 node")
    assert capsys.readouterr().out.split() == ["exp", "$172.80", "$0.00"]
