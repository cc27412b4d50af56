"""How to reach a node and what to type about it, as its page shows it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from service.application.services import Services
from service.dashboard.kit.visible_text import escape_invisible, to_sentence
from service.domain.errors import Conflict
from service.domain.nodes.connection import LINE_TITLES
from service.domain.nodes.node import Asked, Node, NodeState


@dataclass(frozen=True, slots=True)
class Snippet:
    """Lines to copy under a title; `note` is what to mind. Without lines, the note says why."""

    title: str
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionShown:
    """The lines that reach a node, or why it cannot be reached, and commands about the node."""

    summary: str
    lines: tuple[Snippet, ...]
    recipes: tuple[Snippet, ...]
    commands: str


def build_connection(services: Services, node: Node) -> ConnectionShown:
    """The connection as the API offers it. A node that cannot be reached has a reason instead."""
    name = node.id if node.has_ended else shlex.quote(node.name)
    typed = [f"tpu-steward nodes {verb} {name}" for verb in ("show", "cost", "events")]
    if node.state == NodeState.READY and not node.has_ended:
        typed.append(f"tpu-steward nodes connect {name}")
        typed.append(f"tpu-steward nodes idle {name} --watch")
    if node.asked is not Asked.ABSENT and not node.has_ended:
        typed.append(f"tpu-steward nodes keep {name} --for 4h --reason 'a demo'")
        if node.spec.stoppable:
            verb = "start" if node.asked is Asked.STOPPED else "stop"
            typed.append(f"tpu-steward nodes {verb} {name}")
        typed.append(f"tpu-steward nodes delete {name}")
    commands = escape_invisible("\n".join(typed), kept="\n")

    try:
        found = services.nodes.get_connection(node.id)
    except Conflict as error:
        return ConnectionShown(escape_invisible(to_sentence(str(error))), (), (), commands)
    recipes = []
    for recipe in found.recipes:
        lines = [*recipe.shell, "# in train.py", *recipe.python] if recipe.works else []
        text = escape_invisible("\n".join(lines), kept="\n")
        recipes.append(Snippet(recipe.framework.label, text, escape_invisible(recipe.note)))
    return ConnectionShown(
        summary=escape_invisible(found.summary),
        lines=tuple(
            Snippet(title, escape_invisible(text))
            for line, title in LINE_TITLES.items()
            if (text := str(getattr(found, line)))
        ),
        recipes=tuple(recipes),
        commands=commands,
    )
