"""The public view of a node, without the figures that grow every second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from service.domain.clock import to_rfc3339
from service.domain.nodes.deletion import find_deletion_failure, overdue_since
from service.domain.nodes.keep import goes_at, is_on_notice, keep_of_node
from service.domain.nodes.node import Node
from service.domain.nodes.placement import Placement
from service.domain.nodes.slices import slice_as_node

FORMAT = 8
"""Raised whenever the shape changes, so that stored views are rebuilt."""


def view_of(node: Node, placements: Sequence[Placement]) -> dict[str, Any]:
    """The public fields of a node as plain JSON values; times are RFC 3339 in UTC."""
    spec = node.spec
    idle = spec.idle
    # The newest keep, active or over; None for a notice, or if the node was never kept.
    keep = None if is_on_notice(node) else keep_of_node(node)
    failing = find_deletion_failure(node)
    slices = [slice_as_node(node, number) for number in range(len(node.slices_seen))]
    return {
        "id": node.id,
        "name": node.name,
        "cloud_id": node.cloud_id,
        "project": spec.project,
        "zone": node.zone,
        "zones": spec.zones,
        "accelerator_type": spec.accelerator_type,
        "accelerator_types": spec.accelerator_types,
        "generation": spec.generation,
        "topology": spec.topology,
        "chips": spec.chips,
        "hosts": spec.hosts,
        "runtime_version": spec.runtime_version,
        "provisioning_model": spec.provisioning_model,
        "queued": spec.queued,
        "queue_state": node.queue_state,
        "slices": spec.slices,
        "slice_states": [
            {"slice": number, "cloud_id": at.cloud_id, "state": at.state, "health": at.health}
            for number, at in enumerate(slices)
        ],
        "reservation": spec.reservation,
        "architecture": spec.architecture,
        "vm": None
        if spec.vm is None
        else {
            "machine_type": spec.vm.machine_type,
            "provisioning_model": spec.vm.provisioning_model,
        },
        "asked": node.asked,
        "state": node.state,
        "state_since": to_rfc3339(node.state_since),
        "health": node.health,
        "endpoints": [
            {"worker": number, "ip": at.ip, "port": at.port, "external_ip": at.external_ip}
            for number, at in enumerate(node.endpoints)
        ],
        "created_at": to_rfc3339(node.created_at),
        "ready_at": _format_time(node.ready_at),
        "ended_at": _format_time(node.ended_at),
        "deletes_at": _format_time(goes_at(node)),
        "keep": None
        if keep is None
        else {"until": _format_time(keep.until), "reason": keep.reason},
        "ends_after_keep": node.ends_after_keep,
        "delete_requested_at": _format_time(node.delete_requested_at),
        "delete_reason": node.delete_reason,
        "replacing_since": _format_time(node.replacing_since),
        "overdue_since": _format_time(overdue_since(node)),
        "deletion_failure": None
        if failing is None
        else {
            "since": to_rfc3339(failing.since),
            "call": failing.call,
            "tries": failing.tries,
            "error": failing.error,
            "next_try_at": _format_time(failing.next_try_at),
        },
        "ttl_seconds": spec.ttl_seconds,
        "max_wait_seconds": spec.max_wait_seconds,
        "valid_until": _format_time(spec.valid_until),
        "recreate_on_preemption": spec.recreate_on_preemption,
        "idle": None
        if idle is None
        else {
            "after_seconds": idle.after_seconds,
            "grace_seconds": idle.grace_seconds,
            "action": idle.action,
            "also": list(idle.also),
        },
        "placements": [_view_placement(placement) for placement in placements],
        "last_error": node.last_error,
        "labels": dict(node.labels),
        "owner": node.owner,
        "team": node.team,
        "version": node.version,
    }


def _format_time(seconds: int | None) -> str | None:
    return None if seconds is None else to_rfc3339(seconds)


def _view_placement(placement: Placement) -> dict[str, Any]:
    return {
        "attempt": placement.attempt,
        "zone": placement.zone,
        "accelerator_type": placement.accelerator_type,
        "provisioning_model": placement.model,
        "cloud_id": placement.cloud_id,
        "started_at": to_rfc3339(placement.started_at),
        "ended_at": _format_time(placement.ended_at),
        "outcome": placement.outcome,
        "reason": placement.reason,
    }
