"""Tables on terminals of all widths: no word and no amount is broken as long as that can be."""

from __future__ import annotations

import pytest

from service.cli.terminal.render import print_table

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


@pytest.mark.parametrize("width", range(40, 84))
def test_no_digit_of_an_amount_is_cut_off_at_any_width(monkeypatch, capsys, width):
    lines = shown(monkeypatch, capsys, width)
    assert max(map(len, lines)) <= width
    said = "".join("".join(lines).split())
    assert sum(said.count(digit) for digit in "0123456789") == sum(
        sum(cell.count(digit) for digit in "0123456789") for row in ROWS for cell in row
    )
