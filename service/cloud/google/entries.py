"""entries.list of Cloud Logging: page by page, within the service's read limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.types import ListLogEntriesRequest

from service.cloud.google import pages
from service.cloud.google.calls import call_client
from service.cloud.google.errors import translate_errors
from service.cloud.google.retries import Allowances
from service.cloud.rate_limit import LogReader, ReadPace

PAGE_SIZE = 1_000
"""The largest page size."""


class EntryLog:
    """The log of a project for one reader; every page counts as a call of that reader."""

    def __init__(
        self,
        client: LoggingServiceV2Client,
        patience: Allowances,
        pace: ReadPace | None,
        reader: LogReader,
    ) -> None:
        self._client = client
        self._patience = patience
        self._pace = pace
        self._reader = reader

    def list_pages(self, project: str, request: ListLogEntriesRequest) -> Iterator[Any]:
        """Yield the raw pages of the answer, each fetched when it is reached.

        Raises RateLimited before a page that may not be read now, and CloudError.
        """
        self._count_call(project)
        with translate_errors():
            pager = call_client(self._client.list_log_entries, request, self._patience.listing)
            for page in pages.all_of(pages.unwrap_pages(pager.pages)):
                yield page
                if page.next_page_token:
                    self._count_call(project)

    def _count_call(self, project: str) -> None:
        if self._pace is not None:
            self._pace.count_call(project, self._reader)
