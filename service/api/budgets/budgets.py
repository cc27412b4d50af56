"""Routes of budgets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import Field

from service.api.budgets.budget_views import BudgetDetail, BudgetPage, BudgetView
from service.api.http.deps import BudgetsDep, VersionDep
from service.api.http.idempotency import HIT, IdempotencyKey, key_of, mark_repeat
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import (
    LABEL,
    Body,
    Line,
    LocalInstant,
    Name,
    PageQuery,
    Secret,
    UsdText,
    schema_extra,
    whole_pattern,
)
from service.domain.budgets.budget import (
    MAX_GRACE,
    MAX_PERCENT,
    MAX_THRESHOLDS,
    Budget,
    Measure,
    OnExceeded,
    Period,
    Scope,
    Threshold,
    check_currency,
    instant_of,
)
from service.domain.errors import Rejected
from service.domain.money import parse_usd

router = Router(prefix="/v1/budgets", tags=["costs"])

_ETAG: dict[str, Any] = {
    "ETag": {"description": 'Its version, for If-Match: `"3"`.', "schema": {"type": "string"}}
}
_CREATED: dict[int | str, dict[str, Any]] = {
    201: {
        "model": BudgetView,
        "headers": {**_ETAG, **HIT, "Location": {"schema": {"type": "string"}}},
    }
}
Count = Annotated[int, Field(strict=True)]
ThresholdPercent = Annotated[Count, schema_extra(minimum=1, maximum=MAX_PERCENT)]
Said = Annotated[Line, Field(min_length=1)]


class ScopeBody(Body):
    """The spend that counts: usage that matches every given field, or all usage without fields."""

    project: Said | None = Field(default=None, examples=[None])
    team: Said | None = Field(default=None, examples=["vision"])
    owner: Said | None = Field(default=None, examples=[None])
    job: Said | None = Field(default=None, examples=[None])
    label: Annotated[Said, schema_extra(pattern=whole_pattern(LABEL))] | None = Field(
        default=None, description="`key:value`.", examples=[None]
    )

    def to_scope(self) -> Scope:
        """The scope in terms of the domain. Raises Rejected for an invalid one."""
        label = None
        if self.label is not None:
            key, _, value = self.label.partition(":")
            if re.fullmatch(LABEL, self.label) is None:
                raise Rejected(
                    f"{self.label[:80]!r} is not a label; write key:value", field="scope.label"
                )
            label = key, value
        return Scope(self.project, self.team, self.owner, self.job, label)


class ThresholdBody(Body):
    """A share of the amount at which an alert is sent."""

    percent: ThresholdPercent = Field(description="Whole percent, 1 to 1000.", examples=[80])
    of: Measure = Field(
        default=Measure.ACTUAL, description="Of what was spent, or of what is expected."
    )


class _Changes(Body):
    """What a new budget and a change of one have in common."""

    scope: ScopeBody | None = Field(
        default=None, description="Whose spend counts. Null, the default: everything."
    )
    currency: Name = Field(default="USD", description="USD alone.", examples=["USD"])
    tz: Name | None = Field(
        default=None,
        description="The IANA time zone of its calendar. Null, the default: UTC.",
        examples=["Europe/Berlin"],
    )
    start: LocalInstant | None = Field(
        default=None,
        description="The budget counts from this time on, or from this date in its time zone."
        " Null, the default: from when it was made.",
        examples=[None],
    )
    end: LocalInstant | None = Field(
        default=None,
        description="The budget counts until then. Null, the default: without an end; a custom"
        " period needs one.",
        examples=[None],
    )
    thresholds: (
        Annotated[
            tuple[ThresholdPercent | ThresholdBody, ...], schema_extra(maxItems=MAX_THRESHOLDS)
        ]
        | None
    ) = Field(
        default=None,
        description="Percent of what was spent, or with `of` of what is expected. Null, the"
        " default: none.",
        examples=[[50, 80, 100, {"percent": 100, "of": "forecast"}]],
    )
    on_exceeded: OnExceeded | None = Field(
        default=None,
        description="`refuse` grants no node that might jump it; `delete` also has nodes deleted"
        " once more was spent, after `grace_seconds` and once each message of it was tried. Set a"
        " webhook or emails as well: without them, nodes go without a message, and `warnings` says"
        " so. Null, the default: `notify`.",
        examples=["refuse"],
    )
    burn_rate: Annotated[Count, schema_extra(minimum=2, maximum=100)] | None = Field(
        default=None,
        description="Tell when it is spent so many times as fast as it lasts. Null, the default:"
        " no such alarm.",
        examples=[4],
    )
    grace_seconds: Annotated[Count, schema_extra(minimum=0, maximum=MAX_GRACE)] | None = Field(
        default=None,
        description="Between the word and the deletion. Null, the default: 900. It takes longer"
        " where a message was not tried yet. It takes up to an hour where the audit"
        " log gives no answer, because an answer may lower the cost.",
        examples=[900],
    )
    webhook: Annotated[str, Field(max_length=2_000)] | None = Field(
        default=None,
        description="An address that messages are sent to. Null, the default: none, and no secret"
        " either.",
        examples=["https://hooks.example.com/budgets"],
    )
    webhook_secret: Secret | None = Field(
        default=None,
        description="Signs what the webhook gets; a webhook needs one. Never shown again. Null, the"
        " default: none, which goes only without a webhook.",
        examples=["a long random text"],
    )
    emails: Annotated[tuple[Line, ...], Field(max_length=20)] | None = Field(
        default=None,
        description="Who is told by e-mail. Null, the default: nobody.",
        examples=[["ada@example.com"]],
    )

    def to_changes(self, before: Budget) -> dict[str, Any]:
        """The fields of the domain that the request sets. Raises Rejected for an invalid value."""
        check_currency(self.currency)
        said = self.model_dump(exclude_unset=True, exclude={"currency", "webhook_secret"})
        tz = said.get("tz") or before.tz
        read: dict[str, Callable[[], object]] = {
            "amount": lambda: parse_usd(said["amount"]),
            "scope": lambda: self.scope.to_scope() if self.scope else None,
            "start": lambda: instant_of(said["start"], tz, "start"),
            "end": lambda: instant_of(said["end"], tz, "end"),
            "thresholds": lambda: tuple(
                Threshold(each) if isinstance(each, int) else Threshold(each.percent, each.of)
                for each in self.thresholds or ()
            ),
        }
        for name, value in said.items():
            if value is None:
                plain = Budget("", "", Scope(), 1, Period.MONTH, "UTC", 0)
                said[name] = getattr(plain, name)
            elif name in read:
                said[name] = read[name]()
        if "webhook_secret" in self.model_fields_set or said.get("webhook") == "":
            said["secret"] = self.webhook_secret or ""
        return said


class BudgetRequest(_Changes):
    """A budget."""

    name: Annotated[Name, Field(min_length=1)] = Field(examples=["vision in November"])
    amount: UsdText = Field(description="Dollars of each period.", examples=["5000"])
    period: Period = Field(examples=["month"])

    def to_budget(self) -> Budget:
        """The budget in terms of the domain. Raises Rejected for an invalid value."""
        plain = Budget("", self.name, Scope(), 1, self.period, "UTC", 0)
        fields = {name: getattr(plain, name) for name in Budget.__dataclass_fields__}
        return Budget(**(fields | self.to_changes(plain)))


class BudgetChange(_Changes):
    """The fields to change. A field that is left out stays. Null restores its default."""

    # Their defaults are never read: what is left out is not in `model_fields_set`.
    name: Annotated[Name, Field(min_length=1)] = Field(
        default_factory=str, examples=["vision in November"]
    )
    amount: UsdText = Field(
        default_factory=str, description="Dollars of each period.", examples=["8000"]
    )
    period: Period = Field(default_factory=lambda: Period.MONTH, examples=["month"])


@router.get("", operation_id="list_budgets", responses=may_answer(422, 503))
def list_budgets(budgets: BudgetsDep, query: Annotated[PageQuery, Query()]) -> BudgetPage:
    """Every budget by name, and how it stands."""
    page, token = query.cut_page(budgets.list_all())
    shown = budgets.list_statuses(page)
    return BudgetPage(budgets=tuple(map(BudgetView.from_status, shown)), next_page_token=token)


@router.post(
    "",
    status_code=201,
    operation_id="create_budget",
    responses=_CREATED | may_answer(400, 409, 413, 415, 422),
)
def create_budget(
    body: BudgetRequest,
    budgets: BudgetsDep,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> BudgetView:
    """Create a budget. It applies at once, also to what runs already."""
    made = budgets.create(body.to_budget(), key_of(idempotency_key, body))
    response.headers["Location"] = f"/v1/budgets/{made.shown.budget.id}"
    response.headers["ETag"] = f'"{made.shown.budget.version}"'
    mark_repeat(response, created=made.created)
    return BudgetView.from_status(made.shown)


@router.get("/{budget_id}", operation_id="get_budget", responses=may_answer(404, 422))
def get_budget(budget_id: str, budgets: BudgetsDep, response: Response) -> BudgetDetail:
    """Get one budget, with what it refused and its last notification."""
    found = budgets.get(budget_id)
    response.headers["ETag"] = f'"{found.shown.budget.version}"'
    return BudgetDetail.from_history(found)


@router.patch(
    "/{budget_id}",
    operation_id="change_budget",
    responses=may_answer(400, 404, 409, 412, 413, 415, 422),
)
def change_budget(
    budget_id: str,
    body: BudgetChange,
    budgets: BudgetsDep,
    version: VersionDep,
    response: Response,
) -> BudgetView:
    """Change some fields of a budget. The change applies at once."""
    before = budgets.get(budget_id).shown.budget
    changes = body.to_changes(before)
    shown = budgets.update_fields(budget_id, changes, version=version)
    response.headers["ETag"] = f'"{shown.budget.version}"'
    return BudgetView.from_status(shown)


@router.delete(
    "/{budget_id}", operation_id="delete_budget", responses=may_answer(404, 409, 412, 422)
)
def delete_budget(budget_id: str, budgets: BudgetsDep, version: VersionDep) -> BudgetView:
    """Delete a budget, and return it as it was. What was spent stays in the costs."""
    return BudgetView.from_status(budgets.delete(budget_id, version=version))
