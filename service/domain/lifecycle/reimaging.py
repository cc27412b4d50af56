"""Decides when a legacy TPU Node is reimaged with other software, and when to give up. Pure.

`NodeSpec.reimage_from` is the only state: the version before the reimage was requested, empty once
the reimage is done. A different version alone is no reason for a reimage. The cloud may spell a
version differently, and a node in use would then be reimaged forever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.domain.catalog import catalog, runtimes
from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import CloudError, Conflict, Rejected
from service.domain.nodes.node import Asked, CloudNode, Node, NodeSpec, NodeState
from service.domain.nodes.operation import Operation

VERB = "reimage"
"""The verb of the cloud's operation."""

MOST_TRIES = 3
"""Maximum number of tries. One refusal may be due to a state that the poll before did not show. But
each try that begins interrupts all users of the node, so the number is limited."""


@dataclass(frozen=True, slots=True)
class Software:
    """The requested software of a node: a runtime version by its name, or a framework."""

    runtime_version: str | None = None
    framework: Framework | None = None
    framework_version: str | None = None


def with_reimage_request(node: Node, software: Software, now: int) -> Node:
    """The node with a request for a reimage; unchanged if it has or is getting the software.

    Raises Rejected for a TPU VM and for software that does not fit, Conflict if the node's present
    state does not allow it.
    """
    if node.spec.architecture is not Architecture.NODE:
        raise Rejected(
            "a TPU VM cannot be reimaged: delete it, and create a new node with that software",
            field="runtime_version",
        )
    if node.has_ended or node.asked is Asked.ABSENT:
        raise Conflict(f"node {node.id} is {node.state} or is being deleted: create a new node")
    if node.asked is Asked.STOPPED:
        raise Conflict(f"node {node.id} is to be stopped: start it first, then reimage it")
    if (software.runtime_version is None) is (software.framework is None):
        raise Rejected("give exactly one of runtime_version and framework", field="runtime_version")
    spec = node.spec
    accelerator = catalog.load_catalog().get_accelerator(spec.accelerator_type)
    if software.framework is None:
        name = software.runtime_version or ""
        runtimes.check_runtime(name, accelerator, spec.architecture)
    else:
        name = runtimes.resolve_runtime(
            accelerator, software.framework, software.framework_version, spec.architecture
        ).runtime_version
    if spec.runtime_version == name:
        return node
    if node.state == NodeState.REIMAGING or (spec.reimage_from and node.operation):
        raise Conflict(f"node {node.id} is getting {spec.runtime_version}; retry when it is READY")
    before = spec.reimage_from or spec.runtime_version
    changed = replace(_with_version(spec, name), reimage_from=before)
    return replace(node, spec=changed, tries=0, next_try_at=now)


def _with_version(spec: NodeSpec, runtime_version: str) -> NodeSpec:
    """The spec with the version for all alternatives: such an image fits every legacy TPU Node."""
    others = tuple(replace(each, runtime_version=runtime_version) for each in spec.alternatives)
    return replace(spec, runtime_version=runtime_version, alternatives=others)


def is_due(node: Node, sight: CloudNode, operation: Operation | None) -> bool:
    """Whether a reimage is due: a READY node lacks the requested version, and no reimage is under
    way.

    `operation` is the last one that was started. A successful reimage is believed, whatever version
    is shown. During a reimage, a READY state is that of before.
    """
    if not node.spec.reimage_from or sight.runtime_version == node.spec.runtime_version:
        return False
    return operation is None or operation.verb != VERB or operation.error is not None


def is_under_way(operation: Operation | None) -> bool:
    """Whether the last operation is a reimage that has not ended."""
    return operation is not None and operation.verb == VERB and not operation.done


def find_failure(operation: Operation | None) -> CloudError | None:
    """Why the last reimage failed; None if it did not fail."""
    return operation.error if operation is not None and operation.verb == VERB else None


def is_over(failures: int) -> bool:
    """Whether the reimage is given up after so many failures."""
    return failures >= MOST_TRIES


def with_reimage_done(node: Node) -> Node:
    """The node after a successful reimage."""
    return replace(node, spec=replace(node.spec, reimage_from=""))


def with_reimage_given_up(node: Node, reason: str) -> Node:
    """The node after the reimage was given up: its spec has the earlier version again."""
    spec = replace(_with_version(node.spec, node.spec.reimage_from), reimage_from="")
    return replace(
        node, spec=spec, operation="", last_error=reason, tries=0, next_try_at=node.deletes_at
    )
