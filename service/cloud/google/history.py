"""Google's audit log: which nodes Google itself terminated, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from google.cloud.audit import audit_log_pb2
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.services.logging_service_v2.transports import (
    LoggingServiceV2GrpcTransport,
)
from google.cloud.logging_v2.types import ListLogEntriesRequest
from google.protobuf.message import DecodeError

from service.cloud.google.entries import PAGE_SIZE, EntryLog
from service.cloud.google.retries import PATIENT, Allowances
from service.cloud.rate_limit import LogReader, ReadPace
from service.domain.clock import to_rfc3339
from service.domain.evidence.audit_log import Termination

LOGGING_HOST = "logging.googleapis.com"

_WANTED = (
    'logName="projects/{project}/logs/cloudaudit.googleapis.com%2Fsystem_event"'
    ' AND protoPayload.serviceName="tpu.googleapis.com"'
    ' AND protoPayload.methodName="tpu.nodes.terminate"'
    ' AND timestamp>="{since}" AND timestamp<"{until}"'
)
"""Google writes one such entry for each node that is preempted or terminated (observed:
reference/cloud-tpu-api.md section 3.1)."""


def logging_client(channel: grpc.Channel) -> LoggingServiceV2Client:
    """Google's client over a channel. Its `api_endpoint` names Google even on the emulator's
    channel."""
    return LoggingServiceV2Client(transport=LoggingServiceV2GrpcTransport(channel=channel))


class GoogleHistory:
    """`service.cloud.ports.OperationHistory` over Google's own client."""

    def __init__(
        self,
        client: LoggingServiceV2Client,
        patience: Allowances = PATIENT,
        pace: ReadPace | None = None,
    ) -> None:
        self._log = EntryLog(client, patience, pace, LogReader.AUDIT)

    def list_terminations(self, project: str, since: int, until: int) -> Sequence[Termination]:
        """List the entries of that time, page by page. A failed page fails the whole list."""
        request = ListLogEntriesRequest(
            resource_names=[f"projects/{project}"],
            filter=_WANTED.format(
                project=project, since=to_rfc3339(since), until=to_rfc3339(until)
            ),
            order_by="timestamp asc",
            page_size=PAGE_SIZE,
        )
        found = [
            from_entry(project, entry)
            for page in self._log.list_pages(project, request)
            for entry in page.entries
        ]
        return [termination for termination in found if termination is not None]


def from_entry(project: str, entry: Any) -> Termination | None:
    """Decode an entry (the raw message); None if it names no node. Never raises.

    The log is read for one project, so a name with the project's number belongs to that project
    too.
    """
    audit = audit_log_pb2.AuditLog()
    try:
        is_audit = entry.proto_payload.Unpack(audit)
    except DecodeError:
        return None
    _, found, rest = audit.resource_name.partition("/locations/")
    if not is_audit or not found or not entry.HasField("timestamp"):
        return None
    reason = audit.metadata.fields["terminateReason"].string_value
    return Termination(f"projects/{project}/locations/{rest}", entry.timestamp.seconds, reason)
