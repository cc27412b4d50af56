"""The page of an action: its facts, its fields, and its button."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from service.dashboard.actions.form import Form
from service.dashboard.kit.figures import Fact
from service.dashboard.kit.visible_text import escape_invisible

CONFIRM = "confirm"
"""The field of a typed confirmation."""


class Choice(NamedTuple):
    """An entry of a menu."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Input:
    """A field that a person fills in. With `choices` it is a menu, with `rows` it has lines."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    error: str = ""
    choices: tuple[Choice, ...] = ()
    suggestions: tuple[str, ...] = ()
    rows: int = 0
    is_required: bool = False
    is_number: bool = False
    max_length: int = 200


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a person types to confirm: a name, or a number. `what` names it, as in `the name of the
    node`."""

    what: str
    expected: str

    @property
    def shown(self) -> str:
        """The expected text, with invisible characters as escapes."""
        return escape_invisible(self.expected)

    def is_met(self, typed: str) -> bool:
        """Whether the typed text is the expected one, or the one that the page shows."""
        known = {unicodedata.normalize("NFC", text.strip()) for text in (self.expected, self.shown)}
        return unicodedata.normalize("NFC", typed.strip()) in known


@dataclass(frozen=True, slots=True)
class ActionTable:
    """A table on the page of an action, such as the nodes that it changes."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    """Columns of figures, counted from 0."""


@dataclass(frozen=True, slots=True)
class ActionPage:
    """The page of an action. `back` is the address and the name of the page that it belongs to.

    `refusal` says why the action is not possible; the page has no button then. `problem` says why
    the form that was sent changed nothing. `hidden` fields are sent with the form. A page whose
    `is_question` is True sends its fields in the address and changes nothing. `status` is the
    status of the answer when the page is opened.
    """

    heading: str
    button: str
    back: tuple[str, str]
    sentences: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    tables: tuple[ActionTable, ...] = ()
    inputs: tuple[Input, ...] = ()
    hidden: tuple[tuple[str, str], ...] = ()
    confirmation: Confirmation | None = None
    typed: str = ""
    is_alarm: bool = False
    refusal: str = ""
    problem: str = ""
    is_question: bool = False
    status: int = 200

    def with_typed(self, form: Form) -> ActionPage:
        """The page with what a person has typed."""
        inputs = tuple(
            replace(each, value=form.get_text(each.name)) if each.name in form else each
            for each in self.inputs
        )
        return replace(self, inputs=inputs, typed=form.get_text(CONFIRM))

    def with_problem(self, problem: str, errors: Mapping[str, str] | None = None) -> ActionPage:
        """The page with the reason why nothing was changed. `errors` are messages by field."""
        said = errors or {}
        inputs = tuple(replace(each, error=said.get(each.name, "")) for each in self.inputs)
        return replace(self, problem=problem, inputs=inputs)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """Where a finished action leads, and the sentence that the page there shows."""

    address: str
    message: str
    warnings: Sequence[str] = field(default_factory=tuple)

    @property
    def path(self) -> str:
        """The path of the address, decoded."""
        return unquote(urlsplit(self.address).path)

    @property
    def full_message(self) -> str:
        """The message with its warnings."""
        return " ".join([self.message, *(f"Note: {warning}." for warning in self.warnings)])
