"""How each framework is used on a TPU VM, and beside a legacy TPU Node: lines to paste. Pure.

Sources: reference/cloud-tpu-api.md section 4; docs.cloud.google.com/tpu/docs/jax-pods; what
Google's own end-to-end tests export before TensorFlow. An image says what it has by its frameworks.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.domain.images import Framework, Image

SCRIPT = "train.py"
"""What the lines call the user's program."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one framework is used: lines for a shell, lines for Python, and what to mind.

    Where it does not work there are none, and `note` says why and what to do.
    """

    framework: Framework
    note: str
    shell: tuple[str, ...] = ()
    python: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether it can be used at all."""
        return bool(self.shell)


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be reached. `everywhere` makes of a line for a worker the one that runs it on all
    workers, `first` the one that runs it on the first; `several` says that there are several."""

    cloud_id: str
    zone: str
    project: str
    several: bool
    everywhere: Callable[[str], str]
    first: Callable[[str], str]


def on_vm(target: Target, image: Image | None) -> tuple[Recipe, ...]:
    """What to do with each framework on the workers; of an unknown image each may be there."""
    makers = {Framework.JAX: _jax, Framework.PYTORCH: _pytorch, Framework.TENSORFLOW: _tensorflow}
    return tuple(
        make(target, image)
        if image is None or framework in image.frameworks
        else Recipe(framework, note=_not_on(framework, image))
        for framework, make in makers.items()
    )


def _not_on(framework: Framework, image: Image) -> str:
    return (
        f"{image.name} is not made for {framework.label}; ask for a node with framework"
        f" {framework.value}"
    )


def _jax(target: Target, _image: Image | None) -> Recipe:
    install = (
        "pip install -U 'jax[tpu]' -f"
        " https://storage.googleapis.com/jax-releases/libtpu_releases.html"
    )
    begin = ("import jax", *(("jax.distributed.initialize()",) if target.several else ()))
    return Recipe(
        Framework.JAX,
        note=_at_once(target) + "Without JAX_PLATFORMS it may quietly fall back to the CPU.",
        shell=_both(target, install, f"JAX_PLATFORMS=tpu,cpu python3 {SCRIPT}"),
        python=(*begin, "print(jax.device_count(), jax.local_device_count())"),
    )


def _pytorch(target: Target, _image: Image | None) -> Recipe:
    install = (
        "pip install torch 'torch_xla[tpu]' -f"
        " https://storage.googleapis.com/libtpu-releases/index.html"
    )
    return Recipe(
        Framework.PYTORCH,
        note=_at_once(target) + "torch and torch_xla have to be of the same release.",
        shell=_both(target, install, f"PJRT_DEVICE=TPU python3 {SCRIPT}"),
        python=("import torch_xla", "device = torch_xla.device()"),
    )


def _tensorflow(target: Target, image: Image | None) -> Recipe:
    """On several workers only the first runs the program, and drives the others by their name."""
    if target.several:
        run = f"TPU_NAME={shlex.quote(target.cloud_id)} TPU_LOAD_LIBRARY=0 python3 {SCRIPT}"
        where = f"tpu={target.cloud_id!r}, zone={target.zone!r}, project={target.project!r}"
        note = "Run it on the first worker alone; it drives the others."
        return Recipe(Framework.TENSORFLOW, note, (target.first(run),), _strategy(where))
    pjrt = "NEXT_PLUGGABLE_DEVICE_USE_C_API=true TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so "
    prefix = pjrt if image is not None and image.device_api == "pjrt" else ""
    note = "The image has TensorFlow; another one from pip does not know the TPU."
    run = f"{prefix}python3 {SCRIPT}"
    return Recipe(Framework.TENSORFLOW, note, (run,), _strategy("tpu='local'"))


def _both(target: Target, *lines: str) -> tuple[str, ...]:
    return tuple(target.everywhere(line) if target.several else line for line in lines)


def _at_once(target: Target) -> str:
    if not target.several:
        return ""
    return "Every worker runs the same program at the same time; one that fails stops them all. "


def beside_node(
    target: Target, addresses: Sequence[str], image: Image | None
) -> tuple[Recipe, ...]:
    """What to do with each framework on the user's own VM; `addresses` are `ip:port`, by worker."""
    makers = {Framework.TENSORFLOW: _tensorflow_beside, Framework.PYTORCH: _pytorch_beside}
    served = tuple(
        make(target, addresses, image)
        if image is None or framework in image.frameworks
        else Recipe(framework, note=_not_in(framework, image))
        for framework, make in makers.items()
    )
    no_jax = "cannot reach a legacy TPU Node: ask for a node of architecture vm"
    return (*served, Recipe(Framework.JAX, note=no_jax))


def _not_in(framework: Framework, image: Image) -> str:
    return (
        f"the node runs {image.name}, which is not for {framework.label}; reimage it with framework"
        f" {framework.value}"
    )


def _tensorflow_beside(target: Target, addresses: Sequence[str], image: Image | None) -> Recipe:
    """A slice is known by its name: Google's API tells the program the addresses of its workers."""
    address = f"grpc://{addresses[0]}"
    where = f"tpu={address!r}"
    if target.several:
        where = f"tpu={target.cloud_id!r}, zone={target.zone!r}, project={target.project!r}"
    note = "The program runs on your VM, and the TPU reads its data from Cloud Storage."
    version = image.framework_version if image is not None else ""
    if version.startswith("1."):
        note += " TensorFlow 1 takes the resolver in the RunConfig of a TPUEstimator."
        return Recipe(Framework.TENSORFLOW, note, _RUN, _resolver_of_old(where))
    strategy = _strategy(where, old=version.startswith(("2.1.", "2.2", "2.3")) or version == "2.1")
    return Recipe(Framework.TENSORFLOW, note, _RUN, strategy)


def _pytorch_beside(target: Target, addresses: Sequence[str], _image: Image | None) -> Recipe:
    python = ("import torch_xla.core.xla_model as xm", "device = xm.xla_device()")
    if target.several:
        launch = "python3 -m torch_xla.distributed.xla_dist"
        line = f"{launch} --tpu={shlex.quote(target.cloud_id)} -- python3 {SCRIPT}"
        note = "Run it in an instance group of your own, with one VM for each worker of the slice."
        return Recipe(Framework.PYTORCH, note, (line,), python)
    config = shlex.quote(f"tpu_worker;0;{addresses[0]}")
    shell = (f"export XRT_TPU_CONFIG={config}", f"python3 {SCRIPT}")
    return Recipe(Framework.PYTORCH, "The program runs on your VM.", shell, python)


_RUN = (f"python3 {SCRIPT}",)


def _resolver_of_old(where: str) -> tuple[str, ...]:
    return (
        "import tensorflow as tf",
        f"resolver = tf.contrib.cluster_resolver.TPUClusterResolver({where})",
    )


def _strategy(where: str, *, old: bool = False) -> tuple[str, ...]:
    """Until TensorFlow 2.3 the strategy was an experimental one."""
    return (
        "import tensorflow as tf",
        f"resolver = tf.distribute.cluster_resolver.TPUClusterResolver({where})",
        "tf.config.experimental_connect_to_cluster(resolver)",
        "tf.tpu.experimental.initialize_tpu_system(resolver)",
        f"strategy = tf.distribute.{'experimental.' if old else ''}TPUStrategy(resolver)",
    )
