"""The forms that create, change and delete a budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from service.application.services import Services
from service.dashboard.actions.bodies import Bodies
from service.dashboard.actions.form import KEY, Form, parse_whole_number
from service.dashboard.actions.page import ActionPage, ActionResult, Choice, Confirmation, Input
from service.dashboard.kit.figures import Fact, format_money
from service.dashboard.kit.visible_text import escape_invisible
from service.domain.budgets.budget import Budget, Measure, OnExceeded, Period, Scope
from service.domain.clock import to_rfc3339
from service.domain.errors import NotFound, Rejected, StaleVersion
from service.domain.money import format_usd

PAGE = "/budgets"
PATH = f"{PAGE}/new"
_VERSION, _SECRET = "version", "webhook_secret"
_BACK = (PAGE, "Budgets")
_PERIODS = (
    Choice(Period.DAY, "day"),
    Choice(Period.WEEK, "week"),
    Choice(Period.MONTH, "month"),
    Choice(Period.QUARTER, "quarter"),
    Choice(Period.YEAR, "year"),
    Choice(Period.CUSTOM, "custom: once, from the start to the end below"),
)
_ON_EXCEEDED = (
    Choice(OnExceeded.NOTIFY, "notify its recipients"),
    Choice(OnExceeded.REFUSE, "refuse nodes that could exceed it"),
    Choice(OnExceeded.DELETE, "refuse nodes, and delete its nodes after the grace time"),
)
_PLAIN = Budget("", "", Scope(), 1, Period.MONTH, "UTC", 0)


def build_new_budget_page(_services: Services, form: Form) -> ActionPage:
    """The form for a new budget, with the defaults of the API."""
    inputs = tuple(_iter_inputs(_PLAIN))
    inputs = tuple(replace(each, value="") if each.name == "amount" else each for each in inputs)
    page = ActionPage(
        heading="Create a budget",
        button="Create the budget",
        back=_BACK,
        sentences=("It applies at once, also to the nodes that run already.",),
        inputs=inputs,
        hidden=((KEY, form.read_key()),),
    )
    return page.with_typed(form)


def create_budget(services: Services, form: Form, bodies: Bodies) -> ActionResult:
    """Create a budget. The same form sent twice is one budget."""
    said = {
        name: read(form)
        for name, read in _READERS.items()
        if any(form.get_text(each) for each in form.fields if _belongs_to(each, name))
    }
    made = services.budgets.create(*bodies.parse_budget(said, form.read_key()))
    name = escape_invisible(made.shown.budget.name)
    message = f"Budget {name} is created. It applies from now on."
    if not made.created:
        message = f"Budget {name} was created by this form before. Nothing was created now."
    return ActionResult(PAGE, message, made.shown.warnings)


def build_edit_page(services: Services, _form: Form, subject: str) -> ActionPage:
    """The form with the fields of a budget as it is now. `subject` is its id or its name. Raises
    NotFound."""
    budget = _find_budget(services, subject)
    return ActionPage(
        heading=f"Edit budget {escape_invisible(budget.name)}",
        button="Save the budget",
        back=_BACK,
        sentences=("A change applies at once. Alerts whose cause still holds are sent again.",),
        inputs=tuple(_iter_inputs(budget)),
        hidden=((_VERSION, str(budget.version)),),
    )


def change_budget(services: Services, form: Form, subject: str, bodies: Bodies) -> ActionResult:
    """Change the fields of a budget that were edited. Raises StaleVersion if the budget was changed
    after its form was opened, with the saved value of each field that differs from the form."""
    budget = _find_budget(services, subject)
    version = parse_whole_number(form.get_text(_VERSION))
    if version is None:
        raise Rejected("the form has no version of the budget; open it again")
    shown = {each.name: each.value for each in _iter_inputs(budget)}
    edited = {name for name in shown if name in form and form.get_text(name) != shown[name]}
    if version != budget.version:
        # The form with this error can be sent again, and would overwrite what another person saved.
        errors = [
            {"field": name, "message": f"saved meanwhile: {escape_invisible(text) or 'nothing'}"}
            for name, text in shown.items()
            if name in edited and name != _SECRET
        ]
        raise StaleVersion(
            "another person saved this budget meanwhile; check the marked fields, then save again",
            errors=errors,
        )
    said = {
        name: read(form)
        for name, read in _READERS.items()
        if edited & {each for each in shown if _belongs_to(each, name)}
    }
    changes = bodies.parse_budget_change(said, budget)
    changed = services.budgets.update_fields(budget.id, changes, version=version)
    name = escape_invisible(changed.budget.name)
    return ActionResult(PAGE, f"Budget {name} is saved.", changed.warnings)


def build_delete_page(services: Services, _form: Form, subject: str) -> ActionPage:
    """The page that requests the name of a budget before its deletion. Raises NotFound."""
    budget = _find_budget(services, subject)
    standing = services.budgets.get(budget.id).shown.standing
    facts = [
        Fact("Scope", escape_invisible(budget.scope.words)),
        Fact("Amount", f"{format_money(budget.amount)} {describe_period(budget)}"),
        Fact("When exceeded", budget.on_exceeded),
    ]
    if standing is not None:
        facts.append(Fact("Spent in this period", format_money(standing.spent)))
    return ActionPage(
        heading=f"Delete budget {escape_invisible(budget.name)}?",
        button="Delete the budget",
        back=_BACK,
        sentences=("Its limit and its alerts end at once. The costs stay in the ledger.",),
        facts=tuple(facts),
        confirmation=Confirmation("the name of the budget", budget.name),
        is_alarm=True,
    )


def delete_budget(services: Services, _form: Form, subject: str) -> ActionResult:
    """Delete a budget whose name was typed."""
    shown = services.budgets.delete(_find_budget(services, subject).id)
    return ActionResult(PAGE, f"Budget {escape_invisible(shown.budget.name)} is deleted.")


def describe_period(budget: Budget) -> str:
    """How often the amount of a budget is granted: `each month`, or `once` for a custom period."""
    return "once" if budget.period is Period.CUSTOM else f"each {budget.period}"


def _find_budget(services: Services, subject: str) -> Budget:
    """The budget with this id or name. Raises NotFound."""
    budgets = services.budgets.list_all()
    for budget in budgets:
        if budget.id == subject:
            return budget
    for budget in budgets:
        if budget.name == subject:
            return budget
    raise NotFound(f"no budget has the id or name {subject[:80]!r}")


def _iter_inputs(budget: Budget) -> Iterator[Input]:
    """The fields of a budget, with its values."""
    yield Input("name", "Name", budget.name, is_required=True, max_length=80)
    amount = format_usd(budget.amount).rstrip("0").rstrip(".")
    yield Input("amount", "Dollars of each period", amount, hint="Such as 5000.", is_required=True)
    yield Input("period", "Period", budget.period, choices=_PERIODS)
    yield Input("on_exceeded", "When exceeded", budget.on_exceeded, choices=_ON_EXCEEDED)
    scope = budget.scope
    hint = "Empty: all teams. The fields of the scope must all match."
    yield Input("scope_team", "Only team", scope.team or "", hint=hint)
    yield Input("scope_project", "Only project", scope.project or "")
    yield Input("scope_owner", "Only owner", scope.owner or "")
    yield Input("scope_job", "Only job", scope.job or "")
    label = "" if scope.label is None else ":".join(scope.label)
    yield Input("scope_label", "Only label", label, hint="As key:value.")
    actual, ahead = (
        ", ".join(str(each.percent) for each in budget.thresholds if each.of is measure)
        for measure in (Measure.ACTUAL, Measure.FORECAST)
    )
    yield Input("thresholds_actual", "Alert at percent spent", actual, hint="Such as 50, 80, 100.")
    yield Input("thresholds_forecast", "Alert at percent expected", ahead, hint="Such as 100.")
    yield Input("emails", "E-mail recipients", ", ".join(budget.emails), max_length=4_000)
    yield Input("webhook", "Webhook", budget.webhook, max_length=2_000)
    yield Input(
        _SECRET,
        "Secret of the webhook",
        hint="Empty: the present secret stays."
        if budget.secret
        else "At least 16 characters. It is never shown again.",
    )
    yield Input(
        "grace_seconds",
        "Grace time in seconds",
        str(budget.grace_seconds),
        hint="Between the notification and the deletion.",
        is_number=True,
    )
    burn = "" if budget.burn_rate is None else str(budget.burn_rate)
    hint = "Alert when it is spent this many times as fast as it lasts. Empty: no alert."
    yield Input("burn_rate", "Burn rate", burn, hint=hint, is_number=True)
    yield Input("tz", "Time zone", budget.tz, hint="Such as Europe/Berlin.", max_length=80)
    start, end = ("" if each is None else to_rfc3339(each) for each in (budget.start, budget.end))
    hint = "A date or a timestamp, such as 2026-12-01. Empty: from its creation."
    yield Input("start", "Counts from", start, hint=hint, max_length=80)
    yield Input("end", "Counts until", end, hint="Empty: without an end.", max_length=80)


def _belongs_to(field: str, name: str) -> bool:
    """Whether the field of a form is, or is part of, a field of the API."""
    return field == name or (name in {"scope", "thresholds"} and field.startswith(f"{name}_"))


def _read_text(name: str) -> Callable[[Form], object]:
    return lambda form: form.get_text(name) or None


def _read_number(name: str) -> Callable[[Form], object]:
    def read_number(form: Form) -> int | None:
        text = form.get_text(name)
        return _to_number(text, name) if text else None

    return read_number


def _read_scope(form: Form) -> Mapping[str, str] | None:
    found = {
        name: form.get_text(f"scope_{name}")
        for name in ("project", "team", "owner", "job", "label")
        if form.get_text(f"scope_{name}")
    }
    return found or None


def _read_thresholds(form: Form) -> list[object]:
    found: list[object] = []
    for measure in (Measure.ACTUAL, Measure.FORECAST):
        field = f"thresholds_{measure}"
        for text in re.split(r"[,\s]+", form.get_text(field)):
            if text:
                percent = _to_number(text.removesuffix("%"), field)
                found.append({"percent": percent, "of": str(measure)})
    return found


def _read_emails(form: Form) -> list[str] | None:
    return [each for each in re.split(r"[,;\s]+", form.get_text("emails")) if each] or None


def _to_number(text: str, field: str) -> int:
    number = parse_whole_number(text)
    if number is None:
        raise Rejected(f"{field}: {text[:40]!r} is not a whole number", field=field)
    return number


_READERS: Mapping[str, Callable[[Form], object]] = {
    "name": lambda form: form.get_text("name"),
    "amount": lambda form: form.get_text("amount"),
    "period": _read_text("period"),
    "on_exceeded": _read_text("on_exceeded"),
    "scope": _read_scope,
    "thresholds": _read_thresholds,
    "emails": _read_emails,
    "webhook": _read_text("webhook"),
    _SECRET: _read_text(_SECRET),
    "grace_seconds": _read_number("grace_seconds"),
    "burn_rate": _read_number("burn_rate"),
    "tz": _read_text("tz"),
    "start": _read_text("start"),
    "end": _read_text("end"),
}
"""Reads each field of the API from the form. None restores the default of the field."""
