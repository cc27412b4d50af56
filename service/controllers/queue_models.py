"""Tells flex-start from on demand, which the lists of the cloud do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from service.cloud.ports import TpuCloud
from service.controllers.unaccounted import Candidate
from service.domain.clock import HOUR, Clock
from service.domain.errors import CloudError, CloudNotFound
from service.domain.orphan import Orphan, Shown, is_model_in_doubt, place_in

QUESTIONS = 20
"""Queued resources that are asked about in one look: a look is not held up by thousands."""

KEPT = 10_000
"""Answers that are remembered."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The model, empty where the cloud did not say so, and when it was asked."""

    model: str
    at: int


class QueueModels:
    """Asks about each queued resource once, and again an hour after an answer that told nothing."""

    def __init__(self, cloud: TpuCloud, clock: Clock) -> None:
        self._cloud = cloud
        self._clock = clock
        self._answers: dict[str, _Answer] = {}

    def told(
        self, candidates: Sequence[Candidate], before: Mapping[str, Orphan]
    ) -> tuple[list[Candidate], bool]:
        """The candidates with their models, and whether all that could be asked was asked."""
        now, left = self._clock(), QUESTIONS
        found, is_complete = [], True
        for one in candidates:
            if not is_model_in_doubt(one.shown):
                found.append(one)
                continue
            ticket = one.shown.path if one.shown.queued else one.shown.ticket
            if self._is_open(ticket, now):
                if left:
                    self._ask(ticket, now)
                    left -= 1
                else:
                    is_complete = False
            model = self._model(ticket) or _model_before(one.shown, before)
            found.append(replace(one, shown=replace(one.shown, provisioning_model=model)))
        return found, is_complete

    def _is_open(self, ticket: str, now: int) -> bool:
        known = self._answers.get(ticket)
        return known is None or (not known.model and now - known.at >= HOUR)

    def _ask(self, ticket: str, now: int) -> None:
        place = place_in(ticket)
        model = ""
        if place is not None:
            try:
                model = self._cloud.queue_model(place)
            except (CloudNotFound, CloudError):
                model = ""
        if len(self._answers) >= KEPT:
            self._answers.pop(next(iter(self._answers)))
        self._answers[ticket] = _Answer(model, now)

    def _model(self, ticket: str) -> str:
        known = self._answers.get(ticket)
        return "" if known is None else known.model


def _model_before(shown: Shown, before: Mapping[str, Orphan]) -> str:
    """The model that was known of the same thing at the look before; else what the list shows."""
    known = before.get(shown.path)
    if known is None or known.shown.incarnation != shown.incarnation:
        return shown.provisioning_model
    return known.shown.provisioning_model or shown.provisioning_model
