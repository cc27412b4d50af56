"""The RPCs of other products whose APIs TPU users call: Monitoring, Logging, Billing."""

from __future__ import annotations

from typing import Any

from google.api import metric_pb2

from service.emulator.api import billing, logs, monitoring
from service.emulator.api.calls.dispatch import Method, Service
from service.emulator.telemetry.messages import Billing, Logging, Monitoring


def _describe_methods(package: Any, *rows: tuple[str, Any, str]) -> tuple[Method, ...]:
    """Return calls, whose messages have their names; a body is the whole request."""
    found = []
    for name, answer, http in rows:
        verb, path = http.split(" ", 1)
        request, response = getattr(package, f"{name}Request"), getattr(package, f"{name}Response")
        body = "*" if verb == "POST" else ""
        found.append(Method(name, request, response, answer, verb, path, body))
    return tuple(found)


MONITORING = (
    *_describe_methods(
        Monitoring,
        ("ListTimeSeries", monitoring.list_time_series, "GET /{name=projects/*}/timeSeries"),
        (
            "ListMetricDescriptors",
            monitoring.list_metric_descriptors,
            "GET /{name=projects/*}/metricDescriptors",
        ),
    ),
    Method(
        "GetMetricDescriptor",
        Monitoring.GetMetricDescriptorRequest,
        metric_pb2.MetricDescriptor,
        monitoring.get_metric_descriptor,
        "GET",
        "/{name=projects/*/metricDescriptors/**}",
    ),
)

LOGGING = (
    *_describe_methods(
        Logging,
        ("ListLogEntries", logs.list_log_entries, "POST /entries:list"),
        ("WriteLogEntries", logs.write_log_entries, "POST /entries:write"),
        ("ListLogs", logs.list_logs, "GET /{parent=projects/*}/logs"),
    ),
    Method(
        "TailLogEntries",
        Logging.TailLogEntriesRequest,
        Logging.TailLogEntriesResponse,
        logs.open_tail,
        "POST",
        "/entries:tail",
        "*",
        stream=logs.Tail,
    ),
)

BILLING = _describe_methods(
    Billing,
    ("ListServices", billing.list_services, "GET /services"),
    ("ListSkus", billing.list_skus, "GET /{parent=services/*}/skus"),
)

PRODUCTS = (
    Service("google.monitoring.v3.MetricService", ("v3",), MONITORING),
    Service("google.logging.v2.LoggingServiceV2", ("v2",), LOGGING),
    Service("google.cloud.billing.v1.CloudCatalog", ("v1",), BILLING),
)
