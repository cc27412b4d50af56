"""Response models of an explained line of the ledger."""

from __future__ import annotations

from pydantic import Field

from service.api.http.schemas import Time, View, time_or_none
from service.api.nodes.node_views import EntryView
from service.api.pricing.prices import PriceView
from service.application.costs.explanations import Explanation
from service.domain.clock import to_rfc3339
from service.domain.metering.attribution import Attribution
from service.store.usage_versions import UsageVersion


class BeliefView(View):
    """One version of what was believed of the interval; the last one is what counts."""

    start: Time = Field(description="Charged from here on.")
    start_at_latest: Time = Field(description="It began no later than this.")
    start_evidence: str = Field(examples=["operation"])
    end: Time | None = Field(description="Charged until here; null while it runs.")
    end_at_earliest: Time | None = Field(description="It ended no sooner than this.")
    end_evidence: str | None = Field(examples=["observed"])
    free: str = Field(description="Why it costs nothing; empty where it does.")
    recorded_at: Time

    @classmethod
    def from_version(cls, belief: UsageVersion) -> BeliefView:
        """The view of a version."""
        return cls(
            start=to_rfc3339(belief.start_at),
            start_at_latest=to_rfc3339(belief.start_hi),
            start_evidence=belief.start_evidence,
            end=time_or_none(belief.end_at),
            end_at_earliest=time_or_none(belief.end_lo),
            end_evidence=belief.end_evidence,
            free=belief.free,
            recorded_at=to_rfc3339(belief.recorded_at),
        )


class WhoseView(View):
    """Who is charged for it."""

    since: Time = Field(description="From when on it is they; 1970 where from the beginning.")
    team: str
    owner: str
    job: str
    labels: dict[str, str]

    @classmethod
    def from_attribution(cls, whose: Attribution) -> WhoseView:
        """The view of an attribution."""
        return cls(
            since=to_rfc3339(whose.since),
            team=whose.team,
            owner=whose.owner,
            job=whose.job,
            labels=dict(whose.labels),
        )


class StretchView(View):
    """One stretch of seconds that a line charges."""

    start: Time
    end: Time = Field(description="The first second after it.")


class ExplanationView(View):
    """A line of the ledger and everything that it follows from."""

    entry: EntryView
    explanation: tuple[str, ...] = Field(
        description="In words: the sum, the price and its source, what is not plain in them, how"
        " both ends of the interval are known, and who is charged."
    )
    stretches: tuple[StretchView, ...] = Field(
        description="Where it charges several within its hour, with others in between."
    )
    price: PriceView | None = Field(description="That of the price list, and its discount.")
    charged_to: WhoseView
    accelerator_type: str = Field(
        description="Of the interval: of the TPU also where the line is of its VM; of a reservation"
        " its generation."
    )
    chips: int = Field(description="Of the interval: those of the TPU, or those reserved.")
    beliefs: tuple[BeliefView, ...]

    @classmethod
    def from_explanation(cls, found: Explanation) -> ExplanationView:
        """The view of an explanation."""
        return cls(
            entry=EntryView.from_line(found.line),
            explanation=found.sentences,
            stretches=tuple(
                StretchView(start=to_rfc3339(stretch.start), end=to_rfc3339(stretch.end))
                for stretch in found.stretches
            ),
            price=None if found.price is None else PriceView.from_price(found.price),
            charged_to=WhoseView.from_attribution(found.whose),
            accelerator_type=found.usage.accelerator_type,
            chips=found.usage.chips,
            beliefs=tuple(map(BeliefView.from_version, found.beliefs)),
        )
