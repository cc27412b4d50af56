"""Checks the image of a job before a node is paid for."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from service.cloud.ports import Registry
from service.domain.errors import (
    CloudError,
    ImageDenied,
    ImageNotFound,
    NoSuchPlatform,
    Rejected,
)
from service.domain.jobs.job import Reason

log = structlog.get_logger()

ARCHITECTURE = "amd64"
"""Architecture of the hosts of every generation that the Cloud TPU API serves."""


@dataclass(frozen=True, slots=True)
class ImageCheck:
    """Result of the check. `refusal` is empty unless the image can never run."""

    digest: str = ""
    warning: str = ""
    refusal: Reason = Reason.UNDECIDED
    detail: str = ""


def inspect_image(registry: Registry, image: str) -> ImageCheck:
    """Ask the registry. A registry that *we* cannot reach is a warning: workers may reach it."""
    try:
        facts = registry.resolve(image, ARCHITECTURE)
    except ImageNotFound as error:
        return ImageCheck(refusal=Reason.IMAGE_NOT_FOUND, detail=str(error))
    except ImageDenied as error:
        return ImageCheck(refusal=Reason.PULL_DENIED, detail=str(error))
    except NoSuchPlatform as error:
        return ImageCheck(refusal=Reason.NO_SUCH_PLATFORM, detail=str(error))
    except (CloudError, Rejected) as error:
        log.info("jobs.image_not_checked", image=image, reason=str(error))
        return ImageCheck(warning=f"the image was not checked beforehand: {error}")
    return ImageCheck(digest=facts.digest)
