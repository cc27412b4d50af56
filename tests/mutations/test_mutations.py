"""The list of mutations fits the service as it is now."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutations.mutations import MUTATIONS, Mutation

TESTS = Path(__file__).resolve().parents[1]
SERVICE = TESTS.parent / "service"


def test_there_are_thirty_mutations_of_different_names() -> None:
    names = Counter(mutation.name for mutation in MUTATIONS)
    assert len(MUTATIONS) >= 30
    assert [name for name, number in names.items() if number > 1] == []


def test_no_mistake_is_made_twice() -> None:
    assert len({(mutation.file, mutation.after, mutation.before) for mutation in MUTATIONS}) == len(
        MUTATIONS
    )


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_each_mutation_changes_one_place_into_other_code(mutation: Mutation) -> None:
    source = (SERVICE / mutation.file).read_text(encoding="utf-8")
    assert source.count(mutation.before) == 1
    assert mutation.before != mutation.after
    compile(mutation.apply_to(source), mutation.file, "exec")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_each_mutation_names_tests_that_exist(mutation: Mutation) -> None:
    assert mutation.tests
    assert [path for path in mutation.tests if not (TESTS / path).exists()] == []


@pytest.mark.parametrize("source", ["a = 1\n", "a = 2\na = 2\n"])
def test_a_text_that_does_not_occur_once_is_refused(source: str) -> None:
    mutation = Mutation("a", "a.py", "a = 2", "a = 3", ("a",))
    with pytest.raises(ValueError, match="a: its text occurs"):
        mutation.apply_to(source)
