"""The parameter `fields` of Cloud Storage: the requested fields of a JSON response."""

from __future__ import annotations

from service.emulator.api.calls.field_masks import Chosen, chosen_of
from service.emulator.errors import ApiError

# All names in Google's discovery document of storage v1; the emulator does not show all of them.
OBJECT_NAMES = """
    acl bucket cacheControl componentCount contentDisposition contentEncoding contentLanguage
    contentType contexts crc32c customTime customerEncryption etag eventBasedHold generation
    hardDeleteTime id kind kmsKeyName md5Hash mediaLink metadata metageneration name owner
    restoreToken retention retentionExpirationTime selfLink size softDeleteTime storageClass
    temporaryHold timeCreated timeDeleted timeFinalized timeStorageClassUpdated updated
"""
BUCKET_NAMES = """
    acl autoclass billing cors customPlacementConfig defaultEventBasedHold defaultObjectAcl
    encryption etag generation hardDeleteTime hierarchicalNamespace iamConfiguration id ipFilter
    kind labels lifecycle location locationType logging metageneration name objectRetention owner
    projectNumber retentionPolicy rpo satisfiesPZI satisfiesPZS selfLink softDeletePolicy
    softDeleteTime storageClass timeCreated updated versioning website
"""
OBJECT = frozenset(OBJECT_NAMES.split())
BUCKET = frozenset(BUCKET_NAMES.split())
KNOWN = {
    "storage#bucket": BUCKET,
    "storage#object": OBJECT,
    "storage#objects": frozenset({"items", "kind", "nextPageToken", "prefixes"}),
    "storage#testIamPermissionsResponse": frozenset({"kind", "permissions"}),
}


class UnknownField(Exception):
    """An unknown name in `fields`; the text is the name."""


def chosen_fields(kind: str, fields: str) -> Chosen:
    """Return the fields that `fields` selects in a response of a kind; raises UnknownField."""
    try:
        chosen = chosen_of(fields)
    except ApiError:
        raise UnknownField(fields) from None
    _check_names(KNOWN[kind], chosen)
    return chosen


def _check_names(known: frozenset[str], chosen: Chosen) -> None:
    for name, inner in chosen.items():
        if name not in known and name != "*":
            raise UnknownField(name)
        if name == "items":
            _check_names(OBJECT, inner)
