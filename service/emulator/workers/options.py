"""The options of a stand-in's command line, read as docker reads them, and refused in its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Options = dict[str, list[str]]


class Misuse(Exception):
    """A command line that docker would not take."""


class Usage(Exception):
    """A command without what it needs."""


@dataclass(frozen=True)
class Known:
    """What a command knows: options without a value, options with one, one-letter names of both."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    letters: Mapping[str, str] = field(default_factory=dict)
    leading: bool = False
    """Whether the first word that is no option ends them, as the image does for `run`."""


def known(flags: str = "", valued: str = "", letters: str = "", *, leading: bool = False) -> Known:
    """Make it from words; letters are spelled `d=detach`."""
    pairs = dict(each.split("=", 1) for each in letters.split())
    return Known(frozenset(flags.split()), frozenset(valued.split()), pairs, leading)


def parse(args: list[str], what: Known) -> tuple[Options, list[str]]:
    """Split a command line into its options, all values of each, and the rest; raises Misuse."""
    options: Options = {}
    rest: list[str] = []
    left = list(args)
    while left:
        arg = left.pop(0)
        if arg == "--":
            return options, rest + left
        if arg.startswith("--"):
            _long(arg, left, what, options)
        elif arg.startswith("-") and arg != "-":
            _short(arg, left, what, options)
        elif what.leading:
            return options, [arg, *left]
        else:
            rest.append(arg)
    return options, rest


def required(rest: list[str], command: str) -> str:
    """Give the first of the words that a command cannot do without; raises Usage."""
    if not rest:
        raise Usage(f'"docker {command}" requires at least 1 argument.')
    return rest[0]


def is_set(options: Options, name: str) -> bool:
    return options.get(name, ["false"])[-1].lower() in {"true", "1", "t"}


def last(options: Options, name: str, default: str = "") -> str:
    return options.get(name, [default])[-1]


def log_options(options: Options) -> dict[str, str]:
    """Read `--log-opt`."""
    pairs = (each.partition("=") for each in options.get("log-opt", []))
    return {key: value for key, _, value in pairs}


def _long(arg: str, left: list[str], what: Known, options: Options) -> None:
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


def _short(arg: str, left: list[str], what: Known, options: Options) -> None:
    """Read letters that stand together: the first with a value takes the rest as it."""
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
