"""The receiver of the demo's messages."""

from __future__ import annotations

import httpx2

from service.cli.demo.inbox import LONGEST_BYTES, open_inbox


def test_messages_are_taken_and_shown_the_newest_first():
    with open_inbox() as inbox:
        assert httpx2.get(inbox.url).text == "No message yet.\n"
        for number in (1, 2):
            body = {"kind": "node.idle", "message": f"node n-{number} has been idle"}
            assert httpx2.post(f"{inbox.url}/vision", json=body).status_code == 204
        for content in (b"no json", b"[1]"):
            assert httpx2.post(f"{inbox.url}/x", content=content).status_code == 204
        assert httpx2.get(inbox.url).text.splitlines() == [
            "/x  [1]",
            "/x  no json",
            "/vision  node n-2 has been idle",
            "/vision  node n-1 has been idle",
        ]


def test_a_message_that_is_too_long_is_not_taken():
    with open_inbox() as inbox:
        answer = httpx2.post(inbox.url, content=b"x" * (LONGEST_BYTES + 1))
        assert (answer.status_code, list(inbox.messages)) == (413, [])
