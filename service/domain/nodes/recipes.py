"""Recipes for each framework on a TPU VM, and for a legacy TPU Node: lines to paste. Pure.

Sources: reference/cloud-tpu-api.md section 4; docs.cloud.google.com/tpu/docs/jax-pods; the
environment of Google's own end-to-end tests for TensorFlow; the README of pytorch/xla at 1.5, 1.8
and 1.13 for the docker lines. The frameworks of an image say what it contains.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from service.domain.catalog.images import ENVIRONMENT, TENSORFLOW_PJRT, Framework, Image
from service.domain.nodes.node import Node

_DEVICES_PER_CHIP = {"v2": 2, "v3": 2, "tpu7x": 2}
"""v2 and v3 show each TensorCore as a device, 7x each chiplet; other generations each chip."""


def devices_expected(node: Node) -> int:
    """The number of devices that a recipe's program sees on all workers of all slices."""
    return node.spec.chips * _DEVICES_PER_CHIP.get(node.spec.generation, 1)


SCRIPT = "train.py"
"""The name of the user's program in the lines."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one framework is used: lines for a shell, lines for Python, and a note.

    A framework that does not work has no lines, and `note` says why and what to do.
    """

    framework: Framework
    note: str
    shell: tuple[str, ...] = ()
    python: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether the framework can be used."""
        return bool(self.shell)


def _as_shell(environment: Mapping[str, str]) -> str:
    """The environment variables of a recipe as a prefix of a shell command. Values need no
    quotes."""
    return " ".join(f"{name}={value}" for name, value in environment.items())


@dataclass(frozen=True, slots=True)
class Target:
    """The node that the lines reach.

    `everywhere` turns a line for a worker into the line that runs it on all workers, `first` into
    the line that runs it on the first. `several` says that there are several workers. `devices` is
    the number of devices that a framework sees on all workers.
    """

    cloud_id: str
    zone: str
    project: str
    several: bool
    devices: int
    everywhere: Callable[[str], str]
    first: Callable[[str], str]


def on_vm(target: Target, image: Image | None) -> tuple[Recipe, ...]:
    """The recipe of each framework on the workers; an unknown image may contain any framework."""
    makers = {
        Framework.JAX: _jax_recipe,
        Framework.PYTORCH: _pytorch_recipe,
        Framework.TENSORFLOW: _tensorflow_recipe,
    }
    return tuple(
        make(target, image)
        if image is None or framework in image.frameworks
        else Recipe(
            framework,
            note=f"{image.name} is not made for {framework.label}; create a node with framework"
            f" {framework.value}",
        )
        for framework, make in makers.items()
    )


def _jax_recipe(target: Target, _image: Image | None) -> Recipe:
    install = (
        "pip install -U 'jax[tpu]' -f"
        " https://storage.googleapis.com/jax-releases/libtpu_releases.html"
    )
    begin = ("import jax", *(("jax.distributed.initialize()",) if target.several else ()))
    return Recipe(
        Framework.JAX,
        note=_worker_note(target) + "Without JAX_PLATFORMS it may quietly fall back to the CPU.",
        shell=_run_lines(
            target, install, f"{_as_shell(ENVIRONMENT[Framework.JAX])} python3 {SCRIPT}"
        ),
        python=(*begin, "print(jax.device_count(), jax.local_device_count())"),
    )


def _pytorch_recipe(target: Target, _image: Image | None) -> Recipe:
    install = (
        "pip install torch 'torch_xla[tpu]' -f"
        " https://storage.googleapis.com/libtpu-releases/index.html"
    )
    return Recipe(
        Framework.PYTORCH,
        note=_worker_note(target) + "torch and torch_xla have to be of the same release.",
        shell=_run_lines(
            target, install, f"{_as_shell(ENVIRONMENT[Framework.PYTORCH])} python3 {SCRIPT}"
        ),
        python=("import torch_xla", "device = torch_xla.device()"),
    )


def _tensorflow_recipe(target: Target, image: Image | None) -> Recipe:
    """The recipe for TensorFlow. Only the first worker runs the program, and drives the others."""
    if target.several:
        run = f"TPU_NAME={shlex.quote(target.cloud_id)} TPU_LOAD_LIBRARY=0 python3 {SCRIPT}"
        where = f"tpu={target.cloud_id!r}, zone={target.zone!r}, project={target.project!r}"
        note = "Run it on the first worker alone; it drives the others."
        return Recipe(Framework.TENSORFLOW, note, (target.first(run),), _strategy_lines(where))
    pjrt = f"{_as_shell(TENSORFLOW_PJRT)} "
    prefix = pjrt if image is not None and image.device_api == "pjrt" else ""
    note = "The image has TensorFlow; another one from pip does not know the TPU."
    run = f"{prefix}python3 {SCRIPT}"
    return Recipe(Framework.TENSORFLOW, note, (run,), _strategy_lines("tpu='local'"))


def _run_lines(target: Target, *lines: str) -> tuple[str, ...]:
    return tuple(target.everywhere(line) if target.several else line for line in lines)


def _worker_note(target: Target) -> str:
    if not target.several:
        return ""
    return "Every worker runs the same program at the same time; one that fails stops them all. "


def beside_node(
    target: Target, addresses: Sequence[str], image: Image | None
) -> tuple[Recipe, ...]:
    """The recipe of each framework on the user's own VM; `addresses` are `ip:port`, by worker."""
    makers = {
        Framework.TENSORFLOW: _tensorflow_beside_node,
        Framework.PYTORCH: _pytorch_beside_node,
    }
    served = tuple(
        make(target, addresses, image)
        if image is None or framework in image.frameworks
        else Recipe(
            framework,
            note=f"the node runs {image.name}, which is not for {framework.label}; reimage it with"
            f" framework {framework.value}",
        )
        for framework, make in makers.items()
    )
    no_jax = "cannot reach a legacy TPU Node: create a node with architecture vm"
    return (*served, Recipe(Framework.JAX, note=no_jax))


def _tensorflow_beside_node(
    target: Target, addresses: Sequence[str], image: Image | None
) -> Recipe:
    """The recipe for TensorFlow. A slice is named: Google's API gives the workers' addresses.

    Notebooks that were written for Colab put grpc:// before COLAB_TPU_ADDR themselves.
    """
    address = f"grpc://{addresses[0]}"
    where = f"tpu={address!r}"
    shell: tuple[str, ...] = (f"export COLAB_TPU_ADDR={shlex.quote(addresses[0])}", *_RUN)
    if target.several:
        where = f"tpu={target.cloud_id!r}, zone={target.zone!r}, project={target.project!r}"
        shell = _RUN
    note = "The program runs on your VM, and the TPU reads its data from Cloud Storage."
    version = image.framework_version if image is not None else ""
    if version.startswith("1."):
        note += (
            " model is a model of tf.keras. A TPUEstimator of TensorFlow 1 takes the resolver in"
            " its RunConfig instead."
        )
        python = (
            "import tensorflow as tf",
            f"resolver = tf.contrib.cluster_resolver.TPUClusterResolver({where})",
            "session = tf.Session(resolver.master())",
            (
                "assert sum(one.device_type == 'TPU' for one in session.list_devices())"
                f" == {target.devices}"
            ),
            "strategy = tf.contrib.tpu.TPUDistributionStrategy(resolver)",
            "model = tf.contrib.tpu.keras_to_tpu_model(model, strategy=strategy)",
        )
        return Recipe(Framework.TENSORFLOW, note, shell, python)
    old = version.startswith(("2.1.", "2.2", "2.3")) or version == "2.1"
    listed = "experimental.list_logical_devices" if old else "list_logical_devices"
    check = f"assert len(tf.config.{listed}('TPU')) == {target.devices}"
    return Recipe(Framework.TENSORFLOW, note, shell, (*_strategy_lines(where, old=old), check))


CORES_PER_HOST = 8
"""Cores that one process of PyTorch sees on a legacy TPU Node: v2 and v3 have eight per host."""

_SHARED_MEMORY = "16G"
"""Shared memory for the loaders of PyTorch, which use /dev/shm; docker's default is 64 MB."""


def _pytorch_beside_node(target: Target, addresses: Sequence[str], image: Image | None) -> Recipe:
    python = (
        "import torch_xla.core.xla_model as xm",
        "device = xm.xla_device()",
        f"assert len(xm.get_xla_supported_devices('TPU')) == {CORES_PER_HOST}",
    )
    # The container that matches the node's software.
    version = image.framework_version if image is not None else ""
    tag, doubt = _TORCH_TAGS.get(version, "TAG"), ""
    if not version:
        doubt = " Put the tag that matches the software of the node for TAG."
    elif version not in _TORCH_TAGS:
        tag = f"r{version}" if version == "1.6" else f"r{version}_3.8_tpuvm"
        doubt = f" The tag {tag} is formed as its neighbours are; nobody was seen to use it."
    container = f"{_TORCH_IMAGE}:{tag}"
    if target.several:
        words = ["python3", "-m", "torch_xla.distributed.xla_dist", f"--tpu={target.cloud_id}"]
        words += [f"--docker-image={container}", "--docker-run-flag=--rm=true"]
        words += [f"--docker-run-flag=--shm-size={_SHARED_MEMORY}", "--", "python3", SCRIPT]
        note = "Run it in an instance group of your own, with one VM for each worker of the slice."
        return Recipe(Framework.PYTORCH, note + doubt, (shlex.join(words),), python)
    config = f"XRT_TPU_CONFIG={shlex.quote(f'tpu_worker;0;{addresses[0]}')}"
    line = (
        f'docker run --rm --shm-size {_SHARED_MEMORY} -v "$PWD":/work -w /work'
        f" -e {config} {container} python3 {SCRIPT}"
    )
    note = (
        "The program runs on your VM: the first line in Google's container, the others in an"
        " environment of your own."
    )
    return Recipe(Framework.PYTORCH, note + doubt, (line, f"export {config}", *_RUN), python)


_TORCH_IMAGE = "gcr.io/tpu-pytorch/xla"

_TORCH_TAGS = {
    "1.5": "r1.5",
    "1.7": "r1.7",
    "1.8": "r1.8.1",
    "1.9": "r1.9_3.7",
    "1.10": "r1.10_3.8_tpuvm",
    "1.12": "r1.12_3.8_tpuvm",
    "1.13": "r1.13_3.8_tpuvm",
    "2.0": "r2.0_3.8_tpuvm",
    "nightly": "nightly_3.7",
}
"""Tags of Google's container in public guides and Dockerfiles, by version of PyTorch."""


_RUN = (f"python3 {SCRIPT}",)


def _strategy_lines(where: str, *, old: bool = False) -> tuple[str, ...]:
    """The lines that make the strategy, which is experimental until TensorFlow 2.3 (`old`)."""
    return (
        "import tensorflow as tf",
        f"resolver = tf.distribute.cluster_resolver.TPUClusterResolver({where})",
        "tf.config.experimental_connect_to_cluster(resolver)",
        "tf.tpu.experimental.initialize_tpu_system(resolver)",
        f"strategy = tf.distribute.{'experimental.' if old else ''}TPUStrategy(resolver)",
    )
