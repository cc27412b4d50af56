"""The role of the service: the permissions that it asks for are those that it needs."""

from __future__ import annotations

from pathlib import Path

ROLE = Path(__file__).parents[1] / "deploy" / "iam" / "steward-role.yaml"


def test_the_role_may_read_what_nodes_do_and_what_became_of_them():
    granted = {
        line.strip("- \n") for line in ROLE.read_text().splitlines() if line.startswith("  - ")
    }
    assert {"monitoring.timeSeries.list", "logging.logEntries.list"} <= granted
    assert {f"tpu.nodes.{verb}" for verb in ("create", "delete", "get", "list", "stop")} <= granted
    assert not {name for name in granted if name.startswith(("iam.", "compute."))}
