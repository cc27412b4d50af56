"""The official FOCUS validator reads an export, where it is installed.

It needs Python 3.12 and half a gigabyte, so `.ci/run` puts it into an environment of its own.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from service.application.costs.exports import ExportService
from service.domain.costs.charge import ChargeKind
from service.domain.costs.focus import Account, Version
from service.store.pricebook import PriceBookCache
from tests.api.costs.test_committed_exports import BASE
from tests.api.costs.test_exports import a_day
from tests.charges import read

HOME = Path(__file__).parents[3] / "var" / "focus-validator"
PROGRAM = HOME / "bin" / "focus-validator"

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(not PROGRAM.is_file(), reason="needs the official FOCUS validator"),
]


@pytest.fixture
def export(client, units, clock):
    """An export of nodes, a machine, a reservation, corrections and a commitment."""
    assert client.post("/v1/commitments", json=BASE).status_code == 201
    a_day(units, clock)

    def write(name="The lab"):
        account = Account.from_settings("012345-6789AB-CDEF01", "steward", name)
        exports = ExportService(units, PriceBookCache(), clock, account)
        return "".join(exports.export_focus(Version.V1_2, "2026-11-01,2026-12-01").pieces)

    return write


def broken_rules(text, tmp_path):
    """The rules of FOCUS 1.2 that a file breaks."""
    path = tmp_path / "focus.csv"
    path.write_text(text, encoding="utf-8", newline="")
    (packages,) = HOME.glob("lib/python3*/site-packages")
    done = subprocess.run(
        [
            *(str(PROGRAM), "--data-file", str(path), "--validate-version", "1.2"),
            *("--block-download", "--applicability-criteria", "ACCOUNT_NAMING_SUPPORTED"),
        ],
        cwd=packages,  # its rules are read from there
        capture_output=True,
        text=True,
        timeout=160,
        check=False,
    )
    verdicts = re.findall(r"^\S+ (\S+): (PASS|FAIL)", done.stdout, re.MULTILINE)
    assert sum(verdict == "PASS" for _, verdict in verdicts) > 100, done.stdout + done.stderr
    return {rule for rule, verdict in verdicts if verdict == "FAIL"}


def test_only_the_number_of_an_invoice_is_missing(export, tmp_path):
    text = export()
    assert {row["ResourceType"] for row in read(text)} == set(ChargeKind)
    assert broken_rules(text, tmp_path) == {"InvoiceId-C-005-C"}


def test_a_planted_fault_is_found(export, tmp_path):
    assert "BillingAccountName-C-003-C" in broken_rules(export(""), tmp_path)
    assert "BillingCurrency-C-004-M" in broken_rules(export().replace(",USD,", ",,"), tmp_path)
