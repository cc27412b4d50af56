"""Values that look like secrets, which instance metadata must not hold.

Every principal with `tpu.viewer` on the project can read the metadata of a node, and so its task.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from service.domain.errors import Rejected

_WORDS = frozenset(
    {
        *("password", "passwd", "passphrase", "pwd", "secret", "token", "apikey"),
        *("credential", "credentials"),
    }
)
_PAIRS = ("api_key", "access_key", "private_key", "secret_key", "auth_key", "account_key")

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")),
    ("a service account key", re.compile(r'"private_key"\s*:')),
    ("a Google access token", re.compile(r"\bya29\.[\w-]{20,}")),
    ("a Google API key", re.compile(r"\bAIza[\w-]{35}\b")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_\w{36,}|github_pat_\w{22,})")),
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")),
    ("a Slack token", re.compile(r"\bxox[abprs]-[\w-]{10,}")),
    ("an API key", re.compile(r"\bsk-[\w-]{20,}")),
    ("a signed token", re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]+")),
    ("an address with a password", re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@")),
)

_REFERENCE = re.compile(r"(?:[a-z][a-z0-9+.-]*://|projects/|/|\./|~/|\$)\S*")
"""A path or an address of a secret. It is not a secret itself."""

_PLAIN = re.compile(r"(?:\d+|true|false|yes|no|none|null)?", re.IGNORECASE)


def describe_secret(name: str, value: str) -> str:
    """Return the kind of secret that a value looks like, such as "a GitHub token"; empty for other
    values."""
    for what, shape in _SHAPES:
        if shape.search(value):
            return what
    words = name.lower().replace("-", "_").split("_")
    pairs = (pair for pair in _PAIRS if pair in "_".join(words))
    is_short_or_plain = len(value) < 6 or _PLAIN.fullmatch(value) is not None
    is_named_secret = bool(_WORDS.intersection(words)) or any(pairs)
    if is_named_secret and not is_short_or_plain and not _REFERENCE.fullmatch(value):
        return "a secret, by its name"
    return ""


def check_values(values: Mapping[str, str], field: str) -> None:
    """Refuse values that look like secrets. Raises Rejected, without the value in its text."""
    for name, value in values.items():
        if what := describe_secret(name, value):
            raise Rejected(
                f"{field} {name[:80]!r} looks like {what}, and every viewer of the project can"
                " read the metadata of the node. Keep it in Secret Manager, grant the node's"
                " service account access to it, and pass its resource name",
                field=field,
                variable=name[:80],
            )
