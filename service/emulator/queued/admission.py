"""Admission of queued resources: a request becomes a record, or fails with Google's text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from service.emulator import catalog
from service.emulator.clock import to_timestamp
from service.emulator.config.config import Config
from service.emulator.errors import (
    ApiError,
    Code,
    bad_request,
    invalid_argument,
    zone_unsupported,
)
from service.emulator.names import Place, check_node_id
from service.emulator.nodes import nodes
from service.emulator.queued.timing import resolve_durations, seconds_of, window_of
from service.emulator.wire import NodeMessage, copy_message
from service.emulator.world.queue import QueuedRecord, Slice, Terms, model_of, names_model

QUEUED_RESOURCE_ID = re.compile(r"[A-Za-z0-9_.~+%-]+")
MAX_ID = 128
MAX_NODES = 1024
TIER_FLAGS = ("preemptible", "reserved", "spot")
MAX_FLEX_SECONDS = 7 * 86_400.0


def record_of(
    place: Place, request: NodeMessage, terms: Terms, config: Config, now: float
) -> QueuedRecord:
    """Make the record of a CreateQueuedResource request; raises ApiError.

    An error that the cloud finds only later becomes the `doom` of the record.
    """
    if place.zone not in catalog.list_zones():
        raise zone_unsupported(place.zone)
    resource_id, resource = request.queued_resource_id, request.queued_resource
    _check_id("QueuedResourceId", resource_id)
    model, named = _read_model(resource, terms, place), names_model(resource, terms)
    slices = _build_slices(place, resource_id, resource, config, model if named else "")
    message = _show_request(resource, place.child_name("queuedResources", resource_id), now)
    window = window_of(resource.queueing_policy, now)

    # A run lasts longer than 0 seconds, and a flex-start run at most seven days, as Google
    # documents.
    longest = MAX_FLEX_SECONDS if terms.provisioning_model == "flex_start" else float("inf")
    if not 0 < terms.run_seconds <= longest and terms.run_seconds != float("inf"):
        raise invalid_argument(
            f'The field "RunDuration.MaxRunDuration" cannot be "{terms.run_seconds:g}s".'
        )
    if terms.run_until <= now:
        raise invalid_argument('The field "RunDuration.TerminationTime" lies in the past.')

    record = QueuedRecord(
        message=message,
        place=place,
        provisioning_model=model,
        slices=slices,
        created=now,
        window=window,
        terms=terms,
    )
    for slice_ in slices:
        if f"{place.zone}/{slice_.accelerator.name}" in config.closed_queues:
            raise ApiError(
                Code.PERMISSION_DENIED,
                "User does not have permission to submit requests into this queue for accelerator"
                f" type {slice_.accelerator.name} in location {place.zone}",
            )
    record.doom = _find_doom(record, config, may_name_models=not named)
    return record


def _read_model(resource: NodeMessage, terms: Terms, place: Place) -> str:
    """Return the provisioning model of a request; raises ApiError."""
    if resource.HasField("guaranteed"):
        seconds_of(resource.guaranteed.min_duration, "Guaranteed.MinDuration")
    reservation = resource.reservation_name
    pattern = rf"(projects|folders|organizations)/[^/]+/locations/{place.zone}/reservations/"
    if reservation and re.fullmatch(rf"{pattern}(-|[^/-][^/]*)", reservation) is None:
        raise invalid_argument(
            f'The field "ReservationName" cannot be "{reservation}".'
            f' It must name a reservation in the zone "{place.zone}".'
        )
    if reservation and resource.HasField("spot"):
        raise invalid_argument('The fields "Spot" and "ReservationName" exclude each other.')
    return terms.provisioning_model or model_of(resource)


def _build_slices(
    place: Place, resource_id: str, resource: NodeMessage, config: Config, model: str
) -> tuple[Slice, ...]:
    """Make the slices of a request; if `model` is empty, each node has a model of its own."""
    specs = resource.tpu.node_spec
    if not specs:
        raise invalid_argument('The field "Tpu.NodeSpec" must name at least one node.')
    if sum(max(1, spec.multislice_params.node_count) for spec in specs) > MAX_NODES:
        raise invalid_argument(f"A queued resource can have {MAX_NODES} nodes at most.")
    slices = tuple(
        slice_
        for spec in specs
        for slice_ in _build_spec_slices(place, resource_id, spec, config, model)
    )
    name, times = Counter(slice_.name for slice_ in slices).most_common(1)[0]
    if times > 1:
        raise invalid_argument(f'The node "{name}" is asked for more than once.')
    return slices


def _build_spec_slices(
    place: Place, resource_id: str, spec: NodeMessage, config: Config, model: str
) -> Iterator[Slice]:
    """Check a node as CreateNode does, and make a slice for each copy of it."""
    if spec.parent != place.parent:
        raise invalid_argument(
            f'The field "NodeSpec.Parent" cannot be "{spec.parent}".'
            f' It must be the parent of the queued resource, "{place.parent}".'
        )
    accelerator = nodes.accelerator_of(spec.node, place.zone)
    nodes.check_node(spec.node, accelerator, strict_runtimes=config.strict_runtimes)
    multislice = spec.HasField("multislice_params")
    asked = copy_message(spec.node)
    if model:
        asked.ClearField("scheduling_config")
    model = model or nodes.provisioning_model(asked)

    if spec.HasField("node_id"):
        node_ids = [str(spec.node_id)]
    elif not multislice:
        raise invalid_argument("Exactly one of node_id and multislice_params must be specified.")
    else:
        count = spec.multislice_params.node_count
        if count <= 1:
            raise invalid_argument(
                f'The field "MultisliceParams.NodeCount" cannot be "{count}".'
                " It must be greater than 1."
            )
        prefix = spec.multislice_params.node_id_prefix or resource_id
        _check_id("MultisliceParams.NodeIdPrefix", prefix)
        node_ids = [f"{prefix}-{index}" for index in range(count)]
    for node_id in node_ids:
        check_node_id(node_id)
        yield Slice(place.child_name("nodes", node_id), asked, accelerator, multislice, model)


def _check_id(field: str, text: str) -> None:
    if QUEUED_RESOURCE_ID.fullmatch(text) is None or len(text) > MAX_ID:
        raise invalid_argument(
            f'The field "{field}" cannot be "{text[: MAX_ID + 1]}". It must match'
            f' the regular expression "^{QUEUED_RESOURCE_ID.pattern}$".'
        )


def _find_doom(record: QueuedRecord, config: Config, *, may_name_models: bool) -> ApiError | None:
    """Return the error that Cloud TPU finds late: two tiers, or flex-start where it is not offered.

    None if there is none.
    """
    specs = record.message.tpu.node_spec
    accepted = may_name_models and not config.strict_queued_scheduling
    if not accepted and any(
        getattr(spec.node.scheduling_config, flag) for spec in specs for flag in TIER_FLAGS
    ):
        return bad_request(
            "The scheduling_config of a node must not be set in a queued resource;"
            " its tier is that of the queued resource."
        )
    zone = record.place.zone
    for slice_ in record.slices:
        closed = f"{zone}/{slice_.accelerator.name}" in config.no_flex_start
        if closed and record.provisioning_model == "flex_start":
            return ApiError(
                Code.INVALID_ARGUMENT,
                "FLEX_START provisioning model is not supported for accelerator type"
                f' "{slice_.accelerator.name}" in location "{zone}"',
            )
    return None


def _show_request(resource: NodeMessage, name: str, now: float) -> NodeMessage:
    """Return the requested resource as the API shows it; its nodes refer to it by name."""
    shown = copy_message(resource)
    shown.ClearField("state")
    shown.name = name
    shown.create_time.CopyFrom(to_timestamp(now))
    resolve_durations(shown.queueing_policy, now)
    for spec in shown.tpu.node_spec:
        for output in nodes.OUTPUT_ONLY:
            spec.node.ClearField(output)
        spec.node.queued_resource = name
    return shown
