"""Looks at several projects by one daemon."""

from __future__ import annotations

import pytest

from service.controllers.inventory import inventory
from tests import factories
from tests.controllers.conftest import Lab


def test_a_look_at_one_project_has_no_other_compared_anew(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing has changed on either side since both agreed, there is nothing to compare."""
    compared: list[int] = []
    compare = inventory.compare

    def counting(*sides: object) -> inventory.InventoryChanges:
        compared.append(1)
        return compare(*sides)  # type: ignore[arg-type]

    monkeypatch.setattr(inventory, "compare", counting)
    with lab.units() as unit:
        other = unit.leases.take("other", "first", 3_600)
    assert other is not None
    for _ in range(10):
        for lease in (lab.lease, other):
            lab.inventory.tick(lease)
    assert len(compared) == 2, "one for each project"
    with lab.units() as unit:
        unit.leases.release(lab.lease)
        again = unit.leases.take(factories.PROJECT, "later", 3_600)
    assert again is not None
    lab.inventory.tick(again)
    assert len(compared) == 3, "under another lease everything is compared"
