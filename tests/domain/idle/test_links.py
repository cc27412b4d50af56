"""Tests of links that keep or delete a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.domain.idle.links import (
    LIFE_SECONDS,
    Link,
    LinkPromise,
    LinkRefusal,
    Verb,
    find_refusal,
    hash_of,
    make_links,
)

NOW = 1_000
LINK = Link(hash_of("secret"), Verb.DELETE, "n", 2, notified_at=900, expires_at=2_000)
AS_IT_WAS: dict[str, Any] = {"incarnation": 2, "notified_at": 900, "ended": False, "now": NOW}


def test_a_link_works_once():
    assert find_refusal(LINK, **AS_IT_WAS) is None
    assert find_refusal(replace(LINK, used_at=950), **AS_IT_WAS) is LinkRefusal.USED


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"now": 2_000}, LinkRefusal.EXPIRED),
        ({"incarnation": 3}, LinkRefusal.ANOTHER),
        ({"notified_at": None}, LinkRefusal.SINCE_BUSY),
        ({"notified_at": 950}, LinkRefusal.SINCE_BUSY),
        ({"ended": True}, LinkRefusal.ENDED),
        ({"ended": True, "incarnation": 3, "now": 5_000}, LinkRefusal.EXPIRED),
    ],
)
def test_a_link_is_about_one_verdict_on_one_incarnation(changed, why):
    assert find_refusal(LINK, **{**AS_IT_WAS, **changed}) is why


def test_only_the_hash_of_a_token_is_kept():
    assert "secret" not in LINK.token_hash
    assert hash_of("secret") == LINK.token_hash != hash_of("Secret")
    assert len(hash_of("\ud800")) == 64


def test_each_verb_gets_an_address_of_its_own_and_only_its_hash_is_stored():
    tokens = iter(["one", "two"])
    promise = LinkPromise("n", 2, 900, "https://a.example.com/")
    addresses, links = make_links(promise, 950, lambda: next(tokens))
    assert addresses == {
        Verb.KEEP: "https://a.example.com/links/one",
        Verb.DELETE: "https://a.example.com/links/two",
    }
    assert [(link.verb, link.token_hash) for link in links] == [
        (Verb.KEEP, hash_of("one")),
        (Verb.DELETE, hash_of("two")),
    ]
    for link in links:
        assert (link.node_id, link.incarnation, link.notified_at) == ("n", 2, 900)
        assert link.expires_at == 950 + LIFE_SECONDS


def test_a_node_that_is_being_deleted_is_neither_kept_nor_deleted_again():
    assert find_refusal(LINK, **AS_IT_WAS, ending=True) is LinkRefusal.ENDING
    assert find_refusal(LINK, **{**AS_IT_WAS, "ended": True}, ending=True) is LinkRefusal.ENDED
