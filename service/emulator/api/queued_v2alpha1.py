"""The calls about queued resources that v2 lacks: flex-start and maintenance."""

from __future__ import annotations

import math
from dataclasses import replace

from service.emulator.api import queued
from service.emulator.api.calls.dispatch import Call
from service.emulator.api.translate import copy_fields, to_v2
from service.emulator.errors import invalid_argument
from service.emulator.extra_fields import V2ALPHA1
from service.emulator.queued import maintenance, members
from service.emulator.queued.timing import seconds_of
from service.emulator.schema import extended_class, to_kept
from service.emulator.wire import NodeMessage, copy_message
from service.emulator.world.maintenance import describe_upcoming
from service.emulator.world.queue import Terms

# By the number of `QueuedResource.ProvisioningModel`. With STANDARD the tier counts, as gcloud
# sends STANDARD with every tier.
MODELS = {2: "spot", 3: "reserved", 4: "flex_start"}
FLEX_SECONDS = 7 * 86_400.0
"""The longest flex-start run, and the default."""


def create_queued_resource(call: Call) -> NodeMessage:
    specs = call.request.queued_resource.tpu.node_spec
    if any(spec.node_id and spec.HasField("multi_node_params") for spec in specs):
        raise invalid_argument('The fields "NodeId" and "MultiNodeParams" exclude each other.')
    asked = to_v2(call.request)
    # Only this version has a provisioning model and an end of the run.
    resource = to_kept(asked.queued_resource)
    model = MODELS.get(resource.provisioning_model, "")
    tier = "reserved" if resource.guaranteed.reserved else ""
    if resource.HasField("spot") or resource.HasField("best_effort"):
        # Best effort has the same capacity as spot.
        tier = "spot"
    if model and tier and model != tier:
        raise invalid_argument(
            f'The field "ProvisioningModel" does not go with the tier of a {tier} resource.'
        )
    run = resource.run_duration
    terms = Terms(provisioning_model=model or tier)
    if run.HasField("max_run_duration"):
        terms = replace(terms, run_seconds=seconds_of(run.max_run_duration, "MaxRunDuration"))
    elif run.HasField("termination_time"):
        at = run.termination_time
        terms = replace(terms, run_until=at.seconds + at.nanos / 1e9)
    else:
        terms = replace(terms, run_seconds=FLEX_SECONDS if model == "flex_start" else math.inf)
    return queued.create_on_terms(replace(call, request=asked), terms)


def perform_maintenance_queued_resource(call: Call) -> NodeMessage:
    record = queued.record_of(call)
    names = list(call.request.node_names)
    return copy_message(
        maintenance.perform_maintenance(call.world, record, names, call.now, call.effects)
    )


def get_maintenance_info(call: Call) -> NodeMessage:
    """Return the upcoming maintenance of each node of a queued resource."""
    record = queued.record_of(call)
    answer = extended_class(f"{V2ALPHA1}.GetMaintenanceInfoResponse")()
    for node in members.list_nodes(call.world, record):
        info = answer.node_upcoming_maintenances.add(node_name=node.name, node_uid=node.message.id)
        forecast = describe_upcoming(node, call.now)
        if forecast is not None:
            info.upcoming_maintenance.SetInParent()
            copy_fields(forecast, info.upcoming_maintenance)
    return answer
