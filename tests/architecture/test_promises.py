"""What the manual promises is proved by tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FEATURES = [
    "nodes created and deleted through the TPU API",
    "stop and start, where Google can",
    "spot and preemptible, and every other tier",
    "queued resources, none left behind",
    "flex-start",
    "reservations",
    "slices of many hosts",
    "several slices as one node",
    "the next zone when one has run out",
    "any of several types",
    "stock-out and quota told apart",
    "back-off that learns",
    "asked twice, or answered never: made once",
    "giving up cleans up",
    "data disks",
    "no external address, and the way in through IAP",
    "the image that fits the hardware",
    "the zone's own lists checked for that image",
    "the program's framework checked against the image",
    "a generation that is new: no image is guessed",
    "states polled all the time, by default every 15 s",
    "every state of a node",
    "every state of a queued resource",
    "what no record accounts for is found and swept",
    "spent queued resources are swept",
    "cost to the second, also of what nobody saw end",
    "cost by team, owner, label, zone and more, by any calendar",
    "each second charged to the team and owner that the node had then",
    "every figure down to its price and its evidence",
    "months that close, and corrections after that",
    "prices that follow the cloud's list, spot too",
    "negotiated discounts",
    "reservations charged for their whole period, used or not",
    "committed-use discounts: coverage, unused money and costs after them",
    "the VM of a legacy TPU Node as a line of its cost",
    "what it costs, and which hardware fits, before the launch",
    "budgets that refuse before the money is spent",
    "thresholds and burn rates told by e-mail and webhook",
    "a forecast that says how sure it is",
    "an export that other tools read (FOCUS)",
    "the cloud's bill compared with all of it",
    "a container run on every worker, and again after a preemption",
    "idle nodes deleted, with evidence",
    "the cost of what runs idle",
]
"""What managers of TPUs are known for; a row may say that we lack it, but not be left out."""

NAMED = re.compile(r"`([a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")


def rows() -> list[list[str]]:
    """The cells of each row: the feature, what there is of it here, and by what that is proved."""
    page = (ROOT / "service" / "manual" / "promises.md").read_text(encoding="utf-8")
    part = page.partition("<!-- promises")[2].partition("<!-- end of promises")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def named(cell: str) -> list[tuple[str, str]]:
    """The tests that a cell names, each as its file below `tests/` and its function."""
    return NAMED.findall(cell)


def collected(file: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The test of that name, if it would be collected."""
    path = ROOT / "tests" / file
    if not (path.name.startswith("test_") and path.is_file()):
        return None
    body = ast.parse(path.read_text(encoding="utf-8")).body
    functions = (
        statement
        for statement in body
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return next((function for function in functions if function.name == name), None)


def is_passed_over(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it may not run, or may fail unnoticed."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in {"skip", "skipif", "xfail"}
        for node in ast.walk(test)
    )


def asserts(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(test))


def test_every_feature_has_its_row() -> None:
    assert [feature for feature, _, _ in rows()] == FEATURES


@pytest.mark.parametrize(("feature", "answer", "proof"), rows(), ids=[row[0] for row in rows()])
def test_what_is_promised_is_proved(feature: str, answer: str, proof: str) -> None:
    assert answer, "yes, or what of it is missing"
    if answer == "no":
        return
    found = named(proof)
    assert found
    assert proof.count("`") == 2 * len(found), "each name is one that can be looked up"
    for file, name in found:
        test = collected(file, name)
        assert test is not None, f"{file} has no {name}"
        assert asserts(test), f"{name} asserts nothing"
        assert not is_passed_over(test), f"{name} may be passed over"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("architecture/test_promises.py", "test_that_nobody_wrote"),
        ("architecture/test_nowhere.py", "test_every_feature_has_its_row"),
        ("ports.py", "free_port"),
    ],
)
def test_a_test_that_is_not_there_or_not_collected_proves_nothing(file: str, name: str) -> None:
    assert collected(file, name) is None


def test_a_test_that_may_be_passed_over_is_known() -> None:
    (skipped,) = ast.parse("@pytest.mark.skipif(True)\ndef test_it(): assert 1").body
    assert isinstance(skipped, ast.FunctionDef)
    assert is_passed_over(skipped)
