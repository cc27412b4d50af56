"""Request bodies for the forms of the dashboard: the rules and the messages of the routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from service.api.budgets.budgets import BudgetChange, BudgetRequest
from service.api.costs.estimates import EstimateRequest
from service.api.http.schemas import Body
from service.api.http.validation_errors import complaints_of
from service.api.nodes.node_request import NodeRequest
from service.api.orphans import AdoptRequest
from service.application.orphans import Adopter
from service.application.pricing.estimates import Caller
from service.domain.budgets.budget import Budget
from service.domain.errors import Rejected
from service.domain.idempotency import RequestKey
from service.domain.nodes.request import RequestedNode

B = TypeVar("B", bound=Body)


class RequestBodies:
    """Parses what a form sends as a route parses its JSON. Each method raises Rejected, with
    `errors` by field, for an invalid body."""

    def parse_node(self, said: Mapping[str, object], key: str) -> tuple[RequestedNode, RequestKey]:
        """A request for a node, and its idempotency key."""
        body = _parse_body(NodeRequest, said)
        return body.to_request(), RequestKey(key, body.to_digest())

    def parse_caller(self, said: Mapping[str, object]) -> Caller:
        """The caller whose budgets an estimate is checked against."""
        return _parse_body(EstimateRequest, said).to_caller()

    def parse_budget(self, said: Mapping[str, object], key: str) -> tuple[Budget, RequestKey]:
        """A new budget, and its idempotency key."""
        body = _parse_body(BudgetRequest, said)
        return body.to_budget(), RequestKey(key, body.to_digest())

    def parse_budget_change(self, said: Mapping[str, object], before: Budget) -> Mapping[str, Any]:
        """The fields of a budget that change."""
        return _parse_body(BudgetChange, said).to_changes(before)

    def parse_adopter(self, said: Mapping[str, object]) -> Adopter:
        """Who is charged for an adopted node."""
        return Adopter(**_parse_body(AdoptRequest, said).model_dump())


def _parse_body(model: type[B], said: Mapping[str, object]) -> B:
    try:
        return model.model_validate(said)
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        found = complaints_of(errors, None)
        first = f"{found[0]['field']}: {found[0]['message']}"
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise Rejected(first + more, errors=found) from None
