"""What to commit to, over HTTP."""

from __future__ import annotations

from service.domain.clock import DAY, to_rfc3339
from service.domain.commitments.recommendation import CAUTION
from tests.hands import NOON
from tests.store.test_recommendations import TODAY, ran

PATH = "/v1/commitments/recommended"


def test_both_terms_are_told_with_the_interval_and_what_is_due_if_use_stops(client, units):
    ran(units, TODAY - 100 * DAY, None)
    found = client.get(PATH).json()
    assert (found["start"], found["end"]) == (to_rfc3339(TODAY - 90 * DAY), to_rfc3339(TODAY))
    assert (found["days"], found["caution"], found["as_of"]) == (90, CAUTION, to_rfc3339(NOON))
    one, three = found["recommendations"]
    assert one == {
        "generation": "v5e",
        "region": "us-west4",
        "term_years": 1,
        "chips": 8,
        "chips_best": 8,
        "chips_low": 8,
        "chips_high": 8,
        "on_demand_price": "1.200000000",
        "commitment_price": "0.840000000",
        "break_even_percent": "70.0000",
        "break_even_of_a_day": "16 h 48 min",
        "utilisation_percent": "100.0000",
        "fee_per_month": "4905.600000000",
        "saving_per_month": "2102.400000000",
        "saving_per_month_low": "2102.400000000",
        "saving_per_month_high": "2102.400000000",
        "saving_per_month_best": "2102.400000000",
        "cost_if_unused": "58867.200000000",
        "days": 90,
        "reason": "",
    }
    assert (three["term_years"], three["break_even_percent"]) == (3, "45.0000")


def test_the_days_are_28_to_90(client, units):
    ran(units, TODAY - 100 * DAY, None)
    assert client.get(f"{PATH}?days=28").json()["days"] == 28
    for days in ("27", "91", "x"):
        answer = client.get(f"{PATH}?days={days}")
        assert answer.status_code == 422
        assert "days" in answer.json()["detail"]


def test_nothing_to_commit_to_has_a_reason_and_no_figures_that_are_not_known(client, units):
    ran(units, TODAY - 20 * DAY, None)
    (one, _) = client.get(PATH).json()["recommendations"]
    assert (one["chips"], one["utilisation_percent"], one["days"]) == (0, None, 20)
    assert one["reason"] == "20 full days of use are known; a recommendation needs 28"
