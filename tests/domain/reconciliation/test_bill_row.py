"""One row of a bill: read to the nano-dollar, and taken only where it is of our TPUs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from service.domain.errors import Rejected
from service.domain.reconciliation.bill_file import Shape, read_bill
from service.domain.reconciliation.bill_row import (
    BillRow,
    SkipReason,
    convert_nanos,
    parse_instant,
    parse_nanos,
)
from service.domain.reconciliation.bill_sku import CLOUD_TPU, COMMITMENT, COMPUTE, BillSku, tpu_sku
from tests.bills import csv_of, detailed_csv, flat, focus_csv, json_lines, row

MIDNIGHT = 1_793_491_200  # 2026-11-01T00:00:00Z


def rows_of(content, *, pieces=65_536):
    chunks = [content[at : at + pieces] for at in range(0, len(content), pieces)]
    return [read.row for read in read_bill(chunks, ["lab"])[1]]


def only(**changes):
    """What is made of one row, which both kinds of file have to agree on."""
    one = row(**changes)
    (left,), (right,) = rows_of(json_lines([one])), rows_of(detailed_csv([one]))
    if isinstance(left, BillRow):
        assert isinstance(right, BillRow)
        assert (left.cost, left.credits, left.hour) == (right.cost, right.credits, right.hour)
    else:
        assert left == right
    return left


@pytest.mark.parametrize(
    ("said", "amount"),
    [
        ("9.6", 9_600_000_000),
        ("1.3500000000000001", 1_350_000_000),
        ("0.0000000005", 0),
        ("0.0000000015", 2),
        ("-1.2E-05", -12_000),
        ("0", 0),
        ("9223372036.854775807", 2**63 - 1),
    ],
)
def test_an_amount_is_read_exactly_and_rounded_half_to_even_beyond_the_ninth_place(said, amount):
    assert parse_nanos(said) == amount


@pytest.mark.parametrize(
    "said",
    ["", "free", "NaN", "Infinity", "1e999999999", "1e10", "1,200.00", "1_000", "\uff11\uff12"],
)
def test_what_is_no_amount_is_refused(said):
    with pytest.raises(ValueError, match=r"not a number|not a finite|more than can be stored"):
        parse_nanos(said)


@pytest.mark.parametrize(
    ("said", "rate", "amount"),
    [
        ("9.6", "1", 9_600_000_000),
        ("8.80608", "0.9173", 9_600_000_000),
        ("1", "0.9", 1_111_111_111),
        ("-1", "0.9", -1_111_111_111),
        ("0.000000001", "2", 0),
        ("0.000000003", "2", 2),
        ("0.000000005", "2", 2),
        ("-0.000000003", "2", -2),
        ("1500000", "16384.5", 91_549_940_493),
        ("1e-70", "0.9", 0),
    ],
)
def test_an_amount_is_divided_by_its_rate_exactly_and_rounded_once_half_to_even(said, rate, amount):
    assert convert_nanos(said, Decimal(rate)) == amount


def read_of(content):
    (read,) = read_bill([content], ["lab"])[1]
    return read


def test_a_row_in_another_currency_is_converted_by_its_own_rate_amount_by_amount():
    euro = row(
        cost="8.80608",
        cost_at_list="8.80608",
        currency="EUR",
        currency_conversion_rate="0.9173",
        credits=[
            {"type": "promotion", "amount": "-0.9173"},
            {"type": "COMMITTED_USAGE_DISCOUNT", "amount": "-1.8346"},
            {"amount": "-0.9173"},
        ],
    )
    found = read_of(json_lines([euro]))
    assert (found.row.cost, found.row.at_list, found.row.credits) == (9.6e9, 9.6e9, -4e9)
    assert found.amounts.credits == {
        "COMMITTED_USAGE_DISCOUNT": -2_000_000_000,
        "CREDIT_TYPE_UNSPECIFIED": -1_000_000_000,
        "PROMOTION": -1_000_000_000,
    }
    assert (found.amounts.local_cost, found.amounts.local_credits) == (8.80608e9, -3.6692e9)
    assert (found.amounts.currency, found.amounts.invoice) == ("EUR", "2026-11")


@pytest.mark.parametrize("rate", [None, "", "0", "-0.9", "NaN", "a lot", "1e99"])
def test_a_row_without_a_rate_is_not_converted_and_not_refused(rate):
    found = read_of(json_lines([row(currency="EUR", currency_conversion_rate=rate)]))
    assert not found.amounts.is_converted
    assert (found.row.cost, found.row.at_list, found.amounts.local_cost) == (0, None, 9.6e9)


@pytest.mark.parametrize(
    ("said", "month"), [("202611", "2026-11"), ("2026-11", "2026-11"), ("", "")]
)
def test_the_month_of_the_invoice_is_read_as_exports_write_it(said, month):
    assert read_of(json_lines([row(**{"invoice.month": said})])).amounts.invoice == month


@pytest.mark.parametrize(
    "said",
    [
        "2026-11-01 00:00:00 UTC",
        "2026-11-01T00:00:00Z",
        "2026-11-01 00:00:00",
        "2026-11-01 00:00:00.999999 UTC",
        "2026-11-01T01:00:00+01:00",
    ],
)
def test_an_instant_is_read_as_exports_write_it(said):
    assert parse_instant(said) == MIDNIGHT


@pytest.mark.parametrize(
    ("service", "description", "sku"),
    [
        (COMPUTE, "TpuV6e running in Dallas", BillSku("v6e", "on_demand")),
        (COMPUTE, "TPU7x running in Americas", BillSku("v7", "on_demand")),
        (
            COMPUTE,
            "TpuV5p attached to Spot Preemptible VMs running in Delhi",
            BillSku("v5p", "spot"),
        ),
        (COMPUTE, "DWS Defined Duration V6e running in Columbus", BillSku("v6e", "flex_start")),
        (COMPUTE, "DWS Defined Duration TPU7x running in X", BillSku("v7", "flex_start")),
        (COMPUTE, "Reserved TpuV5p in Delhi in Calendar Mode", BillSku("v5p", "reserved")),
        (COMPUTE, "Reserved V6e TPU in Columbus in Calendar Mode", BillSku("v6e", "reserved")),
        (COMPUTE, "Capacity Optimized TpuV6e running in Columbus", BillSku("v6e", "on_demand")),
        (COMPUTE, "Commitment v1: TpuV6e running in X for 1 Year", BillSku("v6e", COMMITMENT)),
        (COMPUTE, "TpuV9z of tomorrow", BillSku("", "")),
        (COMPUTE, "Nvidia L4 GPU running in Dallas", None),
        (COMPUTE, "N1 Predefined Instance Core running in Dallas", None),
        (COMPUTE, "Output of computing", None),
        (CLOUD_TPU, "TPU-v2 Accelerator USA", BillSku("v2", "on_demand", 4)),
        (CLOUD_TPU, "Tpu-v3 Pod Preemptible Accelerator Europe", BillSku("v3", "preemptible", 4)),
        (CLOUD_TPU, "Something new", BillSku("", "")),
        ("95FF-2EF5-5EA1", "TpuV6e running in Dallas", None),
    ],
)
def test_a_sku_is_told_by_its_service_and_by_how_its_description_begins(service, description, sku):
    assert tpu_sku(service, description) == sku


def test_a_row_says_who_used_what_when_and_for_how_much():
    found = only(credits=[{"amount": -1.25}, {"amount": -0.1}])
    assert (found.project, found.resource.rpartition("/")[2]) == ("lab", "run-1")
    assert (found.start, found.end, found.hour) == (MIDNIGHT, MIDNIGHT + 3_600, MIDNIGHT)
    assert (found.cost, found.credits, found.at_list) == (9_600_000_000, -1_350_000_000, 9.6e9)
    assert (found.generation, found.model, found.chip_seconds) == ("v5e", "on_demand", 28_800)


@pytest.mark.parametrize(
    ("changes", "chip_seconds"),
    [
        ({}, 28_800),
        ({"usage.unit": "requests"}, 28_800),
        ({"usage": {}}, None),
        ({"usage": {"amount_in_pricing_units": "0.3333333333333333", "pricing_unit": "h"}}, 1_200),
        (
            {
                "service.id": CLOUD_TPU,
                "sku.description": "TPU-v2 Accelerator USA",
                "usage": {"amount_in_pricing_units": 1, "pricing_unit": "hour"},
            },
            14_400,
        ),
    ],
)
def test_chip_seconds_come_from_the_first_quantity_that_is_one_of_time(changes, chip_seconds):
    (found,) = rows_of(json_lines([row(**changes)]))
    assert found.chip_seconds == chip_seconds


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({"project.id": "theirs"}, SkipReason.OTHER_PROJECT),
        ({"project.id": "theirs", "currency": "EUR"}, SkipReason.OTHER_PROJECT),
        ({"sku.description": "Nvidia L4 GPU running in Las Vegas"}, SkipReason.NOT_TPU),
        ({"service.id": "95FF-2EF5-5EA1"}, SkipReason.NOT_TPU),
    ],
)
def test_a_row_that_is_none_of_ours_is_passed_over(changes, made):
    assert only(**changes) is made


@pytest.mark.parametrize("kind", ["tax", "adjustment", "rounding_error"])
def test_what_is_no_usage_keeps_its_kind_wherever_it_belongs(kind):
    nobodys = {
        "cost_type": kind,
        "project": {"id": ""},
        "usage_end_time": "2026-12-01 00:00:00 UTC",
    }
    assert only(**nobodys).kind == kind
    assert only(cost_type=kind).kind == kind


def test_a_commitment_is_no_usage():
    assert only(**{"sku.description": "Commitment v1: TpuV5e running in X for 1 Year"}).kind == (
        COMMITMENT
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"usage_end_time": "2026-10-31 23:00:00 UTC"}, "ends at 2026-10-31 23:00:00 UTC, before"),
        ({"usage_end_time": "2026-11-01 02:00:00 UTC"}, "more than one UTC hour"),
        ({"usage_start_time": "yesterday"}, "usage_start_time 'yesterday' is not a timestamp"),
        ({"currency": "Dollars"}, "currency is 'DOLLARS'"),
        ({"invoice.month": "2026-13"}, "invoice_month '2026-13' is not a month"),
        ({"project.id": "theirs", "cost": "a lot"}, "cost: 'a lot' is not a number"),
        ({"credits": [{"amount": 1, "type": "a\0b"}]}, "is not a kind of credit"),
        ({"cost": "a lot"}, "cost: 'a lot' is not a number"),
        ({"cost_at_list": "1e400"}, "cost_at_list"),
        ({"credits": [{"name": "no amount"}]}, "credits cannot be read"),
        ({"credits": [{"amount": "-9e9"}, {"amount": "-9e9"}]}, "more than can be stored"),
        ({"usage_end_time": "9999-12-31 23:59:59 UTC"}, "is not a timestamp such as"),
        ({"export_time": "0001-01-01 00:00:00 UTC"}, "is not a timestamp such as"),
        ({"resource.global_name": "a\0b"}, "resource_global_name 'a\\x00b' is not text"),
        ({"sku.id": "a\0b"}, "sku_id 'a\\x00b' is not text"),
        ({"sku.description": "TpuV5e running in " + "x" * 2_000}, "2,000 characters at most"),
        ({"cost_type": "a\0b"}, "cost_type 'a\\x00b' is not text"),
        ({"labels": [{"key": "steward-id", "value": "a\0b"}]}, "labels 'a\\x00b' is not text"),
    ],
)
def test_a_row_that_cannot_be_is_told_by_its_number(changes, told):
    for content, number in (
        (json_lines([row(), row(**changes)]), 2),
        (detailed_csv([row(), row(**changes)]), 3),
    ):
        with pytest.raises(Rejected, match=rf"^row {number}: ") as error:
            rows_of(content)
        assert told in str(error.value)
        assert error.value.facts["row"] == number


def test_our_label_on_a_resource_names_the_node():
    assert only(
        labels=[{"key": "a", "value": "b"}, {"key": "steward-id", "value": "n7"}]
    ).node_id == ("n7")


def test_every_kind_of_file_is_known_by_what_it_holds():
    for content, shape in (
        (detailed_csv([row()]), Shape.CSV),
        (detailed_csv([row()], "_"), Shape.CSV),
        (b"\xef\xbb\xbf" + detailed_csv([row()]), Shape.CSV),
        (json_lines([row()]), Shape.JSON_LINES),
        (focus_csv([row()]), Shape.FOCUS_CSV),
    ):
        found, reads = read_bill([content], ["lab"])
        (one,) = [read.row for read in reads]
        assert isinstance(one, BillRow)
        assert (found, one.cost, one.at_list) == (shape, 9_600_000_000, 9_600_000_000)
        assert (one.sku_id, one.generation, one.chip_seconds) == ("04C3-5B71-D137", "v5e", 28_800)


def test_what_focus_calls_billed_is_net_of_credits():
    header, line = focus_csv([row()]).decode().splitlines()
    content = f"{header},ContractedCost\n{line},10.0\n".encode()
    (one,) = rows_of(content)
    assert (one.cost, one.credits) == (10_000_000_000, -400_000_000)


@pytest.mark.parametrize("gone", [["cost"], ["service.id", "currency"], ["resource.name"]])
def test_missing_columns_are_all_named_at_once(gone):
    cells = flat(row())
    resource = ["resource.global_name"] if gone == ["resource.name"] else []
    content = csv_of([cells], [name for name in cells if name not in (*gone, *resource)])
    with pytest.raises(Rejected) as error:
        rows_of(content)
    named = [column.replace(".", "_") for column in resource or gone]
    missing: Any = error.value.facts["missing"]
    assert sorted(missing) == sorted(named)
    assert all(column in str(error.value) for column in named)


@pytest.mark.parametrize("gone", ["cost", "usage_start_time", "sku", "resource", "project"])
def test_missing_columns_are_named_in_json_lines_too(gone):
    one = row()
    del one[gone]
    with pytest.raises(Rejected, match=f"missing: .*{gone}"):
        rows_of(json_lines([one, one]))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        (b'[{"cost": 1}]', "one JSON array"),
        (b"{nonsense", "row 1: it is not JSON"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
        (b"\x1f\x8b\x08\x00", "not text in UTF-8"),
        (b"hello\nworld\n", "columns are missing"),
        (b"cost,cost\n", "duplicate columns: cost"),
        (b"{" + b" " * 2_000_000, "more than 1,048,576 characters"),
        (detailed_csv([row()]) + b"1,2,3\n", "row 3: it has 3 fields"),
        (detailed_csv([row()]) + b'"never closed', "row 3: it cannot be read"),
        (json_lines([row()]) + b"[1]\n", "row 2: it is not a JSON object"),
        (json_lines([row()]) + b"[" * 200_000, "row 2: it is not JSON"),
        (json_lines([row()]) + b'{"cost": ' + b"9" * 5_000 + b"}", "row 2: it is not JSON"),
        (json_lines([row(cost="QQ")]).replace(b'"QQ"', b"1e999999"), "row 1: cost: '1e999999'"),
        (
            json_lines([row(**{"sku.id": "QQ"})]).replace(b"QQ", b"\\ud800"),
            "row 1: sku_id '\\ud800' is not text",
        ),
        (b",".join(b"%d" % number for number in range(501)), "the file has 501 columns"),
    ],
)
def test_what_is_no_bill_is_refused_in_one_line(content, told):
    with pytest.raises(Rejected) as error:
        rows_of(content)
    assert told in str(error.value)
    assert len(str(error.value)) < 400


def test_where_the_bytes_are_cut_makes_no_difference():
    content = json_lines([row(**{"sku.description": "TpuV5e running in São Paulo"}), row()])
    assert rows_of(content, pieces=7) == rows_of(content)


def test_a_row_is_the_same_row_however_its_file_spells_it():
    one = row(
        cost=9.60,
        labels=[{"key": "b", "value": "2"}, {"key": "a", "value": "1"}],
        credits=[{"type": "PROMOTION", "amount": -1.50}],
    )
    other = row(
        cost="9.6",
        labels=[{"value": "1", "key": "a"}, {"key": "b", "value": "2"}],
        credits=[{"amount": "-1.5", "type": "PROMOTION"}],
    )
    known = {read_of(content).digest for content in (json_lines([one]), detailed_csv([other]))}
    assert known == {read_of(json_lines([other])).digest}


@pytest.mark.parametrize(
    "changes",
    [
        {"cost": 9.61},
        {"export_time": "2026-11-05 13:00:00 UTC"},
        {"usage_end_time": "2026-11-01 00:30:00 UTC"},
        {"resource.global_name": "another"},
        {"sku.id": "another"},
        {"labels": [{"key": "a", "value": "b"}]},
        {"credits": [{"type": "PROMOTION", "amount": 0}]},
        {"invoice.month": "202610"},
        {"currency_conversion_rate": 0.9},
        {"cost_type": "adjustment"},
    ],
)
def test_a_row_that_differs_in_what_tells_rows_apart_is_another_one(changes):
    assert read_of(json_lines([row(**changes)])).digest != read_of(json_lines([row()])).digest


@pytest.mark.parametrize(
    ("changes", "is_provable"),
    [({}, True), ({"export_time": None}, False), ({"resource": {}, "cost_type": "tax"}, False)],
)
def test_equal_rows_are_one_where_both_name_a_resource_and_their_batch(changes, is_provable):
    assert read_of(json_lines([row(**changes)])).is_provable is is_provable


def test_a_row_is_the_same_row_whatever_the_order_of_its_columns():
    cells = flat(row())
    contents = [csv_of([cells]), csv_of([cells], sorted(cells))]
    first, second = (next(read_bill([content], ["lab"])[1]).digest for content in contents)
    later = next(
        read_bill([csv_of([cells | {"export_time": "2026-11-06 00:00:00 UTC"}])], ["lab"])[1]
    )
    assert first == second != later.digest


def test_an_optional_column_that_is_empty_is_the_same_as_one_that_is_absent():
    cells = flat(row())
    optional = {"adjustment_info.id": "", "price.effective_price": "", "tags": "[]", "x_new": "y"}
    without, with_empty = (
        next(read_bill([csv_of([column])], ["lab"])[1]) for column in (cells, cells | optional)
    )
    assert without.digest == with_empty.digest


@pytest.mark.parametrize("cost", [True, [1], {}])
def test_a_cost_that_is_no_number_is_refused_after_a_row_that_looks_alike(cost):
    with pytest.raises(Rejected, match=r"^row 2: "):
        rows_of(json_lines([row(cost=1), row(cost=cost)]))
