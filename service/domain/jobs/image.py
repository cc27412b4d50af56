"""Image references. (Replaced by the full grammar.)"""

from __future__ import annotations

import re
from dataclasses import dataclass

from service.domain.errors import Rejected

_RULE = re.compile(r"[a-z0-9][a-z0-9._:/-]*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?")


@dataclass(frozen=True, slots=True)
class ImageReference:
    text: str

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        if not _RULE.fullmatch(text):
            raise Rejected(f"{text[:80]!r} is no image reference", field="image")
        return cls(text)
