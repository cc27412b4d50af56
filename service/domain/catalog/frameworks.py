"""The environment with which a program of each framework finds the TPU of its machine. Pure.

Sources: reference/cloud-tpu-api.md section 4; docs.cloud.google.com/tpu/docs/run-in-container.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.catalog.images import Framework

ENVIRONMENT: Mapping[Framework, Mapping[str, str]] = {
    # Without the platform named, JAX falls back to the CPU and trains at a hundredth of the speed.
    Framework.JAX: {"JAX_PLATFORMS": "tpu"},
    Framework.PYTORCH: {"PJRT_DEVICE": "TPU"},
    # No TPU_LOAD_LIBRARY=0: it keeps libtpu from being loaded, and belongs to a program that drives
    # other machines by the name of their TPU.
    Framework.TENSORFLOW: {"TPU_NAME": "local"},
}
"""With these variables, a program without a TPU fails instead of training on the CPU."""

TENSORFLOW_PJRT: Mapping[str, str] = {
    "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true",
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": "/lib/libtpu.so",
}
"""Further variables for TensorFlow on an image with the device API `pjrt`."""


def as_shell(environment: Mapping[str, str]) -> str:
    """The variables as a prefix of a shell command. Values need no quotes."""
    return " ".join(f"{name}={value}" for name, value in environment.items())
