"""The metrics of Cloud TPU: their types, units, labels, and what each is measured of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain

PREFIX = "tpu.googleapis.com/"
COMPUTE = "compute.googleapis.com/"
GCE_WORKER = "tpu.googleapis.com/GceTpuWorker"
TPU_WORKER = "tpu_worker"
GCE_INSTANCE = "gce_instance"
# Nothing in the labels of a GceTpuWorker says which node it belongs to.
RESOURCES = {
    GCE_WORKER: ("resource_container", "location", "worker_id"),
    TPU_WORKER: ("project_id", "zone", "node_id", "worker_id"),
    GCE_INSTANCE: ("project_id", "zone", "instance_id"),
}
INTERRUPTION = ("instance_name", "interruption_type", "interruption_reason")


@dataclass(frozen=True)
class Metric:
    """One metric; `kind` and `value` are names of `google.api.MetricDescriptor`'s enums."""

    path: str
    kind: str
    value: str
    unit: str
    labels: tuple[str, ...]
    resource: str
    title: str
    prefix: str = PREFIX

    @property
    def type(self) -> str:
        return self.prefix + self.path

    @property
    def known_labels(self) -> frozenset[str]:
        """Name every label that a filter may ask for, as `metric.x` and `resource.x`."""
        asked = chain(
            (f"metric.{label}" for label in self.labels),
            (f"resource.{label}" for label in RESOURCES[self.resource]),
        )
        # A project is asked for by this name whatever the resource calls it.
        return frozenset((*asked, "resource.project_id"))


def _chip(path: str, value: str, unit: str, title: str) -> Metric:
    return Metric(path, "GAUGE", value, unit, ("accelerator_id",), GCE_WORKER, title)


def _host(path: str, kind: str, value: str, unit: str, title: str) -> Metric:
    return Metric(path, kind, value, unit, (), TPU_WORKER, title)


def _instance(path: str, title: str) -> Metric:
    """One of the newer metrics of Compute Engine, which need no agent. Seen in a real project; what
    Google counts as active is not documented (reference/jobs.md J9)."""
    return Metric(path, "GAUGE", "INT64", "1", (), GCE_INSTANCE, title, COMPUTE)


METRICS = (
    _chip("accelerator/duty_cycle", "DOUBLE", "%", "Accelerator duty cycle"),
    _chip("accelerator/memory_bandwidth_utilization", "DOUBLE", "%", "Memory bandwidth"),
    _chip("accelerator/memory_total", "INT64", "By", "Accelerator memory total"),
    _chip("accelerator/memory_used", "INT64", "By", "Accelerator memory used"),
    _chip("accelerator/tensorcore_utilization", "DOUBLE", "%", "TensorCore utilization"),
    Metric("cpu/utilization", "GAUGE", "DOUBLE", "%", ("core",), TPU_WORKER, "CPU utilization"),
    Metric(
        "instance/interruption_count",
        "GAUGE",
        "INT64",
        "1",
        INTERRUPTION,
        GCE_WORKER,
        "Interruption count",
    ),
    Metric("instance/uptime_total", "GAUGE", "DOUBLE", "s", (), GCE_WORKER, "Total uptime"),
    _host("memory/usage", "GAUGE", "INT64", "By", "Memory usage"),
    _host("network/received_bytes_count", "DELTA", "INT64", "By", "Network bytes received"),
    _host("network/sent_bytes_count", "DELTA", "INT64", "By", "Network bytes sent"),
    _host("tpu/mxu/utilization", "GAUGE", "DOUBLE", "%", "MXU utilization"),
    Metric(
        "tpu/tensorcore/idle_duration",
        "GAUGE",
        "INT64",
        "s",
        ("chip",),
        TPU_WORKER,
        "TensorCore idle duration",
    ),
    _instance("instance/tpu/scheduled_chips", "Scheduled TPU chips"),
    _instance("instance/tpu/active_chips", "Active TPU chips"),
    _instance("instance/tpu/utilized_chips", "Utilized TPU chips"),
)


@cache
def by_type() -> dict[str, Metric]:
    return {metric.type: metric for metric in METRICS}


def is_silent(metric: Metric, where: Iterable[str], missing: Iterable[str]) -> bool:
    """Say whether the configuration leaves a metric out.

    Each text of `missing` holds one or more of a zone, a generation, a node, a worker and a metric,
    which all apply; `where` are those of the series.
    """
    here = {*where, metric.type, metric.path}
    return any(words and set(words) <= here for words in map(str.split, missing))
