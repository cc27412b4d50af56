"""Logs as one JSON object a line, whatever text is in them; on a terminal, in readable form."""

from __future__ import annotations

import logging
import sys

import structlog


def set_up(*, readable: bool | None = None) -> None:
    """Send our own logs and those of the libraries to stderr in one format."""
    if readable is None:
        readable = sys.stderr.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    last: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if readable:
        # Tracebacks without the values of variables: those hold tokens.
        last = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            last,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for noisy in ("apscheduler", "alembic", "google", "httpx2", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
