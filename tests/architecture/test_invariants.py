"""The twenty-one invariants of the books, each held by tests that are there.

They are those that metering has to keep whatever happens; where the simulation holds one too, its
own check is named as well.
"""

from __future__ import annotations

import pytest

from tests.architecture.test_promises import collected

METERING, LEDGER = "domain/metering/test_meter.py", "domain/metering/test_ledger.py"
SEEDS = ("simulation/test_seeds.py", "test_whatever_happens_nothing_leaks_and_the_books_are_right")
PAPERS = (
    "simulation/test_months.py",
    "test_the_papers_of_two_like_months_are_the_same_to_the_byte",
)

INVARIANTS = {
    "any partition of time sums to the total": [
        (METERING, "test_every_partition_of_time_sums_to_the_one_rounded_total"),
    ],
    "any partition by who, where and what sums to the total": [
        (LEDGER, "test_what_each_is_charged_sums_to_the_whole"),
        ("store/test_costs.py", "test_the_rollup_that_was_added_to_is_the_one_that_is_made_anew"),
        (
            "domain/metering/test_line_items.py",
            "test_what_is_used_and_what_is_not_are_the_whole_of_what_was_bought",
        ),
    ],
    "ticks, their order, doubles and restarts change nothing": [
        (LEDGER, "test_ticks_at_any_times_in_any_order_come_to_the_same_sums"),
        (
            "domain/test_arrivals.py",
            "test_looks_twice_stale_repeats_and_records_in_any_order_come_to_the_same_ledger",
        ),
        PAPERS,
    ],
    # Not from the observations: they do not tell when the look before was, which bounds a start.
    # What each look led to is a belief, and beliefs are only added to as well.
    "replayed from the beliefs that were written down, an empty ledger is the same": [
        (LEDGER, "test_however_a_belief_changed_the_ledger_says_what_is_believed_now"),
        (
            "controllers/test_money.py",
            "test_an_empty_ledger_that_is_written_from_the_last_beliefs_is_the_same",
        ),
        SEEDS,
    ],
    "posting twice adds nothing": [(LEDGER, "test_posting_twice_posts_nothing")],
    "a price cut is two intervals": [
        (METERING, "test_a_price_cut_leaves_the_seconds_before_it_as_they_were"),
    ],
    "a price outside changes nothing": [
        (METERING, "test_a_price_outside_the_interval_changes_nothing"),
    ],
    "no time costs nothing": [(METERING, "test_no_time_costs_nothing")],
    "more never costs less, and nothing is below zero": [
        (METERING, "test_more_time_more_chips_or_a_higher_price_never_cost_less"),
        (LEDGER, "test_however_a_belief_changed_the_ledger_says_what_is_believed_now"),
    ],
    "the lines of an interval sum to its one rounded cost": [
        (LEDGER, "test_the_hours_of_the_ledger_sum_to_the_total"),
    ],
    "a late end comes to the same as one known at once": [
        (
            "domain/evidence/test_audit_log.py",
            "test_a_late_end_comes_to_the_same_sums_as_one_known_at_once",
        ),
    ],
    "no second is billed twice": [
        (
            "domain/evidence/test_observation.py",
            "test_no_sequence_of_looks_makes_intervals_that_overlap",
        ),
        ("store/test_usage.py", "test_the_database_refuses_a_second_open_interval_of_a_node"),
        SEEDS,
    ],
    "what is not READY adds nothing": [
        (METERING, "test_ready_alone_is_billed"),
        (
            "domain/evidence/test_observation.py",
            "test_looks_that_never_show_it_ready_charge_nothing_that_is_certain",
        ),
    ],
    "local days sum to the whole in every time zone": [
        (METERING, "test_the_calendar_of_any_time_zone_sums_to_the_same_total"),
        ("domain/test_time_window.py", "test_buckets_cover_the_window_without_a_gap_in_every_zone"),
    ],
    "currencies never mix": [
        ("api/pricing/test_prices.py", "test_a_price_says_in_which_currency_it_is"),
        ("api/pricing/test_prices.py", "test_a_price_that_cannot_be_is_refused"),
        (
            "domain/reconciliation/test_bill_row.py",
            "test_a_row_that_cannot_be_is_told_by_its_number",
        ),
        ("domain/budgets/test_budget.py", "test_no_other_currency_is_ever_mixed_with_dollars"),
    ],
    "posted and held stay within the cap": [
        ("controllers/test_holds.py", "test_posted_and_held_stay_within_the_cap_after_every_move"),
        ("controllers/test_holds.py", "test_callers_at_once_never_jump_the_cap"),
    ],
    "a closed month never changes": [
        (
            LEDGER,
            "test_no_later_belief_or_price_changes_the_sum_of_a_month_that_was_closed",
        ),
        (
            "controllers/test_money.py",
            "test_what_becomes_known_after_a_month_was_closed_is_billed_in_the_present_one",
        ),
    ],
    "an edited label leaves the past alone": [
        (LEDGER, "test_who_is_charged_from_now_on_leaves_the_past_as_it_was"),
    ],
    "what is exported reads back to the nano-dollar": [
        (
            "domain/costs/test_focus.py",
            "test_a_file_read_back_holds_every_nano_dollar_and_every_chip_second",
        ),
    ],
    "active, idle and unknown come to the whole": [
        (
            "application/costs/test_aggregation.py",
            "test_any_grouping_and_any_calendar_come_to_the_whole",
        ),
        (
            "controllers/test_money.py",
            "test_active_idle_and_unknown_seconds_come_to_the_whole",
        ),
    ],
    "the cents that are shown add up": [
        (
            "domain/costs/test_display_rounding.py",
            "test_every_displayed_cent_adds_up_to_the_displayed_total",
        ),
        (
            "cli/terminal/test_formatting.py",
            "test_the_parts_of_a_sum_are_shown_so_that_they_add_up_to_it",
        ),
    ],
}


def test_there_are_twenty_one() -> None:
    assert len(INVARIANTS) == 21


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_an_invariant_is_held_by_a_test_that_is_there(invariant: str) -> None:
    for file, name in INVARIANTS[invariant]:
        assert collected(file, name) is not None, f"{file}::{name}"
