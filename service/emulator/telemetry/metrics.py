"""The metrics of Cloud TPU: their types, units, labels and monitored resources."""

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
# The labels of a GceTpuWorker do not name its node.
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
        """Every label that a filter may name, as `metric.x` or `resource.x`."""
        asked = chain(
            (f"metric.{label}" for label in self.labels),
            (f"resource.{label}" for label in RESOURCES[self.resource]),
        )
        # Filters name the project like this for every resource type.
        return frozenset((*asked, "resource.project_id"))


def _chip_metric(path: str, value: str, unit: str, title: str) -> Metric:
    return Metric(path, "GAUGE", value, unit, ("accelerator_id",), GCE_WORKER, title)


def _host_metric(path: str, kind: str, value: str, unit: str, title: str) -> Metric:
    return Metric(path, kind, value, unit, (), TPU_WORKER, title)


def _instance_metric(path: str, title: str) -> Metric:
    """One of the newer metrics of Compute Engine, which need no agent. Seen in a real project;
    Google does not document which chips count as active (reference/jobs.md J9)."""
    return Metric(path, "GAUGE", "INT64", "1", (), GCE_INSTANCE, title, COMPUTE)


METRICS = (
    _chip_metric("accelerator/duty_cycle", "DOUBLE", "%", "Accelerator duty cycle"),
    _chip_metric("accelerator/memory_bandwidth_utilization", "DOUBLE", "%", "Memory bandwidth"),
    _chip_metric("accelerator/memory_total", "INT64", "By", "Accelerator memory total"),
    _chip_metric("accelerator/memory_used", "INT64", "By", "Accelerator memory used"),
    _chip_metric("accelerator/tensorcore_utilization", "DOUBLE", "%", "TensorCore utilization"),
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
    _host_metric("memory/usage", "GAUGE", "INT64", "By", "Memory usage"),
    _host_metric("network/received_bytes_count", "DELTA", "INT64", "By", "Network bytes received"),
    _host_metric("network/sent_bytes_count", "DELTA", "INT64", "By", "Network bytes sent"),
    _host_metric("tpu/mxu/utilization", "GAUGE", "DOUBLE", "%", "MXU utilization"),
    Metric(
        "tpu/tensorcore/idle_duration",
        "GAUGE",
        "INT64",
        "s",
        ("chip",),
        TPU_WORKER,
        "TensorCore idle duration",
    ),
    _instance_metric("instance/tpu/scheduled_chips", "Scheduled TPU chips"),
    _instance_metric("instance/tpu/active_chips", "Active TPU chips"),
    _instance_metric("instance/tpu/utilized_chips", "Utilized TPU chips"),
)


@cache
def by_type() -> dict[str, Metric]:
    return {metric.type: metric for metric in METRICS}


def is_silent(metric: Metric, where: Iterable[str], missing: Iterable[str]) -> bool:
    """Whether the configuration leaves a metric out.

    Each text of `missing` has one or more words: a zone, generation, node, worker or metric.
    All words must apply. `where` has the words of the series.
    """
    here = {*where, metric.type, metric.path}
    return any(words and set(words) <= here for words in map(str.split, missing))
