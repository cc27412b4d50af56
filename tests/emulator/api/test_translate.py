"""A message said in another version says the same, by name, as far as there are words for it."""

from __future__ import annotations

from google.protobuf import json_format

from service.emulator.api.translate import copy_fields, to_v2, to_v2alpha1
from service.emulator.schema import drop_outputs, extended_class, to_extended, to_kept
from service.emulator.wire import Empty, Operation, Tpu, TpuV1, TpuV2Alpha1


def fill(message, depth=8):
    """Set every field of a message, each to something that is not its default."""
    for field in message.DESCRIPTOR.fields:
        if depth and field.message_type is not None:
            fill_inner(message, field, depth - 1)
        elif field.message_type is None:
            value = value_of(field)
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
    return message


def fill_inner(message, field, depth):
    if field.message_type.GetOptions().map_entry:
        getattr(message, field.name)["key"] = "value"
    elif field.message_type.full_name == "google.protobuf.Any":
        return
    elif field.is_repeated:
        fill(getattr(message, field.name).add(), depth)
    else:
        getattr(message, field.name).SetInParent()
        fill(getattr(message, field.name), depth)


def value_of(field):
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    return {field.CPPTYPE_STRING: field.name, field.CPPTYPE_BOOL: True}.get(field.cpp_type, 7)


def plain(message):
    return json_format.MessageToDict(message, descriptor_pool=message.DESCRIPTOR.file.pool)


def alpha(name):
    return fill(extended_class(f"google.cloud.tpu.v2alpha1.{name}")())


def official(message):
    raw = getattr(TpuV2Alpha1, message.DESCRIPTOR.name)
    return raw.FromString(message.SerializeToString())


def test_all_that_a_v2alpha1_node_says_comes_back_from_v2():
    node = alpha("Node")
    back = to_extended(to_v2alpha1(to_v2(official(node))))
    drop_outputs(node)
    assert plain(back) == plain(node)


def test_all_that_a_v2alpha1_queued_resource_asks_for_comes_back_from_v2():
    for tier in ("best_effort", "guaranteed", "spot"):
        resource = alpha("QueuedResource")
        getattr(resource, tier).SetInParent()
        if tier == "guaranteed":
            resource.guaranteed.reserved = True
        # In v2 it excludes the other way to name the nodes.
        resource.tpu.node_spec[0].ClearField("node_id")
        back = to_extended(to_v2alpha1(to_v2(official(resource))))
        drop_outputs(resource)
        assert plain(back) == plain(resource)
        assert back.WhichOneof("tier") == tier


def test_all_that_v2_says_is_said_in_v2alpha1():
    node = fill(Tpu.Node())
    shown = plain(to_v2alpha1(node))
    wanted = plain(node)
    assert shown.pop("apiVersion") == "V2_ALPHA1"
    assert wanted.pop("apiVersion") == "V2"
    assert shown == wanted


def test_every_request_of_both_versions_keeps_its_fields():
    for name in dir_of(TpuV2Alpha1.Node) & dir_of(Tpu.Node):
        if name.endswith("Request"):
            request = fill(getattr(TpuV2Alpha1, name)(), depth=1)
            told = plain(to_extended(to_v2(request)))
            # v2 has no request id where v2alpha1 has one for every change.
            assert set(told) >= set(plain(request)) - {"requestId"}, name


def dir_of(message_class):
    return set(message_class.DESCRIPTOR.file.message_types_by_name)


def test_the_nodes_of_a_multislice_change_their_name_only():
    spec = TpuV2Alpha1.QueuedResource.Tpu.NodeSpec(multi_node_params={"node_count": 3})
    resource = TpuV2Alpha1.QueuedResource(tpu={"node_spec": [spec]})
    asked = to_v2(resource)
    assert asked.tpu.node_spec[0].multislice_params.node_count == 3
    assert to_v2alpha1(asked) == resource


def test_a_value_without_a_name_is_passed_on_as_a_number():
    node = TpuV2Alpha1.Node(accelerator_config={"type_": 99})
    assert to_v2(node).accelerator_config.type_ == 99


def test_an_empty_message_inside_another_is_still_there():
    node = TpuV2Alpha1.Node()
    node.scheduling_config.SetInParent()
    assert to_v2(node).HasField("scheduling_config")
    assert not to_v2(node).HasField("network_config")


def test_what_v2_does_not_know_is_kept_and_not_shown():
    node = to_v2(TpuV2Alpha1.Node(autocheckpoint_enabled=True))
    assert to_kept(node).autocheckpoint_enabled
    assert "autocheckpointEnabled" not in plain(to_extended(node))


def test_fields_of_another_shape_are_left_alone():
    node = Tpu.Node(service_account={"email": "me"}, network_endpoints=[{"port": 8470}])
    legacy = TpuV1.Node()
    copy_fields(node, legacy)
    assert legacy.service_account == ""
    assert legacy.network_endpoints[0].port == 8470


def test_what_all_versions_share_is_handed_through():
    for shared in (Operation(name="o"), Empty()):
        assert to_v2alpha1(shared) is shared
