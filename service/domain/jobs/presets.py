"""The environment of each framework on a TPU VM, and the number of devices that it should see.

Sources: reference/cloud-tpu-api.md section 4; docs.cloud.google.com/tpu/docs/jax-pods and
run-in-container; the MEGASCALE variables as MaxText and xpk set them.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.catalog.images import ENVIRONMENT, TENSORFLOW_PJRT, Framework
from service.domain.jobs.job import Attempt, Job, Workers
from service.domain.jobs.report import SupervisorReport
from service.domain.nodes.node import Node
from service.domain.nodes.recipes import devices_expected

MEGASCALE_PORT = 8080
"""The port on which the first worker of the first slice coordinates the others (libtpu's
default)."""

TORCH_IMAGES = "us-central1-docker.pkg.dev/tpu-pytorch-releases/docker/xla"
"""Google's containers with torch_xla; their tags are such as r2.5.0_3.10_tpuvm (the README of
pytorch/xla)."""

LAUNCHERS: Mapping[str, tuple[Framework, str]] = {
    "jax": (
        Framework.JAX,
        "Call jax.distributed.initialize() first: every worker runs the same program.",
    ),
    "torch_xla": (
        Framework.PYTORCH,
        (
            "Call torch_xla.launch(fn). xla_multiprocessing.spawn works with nprocs=None or 1 only:"
            " one process starts for each chip by itself."
        ),
    ),
    "lightning": (
        Framework.PYTORCH,
        "Write Trainer(accelerator='tpu', devices='auto'). Lightning starts the processes.",
    ),
    "accelerate": (
        Framework.PYTORCH,
        "Run accelerate launch --tpu, or call notebook_launcher.",
    ),
    "keras": (
        Framework.TENSORFLOW,
        (
            "Make the model within TPUStrategy, after TPUClusterResolver('local') and"
            " initialize_tpu_system."
        ),
    ),
    "tensorflow": (
        Framework.TENSORFLOW,
        "Use TPUStrategy with TPUClusterResolver('local').",
    ),
    "fastai": (
        Framework.PYTORCH,
        (
            "fastai trains on one device, torch_xla.device(). Build the image with pip install"
            f" fastai on {TORCH_IMAGES}:r2.5.0_3.10_tpuvm; the images"
            " fastdotai/fastai have no torch_xla."
        ),
    ),
}
"""The programs that start training, each with its framework and an advice."""


def device_warnings(
    job: Job, node: Node, reports: Mapping[int, SupervisorReport | None]
) -> tuple[str, ...]:
    """Return a warning for each worker whose framework sees another number of devices than the
    preset expects.

    `reports` are those of the workers that take part. A program that runs on the first worker
    alone may see the devices of its own host.
    """
    expected = devices_expected(node)
    local = expected // node.spec.hosts
    found = []
    for worker, report in reports.items():
        seen = None if report is None else report.devices
        is_alone = job.spec.workers is Workers.FIRST and seen == local
        if seen is None or seen == expected or is_alone:
            continue
        advice = _OWN_HOST if seen == local else _FALLBACK
        found.append(f"worker {worker} sees {seen} devices, but the node has {expected}: {advice}")
    return tuple(found)


_OWN_HOST = (
    "these are the devices of its own host. Start the program on all workers and have them join,"
    " in JAX with jax.distributed.initialize(), or print the number of all devices"
)
_FALLBACK = "check that the program runs on the TPU, and that its workers have joined"


def build_environment(job: Job, attempt: Attempt, node: Node, number: int) -> dict[str, str]:
    """Return the whole environment of the container on one slice, with the presets of its
    framework. The caller's own variables override ours."""
    spec = job.spec
    described = {
        "STEWARD_JOB_ID": job.id,
        "STEWARD_ATTEMPT": str(attempt.number),
        "STEWARD_RUN_NAME": spec.run_name,
        "STEWARD_WORKERS": str(node.spec.hosts),
        "STEWARD_SLICES": str(node.spec.slices),
        "STEWARD_DEVICES_EXPECTED": str(devices_expected(node)),
        "STEWARD_DATA": " ".join(spec.data),
        "STEWARD_CHECKPOINT_DIR": spec.checkpoint_dir,
        "STEWARD_GLOBAL_BATCH": _format_number(spec.global_batch),
        "STEWARD_EXAMPLES": _format_number(spec.examples),
        "STEWARD_STEPS_PER_EPOCH": _format_number(spec.steps_per_epoch),
    }
    preset: Mapping[str, str] = {} if spec.framework is None else ENVIRONMENT[spec.framework]
    if spec.framework is Framework.TENSORFLOW and "pjrt" in node.spec.runtime_version:
        preset = {**preset, **TENSORFLOW_PJRT}
    # The variables by which libtpu joins several slices.
    megascale: Mapping[str, str] = {}
    endpoints = node.slices_seen[0].endpoints if node.slices_seen else ()
    if node.spec.slices != 1 and endpoints:
        megascale = {
            "MEGASCALE_COORDINATOR_ADDRESS": f"{endpoints[0].ip}:{MEGASCALE_PORT}",
            "MEGASCALE_NUM_SLICES": str(node.spec.slices),
            "MEGASCALE_PORT": str(MEGASCALE_PORT),
            "MEGASCALE_SLICE_ID": str(number),
        }
    return {
        **{name: value for name, value in described.items() if value},
        **preset,
        **megascale,
        **spec.env,
    }


def _format_number(value: int | None) -> str:
    return "" if value is None else str(value)


def batch_warnings(
    devices: int, global_batch: int | None, examples: int | None, steps_per_epoch: int | None
) -> tuple[str, ...]:
    """Return a warning for each batch or data set size that does not fit the number of devices.
    Each names the nearest value that fits."""
    found = []
    if global_batch is not None and devices and global_batch % devices:
        below = global_batch // devices * devices
        nearest = " or ".join(str(size) for size in (below, below + devices) if size)
        found.append(
            f"global_batch {global_batch} does not divide by the {devices} devices that the"
            f" framework sees; {nearest} does"
        )
    if global_batch is not None and examples is not None and steps_per_epoch is not None:
        steps = -(-examples // global_batch)
        if steps_per_epoch not in {steps, examples // global_batch}:
            found.append(
                f"{examples} examples in batches of {global_batch} are {steps} steps an epoch,"
                f" not {steps_per_epoch}"
            )
    return tuple(found)
