"""Runtime versions: which one is resolved, why, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog import catalog, runtimes
from service.domain.catalog.images import Framework, ImageStanding, list_images
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import NotOffered, Rejected, RuntimeMismatch

CATALOG = catalog.load_catalog()
VM, NODE = Architecture.VM, Architecture.NODE
JAX, PYTORCH, TENSORFLOW = Framework.JAX, Framework.PYTORCH, Framework.TENSORFLOW


def resolve(name, framework, version=None, architecture=VM, zone=None):
    return runtimes.resolve_runtime(
        CATALOG.get_accelerator(name), framework, version, architecture, zone
    )


def check(runtime_version, name, architecture=VM):
    return runtimes.check_runtime(runtime_version, CATALOG.get_accelerator(name), architecture)


@pytest.mark.parametrize(
    ("name", "framework", "version", "runtime_version"),
    [
        ("v6e-8", JAX, None, "v2-alpha-tpuv6e"),
        ("v6e-256", PYTORCH, "2.6.0", "v2-alpha-tpuv6e"),
        ("v5p-8", JAX, "0.4.35", "v2-alpha-tpuv5"),
        ("v5litepod-16", PYTORCH, None, "v2-alpha-tpuv5-lite"),
        ("v5litepod-1", JAX, "nightly", "v2-alpha-tpuv5-lite"),
        ("v4-8", JAX, None, "tpu-ubuntu2204-base"),
        ("v3-32", PYTORCH, "1.13", "tpu-ubuntu2204-base"),
        ("v2-8", JAX, None, "tpu-ubuntu2204-base"),
        ("v2-8", TENSORFLOW, None, "tpu-vm-tf-2.17.1-pjrt"),
        ("v5litepod-8", TENSORFLOW, None, "tpu-vm-tf-2.17.1-pjrt"),
        ("v5litepod-16", TENSORFLOW, None, "tpu-vm-tf-2.17.1-pod-pjrt"),
        ("v5litepod-16", TENSORFLOW, "2.15", "tpu-vm-tf-2.15.1-pod-pjrt"),
        ("v5p-8", TENSORFLOW, "2.15.0", "tpu-vm-tf-2.15.0-pjrt"),
        ("v3-8", TENSORFLOW, "2", "tpu-vm-tf-2.17.1-pjrt"),
        ("v3-8", TENSORFLOW, "2.14", "tpu-vm-tf-2.14.1"),
        ("v4-32", TENSORFLOW, "2.14.0", "tpu-vm-tf-2.14.0-pod"),
        ("v4-8", TENSORFLOW, "2.10.1", "tpu-vm-tf-2.10.1"),
        ("v4-8", TENSORFLOW, "2.10.0", "tpu-vm-tf-2.10.0-v4"),
        ("v4-32", TENSORFLOW, "2.9", "tpu-vm-tf-2.9.3-pod-v4"),
        ("v3-32", TENSORFLOW, "2.10.0", "tpu-vm-tf-2.10.0-pod"),
        ("v4-8", TENSORFLOW, "2.18", "tpu-vm-tf-2.18.0-pjrt-v5p-and-below"),
        ("v5p-8", TENSORFLOW, "2.18", "tpu-vm-tf-2.18.0-pjrt-v5p-and-below"),
        ("v5litepod-16", TENSORFLOW, "2.18", "tpu-vm-tf-2.18.0-pod-pjrt-v5e-and-v6"),
        ("v2-8", TENSORFLOW, "nightly", "tpu-vm-tf-nightly"),
    ],
)
def test_the_hardware_and_the_framework_decide_the_image(name, framework, version, runtime_version):
    assert resolve(name, framework, version).runtime_version == runtime_version


@pytest.mark.parametrize(
    ("framework", "version", "runtime_version", "vm_software"),
    [
        (TENSORFLOW, "2.12.0", "2.12.0", "TensorFlow 2.12.0"),
        (TENSORFLOW, "2.12", "2.12.1", "TensorFlow 2.12.1"),
        (TENSORFLOW, "2.4", "2.4.4", "TensorFlow 2.4.4"),
        (TENSORFLOW, None, "2.16.1", "TensorFlow 2.16.1"),
        (TENSORFLOW, "nightly", "nightly", "the TensorFlow nightly build of the same day"),
        (PYTORCH, "1.9", "pytorch-1.9", "torch and torch_xla 1.9"),
        (PYTORCH, "1.9.1", "pytorch-1.9", "torch and torch_xla 1.9"),
        (PYTORCH, None, "pytorch-1.11", "torch and torch_xla 1.11"),
    ],
)
def test_a_legacy_node_names_what_the_users_own_vm_has_to_run(
    framework, version, runtime_version, vm_software
):
    found = resolve("v3-8", framework, version, NODE)
    assert found.runtime_version == runtime_version
    assert found.vm_software.startswith(vm_software)
    assert any(found.vm_software in reason for reason in found.reasons)


def test_a_tpu_vm_asks_nothing_of_another_vm():
    assert resolve("v3-8", TENSORFLOW).vm_software == ""


@pytest.mark.parametrize(
    ("name", "framework", "version", "said"),
    [
        ("v6e-8", JAX, "0.4.35", "install JAX 0.4.35 on it with a libtpu that knows v6e"),
        ("v5litepod-16", TENSORFLOW, None, "the newest documented version for v5e"),
        ("v5litepod-16", TENSORFLOW, "2.15", "the newest documented 2.15 release"),
        ("v5litepod-16", TENSORFLOW, "2.18", "the newest known 2.18 release"),
        ("v5litepod-16", TENSORFLOW, "2.15.0", "was requested"),
        ("v5litepod-16", TENSORFLOW, None, "has 4 hosts, so the name says -pod"),
        ("v5litepod-8", TENSORFLOW, None, "has one host, so the name is without -pod"),
        ("v5litepod-8", TENSORFLOW, None, "PJRT is the only one"),
        ("v4-8", TENSORFLOW, "2.17.1", "PJRT is preferred"),
        ("v4-8", TENSORFLOW, "2.17.1", "Take tpu-vm-tf-2.17.1-se if"),
        ("v4-8", TENSORFLOW, "2.17.1", "TPU embedding API"),
        ("v4-8", TENSORFLOW, "2.14.1", "only the stream executor"),
        ("v4-8", TENSORFLOW, "2.10.0", "v4 needs its own image"),
        ("v5p-8", TENSORFLOW, "2.18.0", "split by generation"),
        ("v5p-16", TENSORFLOW, "alpha", "the same for one host and for many"),
    ],
)
def test_the_reasons_are_said(name, framework, version, said):
    assert said in " ".join(resolve(name, framework, version).reasons)


@pytest.mark.parametrize(
    ("name", "framework", "version", "alternatives"),
    [
        ("v3-8", TENSORFLOW, "2.17.1", ("tpu-vm-tf-2.17.1-se",)),
        (
            "v3-8",
            TENSORFLOW,
            "2.15",
            ("tpu-vm-tf-2.15.1-se", "tpu-vm-tf-2.15.0-pjrt", "tpu-vm-tf-2.15.0-se"),
        ),
        ("v3-8", PYTORCH, "2.0", ("tpu-vm-base", "v2-alpha", "tpu-vm-pt-2.0")),
        ("v6e-8", JAX, None, ()),
    ],
)
def test_the_alternatives_grant_the_same_request(name, framework, version, alternatives):
    found = resolve(name, framework, version)
    assert set(found.alternatives) == set(alternatives)


@pytest.mark.parametrize(
    ("name", "framework", "version", "warning"),
    [
        ("v5litepod-8", TENSORFLOW, "2.18", "is not in Google's documentation"),
        ("v6e-4", TENSORFLOW, "2.18", "crashes when TPUStrategy is initialised"),
        ("v6e-4", TENSORFLOW, None, "did not see the TPU"),
        ("v2-8", TENSORFLOW, "2.8.4", "no longer in Google's documentation"),
        ("v2-8", TENSORFLOW, "nightly", "changes every night"),
    ],
)
def test_a_doubtful_answer_comes_with_a_warning(name, framework, version, warning):
    assert warning in " ".join(resolve(name, framework, version).warnings)


def test_a_sure_answer_comes_without_a_warning():
    assert resolve("v5litepod-16", TENSORFLOW).warnings == ()
    assert resolve("v6e-8", JAX).warnings == ()


@pytest.mark.parametrize(
    ("name", "framework", "version", "architecture", "said", "first"),
    [
        (
            "v5litepod-16",
            TENSORFLOW,
            "2.14",
            VM,
            "need TensorFlow 2.15",
            "tpu-vm-tf-2.17.1-pod-pjrt",
        ),
        ("v5p-16", TENSORFLOW, "2.18", VM, "for 2 hosts of v5p", "tpu-vm-tf-2.17.1-pod-pjrt"),
        ("v5p-8", TENSORFLOW, "2.99", VM, "TensorFlow 2.99 is known", "tpu-vm-tf-2.17.1-pjrt"),
        ("v3-8", JAX, None, NODE, "JAX is known for a legacy", "tpu-ubuntu2204-base"),
        ("v3-8", TENSORFLOW, "2.17.1", NODE, "known for a legacy TPU Node", "2.16.1"),
        ("v4-8", TENSORFLOW, "2.12.0", NODE, "v2 and v3 only", "tpu-vm-tf-2.17.1-pjrt"),
        ("v6e-8", PYTORCH, None, NODE, "v2 and v3 only", "v2-alpha-tpuv6e"),
        (
            "v6e-8",
            TENSORFLOW,
            "nightly",
            VM,
            "is there for v2, v3, v4, not for v6e",
            "tpu-vm-tf-2.17.1-pjrt",
        ),
    ],
)
def test_a_request_that_no_image_grants_is_refused_with_those_that_fit(
    name, framework, version, architecture, said, first
):
    with pytest.raises(RuntimeMismatch, match=said) as refused:
        resolve(name, framework, version, architecture)
    names: Any = refused.value.facts["compatible"]
    assert names[0] == first


@pytest.mark.parametrize("version", ["", "banana", "2.15 ", "2..15", "v2.15", "2.15\n", "²"])
def test_text_that_is_no_version_is_refused(version):
    with pytest.raises(Rejected, match="is no version"):
        resolve("v3-8", TENSORFLOW, version)


def test_a_generation_nobody_knows_is_refused_never_guessed():
    v9 = replace(CATALOG.get_accelerator("v6e-8"), name="v9-8", generation="v9")
    with pytest.raises(RuntimeMismatch) as refused:
        runtimes.resolve_runtime(v9, JAX)
    assert refused.value.facts["compatible"] == []
    with pytest.raises(RuntimeMismatch):
        runtimes.check_runtime("v2-alpha-tpuv6e", v9)


def test_a_zone_without_the_hardware_is_refused():
    assert resolve("v4-8", JAX, zone="us-central2-b").runtime_version == "tpu-ubuntu2204-base"
    with pytest.raises(NotOffered):
        resolve("v4-8", JAX, zone="us-central1-a")


@pytest.mark.parametrize(
    ("runtime_version", "name", "architecture", "said", "first"),
    [
        ("tpu-vm-base", "v5litepod-4", VM, "is for v2, v3", "v2-alpha-tpuv5-lite"),
        ("v2-alpha-tpuv5", "v5litepod-16", VM, "is for v5p", "v2-alpha-tpuv5-lite"),
        ("tpu-vm-tf-2.17.1-pjrt", "v4-16", VM, "is for one host", "tpu-vm-tf-2.17.1-pod-pjrt"),
        ("tpu-vm-tf-2.17.1-pod-se", "v4-8", VM, "several hosts", "tpu-vm-tf-2.17.1-se"),
        ("tpu-vm-tf-2.16.1-se", "v5p-8", VM, "is for v2, v3, v4", "tpu-vm-tf-2.16.1-pjrt"),
        ("tpu-vm-tf-2.10.0", "v4-8", VM, "is for v2, v3", "tpu-vm-tf-2.10.0-v4"),
        ("tpu-vm-tf-2.17.1", "v3-8", VM, "no runtime version", "tpu-vm-tf-2.17.1-se"),
        ("v2-alpha-tpuv6", "v6e-8", VM, "no runtime version", "v2-alpha-tpuv6e"),
        ("v2-alpha-tpu7-ubuntu2404", "v6e-8", VM, "is for v7", "v2-alpha-tpuv6e"),
        ("2.12.0", "v2-8", VM, "for legacy TPU Nodes", "tpu-vm-tf-2.12.0"),
        ("tpu-vm-tf-2.12.0", "v2-8", NODE, "is for TPU VMs", "2.12.0"),
        ("2.12.0", "v4-8", NODE, "v2 and v3 only", "tpu-vm-tf-2.12.0"),
    ],
)
def test_a_runtime_version_that_does_not_fit_is_refused_with_the_closest_that_do(
    runtime_version, name, architecture, said, first
):
    with pytest.raises(RuntimeMismatch, match=said) as refused:
        check(runtime_version, name, architecture)
    names: Any = refused.value.facts["compatible"]
    assert names[0] == first


@pytest.mark.parametrize(
    ("runtime_version", "name", "warning"),
    [
        ("tpu-vm-base", "v3-8", "is a legacy image"),
        ("tpu-vm-v4-base", "v4-8", "is a legacy image"),
        ("v2-alpha", "v2-8", "is a legacy image"),
        ("v2-alpha-tpuv4", "v4-8", "is a legacy image"),
        ("tpu-vm-pt-2.0", "v3-32", "is a legacy image"),
        ("tpu-vm-v4-pt-1.13", "v4-8", "follows from others"),
        ("tpu-vm-tf-2.19.0-pod-pjrt", "v6e-16", "is not in Google's documentation"),
        ("tpu-vm-tf-nightly-pod", "v4-16", "changes every night"),
    ],
)
def test_a_doubtful_runtime_version_fits_with_a_warning(runtime_version, name, warning):
    assert warning in " ".join(check(runtime_version, name))


def test_a_node_image_that_nobody_has_seen_fits_with_a_warning():
    assert "never seen in use" in check("pytorch-2.0", "v3-8", NODE)[0]


def test_a_documented_runtime_version_fits_without_a_warning():
    assert check("tpu-vm-tf-2.17.1-pod-pjrt", "v5litepod-16") == []
    assert check("2.12.0", "v3-8", NODE) == []


@given(st.sampled_from(CATALOG.list_served()), st.sampled_from(Framework))
def test_what_is_resolved_always_fits_and_so_do_its_alternatives(accelerator, framework):
    found = runtimes.resolve_runtime(accelerator, framework)
    assert runtimes.check_runtime(found.runtime_version, accelerator) == list(found.warnings)
    for other in found.alternatives:
        runtimes.check_runtime(other, accelerator)


@given(
    st.sampled_from(CATALOG.list_served()),
    st.sampled_from(list_images()),
    st.sampled_from(Architecture),
)
def test_a_refusal_names_only_what_fits_on_some_architecture(accelerator, image, architecture):
    try:
        runtimes.check_runtime(image.name, accelerator, architecture)
    except RuntimeMismatch as refused:
        names: Any = refused.facts["compatible"]
        assert names
        fitting = {
            image.name
            for image in list_images()
            if any(image.can_run_on(accelerator, either) for either in (architecture, VM))
        }
        assert fitting.issuperset(names)


@given(st.text(max_size=200))
def test_no_text_at_all_breaks_the_check(text):
    with pytest.raises(RuntimeMismatch) as refused:
        check(f"?{text}", "v5litepod-16")
    assert len(str(refused.value)) < 500


@given(st.sampled_from(CATALOG.list_served()), st.sampled_from(Framework))
def test_a_documented_image_is_preferred_to_every_other(accelerator, framework):
    standing = {image.name: image.standing for image in list_images()}
    assert (
        standing[runtimes.resolve_runtime(accelerator, framework).runtime_version]
        is ImageStanding.DOCUMENTED
    )


def test_the_images_of_a_generation_are_listed_by_framework_and_architecture():
    v6e = runtimes.for_generation("v6e", JAX)
    assert [image.name for image in v6e] == ["v2-alpha-tpuv6e"]
    nodes = runtimes.for_generation("v3", architecture=NODE)
    assert {node.architecture for node in nodes} == {NODE}
    assert runtimes.for_generation() == list_images()


def test_no_runtime_version_is_listed_twice():
    names = [image.name for image in list_images()]
    assert len(set(names)) == len(names)
