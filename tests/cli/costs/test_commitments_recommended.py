"""`commitments recommended`, read as a person would."""

from __future__ import annotations

from service.domain.commitments.recommendation import CAUTION
from tests.cli.given import steward

PATH = "/v1/commitments/recommended"
ONE = {
    "generation": "v5e",
    "region": "northamerica-northeast1",
    "term_years": 1,
    "chips": 32,
    "chips_best": 40,
    "chips_low": 32,
    "chips_high": 48,
    "on_demand_price": "1.200000000",
    "commitment_price": "0.840000000",
    "break_even_percent": "70.0000",
    "break_even_of_a_day": "16 h 48 min",
    "utilisation_percent": "97.2500",
    "saving_per_month": "8409.600000000",
    "saving_per_month_low": "8000.000000000",
    "saving_per_month_high": "9000.000000000",
    "cost_if_unused": "235468.800000000",
    "days": 90,
    "reason": "",
}
THREE = ONE | {
    "term_years": 3,
    "chips": 0,
    "chips_best": 0,
    "on_demand_price": None,
    "break_even_of_a_day": None,
    "utilisation_percent": None,
    "reason": "the price book has no on-demand price",
}


def told(api, recommendations):
    """The answer of the API."""
    document = {
        "recommendations": recommendations,
        "start": "2026-08-07T00:00:00Z",
        "end": "2026-11-05T00:00:00Z",
        "days": 90,
        "caution": CAUTION,
        "as_of": "2026-11-05T12:00:00Z",
    }
    api.when("GET", PATH, document)


def test_both_terms_are_told_at_80_columns(api, monkeypatch):
    told(api, [ONE, THREE])
    monkeypatch.setattr("service.cli.terminal.render.PIPE_WIDTH", 80)
    lines = steward("commitments", "recommended", "--days", "90").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert [" ".join(line.split()) for line in lines] == [
        "from 90 full days, 2026-08-07 00:00:00 to 2026-11-05 00:00:00 UTC",
        "",
        "v5e in northamerica-northeast1 1 year",
        "Commit to 32 chips",
        "A chip-hour $0.84 for $1.20 on demand",
        "Saves money from 16 h 48 min of use a day",
        "Cheapest 40 chips; 32 to 48 in eight of ten draws",
        "In use 97.2 % of the time",
        "Saves a month $8,409.60 ($8,000.00 to $9,000.00)",
        "Due if use stops $235,468.80",
        "",
        "v5e in northamerica-northeast1 3 years",
        "Commit to nothing",
        "Because the price book has no on-demand price",
        "",
        "Choose one term or the other, not both.",
        "Future use can differ from past use.",
        "If the use stops, the fee is still due until the end of the term.",
    ]
    assert api.calls[0].query == {"days": ["90"]}


def test_without_any_use_it_says_what_is_missing(api):
    told(api, [])
    assert steward("commitments", "recommended").stdout.splitlines() == [
        "no chip was in use on demand on a full day yet; a recommendation needs 28 full days"
    ]


def test_days_that_cannot_be_are_refused_before_anything_is_asked(api):
    assert steward("commitments", "recommended", "--days", "27").exit_code == 2
    assert api.calls == []
