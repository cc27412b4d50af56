"""Which node is meant: by its id, or by the name of one that is alive."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from service.cli.client import Client
from service.cli.failure import Failure
from service.domain.node import ENDED

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def find_node(client: Client, name_or_id: str, *, to_read: bool = False) -> str:
    """The id of the node that is meant. Raises Failure when that is none, or not clear.

    What is only to be read may have ended, where but one ever had that name.
    """
    if _ID.fullmatch(name_or_id):
        return name_or_id
    named = client.pages("/v1/nodes", "nodes", {"name": name_or_id}).value["nodes"]
    if to_read and len(named) == 1:
        return str(named[0]["id"])
    return pick(name_or_id, named)


def pick(name: str, named: Sequence[Mapping[str, Any]]) -> str:
    """The id of the only live one among the nodes of that name."""
    live = [node for node in named if node["state"] not in ENDED]
    if len(live) == 1:
        return str(live[0]["id"])
    if live:
        ids = ", ".join(f"{node['id']} in {node['project']}" for node in live)
        raise Failure(f"{name!r} is alive in several projects; say its id: {ids}")
    if named:
        ids = ", ".join(f"{node['id']} ({node['state']})" for node in named[:3])
        raise Failure(f"no live node is named {name!r}; there was: {ids}")
    raise Failure(f"no node is named {name!r}; see: tpu-steward nodes list")
