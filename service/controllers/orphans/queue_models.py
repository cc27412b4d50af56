"""Tells flex-start from on demand, which the lists of the cloud do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from service.cloud.ports import TpuCloud
from service.controllers.orphans.diff import Candidate
from service.domain.clock import HOUR, MINUTE, Clock
from service.domain.errors import CloudError, CloudNotFound, NotAllowed
from service.domain.orphans.orphan import Orphan, ShownResource, is_model_in_doubt, place_in

QUESTIONS = 20
"""Queued resources that are asked about in one look: a look is not held up by thousands."""

KEPT = 10_000
"""Answers that are remembered."""


QUIET_SECONDS = 15 * MINUTE
"""A project in which a question failed is asked none for so long: a call that hangs holds up one
look, and not each of them twenty times."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The model, empty where the cloud does not know it either, and when it was asked."""

    model: str
    at: int


class QueueModels:
    """Asks about each queued resource once, and again an hour after an answer that told nothing.
    Several projects may be looked at at once."""

    def __init__(self, cloud: TpuCloud, clock: Clock) -> None:
        self._cloud = cloud
        self._clock = clock
        self._lock = Lock()
        self._answers: dict[str, _Answer] = {}
        self._quiet: dict[str, int] = {}

    def with_models(
        self, candidates: Sequence[Candidate], before: Mapping[str, Orphan]
    ) -> tuple[list[Candidate], bool]:
        """The candidates with their models, and whether each question was answered: else another
        look at the same may bring more."""
        now, left = self._clock(), QUESTIONS
        found, is_complete = [], True
        for one in candidates:
            if not is_model_in_doubt(one.shown):
                found.append(one)
                continue
            ticket = one.shown.path if one.shown.queued else one.shown.ticket
            if left and self._is_open(ticket, now):
                self._ask(ticket, now)
                left -= 1
            known = self._answers.get(ticket)
            is_complete = is_complete and (known is not None or place_in(ticket) is None)
            model = (known.model if known else "") or _model_before(one.shown, before)
            found.append(replace(one, shown=replace(one.shown, provisioning_model=model)))
        return found, is_complete

    def _is_open(self, ticket: str, now: int) -> bool:
        """Whether the cloud is to be asked about it now."""
        place = place_in(ticket)
        if place is None or now < self._quiet.get(place.project, 0):
            return False
        known = self._answers.get(ticket)
        return known is None or (not known.model and now - known.at >= HOUR)

    def _ask(self, ticket: str, now: int) -> None:
        place = place_in(ticket)
        assert place is not None
        try:
            model = self._cloud.queue_model(place)
        except (CloudNotFound, NotAllowed):
            model = ""
        except CloudError:
            self._quiet[place.project] = now + QUIET_SECONDS
            return
        with self._lock:
            if len(self._answers) >= KEPT:
                self._answers.pop(next(iter(self._answers)))
            self._answers[ticket] = _Answer(model, now)


def _model_before(shown: ShownResource, before: Mapping[str, Orphan]) -> str:
    """The model that was known of the same thing at the look before; else what the list shows."""
    known = before.get(shown.path)
    if known is None or known.shown.incarnation != shown.incarnation:
        return shown.provisioning_model
    return known.shown.provisioning_model or shown.provisioning_model
