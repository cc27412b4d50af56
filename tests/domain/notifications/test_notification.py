"""Messages are signed so that a receiver can check them, and go only to what is an address."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from service.domain.clock import DAY
from service.domain.errors import Rejected
from service.domain.notifications.notification import (
    Channel,
    Notification,
    check_emails,
    check_webhook,
    next_retry_at,
    origin_of,
    sign_body,
)
from tests.hands import NOON

SECRET = "a secret of some length"


def test_the_signature_is_over_the_time_and_the_body():
    expected = hmac.new(SECRET.encode(), b'7.{"a":1}', hashlib.sha256).hexdigest()
    assert sign_body(SECRET, 7, b'{"a":1}') == f"sha256={expected}"
    assert sign_body(SECRET, 8, b'{"a":1}') != f"sha256={expected}"


def test_it_is_tried_ever_later_for_a_day():
    one = Notification("n", "b", Channel.WEBHOOK, "s", "{}", NOON, NOON)
    now, waits = NOON, []
    for tries in range(200):
        again = next_retry_at(Notification(**{**_fields(one), "tries": tries}), now)
        if again is None:
            break
        waits.append(again - now)
        now = again
    assert waits[:4] == [10, 20, 40, 80]
    assert waits == sorted(waits)
    assert max(waits) == 3_600
    assert NOON + DAY - 3_600 <= now < NOON + DAY


def _fields(one):
    return {name: getattr(one, name) for name in Notification.__dataclass_fields__}


@pytest.mark.parametrize("url", ["https://hooks.example.com/a?b=c", "http://8.8.8.8:8080", ""])
def test_what_can_be_sent_to(url):
    check_webhook(url, SECRET if url else "")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com",
        "file:///etc/passwd",
        "gopher://example.com",
        "//example.com",
        "example.com",
        "https://",
        "https://user:password@example.com",
        "https://example.com/a b",
        "https://example.com/\nHost: other",
        "https://example.com:99999",
        "https://[::1",
        "https://exämple.com",
        "https://example.com/" + "a" * 2_000,
    ],
)
def test_what_cannot_be_sent_to_is_refused(url):
    with pytest.raises(Rejected) as caught:
        check_webhook(url, SECRET)
    assert caught.value.facts["field"] == "webhook"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/x",
        "https://169.254.169.254/computeMetadata/v1/",
        "http://2130706433/",
        "http://127.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
    ],
)
def test_an_address_of_ones_own_network_is_refused_until_that_is_allowed(url):
    with pytest.raises(Rejected, match="STEWARD_WEBHOOK_ALLOW_PRIVATE") as caught:
        check_webhook(url, SECRET)
    assert caught.value.facts["field"] == "webhook"
    check_webhook(url, SECRET, allow_private=True)


@pytest.mark.parametrize("url", ["http://8.8.8.8/x", "http://localhost/x", "https://internal/x"])
def test_where_a_name_leads_is_looked_at_when_it_is_sent(url):
    check_webhook(url, SECRET)


def test_a_webhook_and_its_secret_go_together():
    for url, secret in (("https://example.com", ""), ("", SECRET)):
        with pytest.raises(Rejected) as caught:
            check_webhook(url, secret)
        assert caught.value.facts["field"] == "webhook_secret"


@pytest.mark.parametrize(
    "text",
    [
        "ada",
        "ada@",
        "@example.com",
        "ada@example.com\nBcc: all@example.com",
        "ada@example.com, bob@example.com",
        "Ada <ada@example.com>",
        "ada@example..com",
        "a" * 65 + "@example.com",
    ],
)
def test_what_is_no_plain_address_is_refused(text):
    with pytest.raises(Rejected):
        check_emails((text,))


def test_plain_addresses_are_taken_but_not_any_number_of_them():
    check_emails(("ada@example.com", "o'hara+x@sub.example.co.uk", "root@localhost"))
    with pytest.raises(Rejected):
        check_emails(("ada@example.com",) * 21)


def test_only_the_host_of_a_webhook_is_shown_again():
    assert origin_of("https://hooks.example.com/T0/secret?x=y") == "https://hooks.example.com/..."
    assert origin_of("http://example.com:81/") == "http://example.com:81"
    assert origin_of("") == ""
