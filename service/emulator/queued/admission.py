"""What a queued resource may ask for: a request is read whole, or refused in Google's words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from service.emulator import catalog
from service.emulator.catalog import Accelerator
from service.emulator.clock import stamp
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
from service.emulator.queued.timing import fix, seconds_of, window_of
from service.emulator.wire import NodeMessage, copied
from service.emulator.world.queue import QueuedRecord, Slice, Terms, model_of, names_model

QUEUED_RESOURCE_ID = re.compile(r"[A-Za-z0-9_.~+%-]+")
MAX_ID = 128
MAX_NODES = 1024
TIER_FLAGS = ("preemptible", "reserved", "spot")
MAX_FLEX_SECONDS = 7 * 86_400.0


def record_of(
    place: Place, request: NodeMessage, terms: Terms, config: Config, now: float
) -> QueuedRecord:
    """Make the record of what a CreateQueuedResource asks for; raises ApiError.

    What is wrong but found only later is the `doom` of the record.
    """
    if place.zone not in catalog.zones():
        raise zone_unsupported(place.zone)
    resource_id, resource = request.queued_resource_id, request.queued_resource
    _check_id("QueuedResourceId", resource_id)
    model, named = _model(resource, terms, place), names_model(resource, terms)
    slices = _slices(place, resource_id, resource, config, model if named else "")
    record = QueuedRecord(
        message=_shown(resource, place.child("queuedResources", resource_id), now),
        place=place,
        provisioning_model=model,
        slices=slices,
        created=now,
        window=window_of(resource.queueing_policy, now),
        terms=_checked(terms, now),
    )
    _refuse_closed(record, config)
    record.doom = _doom(record, config, may_name_models=not named)
    return record


def _model(resource: NodeMessage, terms: Terms, place: Place) -> str:
    if resource.HasField("guaranteed"):
        seconds_of(resource.guaranteed.min_duration, "Guaranteed.MinDuration")
    reservation = resource.reservation_name
    if reservation:
        _check_reservation(reservation, place)
    if reservation and resource.HasField("spot"):
        raise invalid_argument('The fields "Spot" and "ReservationName" exclude each other.')
    return terms.provisioning_model or model_of(resource)


def _slices(
    place: Place, resource_id: str, resource: NodeMessage, config: Config, model: str
) -> tuple[Slice, ...]:
    """Make the slices of a request; without a `model` of it, each node says its own."""
    specs = resource.tpu.node_spec
    if not specs:
        raise invalid_argument('The field "Tpu.NodeSpec" must name at least one node.')
    if sum(max(1, spec.multislice_params.node_count) for spec in specs) > MAX_NODES:
        raise invalid_argument(f"A queued resource can have {MAX_NODES} nodes at most.")
    slices = tuple(
        slice_
        for spec in specs
        for slice_ in _slices_of(place, resource_id, spec, _accelerator(place, spec, config), model)
    )
    name, times = Counter(each.name for each in slices).most_common(1)[0]
    if times > 1:
        raise invalid_argument(f'The node "{name}" is asked for more than once.')
    return slices


def _accelerator(place: Place, spec: NodeMessage, config: Config) -> Accelerator:
    """Check one node as CreateNode does."""
    if spec.parent != place.parent:
        raise invalid_argument(
            f'The field "NodeSpec.Parent" cannot be "{spec.parent}".'
            f' It must be the parent of the queued resource, "{place.parent}".'
        )
    accelerator = nodes.accelerator_of(spec.node, place.zone)
    nodes.check(spec.node, accelerator, strict_runtimes=config.strict_runtimes)
    return accelerator


def _slices_of(
    place: Place, resource_id: str, spec: NodeMessage, accelerator: Accelerator, model: str
) -> Iterator[Slice]:
    multislice = spec.HasField("multislice_params")
    asked = copied(spec.node)
    if model:
        asked.ClearField("scheduling_config")
    model = model or nodes.provisioning_model(asked)
    for node_id in _node_ids(resource_id, spec):
        check_node_id(node_id)
        yield Slice(place.child("nodes", node_id), asked, accelerator, multislice, model)


def _node_ids(resource_id: str, spec: NodeMessage) -> list[str]:
    if spec.HasField("node_id"):
        return [str(spec.node_id)]
    if not spec.HasField("multislice_params"):
        raise invalid_argument("Exactly one of node_id and multislice_params must be specified.")
    count = spec.multislice_params.node_count
    if count <= 1:
        raise invalid_argument(
            f'The field "MultisliceParams.NodeCount" cannot be "{count}".'
            " It must be greater than 1."
        )
    prefix = spec.multislice_params.node_id_prefix or resource_id
    _check_id("MultisliceParams.NodeIdPrefix", prefix)
    return [f"{prefix}-{index}" for index in range(count)]


def _check_id(field: str, text: str) -> None:
    if QUEUED_RESOURCE_ID.fullmatch(text) is None or len(text) > MAX_ID:
        raise invalid_argument(
            f'The field "{field}" cannot be "{text[: MAX_ID + 1]}". It must match'
            f' the regular expression "^{QUEUED_RESOURCE_ID.pattern}$".'
        )


def _check_reservation(name: str, place: Place) -> None:
    owner = r"(projects|folders|organizations)/[^/]+"
    if re.fullmatch(rf"{owner}/locations/{place.zone}/reservations/(-|[^/-][^/]*)", name) is None:
        raise invalid_argument(
            f'The field "ReservationName" cannot be "{name}".'
            f' It must name a reservation in the zone "{place.zone}".'
        )


def _checked(terms: Terms, now: float) -> Terms:
    """Flex-start lasts seven days at most, as Google documents; any run must have a length."""
    longest = MAX_FLEX_SECONDS if terms.provisioning_model == "flex_start" else float("inf")
    if not 0 < terms.run_seconds <= longest and terms.run_seconds != float("inf"):
        raise invalid_argument(
            f'The field "RunDuration.MaxRunDuration" cannot be "{terms.run_seconds:g}s".'
        )
    if terms.run_until <= now:
        raise invalid_argument('The field "RunDuration.TerminationTime" lies in the past.')
    return terms


def _refuse_closed(record: QueuedRecord, config: Config) -> None:
    zone = record.place.zone
    for each in record.slices:
        if f"{zone}/{each.accelerator.name}" in config.closed_queues:
            raise ApiError(
                Code.PERMISSION_DENIED,
                "User does not have permission to submit requests into this queue for accelerator"
                f" type {each.accelerator.name} in location {zone}",
            )


def _doom(record: QueuedRecord, config: Config, *, may_name_models: bool) -> ApiError | None:
    """Find what the real service notices late: tiers asked for twice, and no flex-start here."""
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
    for each in record.slices:
        closed = f"{zone}/{each.accelerator.name}" in config.no_flex_start
        if closed and record.provisioning_model == "flex_start":
            return ApiError(
                Code.INVALID_ARGUMENT,
                "FLEX_START provisioning model is not supported for accelerator type"
                f' "{each.accelerator.name}" in location "{zone}"',
            )
    return None


def _shown(resource: NodeMessage, name: str, now: float) -> NodeMessage:
    """Show a request as it was made, with its nodes pointing back at it."""
    shown = copied(resource)
    shown.ClearField("state")
    shown.name = name
    shown.create_time.CopyFrom(stamp(now))
    fix(shown.queueing_policy, now)
    for spec in shown.tpu.node_spec:
        for output in nodes.OUTPUT_ONLY:
            spec.node.ClearField(output)
        spec.node.queued_resource = name
    return shown
