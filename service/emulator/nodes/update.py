"""The changes that UpdateNode may make: the paths of its mask are checked, then applied."""

from __future__ import annotations

from collections.abc import Callable

from service.emulator.errors import ApiError, Code, invalid_argument
from service.emulator.names import check_labels
from service.emulator.nodes import nodes
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.wire import NodeMessage, copy_message

EXTERNAL_IPS = "network_config.enable_external_ips"
FIELDS = ("description", "tags", "labels", "metadata", "data_disks")
SUPPORTED = (*FIELDS, EXTERNAL_IPS)


def change_of(record: NodeRecord, wanted: NodeMessage, mask: NodeMessage) -> Callable[[], None]:
    """Return a function that applies the masked fields; raises ApiError for invalid ones."""
    paths = tuple(dict.fromkeys(mask.paths))
    if not paths:
        raise ApiError(Code.INVALID_ARGUMENT, "The update_mask must name at least one field.")
    strangers = sorted(set(paths) - set(SUPPORTED))
    if strangers:
        raise invalid_argument(
            f'The field "UpdateMask" cannot be "{",".join(strangers)}".'
            f" Supported paths: {', '.join(SUPPORTED)}."
        )
    if "description" in paths:
        nodes.check_description(wanted)
    if "labels" in paths:
        check_labels(wanted.labels)
    if "metadata" in paths:
        nodes.check_metadata(wanted)
    if "data_disks" in paths:
        nodes.check_disks(wanted)
    kept = copy_message(wanted)
    return lambda: _apply_change(record.message, kept, paths)


def _apply_change(node: NodeMessage, wanted: NodeMessage, paths: tuple[str, ...]) -> None:
    """Replace each field as a whole, maps and lists included, as a field mask specifies."""
    for path in paths:
        if path == EXTERNAL_IPS:
            node.network_config.enable_external_ips = wanted.network_config.enable_external_ips
            nodes.set_external_ips(node)
        elif path == "description":
            node.description = wanted.description
        else:
            node.ClearField(path)
            getattr(node, path).MergeFrom(getattr(wanted, path))
