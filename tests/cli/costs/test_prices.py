"""`prices add`: a list price that is known before the price feed lists it."""

from __future__ import annotations

from tests.cli.given import steward

PRICE = {
    "generation": "v5e",
    "provisioning_model": "flex_start",
    "region": "us-west4",
    "usd": "1.200000000",
    "unit": "chip_hour",
    "effective_from": "2026-12-01T00:00:00Z",
    "source": "our contract",
}
ADD = ("prices", "add", "--generation", "v5e", "--region", "us-west4", "--usd", "1.20")


def test_a_price_is_added_as_it_was_typed(api):
    api.when("POST", "/v1/prices", PRICE, status=201)
    options = ("--provisioning-model", "flex-start", "--from", "2026-12-01")
    result = steward(*ADD, *options, "--source", "our contract", "--idempotency-key", "k1")
    (call,) = api.calls
    assert call.body == {
        "generation": "v5e",
        "provisioning_model": "flex_start",
        "region": "us-west4",
        "usd": "1.20",
        "unit": "chip_hour",
        "effective_from": "2026-12-01",
        "source": "our contract",
    }
    assert call.headers["Idempotency-Key"] == "k1"
    assert result.stdout == (
        "v5e flex_start in us-west4: $1.20 per chip-hour from 2026-12-01 00:00:00 UTC"
        " (our contract)\n"
    )


def test_a_price_of_the_past_is_refused_with_the_words_of_the_service(api):
    api.when("POST", "/v1/prices", {"detail": "a price of the past stays"}, status=409)
    result = steward(*ADD, "--provisioning-model", "spot")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "a price of the past stays\n"


def test_a_price_without_a_model_is_a_usage_error(api):
    assert (steward(*ADD).exit_code, api.calls) == (2, [])
