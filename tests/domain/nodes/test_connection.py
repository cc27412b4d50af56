"""How a node is reached: every line is ready to paste, and nothing in it can be more than it is."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import Conflict
from service.domain.nodes.connection import connection_to
from service.domain.nodes.node import Endpoint, NodeState, Slice
from tests import factories

INSIDE = Endpoint("10.0.0.2", 8470)
LIBRARY = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so"
OUTSIDE = Endpoint("10.0.0.2", 8470, "34.1.2.3")


def ready(**changes):
    """A TPU VM of one host that is READY, without an external address."""
    defaults = {"state": NodeState.READY, "endpoints": (INSIDE,), "cloud_id": "train-1a2b3c4d"}
    return factories.sent(**(defaults | changes))


def pod(**changes):
    """A slice of four hosts."""
    hosts = tuple(Endpoint(f"10.0.0.{n}", 8470) for n in range(2, 6))
    defaults = {"accelerator_type": "v5litepod-16", "chips": 16, "hosts": 4, "endpoints": hosts}
    return ready(**(defaults | changes))


def legacy(**changes):
    """A legacy TPU Node of one host with TensorFlow 2.12.0."""
    defaults = {
        "accelerator_type": "v2-8",
        "generation": "v2",
        "chips": 4,
        "runtime_version": "2.12.0",
        "architecture": Architecture.NODE,
    }
    return ready(**(defaults | changes))


def recipe(node, framework):
    (found,) = [recipe for recipe in connection_to(node).recipes if recipe.framework is framework]
    return found


@pytest.mark.parametrize("state", [NodeState.REQUESTED, NodeState.CREATING, NodeState.STOPPED])
def test_what_is_not_ready_cannot_be_reached_and_says_so(state):
    with pytest.raises(Conflict, match="only a READY node can be reached") as refused:
        connection_to(ready(state=state))
    assert refused.value.facts == {"state": state}


def test_what_shows_no_address_yet_cannot_be_reached_either():
    with pytest.raises(Conflict, match="no address"):
        connection_to(ready(endpoints=()))


def test_a_tpu_vm_without_an_external_address_is_reached_through_the_proxy():
    found = connection_to(ready())
    assert found.ssh == (
        "gcloud alpha compute tpus tpu-vm ssh --tunnel-through-iap train-1a2b3c4d --project=lab"
        " --zone=us-west4-a --worker=0"
    )
    assert found.everywhere == found.ssh.replace("=0", "=all") + " --command=hostname"
    assert found.upload == (
        "gcloud alpha compute tpus tpu-vm scp --tunnel-through-iap train.py train-1a2b3c4d:"
        " --project=lab --zone=us-west4-a --worker=all"
    )
    assert "Identity-Aware Proxy" in found.summary
    assert (found.address, found.vm_software, found.not_included) == ("", "", ())


def test_a_tpu_vm_with_an_external_address_is_reached_directly():
    found = connection_to(ready(endpoints=(OUTSIDE,)))
    assert found.ssh == (
        "gcloud compute tpus tpu-vm ssh train-1a2b3c4d --project=lab --zone=us-west4-a --worker=0"
    )
    assert "Proxy" not in found.summary
    assert [(worker.worker, worker.ip, worker.external_ip) for worker in found.workers] == [
        (0, "10.0.0.2", "34.1.2.3")
    ]


def test_on_one_host_the_lines_are_for_the_host_itself():
    assert recipe(ready(), Framework.JAX).shell[-1] == "JAX_PLATFORMS=tpu python3 train.py"
    assert recipe(ready(), Framework.PYTORCH).shell[-1] == "PJRT_DEVICE=TPU python3 train.py"
    assert "jax.distributed.initialize()" not in recipe(ready(), Framework.JAX).python


def test_on_a_pod_the_lines_reach_every_worker_at_once():
    node = pod()
    for framework, run in (
        (Framework.JAX, "JAX_PLATFORMS=tpu python3 train.py"),
        (Framework.PYTORCH, "PJRT_DEVICE=TPU python3 train.py"),
    ):
        found = recipe(node, framework)
        for line in found.shell:
            words = shlex.split(line)
            assert words[:2] == ["gcloud", "alpha"]
            assert "--worker=all" in words
        assert shlex.split(found.shell[-1])[-1] == f"--command={run}"
        assert "at the same time" in found.note
    assert recipe(node, Framework.JAX).python[1] == "jax.distributed.initialize()"
    assert [worker.worker for worker in connection_to(node).workers] == [0, 1, 2, 3]


def test_an_image_without_a_framework_says_what_to_ask_for():
    found = recipe(ready(), Framework.TENSORFLOW)
    assert not found.works
    assert (found.shell, found.python) == ((), ())
    assert found.note.endswith("create a node with framework tensorflow")


@pytest.mark.parametrize(
    ("image", "prefix"),
    [
        ("tpu-vm-tf-2.15.1-pjrt", f"NEXT_PLUGGABLE_DEVICE_USE_C_API=true {LIBRARY} "),
        ("tpu-vm-tf-2.12.0", ""),
    ],
)
def test_tensorflow_on_one_host_is_local_and_knows_its_device_api(image, prefix):
    found = recipe(ready(runtime_version=image), Framework.TENSORFLOW)
    assert found.shell == (f"{prefix}python3 train.py",)
    assert "TPUClusterResolver(tpu='local')" in found.python[1]


def test_tensorflow_on_a_pod_runs_on_the_first_worker_alone():
    found = recipe(pod(runtime_version="tpu-vm-tf-2.15.1-pod-pjrt"), Framework.TENSORFLOW)
    (line,) = found.shell
    words = shlex.split(line)
    assert "--worker=0" in words
    run = "TPU_NAME=train-1a2b3c4d TPU_LOAD_LIBRARY=0 python3 train.py"
    assert words[-1] == f"--command={run}"
    assert "tpu='train-1a2b3c4d', zone='us-west4-a', project='lab'" in found.python[1]


def test_several_slices_are_reached_through_their_queued_resource():
    one = Slice("7001", NodeState.READY, 0, "HEALTHY", (INSIDE, Endpoint("10.0.0.3", 8470)))
    node = pod(queued=True, slices=2)
    found = connection_to(replace(node, slices_seen=(one, one)))
    assert found.everywhere == (
        "gcloud compute tpus queued-resources ssh --tunnel-through-iap train-1a2b3c4d --project=lab"
        " --zone=us-west4-a --worker=all --node=all --command=hostname"
    )
    assert [(w.cloud_id, w.worker) for w in found.workers] == [
        ("train-1a2b3c4d-0", 0),
        ("train-1a2b3c4d-0", 1),
        ("train-1a2b3c4d-1", 0),
        ("train-1a2b3c4d-1", 1),
    ]


def test_an_image_that_nobody_knows_may_hold_any_framework():
    assert all(recipe.works for recipe in connection_to(ready(runtime_version="mine")).recipes)
    assert connection_to(legacy(runtime_version="mine")).vm_software == ""


def test_a_legacy_node_is_reached_over_grpc_from_a_machine_of_ones_own():
    found = connection_to(legacy(network="global/networks/old"))
    assert (found.ssh, found.everywhere, found.upload) == ("", "", "")
    assert found.address == "grpc://10.0.0.2:8470"
    assert found.vm_software == "TensorFlow 2.12.0"
    assert "in the network global/networks/old, in us-west4-a" in found.summary
    assert found.not_included == (
        "the VM that drives the legacy TPU Node is billed by Compute Engine",
    )


def test_each_framework_reaches_a_legacy_node_in_its_own_way_and_jax_not_at_all():
    tensorflow = recipe(legacy(), Framework.TENSORFLOW)
    assert tensorflow.shell == ("export COLAB_TPU_ADDR=10.0.0.2:8470", "python3 train.py")
    assert "TPUClusterResolver(tpu='grpc://10.0.0.2:8470')" in tensorflow.python[1]
    assert tensorflow.python[-2:] == (
        "strategy = tf.distribute.TPUStrategy(resolver)",
        "assert len(tf.config.list_logical_devices('TPU')) == 8",
    )
    other = recipe(legacy(), Framework.PYTORCH)
    assert (other.works, other.note.endswith("reimage it with framework pytorch")) == (False, True)
    jax = recipe(legacy(), Framework.JAX)
    assert (jax.works, "architecture vm" in jax.note) == (False, True)


def test_pytorch_reaches_a_legacy_node_from_googles_container_or_ones_own_environment():
    found = recipe(legacy(runtime_version="pytorch-1.9"), Framework.PYTORCH)
    in_container = (
        'docker run --rm --shm-size 16G -v "$PWD":/work -w /work'
        " -e XRT_TPU_CONFIG='tpu_worker;0;10.0.0.2:8470'"
        " gcr.io/tpu-pytorch/xla:r1.9_3.7 python3 train.py"
    )
    assert found.shell == (
        in_container,
        "export XRT_TPU_CONFIG='tpu_worker;0;10.0.0.2:8470'",
        "python3 train.py",
    )
    assert found.python[-1] == "assert len(xm.get_xla_supported_devices('TPU')) == 8"
    assert "tag" not in found.note


@pytest.mark.parametrize(
    ("version", "tag", "is_guess"),
    [
        ("pytorch-1.6", "r1.6", True),
        ("pytorch-1.8", "r1.8.1", False),
        ("pytorch-1.11", "r1.11_3.8_tpuvm", True),
        ("pytorch-1.13", "r1.13_3.8_tpuvm", False),
        ("pytorch-nightly", "nightly_3.7", False),
        ("mine", "TAG", True),
    ],
)
def test_the_container_matches_the_software_of_the_node(version, tag, is_guess):
    found = recipe(legacy(runtime_version=version), Framework.PYTORCH)
    assert f" gcr.io/tpu-pytorch/xla:{tag} " in found.shell[0]
    assert (" tag " in found.note) is is_guess


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("1.15.3", "model = tf.contrib.tpu.keras_to_tpu_model(model, strategy=strategy)"),
        ("2.1", "assert len(tf.config.experimental.list_logical_devices('TPU')) == 8"),
        ("2.3.4", "strategy = tf.distribute.experimental.TPUStrategy(resolver)"),
        ("2.16.1", "strategy = tf.distribute.TPUStrategy(resolver)"),
        ("nightly", "strategy = tf.distribute.TPUStrategy(resolver)"),
    ],
)
def test_old_tensorflow_is_spoken_to_in_its_own_words(version, line):
    found = recipe(legacy(runtime_version=version), Framework.TENSORFLOW)
    assert line in found.python
    assert any(line.startswith("assert") and line.endswith("== 8") for line in found.python)


def test_a_legacy_slice_is_known_by_its_name():
    hosts = tuple(Endpoint(f"10.0.0.{n}", 0) for n in range(2, 6))
    node = legacy(accelerator_type="v2-32", chips=16, hosts=4, endpoints=hosts)
    found = connection_to(node)
    assert {worker.port for worker in found.workers} == {8470}
    assert "tpu='train-1a2b3c4d'" in recipe(node, Framework.TENSORFLOW).python[1]
    torch = replace(node, spec=replace(node.spec, runtime_version="pytorch-1.11"))
    (line,) = recipe(torch, Framework.PYTORCH).shell
    assert line == (
        "python3 -m torch_xla.distributed.xla_dist --tpu=train-1a2b3c4d"
        " --docker-image=gcr.io/tpu-pytorch/xla:r1.11_3.8_tpuvm --docker-run-flag=--rm=true"
        " --docker-run-flag=--shm-size=16G -- python3 train.py"
    )
    assert recipe(node, Framework.TENSORFLOW).python[-1].endswith("('TPU')) == 32")


@pytest.mark.parametrize("evil", ["a; rm -rf /", "$(reboot)", "a'b", "a b", "`id`", "-v", "a\nb"])
@pytest.mark.parametrize("make", [ready, pod, legacy])
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_name_that_is_not_one_stays_one_word_of_the_shell(make, hosts, evil):
    """The rules for names keep such ones out; should one get in, it still does no harm."""
    node = make(cloud_id=evil, project=evil, zone=evil, endpoints=(Endpoint(evil, 1),) * hosts)
    found = connection_to(node)
    lines = [found.ssh, found.everywhere, found.upload]
    lines += [line for recipe in found.recipes for line in recipe.shell]
    plain = make(cloud_id="x", project="x", zone="x", endpoints=(Endpoint("x", 1),) * hosts)
    same = connection_to(plain)
    expected = [same.ssh, same.everywhere, same.upload]
    expected += [line for recipe in same.recipes for line in recipe.shell]
    assert [len(shlex.split(line)) for line in lines] == [len(shlex.split(x)) for x in expected]
    for recipe in found.recipes:
        compile("\n".join(recipe.python), "python lines", "exec")
