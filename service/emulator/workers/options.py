"""The options of a stand-in's command line, parsed as docker parses them, with its errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Options = dict[str, list[str]]


class Misuse(Exception):
    """A command line that docker refuses."""


class Usage(Exception):
    """A command without a required argument."""


@dataclass(frozen=True)
class Known:
    """The options of a command: without a value, with a value, and one-letter names of both."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    letters: Mapping[str, str] = field(default_factory=dict)
    leading: bool = False
    """Whether the first word that is no option ends the options, as the image of `run` does."""


def declare_options(
    flags: str = "", valued: str = "", letters: str = "", *, leading: bool = False
) -> Known:
    """Return the options in texts of words; letters are spelled `d=detach`."""
    pairs = dict(pair.split("=", 1) for pair in letters.split())
    return Known(frozenset(flags.split()), frozenset(valued.split()), pairs, leading)


def parse_options(args: list[str], what: Known) -> tuple[Options, list[str]]:
    """Return the options of a command line with all their values, and the rest. Raises Misuse."""
    options: Options = {}
    rest: list[str] = []
    left = list(args)
    while left:
        arg = left.pop(0)
        if arg == "--":
            return options, rest + left
        if arg.startswith("--"):
            _parse_long(arg, left, what, options)
        elif arg.startswith("-") and arg != "-":
            _parse_short(arg, left, what, options)
        elif what.leading:
            return options, [arg, *left]
        else:
            rest.append(arg)
    return options, rest


def require_argument(rest: list[str], command: str) -> str:
    """Return the first argument of a command. Raises Usage if there is none."""
    if not rest:
        raise Usage(f'"docker {command}" requires at least 1 argument.')
    return rest[0]


def is_set(options: Options, name: str) -> bool:
    return options.get(name, ["false"])[-1].lower() in {"true", "1", "t"}


def last_value(options: Options, name: str, default: str = "") -> str:
    return options.get(name, [default])[-1]


def log_options(options: Options) -> dict[str, str]:
    """Return the pairs of `--log-opt`."""
    pairs = (pair.partition("=") for pair in options.get("log-opt", []))
    return {key: value for key, _, value in pairs}


def _parse_long(arg: str, left: list[str], what: Known, options: Options) -> None:
    name, given, value = arg[2:].partition("=")
    if name in what.flags:
        options.setdefault(name, []).append(value if given else "true")
    elif name not in what.valued:
        raise Misuse(f"unknown flag: --{name}")
    elif given:
        options.setdefault(name, []).append(value)
    elif left:
        options.setdefault(name, []).append(left.pop(0))
    else:
        raise Misuse(f"flag needs an argument: --{name}")


def _parse_short(arg: str, left: list[str], what: Known, options: Options) -> None:
    """Parse joined letters; the first letter with a value takes the rest as its value."""
    for index, letter in enumerate(arg[1:], start=2):
        name = what.letters.get(letter)
        if name is None:
            raise Misuse(f"unknown shorthand flag: '{letter}' in {arg}")
        if name in what.flags:
            options.setdefault(name, []).append("true")
            continue
        value = arg[index:].removeprefix("=")
        if not value:
            if not left:
                raise Misuse(f"flag needs an argument: '{letter}' in {arg}")
            value = left.pop(0)
        options.setdefault(name, []).append(value)
        return
