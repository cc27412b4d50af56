"""The mailbox of a node: tasks go in as metadata, reports come out as guest attributes.

The mailbox needs no key, open port or address (reference/jobs.md J2, J3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import structlog

from service.cloud.ports import TpuCloud
from service.controllers.base import cloud_under_lease
from service.domain.errors import CloudError, CloudNotFound, InvalidRequest, RateLimited
from service.domain.jobs.job import Attempt, Job
from service.domain.jobs.report import SupervisorReport, parse_report
from service.domain.jobs.task import KEY, NAMESPACE, REPORT, hosts_of_slice, task_of
from service.domain.jobs.transition import TaskDelivery
from service.domain.lease import Lease
from service.domain.nodes.metadata import merge_metadata
from service.domain.nodes.node import Node
from service.domain.nodes.slices import place_of, slice_numbers
from service.store.unit import Units

log = structlog.get_logger()


class Mailbox:
    """Makes at most two calls for each slice of a node; no transaction is open meanwhile."""

    def __init__(self, cloud: TpuCloud, units: Units) -> None:
        self._units = units
        self._cloud = cloud

    def read_reports(
        self, node: Node, now: int
    ) -> tuple[Mapping[int, SupervisorReport], bool] | None:
        """Read the reports, by worker number over all slices, and whether the cloud answered for
        every slice: without an answer no worker counts as silent.

        None if every read was rate-limited; ask again soon.
        """
        found: dict[int, SupervisorReport] = {}
        answered, too_many = True, True
        for number, slice_number in enumerate(slice_numbers(node)):
            try:
                written = self._cloud.guest_attributes(place_of(node, slice_number), NAMESPACE)
                too_many = False
            except CloudError as error:
                log.info("jobs.no_reports", node_id=node.id, reason=str(error))
                too_many &= isinstance(error, RateLimited)
                answered = False
                continue
            first = number * hosts_of_slice(node)
            for worker, values in enumerate(written):
                report = parse_report(values.get(REPORT, ""), now)
                if report is not None:
                    found[first + worker] = report
        return None if too_many else (found, answered)

    def deliver_task(self, job: Job, attempt: Attempt, node: Node, lease: Lease) -> TaskDelivery:
        """Write the newest task into the metadata of every slice; returns whether it is there, or
        the error.

        The API replaces the metadata as a whole, without a guard against another writer such as
        `gcloud ssh`. So the metadata is read first and written only if the task differs, and the
        caller checks again until the workers have answered.
        """
        delivery = TaskDelivery(done=True)
        for number, slice_number in enumerate(slice_numbers(node)):
            place = place_of(node, slice_number)
            task = task_of(job, attempt, node, number)
            try:
                there = self._cloud.metadata(place)
                if there.get(KEY) != task:
                    cloud_under_lease(self._cloud, self._units, lease).update_metadata(
                        place, merge_metadata(there, {KEY: task})
                    )
                    delivery = replace(delivery, written=True)
            except CloudNotFound:
                return TaskDelivery(done=False)
            except CloudError as error:  # such as 409 while an operation is open
                log.info("jobs.task_not_written", node_id=node.id, reason=str(error))
                refused = delivery.refused or isinstance(error, InvalidRequest)
                delivery = TaskDelivery(done=False, error=str(error), refused=refused)
        return delivery
