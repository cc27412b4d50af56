"""What the metadata server of a worker says: a pure function of its node and the time."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address

from service.emulator.nodes import guest_attributes
from service.emulator.nodes.worker import Worker
from service.emulator.wire import NodeMessage
from service.emulator.workers import tokens, tpu_env
from service.emulator.workers.notices import maintenance_event, upcoming_maintenance
from service.emulator.workers.tree import Directory, Entry, Keys, Leaf, Lines, TreeRefusal, constant

RUNTIME_PROJECT = "cloud-tpu-v2-images"
GUESTS_DISABLED = TreeRefusal(403, "Guest attributes endpoint access is disabled.\n")


def tree(worker: Worker, now: float, speed: float) -> Directory:
    """Give everything under `/computeMetadata/v1/`; values are computed when they are read."""
    return Directory(
        {
            "project": _project(worker),
            "instance": _instance(worker, now, speed),
            "universe": Directory({"universe-domain": constant("googleapis.com")}),
        }
    )


def _project(worker: Worker) -> Directory:
    return Directory(
        {
            "attributes": Directory({}, Keys.VERBATIM),
            "numeric-project-id": constant(worker.project_number),
            "project-id": constant(worker.record.place.project),
        }
    )


def _instance(worker: Worker, now: float, speed: float) -> Directory:
    project = f"projects/{worker.project_number}"
    image = f"projects/{RUNTIME_PROJECT}/global/images/{worker.node.runtime_version}"
    return Directory(
        {
            "attributes": _attributes(worker),
            "cpu-platform": Leaf(lambda _: worker.cpu_platform),
            # Seen in the field: the description is the name of the TPU.
            "description": Leaf(lambda _: worker.node_id),
            "guest-attributes": _guest_attributes(worker),
            "hostname": Leaf(lambda _: worker.hostname),
            "id": Leaf(lambda _: worker.instance_id),
            "image": constant(image),
            "machine-type": Leaf(lambda _: f"{project}/machineTypes/{worker.machine_type}"),
            "maintenance-event": Leaf(lambda _: maintenance_event(worker.record, now, speed)),
            "name": Leaf(lambda _: worker.name),
            "network-interfaces": _interfaces(worker, project),
            "preempted": Leaf(
                lambda _: _flag(
                    worker.record.state == "PREEMPTED" or worker.number in worker.record.notices
                )
            ),
            "scheduling": _scheduling(worker),
            "service-accounts": _accounts(worker, now),
            "tags": Leaf(lambda _: list(worker.node.tags)),
            "upcoming-maintenance": Leaf(lambda _: upcoming_maintenance(worker.record, now)),
            "zone": constant(f"{project}/zones/{worker.record.place.zone}"),
        }
    )


def _attributes(worker: Worker) -> Directory:
    """What users gave the node, and what the service adds, which cannot be overridden."""
    given: dict[str, Entry] = {key: constant(value) for key, value in worker.node.metadata.items()}
    added = {
        "accelerator-type": constant(worker.record.accelerator.name),
        "agent-worker-number": constant(str(worker.number)),
        "instance-id": Leaf(lambda _: str(worker.instance_id)),
        "tpu-env": Leaf(lambda _: tpu_env.text(worker)),
        "worker-network-endpoints": Leaf(lambda _: tpu_env.endpoints(worker)),
    }
    return Directory({**given, **added}, Keys.VERBATIM)


def _guest_attributes(worker: Worker) -> Entry:
    if not guest_attributes.enabled(worker.record):
        return Leaf(lambda _: GUESTS_DISABLED)
    spaces: dict[str, dict[str, Entry]] = {}
    for (space, key), value in guest_attributes.of_worker(worker.record, worker.number).items():
        spaces.setdefault(space, {})[key] = constant(value)
    return Directory(
        {space: Directory(values, Keys.VERBATIM) for space, values in spaces.items()},
        Keys.VERBATIM,
    )


def _interfaces(worker: Worker, project: str) -> Directory:
    networks = list(worker.node.network_configs) or [worker.node.network_config]
    return Directory(
        {
            str(index): _interface(endpoint, networks[index].network, project)
            for index, endpoint in enumerate(worker.endpoints)
        },
        Keys.NUMBERED,
    )


def _interface(endpoint: NodeMessage, network: str, project: str) -> Directory:
    address = IPv4Address(endpoint.ip_address)
    outer = {
        "external-ip": constant(str(endpoint.access_config.external_ip)),
        "type": constant("ONE_TO_ONE_NAT"),
    }
    return Directory(
        {
            "access-configs": Directory({"0": Directory(outer)}, Keys.NUMBERED),
            # As Compute Engine makes it: 42:01 and the address.
            "mac": constant("42:01:" + address.packed.hex(":")),
            "ip": constant(str(address)),
            "mtu": constant(1460),
            "network": constant(f"{project}/networks/{network.rpartition('/')[2]}"),
        }
    )


def _scheduling(worker: Worker) -> Directory:
    evictable = worker.record.provisioning_model in {"spot", "preemptible"}
    return Directory(
        {
            "automatic-restart": constant("FALSE"),
            "on-host-maintenance": constant("TERMINATE"),
            "preemptible": constant(_flag(evictable)),
        }
    )


def _accounts(worker: Worker, now: float) -> Directory:
    account: NodeMessage = worker.node.service_account
    entries: Mapping[str, Entry] = {
        "aliases": constant(Lines(("default",))),
        "email": constant(str(account.email)),
        "identity": Leaf(lambda query: tokens.identity(worker, query, now), recursive=False),
        "scopes": constant(Lines(tuple(account.scope))),
        "token": Leaf(lambda query: tokens.access(worker, query, now), recursive=False),
    }
    both = Directory(entries)
    return Directory({"default": both, str(account.email): both}, Keys.VERBATIM)


def _flag(value: bool) -> str:
    return "TRUE" if value else "FALSE"
