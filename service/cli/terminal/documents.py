"""The fields of an answer as JSON, YAML or CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.cli.terminal.client import ApiAnswer
from service.cli.terminal.printing import Output, Printing
from service.cli.terminal.sorting import sort_documents
from service.domain.costs.csv_cell import format_cell

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
"""Plain words that YAML 1.1 or 1.2 reads as another type than text."""

_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


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
    writer.writerows([_format_field(row.get(name)) for name in names] for row in rows)
    return text.getvalue().removesuffix("\n")


def _format_field(value: object) -> str:
    if isinstance(value, (list, dict, bool)):
        return json.dumps(value, ensure_ascii=False)
    return format_cell(value)


def format_yaml(value: object) -> str:
    """The value, as `json` reads it, in YAML. Texts that YAML could read otherwise are quoted."""
    return "\n".join(_list_yaml_lines(value))


def _list_yaml_lines(value: object) -> Iterator[str]:
    """Lines of a value that is not inside another."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _list_entry_lines(f"{_format_scalar(str(name))}:", item)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _list_entry_lines("-", item)
    else:
        yield _format_scalar(value)


def _list_entry_lines(start: str, item: object) -> Iterator[str]:
    """Lines of an entry: `name: item`, or `- item`. The lines of a nested item are indented."""
    lines = list(_list_yaml_lines(item))
    if not (isinstance(item, (dict, list)) and item):
        yield f"{start} {lines[0]}"
    elif start == "-":
        yield f"- {lines[0]}"
        yield from (f"  {line}" for line in lines[1:])
    else:
        yield start
        yield from (f"  {line}" for line in lines)


def _format_scalar(value: object) -> str:
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
    text = json.dumps(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # YAML 1.1 reads 1e+22 as text
    return text
