"""The discovery document that the emulator makes says what Google's own says, but for the texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.emulator.api.methods import VERSIONS
from service.emulator.surfaces.discovery import get_document

ADDRESS = "http://127.0.0.1:1/"
TEXTS = {"description", "enumDescriptions"}
# Which methods, fields and values are deprecated is told by Google's documents alone.
DEPRECATIONS = {"deprecated", "enumDeprecated"}
SAYS_OUTPUT_ONLY = "Google's client says 'Output only.' of it, Google's document does not"
KNOWN_DIFFERENCES = {
    "baseUrl": "the emulator's address",
    "rootUrl": "the emulator's address",
    "mtlsRootUrl": "the emulator's address",
    "documentationLink": "a page of Google's about Google's own API",
    "icons": "pictures of Google's",
    "revision": "the day on which Google made its document",
    "schemas.Node.properties.ipAddress.readOnly": SAYS_OUTPUT_ONLY,
    "schemas.Node.properties.port.readOnly": SAYS_OUTPUT_ONLY,
}


def facts(value):
    """Leave out the texts of a document; a property may be named like one."""
    if isinstance(value, list):
        return [facts(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: facts(inner)
        for key, inner in value.items()
        if key not in TEXTS | DEPRECATIONS or isinstance(inner, dict)
    }


def differences(ours, theirs, path=""):
    """Name whatever only one document has, or each has with another value."""
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, dict) and isinstance(other, dict):
            yield from differences(mine, other, f"{path}{key}.")
        elif mine != other:
            yield f"{path}{key}"


@pytest.fixture(scope="module")
def found():
    """What differs, by version."""
    client = pytest.importorskip(
        "googleapiclient", reason="google-api-python-client, which has Google's own, is absent"
    )
    folder = Path(client.__file__).parent / "discovery_cache" / "documents"
    theirs = {each: json.loads((folder / f"tpu.{each}.json").read_bytes()) for each in VERSIONS}
    ours = {each: get_document(each, ADDRESS) for each in VERSIONS}
    return {each: {*differences(facts(ours[each]), facts(theirs[each]))} for each in VERSIONS}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_document_says_what_googles_says(found, version):
    assert found[version] - set(KNOWN_DIFFERENCES) == set()


def test_no_difference_is_listed_that_is_gone(found):
    assert set(KNOWN_DIFFERENCES) - set().union(*found.values()) == set()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_reference_of_a_document_leads_somewhere(version):
    made = get_document(version, ADDRESS)
    assert set(references(made)) - set(made["schemas"]) == set()
    assert {"Node", "Operation", "OperationMetadata"} <= set(made["schemas"])


def test_two_callers_with_other_addresses_do_not_meet():
    first, second = get_document("v2", ADDRESS), get_document("v2", "http://127.0.0.1:2/")
    assert (first["rootUrl"], second["rootUrl"]) == (ADDRESS, "http://127.0.0.1:2/")


def references(value):
    """Name every schema that a document refers to."""
    if isinstance(value, list):
        for each in value:
            yield from references(each)
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
