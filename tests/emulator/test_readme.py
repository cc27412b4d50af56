"""The tables of the emulator's README say of each control route what the code does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import service.emulator
from service.emulator.app import build_world
from service.emulator.artifacts.image_pulls import ImageSettings
from service.emulator.artifacts.registry import RegistryImage
from service.emulator.artifacts.storage import BucketSettings
from service.emulator.config.config import Config
from service.emulator.config.reservations import Reserved
from service.emulator.config.telemetry_settings import SpotChange
from service.emulator.errors import ApiError
from service.emulator.faults.fault import Fault
from service.emulator.faults.fault_parser import SET_BY_US, fault_of
from service.emulator.permissions import Permissions
from service.emulator.surfaces.control_bodies import BODIES, Absent
from service.emulator.surfaces.web import build_app
from service.emulator.worker_http.routes import worker_routes
from service.emulator.worker_http.workers import Workers
from tests.emulator.factories import configured

README = Path(service.emulator.__file__).parent / "README.md"
HEADING = "## Every control route and its keys"
HEAD = ["| route | key | type | default |", "|---|---|---|---|"]
TYPES = {
    "bool": "true or false",
    "int": "whole number",
    "float": "number",
    "str": "text",
    "float | None": "number or null",
    "str | None": "text or null",
    "tuple[str, ...]": "list of texts",
    "Mapping[str, int]": "object of whole numbers",
    "Mapping[str, float]": "object of numbers",
    "Mapping[str, str]": "object of texts",
    "dict[str, tuple[str, ...]]": "object of texts or lists of texts",
    "Action": "text, an action",
    "Code": "text, the name of a gRPC status",
    "Details": "list of objects with an `@type`",
}
# The classes of what lies inside a key of the configuration, by the words of the first column.
INSIDE = {
    "of `reservations`": Reserved,
    "of `images`": ImageSettings,
    "of `buckets`": BucketSettings,
    "of `permissions`": Permissions,
    "of `registry.images`": RegistryImage,
    "of `prices.spot_price_changes`": SpotChange,
}
ASKED = {"rpc": "GetNode", "action": "delay"}


def code(text: str) -> str:
    return f"`{text}`"


def row(route: str, key: str = "", kind: str = "", default: str = "") -> str:
    cells = [route if route.startswith("of ") else code(route), key and code(key), kind, default]
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


def shown(default: Any) -> str:
    return default.value if isinstance(default, Absent) else code(json.dumps(default))


def type_of(owner: type, field: Field[Any]) -> str:
    """Say the type of a field in words; what has keys of its own has rows of its own."""
    hint = get_type_hints(owner)[field.name]
    if is_dataclass(hint):
        return "object, below"
    known = TYPES.get(str(field.type))
    if known is not None:
        return known
    return "list of objects, below" if str(field.type).startswith("tuple") else "object, below"


def rows_of(owner: type, route: str, above: str = "") -> Iterator[str]:
    """One row for each key of a part of the configuration, and those of the parts in it."""
    inner: list[tuple[type, str]] = []
    for field in fields(owner):
        hint = get_type_hints(owner)[field.name]
        if is_dataclass(hint):
            inner.append((hint, f"{above}{field.name}."))  # type: ignore[arg-type]
            continue
        yield row(route, above + field.name, type_of(owner, field), default_of(field))
    for part, name in inner:
        yield from rows_of(part, route, name)


def default_of(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return shown(field.default)
    if field.default_factory is not MISSING:
        return shown(field.default_factory())
    # The one field that its reader fills in from its place in the list.
    return "reservation-NUMBER" if field.name == "name" else Absent.REQUIRED.value


def fault_rows() -> Iterator[str]:
    made = fault_of(ASKED, ("GetNode",), 1, 0.0).as_dict()
    for field in fields(Fault):
        if field.name not in SET_BY_US:
            required = field.name in ASKED
            default = Absent.REQUIRED if required else made[field.name]
            yield row("POST faults", field.name, type_of(Fault, field), shown(default))


def routes() -> set[str]:
    """Each control route as the README spells it."""
    world = build_world()
    app = build_app(world, more=worker_routes(world, Workers(world, run_scripts=False)))
    found = set()
    for route in app.routes:
        path = str(getattr(route, "path", ""))
        verbs = set(getattr(route, "methods", None) or {"GET"}) - {"HEAD"}
        if path.startswith("/_emulator/") and "{" not in path:
            found |= {f"{verb} {path.removeprefix('/_emulator/')}" for verb in verbs}
    return found


def expected() -> list[str]:
    """The lines of the tables, as the code has them."""
    with_keys = {"PATCH config", "POST faults", *BODIES}
    lines = [*HEAD, *(row(route) for route in sorted(routes() - with_keys))]
    for route, keys in BODIES.items():
        lines += [row(route, key.name, key.type, shown(key.default)) for key in keys]
    lines += [*fault_rows(), "", *HEAD, *rows_of(Config, "PATCH config")]
    for route, owner in INSIDE.items():
        lines += [*rows_of(owner, route)]
    return lines


def test_the_tables_of_control_routes_are_those_of_the_code():
    _, _, after = README.read_text().partition(HEADING)
    section = after.partition("\n## ")[0]
    first = section.index(HEAD[0])
    last = section.rindex("|\n") + 1
    assert section[first:last].splitlines() == expected()


def test_every_route_is_in_the_tables():
    assert routes() >= {"PATCH config", "POST faults", *BODIES}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("reservations", [{"zone": "us-central2-b", "generation": "v4", "chips": 8}]),
        ("images", {"host/name": {}}),
        ("images", {"host/name": {"pull_seconds": None, "pull_fails": None, "digest": None}}),
        ("buckets", {"ckpt": {}}),
        ("permissions", {"token": {}}),
        ("registry", {"images": {"host/name:tag": {}}}),
        (
            "prices",
            {
                "spot_price_changes": [
                    {"generation": "v4", "region": "us-central2", "usd": 1, "at": 0}
                ]
            },
        ),
    ],
)
def test_what_has_a_default_may_be_left_out(key, said):
    assert getattr(configured(**{key: said}).config, key)


@pytest.mark.parametrize("missing", ["zone", "generation", "chips"])
def test_what_is_required_may_not_be_left_out(missing):
    said = {"zone": "us-central2-b", "generation": "v4", "chips": 8}
    with pytest.raises(ApiError, match=missing):
        configured(reservations=[{key: each for key, each in said.items() if key != missing}])


def test_a_fault_that_lasts_wears_out_by_time_alone():
    made = fault_of({**ASKED, "for_seconds": 60}, ("GetNode",), 1, 0.0)
    assert made.as_dict()["times"] == -1


def test_an_unknown_parameter_of_a_control_route_is_refused(web):
    for path in ("bill?since=0", "nodes/serial?nmae=x"):
        status, answer = web.ask("GET", f"/_emulator/{path}")
        assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_a_body_without_a_required_key_is_refused_by_its_name(web):
    for route, keys in BODIES.items():
        verb, path = route.split()
        for key in keys:
            if verb == "POST" and key.default is Absent.REQUIRED:
                said = {each.name: "x" for each in keys if each.default is Absent.REQUIRED}
                del said[key.name]
                status, answer = web.ask(verb, f"/_emulator/{path}", said)
                assert (status, f"{key.name} must be given" in answer["error"]["message"]) == (
                    400,
                    True,
                )
