"""The rules for every text that a user reads, and programs that collect these texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import typer

from service.cli.app import app

MOST_WORDS, MEAN_WORDS = 30, 18
"""Of a sentence."""

BETTER = {
    "request, requested": ["wish", "wishes", "asked for", "ask for", "asks for"],
    "recreated, reset": ["anew", "over and over", "again and again"],
    "cannot": ["in vain"],
    "indefinitely": ["for ever"],
    "preempted; credited; reclaimed": ["taken back", "takes back", "took back", "took a node back"],
    "repeatable": ["said again", "may be said"],
    "cooldown until, paused": ["left alone"],
    "inventory, records": ["in our books", "books", "written down", "write down"],
    "available": ["to be had", "for want of"],
    "anyone who": ["whoever", "somebody"],
    "with unknown price": ["nobody knows"],
    "happened to": ["befell", "came of it", "became of"],
    "fixed-term": ["by the calendar"],
    "reconciled with": ["held against", "hold against"],
    "also": ["besides"],
    "amounts to": ["comes to", "come to", "came to"],
    "unmanaged": ["strangers"],
    "notifies, alerted": ["told of", "tells", "tell at"],
    "polls": ["looks at", "a look", "no look", "one look", "two looks", "looked at"],
    "stockout, expired": ["ran out", "runs out"],
    "timestamp": ["instant", "instants"],
    "most expensive": ["dearest"],
    "when exceeded": ["at the cap"],
    "median": ["the one in the middle"],
    "duplicates": ["written twice"],
    "billed chip-hours": ["of one chip"],
    "total, custom query": ["one sum", "something else"],
    "export": ["the same as json", "the same as csv"],
    "give": ["say either", "say only", "say one of", "say its", "say at most", "say it once"],
    "identical": ["very same"],
    "project layout, layers": ["floors", "the house"],
}
"""Words that have to be read twice, under the words that the field has for them."""

ODD = [word for words in BETTER.values() for word in words]

HIDDEN = {"Field", "Query", "Path", "Header", "ConfigDict", "compile"}
"""Calls whose strings are no text of these kinds: patterns, and what OpenAPI shows."""

SPOKEN = ("title", "aria-label", "alt", "placeholder", "data-label")
"""Attributes that are shown or read aloud."""

INLINE = {"a", "abbr", "b", "bdi", "em", "i", "small", "span", "strong", "time"}
"""Elements within a sentence."""

VOID = {"br", "hr", "img", "input", "link", "meta"}
GAP = "…"
"""Stands for a value that is put into a text: one word."""


@dataclass(frozen=True)
class Text:
    """A text that is shown, and where it stands."""

    where: str
    words: str


def odd_in(text: str) -> list[str]:
    """The odd words of a text."""
    lowered = " ".join(text.lower().split())
    return [word for word in ODD if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", lowered)]


def sentences_in(text: str) -> list[list[str]]:
    """The words of each sentence. An empty line ends one, and so does a line that is indented."""
    ended = r"(?<=[.!?:;])\s+(?=[A-Z`0-9]|$)"
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n|\n[ ]{2,}", text)]
    found = [text.split() for block in blocks for text in re.split(ended, block)]
    return [words for words in found if any(word.isalpha() for word in words)]


def faults_of(texts: list[Text]) -> list[str]:
    """What is wrong with these texts: a line for each odd word, each sentence that is too long, and
    for all of them together, if their sentences are too long on average."""
    found = [f"{text.where}: {odd_in(text.words)} in {text.words!r}" for text in texts]
    found = [line for line, text in zip(found, texts, strict=True) if odd_in(text.words)]
    sentences = [(text.where, words) for text in texts for words in sentences_in(text.words)]
    found += [
        f"{where}: {len(words)} words in {' '.join(words)!r}"
        for where, words in sentences
        if len(words) > MOST_WORDS
    ]
    if sum(len(words) for _, words in sentences) > MEAN_WORDS * len(sentences):
        found.append(f"more than {MEAN_WORDS} words in a sentence, on average")
    return found


def prose_of(page: Path) -> str:
    """The text of a page in Markdown without its blocks of code: links in code lead nowhere."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def blocks_of(page: Path) -> list[str]:
    """Paragraphs, items and cells without the marks of Markdown; headings are left out."""
    text = re.sub(r"<!--.*?-->", "", prose_of(page), flags=re.DOTALL)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    found = []
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith("|"):
            found += [cell for line in block.splitlines() for cell in line.split("|")]
        elif not block.lstrip().startswith("#"):
            found += re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", block)
    return [re.sub(r"^(?:[-*]|\d+\.) ", "", " ".join(block.split())) for block in found]


def text_of(node: ast.AST) -> str | None:
    """The text of a string or an f-string in source; None for all else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or GAP for part in node.values)
    return None


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def strings_in(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and text of each string of several words in source. Docstrings are left out."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Call) and _name(node.func) in HIDDEN:
        return
    text = text_of(node)
    if text is not None:
        if " " in text.strip():
            yield getattr(node, "lineno", 0), text
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        inner: list[ast.AST] = [part for part in parts if isinstance(part, ast.FormattedValue)]
    else:
        inner = list(ast.iter_child_nodes(node))
    for child in inner:
        yield from strings_in(child)


def logged_in(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and text of each log message that is more than the name of an event."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
            text = text_of(call.args[0])
            if _name(call.func.value) == "log" and text is not None and " " in text:
                yield call.lineno, text


def source_texts(root: Path, *places: str, without: tuple[str, ...] = ()) -> list[Text]:
    """The texts in the modules at these places below the root."""
    return _read(root, places, without, strings_in)


def log_texts(root: Path) -> list[Text]:
    """The log messages of the service that are texts."""
    return _read(root, ("service",), (), logged_in)


def _read(
    root: Path,
    places: tuple[str, ...],
    without: tuple[str, ...],
    reader: Callable[[ast.AST], Iterator[tuple[int, str]]],
) -> list[Text]:
    skipped = {root / text for text in without}
    paths = [
        path
        for place in places
        for path in (
            [root / place] if place.endswith(".py") else sorted(root.glob(f"{place}/**/*.py"))
        )
        if path.is_file() and not skipped & {path, *path.parents}
    ]
    return [
        Text(f"{path.relative_to(root)}:{line}", text)
        for path in paths
        for line, text in reader(ast.parse(path.read_text()))
    ]


def commands() -> Any:
    """The tree of all commands."""
    return typer.main.get_command(app)


def command_texts(command: Any, path: str) -> list[Text]:
    """The help of a command, of its options, and of all commands below it."""
    about = [Text(path, command.help or "")]
    about += [
        Text(f"{path} {param.name}", getattr(param, "help", None) or "") for param in command.params
    ]
    below = getattr(command, "commands", {})
    return about + [text for name in below for text in command_texts(below[name], f"{path} {name}")]


def summaries_of(command: Any, path: str, columns: int) -> list[Text]:
    """The lines of the lists of commands, as the help of a terminal of so many columns shows them:
    a line that does not fit ends with dots."""
    below = getattr(command, "commands", {})
    context = command.context_class(command, info_name=path, terminal_width=columns)
    text = command.get_help(context).partition("\n  Example: ")[0]
    listed = "\n".join(re.split(r"(?m)^Commands[\w ]*:$", text)[1:])
    lines = [Text(path, " ".join(line.split())) for line in listed.splitlines() if line.strip()]
    return lines + [
        text for name in below for text in summaries_of(below[name], f"{path} {name}", columns)
    ]


class Page(HTMLParser):
    """Collects the texts of a page: those between elements of a block, and spoken attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found = [""]
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        spoken = [value for name, value in attrs if name in SPOKEN and value]
        if tag == "code":
            self._code += 1
        if tag in INLINE | {"code"}:
            self.found[-1:-1] = spoken
        else:
            self.found += [*spoken, ""]

    def handle_endtag(self, tag: str) -> None:
        if tag == "code":
            self._code -= 1
            self.found[-1] += GAP
        elif tag not in INLINE:
            self.found.append("")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.found[-1] += data


def template_texts(path: Path, where: str) -> list[Text]:
    """The texts of a template: of its page, and the strings in its expressions."""
    environment = jinja2.Environment(autoescape=True)
    html, strings, inside = "", [], False
    for _, token, value in environment.lex(path.read_text()):
        inside = token.endswith("_begin") or (inside and not token.endswith("_end"))
        if token == "data":
            html += value
        elif token == "variable_begin":
            html += GAP
        elif token == "block_begin":
            html += " "
        elif token == "string":
            strings.append(str(ast.literal_eval(value)))
    page = Page()
    page.feed(html)
    page.close()
    texts = [*page.found, *(text for text in strings if " " in text.strip())]
    return [Text(where, " ".join(text.split())) for text in texts if re.search("[a-z]", text)]


def dashboard_texts(root: Path) -> list[Text]:
    """The texts of the pages: of the templates, and of the modules that fill them."""
    templates = sorted((root / "service/dashboard/templates").glob("*.html"))
    shown = [text for path in templates for text in template_texts(path, path.name)]
    return shown + source_texts(root, "service/dashboard")


NOTIFICATIONS = (
    "service/domain/notifications/letters.py",
    "service/domain/budgets/alerts.py",
    "service/domain/notifications/node_messages.py",
    "service/controllers/budgets/budgets.py",
    "service/controllers/notifications.py",
)
ANSWERING = (
    *("service/api", "service/application", "service/domain", "service/store", "service/cloud"),
    *("service/controllers", "service/supervisor"),
)


def targets_of(root: Path) -> list[Text]:
    """What `make help` says."""
    lines = (root / "Makefile").read_text().splitlines()
    return [
        Text(f"make {line.partition(':')[0]}", line.split(" ## ")[1])
        for line in lines
        if " ## " in line
    ]


KINDS: Mapping[str, Callable[[Path], list[Text]]] = {
    "problems": lambda root: source_texts(
        root, *ANSWERING, without=(*NOTIFICATIONS, "service/api/openapi/openapi.py")
    ),
    "notifications": lambda root: source_texts(root, *NOTIFICATIONS),
    "command line": lambda root: source_texts(root, "service/cli"),
    "help": lambda _: command_texts(commands(), "tpu-steward"),
    "targets": targets_of,
    "dashboard": dashboard_texts,
    "logs": log_texts,
    "changelog": lambda root: [
        Text("CHANGELOG.md", block) for block in blocks_of(root / "CHANGELOG.md")
    ],
}
"""Where the texts of each kind are collected from, given the folder of the project."""
