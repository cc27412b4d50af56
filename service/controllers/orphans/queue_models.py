"""Finds out whether a node is flex-start or on demand, which the cloud's lists do not show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from service.cloud.ports import TpuCloud
from service.controllers.orphans.diff import Candidate
from service.domain.clock import HOUR, MINUTE, Clock
from service.domain.errors import CloudError, CloudNotFound, NotAllowed
from service.domain.orphans.orphan import Orphan, is_model_in_doubt, place_in

QUESTIONS = 20
"""Most queued resources that are asked about in one look, so that a look stays short."""

KEPT = 10_000
"""Most answers that are remembered."""


QUIET_SECONDS = 15 * MINUTE
"""Seconds without questions in a project after a question failed: a call that hangs delays one look
once, and not every look twenty times."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The model, empty if the cloud does not know it, and the time of the question."""

    model: str
    at: int


class QueueModels:
    """Asks about each queued resource once, and again an hour after an empty answer. Several
    threads may use one object, each for another project."""

    def __init__(self, cloud: TpuCloud, clock: Clock) -> None:
        self._cloud = cloud
        self._clock = clock
        self._lock = Lock()
        self._answers: dict[str, _Answer] = {}
        self._quiet: dict[str, int] = {}

    def with_models(
        self, candidates: Sequence[Candidate], before: Mapping[str, Orphan]
    ) -> tuple[list[Candidate], bool]:
        """The candidates with their models, and whether each question was answered. Otherwise
        another look at the same lists may find more models."""
        now, left = self._clock(), QUESTIONS
        found, is_complete = [], True
        for candidate in candidates:
            shown = candidate.shown
            if not is_model_in_doubt(shown):
                found.append(candidate)
                continue
            ticket = shown.path if shown.queued else shown.ticket
            if left and self._is_question_due(ticket, now):
                self._ask_model(ticket, now)
                left -= 1
            known = self._answers.get(ticket)
            is_complete = is_complete and (known is not None or place_in(ticket) is None)
            model = known.model if known else ""
            earlier = before.get(shown.path)
            if earlier is not None and earlier.shown.incarnation == shown.incarnation:
                model = model or earlier.shown.provisioning_model
            model = model or shown.provisioning_model
            found.append(replace(candidate, shown=replace(shown, provisioning_model=model)))
        return found, is_complete

    def _is_question_due(self, ticket: str, now: int) -> bool:
        place = place_in(ticket)
        if place is None or now < self._quiet.get(place.project, 0):
            return False
        known = self._answers.get(ticket)
        return known is None or (not known.model and now - known.at >= HOUR)

    def _ask_model(self, ticket: str, now: int) -> None:
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
