"""The content of a worker's metadata server: a pure function of its node and the time."""

from __future__ import annotations

from ipaddress import IPv4Address

from service.emulator.nodes import guest_attributes
from service.emulator.nodes.worker import Worker
from service.emulator.wire import NodeMessage
from service.emulator.workers import tokens, tpu_env
from service.emulator.workers.notices import maintenance_event, upcoming_maintenance
from service.emulator.workers.tree import (
    Directory,
    Entry,
    Keys,
    Leaf,
    Lines,
    TreeRefusal,
    constant_leaf,
)

RUNTIME_PROJECT = "cloud-tpu-v2-images"
GUESTS_DISABLED = TreeRefusal(403, "Guest attributes endpoint access is disabled.\n")


def build_tree(worker: Worker, now: float, speed: float) -> Directory:
    """Return the tree under `/computeMetadata/v1/`; values are computed when they are read."""
    return Directory(
        {
            "project": Directory(
                {
                    "attributes": Directory({}, Keys.VERBATIM),
                    "numeric-project-id": constant_leaf(worker.project_number),
                    "project-id": constant_leaf(worker.record.place.project),
                }
            ),
            "instance": _instance_tree(worker, now, speed),
            "universe": Directory({"universe-domain": constant_leaf("googleapis.com")}),
        }
    )


def _instance_tree(worker: Worker, now: float, speed: float) -> Directory:
    project = f"projects/{worker.project_number}"
    image = f"projects/{RUNTIME_PROJECT}/global/images/{worker.node.runtime_version}"
    evictable = worker.record.provisioning_model in {"spot", "preemptible"}
    scheduling = {
        "automatic-restart": constant_leaf("FALSE"),
        "on-host-maintenance": constant_leaf("TERMINATE"),
        "preemptible": constant_leaf(_format_flag(evictable)),
    }
    account: NodeMessage = worker.node.service_account
    account_tree = Directory(
        {
            "aliases": constant_leaf(Lines(("default",))),
            "email": constant_leaf(str(account.email)),
            "identity": Leaf(
                lambda query: tokens.identity_token(worker, query, now), recursive=False
            ),
            "scopes": constant_leaf(Lines(tuple(account.scope))),
            "token": Leaf(lambda query: tokens.access_token(worker, query, now), recursive=False),
        }
    )
    accounts = {"default": account_tree, str(account.email): account_tree}
    return Directory(
        {
            "attributes": _attribute_tree(worker),
            "cpu-platform": Leaf(lambda _: worker.cpu_platform),
            # Seen in the field: the description is the name of the TPU.
            "description": Leaf(lambda _: worker.node_id),
            "guest-attributes": _guest_attribute_tree(worker),
            "hostname": Leaf(lambda _: worker.hostname),
            "id": Leaf(lambda _: worker.instance_id),
            "image": constant_leaf(image),
            "machine-type": Leaf(lambda _: f"{project}/machineTypes/{worker.machine_type}"),
            "maintenance-event": Leaf(lambda _: maintenance_event(worker.record, now, speed)),
            "name": Leaf(lambda _: worker.name),
            "network-interfaces": _network_interfaces(worker, project),
            "preempted": Leaf(
                lambda _: _format_flag(
                    worker.record.state == "PREEMPTED" or worker.number in worker.record.notices
                )
            ),
            "scheduling": Directory(scheduling),
            "service-accounts": Directory(accounts, Keys.VERBATIM),
            "tags": Leaf(lambda _: list(worker.node.tags)),
            "upcoming-maintenance": Leaf(lambda _: upcoming_maintenance(worker.record, now)),
            "zone": constant_leaf(f"{project}/zones/{worker.record.place.zone}"),
        }
    )


def _attribute_tree(worker: Worker) -> Directory:
    """The metadata that users set, and Cloud TPU's own keys, which win."""
    given: dict[str, Entry] = {
        key: constant_leaf(value) for key, value in worker.node.metadata.items()
    }
    added = {
        "accelerator-type": constant_leaf(worker.record.accelerator.name),
        "agent-worker-number": constant_leaf(str(worker.number)),
        "instance-id": Leaf(lambda _: str(worker.instance_id)),
        "tpu-env": Leaf(lambda _: tpu_env.format_lines(worker)),
        "worker-network-endpoints": Leaf(lambda _: tpu_env.format_endpoints(worker)),
    }
    return Directory({**given, **added}, Keys.VERBATIM)


def _guest_attribute_tree(worker: Worker) -> Entry:
    if not guest_attributes.is_enabled(worker.record):
        return Leaf(lambda _: GUESTS_DISABLED)
    spaces: dict[str, dict[str, Entry]] = {}
    for (space, key), value in guest_attributes.of_worker(worker.record, worker.number).items():
        spaces.setdefault(space, {})[key] = constant_leaf(value)
    return Directory(
        {space: Directory(values, Keys.VERBATIM) for space, values in spaces.items()},
        Keys.VERBATIM,
    )


def _network_interfaces(worker: Worker, project: str) -> Directory:
    networks = list(worker.node.network_configs) or [worker.node.network_config]
    interfaces: dict[str, Entry] = {}
    for index, endpoint in enumerate(worker.endpoints):
        network = networks[index].network.rpartition("/")[2]
        address = IPv4Address(endpoint.ip_address)
        outer = {
            "external-ip": constant_leaf(str(endpoint.access_config.external_ip)),
            "type": constant_leaf("ONE_TO_ONE_NAT"),
        }
        interfaces[str(index)] = Directory(
            {
                "access-configs": Directory({"0": Directory(outer)}, Keys.NUMBERED),
                # As on Compute Engine: 42:01 and the address.
                "mac": constant_leaf("42:01:" + address.packed.hex(":")),
                "ip": constant_leaf(str(address)),
                "mtu": constant_leaf(1460),
                "network": constant_leaf(f"{project}/networks/{network}"),
            }
        )
    return Directory(interfaces, Keys.NUMBERED)


def _format_flag(value: bool) -> str:
    return "TRUE" if value else "FALSE"
