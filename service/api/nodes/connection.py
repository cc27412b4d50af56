"""Route of the connection to a node: addresses, commands and code."""

from __future__ import annotations

from pydantic import Field

from service.api.http.deps import NodesDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import View
from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import Architecture

router = Router(prefix="/v1/nodes", tags=["nodes"])


class WorkerView(View):
    """One worker, and where it is."""

    cloud_id: str = Field(
        description="The cloud's name of its node, or of its slice.", examples=["trainer-3d6c2a11"]
    )
    worker: int = Field(examples=[0])
    ip: str = Field(examples=["10.164.0.7"])
    port: int = Field(examples=[8470])
    external_ip: str = Field(description="Empty when it has none.", examples=[""])


class RecipeView(View):
    """How one framework is used there."""

    framework: Framework
    works: bool
    note: str = Field(
        description="What to mind; where it does not work, why and what to do.",
        examples=["torch and torch_xla have to be of the same release."],
    )
    shell: tuple[str, ...] = Field(examples=[["PJRT_DEVICE=TPU python3 train.py"]])
    python: tuple[str, ...] = Field(examples=[["import torch_xla", "device = torch_xla.device()"]])


class ConnectionView(View):
    """Everything that is needed to reach a node; every shell line is quoted."""

    architecture: Architecture
    summary: str = Field(examples=["Log in with ssh, and run your program on the node itself."])
    ssh: str = Field(
        description="Opens a shell on the first worker; empty for a legacy TPU Node.",
        examples=["gcloud compute tpus tpu-vm ssh trainer-3d6c2a11 --project=lab --worker=0"],
    )
    everywhere: str = Field(description="Runs a command on every worker.", examples=[""])
    upload: str = Field(description="Brings a file to every worker.", examples=[""])
    address: str = Field(
        description="Where a legacy TPU Node listens; empty for a TPU VM.",
        examples=["grpc://10.240.1.2:8470"],
    )
    vm_software: str = Field(
        description="What the user's own VM must run beside a legacy TPU Node.",
        examples=["TensorFlow 2.12.0"],
    )
    workers: tuple[WorkerView, ...]
    recipes: tuple[RecipeView, ...]
    not_included: tuple[str, ...] = Field(
        description="What it costs elsewhere, and is in no figure here.", examples=[[]]
    )


@router.get(
    "/{node_id}/connection",
    operation_id="get_node_connection",
    responses=may_answer(404, 409, 422),
)
def get_node_connection(node_id: str, nodes: NodesDep) -> ConnectionView:
    """How TensorFlow, PyTorch/XLA and JAX reach the node, ready to paste; while it is READY."""
    return ConnectionView.model_validate(nodes.get_connection(node_id))
