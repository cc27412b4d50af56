"""Which node is meant, by its id or by the name of one that is alive; and what an id is called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from service.cli.terminal.client import Client
from service.cli.terminal.failure import Failure
from service.domain.nodes.node import ENDED

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def find_node(client: Client, name_or_id: str, *, to_read: bool = False) -> str:
    """The id of the node that is meant. Raises Failure when that is none, or not clear.

    What is only to be read may have ended, where but one ever had that name.
    """
    if _ID.fullmatch(name_or_id):
        return name_or_id
    found = client.pages("/v1/nodes", "nodes", {"name": name_or_id}).value["nodes"]
    return pick(name_or_id, found, to_read=to_read)


def names_of(client: Client, ids: Set[str]) -> Mapping[str, str]:
    """What each node is called, by its id; and each reservation, of which nobody used that."""
    names: dict[str, str] = {}
    if ids:
        nodes = client.pages("/v1/nodes", "nodes").value["nodes"]
        names |= {node["id"]: node["name"] for node in nodes}
    if ids - names.keys():
        bought = client.pages("/v1/reservations", "reservations").value["reservations"]
        names |= {one["id"]: f"{one['name']} (unused)" for one in bought}
    return names


def pick(name: str, found: Sequence[Mapping[str, Any]], *, to_read: bool = False) -> str:
    """The id of the one that is meant; one of another name never is, even if it is the only one."""
    named = [node for node in found if node["name"] == name]
    if to_read and len(named) == 1:
        return str(named[0]["id"])
    live = [node for node in named if node["state"] not in ENDED]
    if len(live) == 1:
        return str(live[0]["id"])
    if live:
        ids = ", ".join(f"{node['id']} in {node['project']}" for node in live)
        raise Failure(f"{name!r} exists in several projects; give its id: {ids}")
    if named:
        ids = ", ".join(f"{node['id']} ({node['state']})" for node in named[:3])
        raise Failure(f"no live node is named {name!r}; there was: {ids}")
    raise Failure(f"no node is named {name!r}; see: tpu-steward nodes list")
