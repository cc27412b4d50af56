"""When a legacy TPU Node is made anew with other software, and when that is given up. Pure.

`NodeSpec.reimage_from` is the whole memory of it: the version that was there when another was asked
for, empty once that is done. A difference alone is never a reason: the cloud may spell a version in
another way than we did, and a node that is at work would be made anew for ever.
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
"""What the cloud calls such an operation."""

MOST_TRIES = 3
"""How often it is tried. One refusal may be due to a state that the look before did not show; but
each try that begins throws everybody off the node, so it is not done for ever."""


@dataclass(frozen=True, slots=True)
class Software:
    """What a caller wants on a node: a runtime version by its name, or a framework."""

    runtime_version: str | None = None
    framework: Framework | None = None
    framework_version: str | None = None


def wanted(node: Node, software: Software, now: int) -> Node:
    """The node with the wish for that software; itself when it has it or is getting it.

    Raises Rejected for a TPU VM and for software that does not fit, Conflict where it cannot be
    now.
    """
    _check(node)
    spec, name = node.spec, _named(node.spec, software)
    if spec.runtime_version == name:
        return node
    if node.state == NodeState.REIMAGING or (spec.reimage_from and node.operation):
        raise Conflict(f"node {node.id} is getting {spec.runtime_version}; retry when it is READY")
    before = spec.reimage_from or spec.runtime_version
    changed = replace(_with(spec, name), reimage_from=before)
    return replace(node, spec=changed, tries=0, next_try_at=now)


def _check(node: Node) -> None:
    if node.spec.architecture is not Architecture.NODE:
        raise Rejected(
            "a TPU VM cannot be reimaged: delete it, and create a new node with that software",
            field="runtime_version",
        )
    if node.ended or node.asked is Asked.ABSENT:
        raise Conflict(f"node {node.id} is {node.state} or is being deleted: create a new node")
    if node.asked is Asked.STOPPED:
        raise Conflict(f"node {node.id} is to be stopped: start it first, then reimage it")


def _named(spec: NodeSpec, software: Software) -> str:
    """The name of the runtime version that is meant; Rejected where it does not fit."""
    if (software.runtime_version is None) is (software.framework is None):
        raise Rejected("give exactly one of runtime_version and framework", field="runtime_version")
    accelerator, architecture = catalog.load().accelerator(spec.accelerator_type), spec.architecture
    if software.framework is None:
        name = software.runtime_version or ""
        runtimes.check(name, accelerator, architecture)
        return name
    version = software.framework_version
    return runtimes.resolve(accelerator, software.framework, version, architecture).runtime_version


def _with(spec: NodeSpec, runtime_version: str) -> NodeSpec:
    """The version on whatever it may be made of: an image of theirs fits every legacy TPU Node."""
    others = tuple(replace(one, runtime_version=runtime_version) for one in spec.alternatives)
    return replace(spec, runtime_version=runtime_version, alternatives=others)


def is_due(node: Node, sight: CloudNode, operation: Operation | None) -> bool:
    """Whether a READY node lacks the version that was asked for, and nothing is under way.

    `operation` is the one that was started last. One that succeeded is believed, whatever version
    is shown; of one that is not over, a READY node is only what was there before.
    """
    if not node.spec.reimage_from or sight.runtime_version == node.spec.runtime_version:
        return False
    return operation is None or operation.verb != VERB or operation.error is not None


def is_under_way(operation: Operation | None) -> bool:
    """Whether the operation that was started last is a reimage that has not ended."""
    return operation is not None and operation.verb == VERB and not operation.done


def failure(operation: Operation | None) -> CloudError | None:
    """Why the reimage that was started last came to nothing; None where it did not."""
    return operation.error if operation is not None and operation.verb == VERB else None


def is_over(failures: int) -> bool:
    """Whether so many failures are enough to give it up."""
    return failures >= MOST_TRIES


def settled(node: Node) -> Node:
    """The wish is granted."""
    return replace(node, spec=replace(node.spec, reimage_from=""))


def undone(node: Node, reason: str) -> Node:
    """The wish is given up: it is as asked with what it has, and says why."""
    spec = replace(_with(node.spec, node.spec.reimage_from), reimage_from="")
    return replace(
        node, spec=spec, operation="", last_error=reason, tries=0, next_try_at=node.deletes_at
    )
