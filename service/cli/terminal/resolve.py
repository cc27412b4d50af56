"""Finds the id of a node by its name, and names by ids."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from service.cli.terminal.client import Client
from service.cli.terminal.errors import Failure
from service.domain.nodes.node import ENDED

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def find_node(client: Client, name_or_id: str, *, to_read: bool = False) -> str:
    """Id of the node with a name or an id. Raises Failure for an unknown or ambiguous name.

    With `to_read` an ended node is found too, if no other node has had its name.
    """
    if _ID.fullmatch(name_or_id):
        return name_or_id
    found = client.get_all("/v1/nodes", "nodes", {"name": name_or_id}).value["nodes"]
    return pick_node(name_or_id, found, to_read=to_read)


def names_of(client: Client, ids: Set[str]) -> Mapping[str, str]:
    """Names of nodes by id, for use in rows of costs. A reservation is named `NAME (unused)`: its
    rows are its unused time."""
    names: dict[str, str] = {}
    if ids:
        nodes = client.get_all("/v1/nodes", "nodes").value["nodes"]
        names |= {node["id"]: node["name"] for node in nodes}
    if ids - names.keys():
        bought = client.get_all("/v1/reservations", "reservations").value["reservations"]
        names |= {record["id"]: f"{record['name']} (unused)" for record in bought}
    return names


def pick_node(name: str, found: Sequence[Mapping[str, Any]], *, to_read: bool = False) -> str:
    """Id of the node with exactly this name among the found ones. Raises Failure as `find_node`
    does."""
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
