"""The options that several commands share, and the parsers of their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from service.domain.clock import parse_instant

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_PARTS = re.compile(r"(?:\d{1,9}[smhd])+|\d{1,9}")
_PART = re.compile(r"(\d{1,9})([smhd]?)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

PATIENCE: Any = "30m"
"""Default of --timeout, as a user would type it."""

AN_HOUR: Any = "1h"

Said = TypeVar("Said", bound=str | list[str] | None)


def parse_seconds(text: str) -> int:
    """`2h` as 7200, `1h30m` as 5400, `90` as 90."""
    if not _PARTS.fullmatch(text.strip()):
        raise typer.BadParameter(
            f"{text!r} is not a duration; write it as 90s, 30m, 2h, 1h30m or 7d"
        )
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def require_name(said: Said) -> Said:
    """A name or an id as it was typed, or several. Usage error for a blank one.

    An unset shell variable makes a blank name, which would find nothing, or the only resource.
    """
    texts: Sequence[str] | None = [said] if isinstance(said, str) else said
    if texts is not None and not all(text.strip() for text in texts):
        raise typer.BadParameter("it is empty; give a name or an id")
    return said


def require_key(text: str | None) -> str | None:
    """An idempotency key as it was typed. Usage error for characters that no header can carry."""
    if (text := require_name(text)) is not None and not (text.isascii() and text.isprintable()):
        raise typer.BadParameter(f"{text!r} has characters that are not ASCII")
    return text


def parse_pairs(texts: Sequence[str] | None, option: str) -> list[tuple[str, str]]:
    """`["k=v"]` as [("k", "v")]."""
    found = []
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
        found.append((key, value))
    return found


def parse_filters(texts: Sequence[str] | None) -> list[str]:
    """`["team=vision"]` as filters of the API. A value may contain commas."""
    from service.domain.costs.dimensions import condition_of  # noqa: PLC0415 - costs what few options need

    return [condition_of(name, value) for name, value in parse_pairs(texts, "--filter")]


def parse_mapping(texts: Sequence[str] | None, option: str) -> dict[str, str] | None:
    """`["k=v"]` as {"k": "v"}. None for no texts. Usage error for a key that is given twice."""
    found = parse_pairs(texts, option)
    if len(dict(found)) < len(found):
        raise typer.BadParameter("the same key is given twice", param_hint=option)
    return dict(found) or None


def parse_framework(text: str | None) -> dict[str, str] | None:
    """Framework for the request, from `jax=0.4.30`, `jax==0.4.30` or `jax`."""
    if text is None:
        return None
    name, _, version = text.partition("=")
    version = version.removeprefix("=").strip()
    return {"name": name.strip().lower(), **({"version": version} if version else {})}


def check_hardware(accelerator_type: str | None, generation: str | None) -> None:
    """Usage error when neither an accelerator type nor a generation is given."""
    if accelerator_type is None and generation is None:
        raise typer.BadParameter(
            "give the hardware, or --generation with --chips or --topology",
            param_hint="--accelerator-type",
        )


def type_fields(names: Sequence[str]) -> dict[str, object]:
    """Fields of the request for the accelerator types: one type, or several alternatives."""
    if len(names) > 1:
        return {"accelerator_types": list(names)}
    return {"accelerator_type": next(iter(names), None)}


def place_fields(zones: Sequence[str] | None, regions: Sequence[str] | None) -> dict[str, object]:
    """Fields of the request for the location: one zone, several in order, or regions."""
    if zones and len(zones) == 1:
        return {"zone": zones[0], "regions": regions or None}
    return {"zones": zones or None, "regions": regions or None}


def read_script(path: Path | None) -> str | None:
    """Text of a startup script. Usage error for a file that is too long, not text or unreadable."""
    if path is None:
        return None

    from service.domain.nodes.request import MAX_SCRIPT_BYTES  # noqa: PLC0415 - costs what few options need

    if not path.is_file():
        raise _script_error(f"{path} is not a regular file")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SCRIPT_BYTES + 1)
        if len(content) > MAX_SCRIPT_BYTES:
            raise _script_error(f"{path} is longer than {MAX_SCRIPT_BYTES // 1024} KiB")
        return content.decode()
    except UnicodeDecodeError:
        raise _script_error(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise _script_error(f"{path} cannot be read: {error.strerror}") from None


def _script_error(why: str) -> typer.BadParameter:
    return typer.BadParameter(why, param_hint="--startup-script")


def choose_model(
    name: str | None, *, spot: bool = False, preemptible: bool = False, flex_start: bool = False
) -> str | None:
    """Provisioning model of the options. None for none; usage error for two different ones."""
    short = {"spot": spot, "preemptible": preemptible, "flex_start": flex_start}
    meant = {short_name for short_name, is_given in short.items() if is_given}
    meant |= {name.replace("-", "_").lower()} if name else set()
    if len(meant) > 1:
        raise typer.BadParameter(
            "give only one of --provisioning-model, --spot, --preemptible and --flex-start",
            param_hint="--provisioning-model",
        )
    return meant.pop() if meant else None


def require_instant(text: str) -> str:
    """`2026-11-05T18:00:00Z`, or a date, as it was typed. Usage error for any other text."""
    said = text.strip()
    if _PARTS.fullmatch(said):
        raise typer.BadParameter(f"{said} is a duration; use --max-wait {said}")
    try:
        parse_instant(f"{said}T00:00:00Z" if _DATE.fullmatch(said) else said)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a timestamp (RFC 3339); write it as 2026-11-05T18:00:00Z, or as a"
            " date: 2026-11-06"
        ) from None
    return said


Json = Annotated[bool, typer.Option("--json", help="Print the API's JSON as it is.")]
NodeName = Annotated[
    str, typer.Argument(callback=require_name, metavar="NODE", help="A node's id, or its name.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is done.")]
Timeout = Annotated[
    int,
    typer.Option(
        "--timeout", parser=parse_seconds, metavar="DURATION", help="How long to wait with --wait."
    ),
]
AcceleratorType = Annotated[
    str | None,
    typer.Option(
        callback=require_name, metavar="TYPE", help="Accelerator type, such as v5litepod-8."
    ),
]
Generation = Annotated[
    str | None, typer.Option(metavar="NAME", help="Generation, such as v5e, instead of a type.")
]
Chips = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="With --generation: number of chips.")
]
Topology = Annotated[
    str | None, typer.Option(metavar="AxB", help="With --generation: topology, such as 4x4.")
]
Zones = Annotated[
    list[str] | None,
    typer.Option(
        "--zone",
        callback=require_name,
        metavar="ZONE",
        help="Zone. Repeatable. Default: any zone that offers it.",
    ),
]
Regions = Annotated[
    list[str] | None,
    typer.Option(
        "--region",
        callback=require_name,
        metavar="REGION",
        help="Region, instead of a zone. Repeatable.",
    ),
]
Framework = Annotated[
    str | None,
    typer.Option(metavar="NAME[=VERSION]", help="Framework: jax, pytorch or tensorflow."),
]
Architecture = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="vm, or node for the legacy TPU Node of v2 and v3."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--provisioning-model",
        metavar="MODEL",
        help="on_demand, spot, preemptible, reserved or flex_start.",
    ),
]
Spot = Annotated[bool, typer.Option("--spot", help="Use the provisioning model spot.")]
Preemptible = Annotated[
    bool, typer.Option("--preemptible", help="Use the provisioning model preemptible.")
]
FlexStart = Annotated[
    bool,
    typer.Option(
        "--flex-start",
        help="Use the provisioning model flex_start: for 7 days at most, in few zones.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="KEY=VALUE", help="Label. Repeatable."),
]
