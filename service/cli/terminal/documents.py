"""The fields of an answer as JSON, YAML or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from service.cli.terminal.client import ApiAnswer
from service.cli.terminal.printing import Output, Printing
from service.cli.terminal.sorting import sort_documents
from service.domain.costs.csv_cell import format_cell

_WIDEST = 2**31 - 1
"""Width of a line of YAML: none is folded."""

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The writer of YAML: in C, where PyYAML has it, which takes a fifth of the time."""


def format_answer(answer: ApiAnswer, printing: Printing) -> str:
    """The answer in the format of `printing`. JSON is the text of the API, unless it is sorted."""
    value, name = answer.value, find_list(answer.value)
    if printing.sort_by and name is not None:
        value = {**value, name: list(sort_documents(value[name], printing.sort_by))}
    if printing.output is Output.YAML:
        return format_yaml(value)
    if printing.output is Output.CSV:
        rows = [value] if name is None else value[name]
        return format_csv(rows, has_headings=printing.has_headings)
    return answer.text if value is answer.value else json.dumps(value, ensure_ascii=False)


def find_list(value: Mapping[str, Any]) -> str | None:
    """Name of the field that has the resources of a list. None if the answer is one resource."""
    lists = {name: items for name, items in value.items() if isinstance(items, list)}
    for name, items in lists.items():
        if items and all(isinstance(item, dict) for item in items):
            return name
    return next((name for name, items in lists.items() if not items), None)


def format_csv(rows: Sequence[Mapping[str, Any]], *, has_headings: bool) -> str:
    """A line for each resource, with a column for each field. Lists and objects are JSON in their
    cell."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if has_headings and names:
        writer.writerow(names)
    for row in rows:
        values = [row.get(name) for name in names]
        writer.writerow(
            json.dumps(value, ensure_ascii=False)
            if isinstance(value, (list, dict, bool))
            else format_cell(value)
            for value in values
        )
    return text.getvalue().removesuffix("\n")


def format_yaml(value: object) -> str:
    """The value, as `json` reads it, in YAML. Texts that YAML could read otherwise are quoted."""
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        allow_unicode=True,
        default_flow_style=False,
        sort_keys=False,
        width=_WIDEST,
    )
    return str(text).removesuffix("\n").removesuffix("\n...")
