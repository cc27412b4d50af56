"""The facts of a request and of a node that faults and scenarios may match."""

from __future__ import annotations

import re
from collections.abc import Mapping

from service.emulator import catalog
from service.emulator.nodes.nodes import NodeRecord, provisioning_model
from service.emulator.wire import NodeMessage
from service.emulator.world.queue import model_of
from service.emulator.world.world import World

METRIC_TYPE = re.compile(r'metric\.type\s*=\s*"([^"]*)"')


def facts_of(world: World, request: NodeMessage) -> Mapping[str, str]:
    """Return the facts of a request that a fault may match; an unknown fact is empty."""
    node = getattr(request, "node", None)
    queued = getattr(request, "queued_resource", None)
    name = getattr(request, "name", "") or getattr(node, "name", "")
    where = resource_of(request).split("/", 8)
    path = dict(zip(where[::2], where[1::2], strict=False))
    node_id = getattr(request, "node_id", "") or path.get("nodes", "")
    parent = f"projects/{path.get('projects', '')}/locations/{path.get('locations', '')}"
    metric = METRIC_TYPE.search(getattr(request, "filter", ""))
    facts = {
        "project": path.get("projects", ""),
        "zone": path.get("locations", ""),
        "node_id": node_id,
        "name": name or (f"{parent}/nodes/{node_id}" if node_id else ""),
        "page": "next" if getattr(request, "page_token", "") else "first",
        "metric": metric[1] if metric else "",
    }
    queued_id = getattr(request, "queued_resource_id", "") or path.get("queuedResources", "")
    if queued_id:
        facts |= {
            "name": f"{parent}/queuedResources/{queued_id}",
            "queued_resource_id": queued_id,
        }
        known = world.queue.records.get(facts["name"])
        if known is not None:
            model = {"provisioning_model": known.provisioning_model}
            return facts | node_facts(known.slices[0].asked) | model
        if queued is None or not queued.tpu.node_spec:
            return facts
        spec = queued.tpu.node_spec[0]
        model = {"provisioning_model": model_of(queued), "node_id": spec.node_id}
        return facts | node_facts(spec.node) | model
    record = world.nodes.get(facts["name"])
    if record is not None:
        queued_id = record.queued_resource.rpartition("/")[2]
        return facts | node_facts(record.message) | {"queued_resource_id": queued_id}
    return facts if node is None else facts | node_facts(node)


def resource_of(request: NodeMessage) -> str:
    """Return the resource of a request, or the parent of the resources it lists or creates."""
    name = getattr(request, "name", "") or getattr(getattr(request, "node", None), "name", "")
    names = getattr(request, "resource_names", ())
    log_owner = names[0] if names else getattr(request, "log_name", "")
    return str(name or getattr(request, "parent", "") or log_owner)


def record_facts(record: NodeRecord) -> dict[str, str]:
    """Return the facts of a node that a scenario may match."""
    name = str(record.name)
    return {
        "project": record.place.project,
        "zone": record.place.zone,
        "node_id": name.rpartition("/")[2],
        "name": name,
        **node_facts(record.message),
    }


def node_facts(node: NodeMessage) -> dict[str, str]:
    """Return the facts of an existing or requested node, of any version of the API."""
    config = getattr(node, "accelerator_config", None)
    accelerator = catalog.find_accelerator(
        catalog.accelerators_by_name().values(),
        node.accelerator_type,
        config.type_ if config else 0,
        config.topology if config else "",
    )
    return {
        "accelerator_type": accelerator.name if accelerator else node.accelerator_type,
        "generation": accelerator.generation if accelerator else "",
        "runtime_version": getattr(node, "runtime_version", ""),
        "provisioning_model": provisioning_model(node),
    }
