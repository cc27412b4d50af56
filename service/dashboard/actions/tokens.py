"""Who may change something from a page: form tokens, the origin of a form, and sealed messages."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

from fastapi import Request

from service.application.services import Services
from service.dashboard.actions.form import Form
from service.domain.clock import HOUR, MINUTE, floor_to

LIFETIME = 12 * HOUR
"""The most seconds for which a form can be sent."""

FIELD = "form_token"
"""The hidden field with the token of a form."""

_STEP = 5 * MINUTE
"""Seconds for which the token of a caller stays the same. A page with a form would change each
second otherwise, and be sent again each time."""

_EARLY = 5 * MINUTE
"""Tolerated difference between the clocks of two servers, in seconds."""


@dataclass(frozen=True, slots=True)
class FormSeal:
    """Signs the forms of the dashboard. All servers behind one address need the same key."""

    key: bytes

    def make_token(self, caller: bytes, now: int) -> str:
        """The token of a form for one caller."""
        return f"{now:x}.{self._sign('form', caller, f'{now:x}')}"

    def is_valid_token(self, token: str, caller: bytes, now: int) -> bool:
        """Whether the token was made for this caller, and not too long ago."""
        stamp, _, signature = token.partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("form", caller, stamp).encode()):
            return False
        return now - LIFETIME < int(stamp, 16) <= now + _EARLY

    def sign_message(self, path: str, text: str) -> str:
        """The signature of a message on the page at `path`."""
        return self._sign("told", path.encode(), text)

    def _sign(self, purpose: str, *parts: bytes | str) -> str:
        encoded = [part.encode() if isinstance(part, str) else part for part in parts]
        said = b"".join(sha256(part).digest() for part in (purpose.encode(), *encoded))
        return hmac.new(self.key, said, sha256).hexdigest()[:40]


def seal_of(request: Request) -> FormSeal:
    """The signer of this app's forms."""
    found: FormSeal = request.app.state.form_seal
    return found


def make_form_token(request: Request) -> str:
    """The present token of the caller of this request."""
    return seal_of(request).make_token(_caller_of(request), floor_to(_now_of(request), _STEP))


def is_from_this_site(headers: Mapping[str, str]) -> bool:
    """Whether the headers show that one of our own pages sent the form."""
    return _is_origin_ours(headers) is True


def find_forgery(request: Request, form: Form) -> str:
    """Why the form is not taken from this caller. Empty for a form of our own page."""
    if _is_origin_ours(request.headers) is False:
        return "A page of another site sent this form."
    token = form.get_text(FIELD)
    if not token:
        return "The form has no token, so it does not come from a page of this service."
    if not seal_of(request).is_valid_token(token, _caller_of(request), _now_of(request)):
        return "The form is out of date, or it was made for another caller."
    return ""


def read_message(request: Request) -> str:
    """The message of the action that led to this page. Empty without one that we signed."""
    text, given = request.query_params.get("told", ""), request.query_params.get("seal", "")
    if not text or not given.isascii():
        return ""
    wanted = seal_of(request).sign_message(request.scope["path"], text)
    return text if hmac.compare_digest(given, wanted) else ""


def _is_origin_ours(headers: Mapping[str, str]) -> bool | None:
    """Whether a page of ours sent the request. None if the client is no browser, or an old one."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return None if site is None else True
    try:
        return urlsplit(origin.lower()).netloc == headers.get("host", "").lower()
    except ValueError:
        return False


def _caller_of(request: Request) -> bytes:
    """What tells one caller from another: the credentials that were checked before."""
    return request.headers.get("authorization", "").encode()


def _now_of(request: Request) -> int:
    services: Services = request.app.state.services
    return services.cleanup.current_time()
