"""The API reference: the OpenAPI document of the app, as pages for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from shlex import quote as shell_quote
from typing import Any
from urllib.parse import quote, urlencode

from markdown_it import MarkdownIt
from markupsafe import Markup

from service.dashboard.kit.sample_values import Sampler, Schema, named
from service.dashboard.pages.manual import LONGEST_QUERY, SearchHit, Section, hits_in
from service.domain.errors import NotFound

PATH = "/docs"
_LOCAL = "http://127.0.0.1:8080"
_JSON = "application/json"
_UNSAID = "Successful Response"
"""What FastAPI says of an answer of which the route says nothing."""

_LONGEST_PATTERN = 40
"""Longer patterns say less to people than the description of the field."""

_LONGEST_LINE = 72
"""Characters of a body that a sample shows on one line."""

_MOST_VALUES = 16
"""Values of an enumeration that are listed beside the type."""

_MARKDOWN = MarkdownIt("commonmark", {"html": False})


@dataclass(frozen=True, slots=True)
class TypePiece:
    """Part of the name of a type; `object` is the object that it links to, if it is one."""

    text: str
    object: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of an object. `where` is empty for a field."""

    name: str
    type: tuple[TypePiece, ...]
    is_required: bool
    limits: tuple[str, ...]
    default: str
    text: Markup
    where: str = ""


@dataclass(frozen=True, slots=True)
class Object:
    """A named object with its fields."""

    name: str
    text: Markup
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class ProblemEntry:
    """A kind of problem, with the address that says what to do next."""

    status: str
    slug: str
    title: str
    address: str


@dataclass(frozen=True, slots=True)
class OperationAnswer:
    """A successful answer. `example` is JSON, or empty for other media types."""

    status: str
    text: str
    media_types: tuple[str, ...]
    type: tuple[TypePiece, ...]
    example: str


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One method of one path. `problems` are those that not every operation can answer."""

    id: str
    method: str
    path: str
    title: str
    text: Markup
    parameters: tuple[Field, ...]
    body: Object | None
    body_note: str
    answers: tuple[OperationAnswer, ...]
    problems: tuple[ProblemEntry, ...]
    curl: str


@dataclass(frozen=True, slots=True)
class OperationGroup:
    """The operations of a tag, and the objects that they take and return."""

    name: str
    text: Markup
    operations: tuple[ApiOperation, ...]
    objects: tuple[Object, ...]

    @property
    def address(self) -> str:
        """Where the group is shown."""
        return f"{PATH}/{self.name}"

    @property
    def title(self) -> str:
        """The name as a heading."""
        return self.name.capitalize()

    @property
    def sections(self) -> Sequence[Section]:
        """What a search looks through."""
        return [*map(_searched_operation, self.operations), *map(_searched_object, self.objects)]


@dataclass(frozen=True, slots=True)
class ReferencePage:
    """What a visitor sees: the contents, a group, or what was found."""

    reference: Reference
    group: OperationGroup | None = None
    query: str = ""
    hits: tuple[SearchHit, ...] = ()


class Reference:
    """The pages of one OpenAPI document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        components = document.get("components", {})
        self._schemas: Mapping[str, Schema] = components.get("schemas", {})
        self._sampler = Sampler(self._schemas)
        self.text = markdown(document.get("info", {}).get("description", ""))
        self._problem_of = {
            key: _problem(example["value"])
            for key, example in components.get("examples", {}).items()
        }
        self.groups = tuple(map(self._group, document.get("tags", ())))

    @property
    def problems(self) -> tuple[ProblemEntry, ...]:
        """Every kind of problem, by status."""
        return _by_status(self._problem_of.values())

    def page(self, name: str) -> ReferencePage:
        """The page of a group. Raises NotFound for an unknown name."""
        for group in self.groups:
            if group.name == name:
                return ReferencePage(self, group)
        raise NotFound(f"the API reference has no group {name[:80]!r}")

    def search(self, query: str) -> ReferencePage:
        """The operations and objects in which every word of the query occurs; all groups for an
        empty query."""
        asked = query[:LONGEST_QUERY].strip()
        return ReferencePage(self, query=asked, hits=hits_in(self.groups, asked))

    @cached_property
    def common(self) -> tuple[ProblemEntry, ...]:
        """The problems that every operation can answer."""
        answered = [self._problem_keys(one) for one in self._operations()]
        shared = set.intersection(*answered) if answered else set()
        return _by_status(one for key, one in self._problem_of.items() if key in shared)

    def _operations(self) -> Iterator[Mapping[str, Any]]:
        for methods in self._document.get("paths", {}).values():
            yield from methods.values()

    def _group(self, tag: Mapping[str, str]) -> OperationGroup:
        found = [
            (path, method, operation)
            for path, methods in self._document["paths"].items()
            for method, operation in methods.items()
            if operation["tags"] == [tag["name"]]
        ]
        sent = self._reached([operation.get("requestBody") for _, _, operation in found])
        names = sent | self._reached([operation for _, _, operation in found])
        return OperationGroup(
            tag["name"],
            markdown(tag.get("description", "")),
            tuple(self._operation(*one) for one in found),
            tuple(self._object(name, is_sent=name in sent) for name in sorted(names)),
        )

    def _reached(self, part: Any) -> set[str]:
        """The names of the objects that the part refers to, directly or through others."""
        found, waiting = set[str](), list(_references(part))
        while waiting:
            name = waiting.pop()
            if name not in found and name in self._schemas and name != "Problem":
                found.add(name)
                waiting += _references(self._schemas[name])
        return {name for name in found if "properties" in self._schemas[name]}

    def _operation(self, path: str, method: str, operation: Mapping[str, Any]) -> ApiOperation:
        body, note = self._body(operation)
        keys = self._problem_keys(operation)
        problems = [one for key, one in self._problem_of.items() if key in keys]
        return ApiOperation(
            id=operation["operationId"],
            method=method.upper(),
            path=path,
            title=operation["summary"],
            text=markdown(operation.get("description", "")),
            parameters=tuple(map(self._parameter, operation.get("parameters", ()))),
            body=body,
            body_note=note,
            answers=tuple(self._answers(operation)),
            problems=_by_status(one for one in problems if one not in self.common),
            curl=self._curl(path, method.upper(), operation),
        )

    def _body(self, operation: Mapping[str, Any]) -> tuple[Object | None, str]:
        """The object that the body is, and what else there is to know of the body."""
        request = operation.get("requestBody")
        if request is None:
            return None, ""
        ((media_type, content),) = request["content"].items()
        note = "" if request.get("required") else "The body may be left out."
        references = list(_references(content["schema"]))
        if not references:
            return None, f"The body is a file, sent as {media_type}."
        return self._object(references[0], is_sent=True), note

    def _object(self, name: str, *, is_sent: bool) -> Object:
        """`is_sent` says that callers send it; of an answer, every field is there."""
        schema = self._schemas[name]
        required = schema.get("required", ()) if is_sent else ()
        fields = schema.get("properties", {}).items()
        return Object(
            name,
            markdown(schema.get("description", "")),
            tuple(self._field(key, one, is_required=key in required) for key, one in fields),
        )

    def _parameter(self, parameter: Mapping[str, Any]) -> Field:
        described = {"description": parameter.get("description", ""), **parameter["schema"]}
        return self._field(
            parameter["name"],
            described,
            is_required=parameter.get("required", False),
            where=parameter["in"],
        )

    def _field(self, name: str, schema: Schema, *, is_required: bool, where: str = "") -> Field:
        default = schema.get("default")
        return Field(
            name,
            tuple(self._type(schema)),
            is_required,
            tuple(self._limits(schema)),
            "" if default in (None, "", [], {}) else json.dumps(default),
            markdown(schema.get("description", "")),
            where,
        )

    def _type(self, schema: Schema) -> Iterator[TypePiece]:
        if "anyOf" in schema:
            choices = sorted(schema["anyOf"], key=lambda one: one.get("type") == "null")
            for number, choice in enumerate(choices):
                if number:
                    yield TypePiece(" or ")
                yield from self._type(choice)
        elif "$ref" in schema:
            target = self._schemas[named(schema)]
            is_object = "properties" in target
            yield (
                TypePiece(named(schema), named(schema)) if is_object else TypePiece(target["type"])
            )
        elif schema.get("type") == "array":
            yield TypePiece("list of ")
            yield from self._type(schema["items"])
        elif isinstance(schema.get("additionalProperties"), Mapping):
            yield TypePiece("map of string to ")
            yield from self._type(schema["additionalProperties"])
        else:
            yield TypePiece(str(schema.get("type", "any")))

    def _limits(self, schema: Schema) -> Iterator[str]:
        """What a value has to be, in words."""
        for choice in schema.get("anyOf", ()):
            yield from self._limits(choice)
        if "$ref" in schema:
            yield from self._limits({"enum": self._schemas[named(schema)].get("enum", ())})
        if values := schema.get("enum", ()):
            shown = [json.dumps(one) if one == "" else str(one) for one in values]
            more = len(shown) - _MOST_VALUES
            yield ", ".join(shown[:_MOST_VALUES]) + (f" and {more} more" if more > 0 else "")
        yield from limits_of(schema)
        if schema.get("type") == "array":
            values = schema["items"]
            yield from (
                self._limits(values) if "$ref" in values else map(_of_each, self._limits(values))
            )

    def _answers(self, operation: Mapping[str, Any]) -> Iterator[OperationAnswer]:
        for status, answer in operation["responses"].items():
            if status >= "400":  # "default" as well
                continue
            contents = answer.get("content", {})
            schema = contents.get(_JSON, {}).get("schema")
            example = "" if schema is None else _pretty(self._sampler.sample(schema))
            yield OperationAnswer(
                status,
                answer["description"].removeprefix(_UNSAID),
                tuple(contents),
                () if schema is None else tuple(self._type(schema)),
                example,
            )

    def _problem_keys(self, operation: Mapping[str, Any]) -> set[str]:
        """The keys of the problem examples that the operation can answer."""
        return {
            key
            for answer in operation["responses"].values()
            for content in answer.get("content", {}).values()
            for key in content.get("examples", ())
        }

    def _curl(self, path: str, method: str, operation: Mapping[str, Any]) -> str:
        """A command that sends the request. Capitals in the address are to be replaced."""
        address = _LOCAL + re.sub(r"{(\w+)}", lambda found: found[1].upper(), path)
        wanted = [
            (one["name"], self._sampler.sample(one["schema"], one["name"]))
            for one in operation.get("parameters", ())
            if one["in"] == "query" and one.get("required")
        ]
        if wanted:
            address += f"?{urlencode(wanted, quote_via=quote)}"
        content = operation.get("requestBody", {}).get("content", {})
        lines = list(_data(content))
        is_plain = method == ("POST" if lines else "GET")
        how = "" if is_plain else f"-X {method} "
        return " \\\n  ".join([f"curl {how}{shell_quote(address)}", *lines])


def _data(content: Mapping[str, Any]) -> Iterator[str]:
    """The arguments of curl that send a body."""
    for media_type, one in content.items():
        yield f"-H 'Content-Type: {media_type}'"
        yield f"-d {_quoted(one['example'])}" if "example" in one else "--data-binary @bill.csv"


def _quoted(body: Any) -> str:
    """A body for the shell, on one line if it is short."""
    line = json.dumps(body)
    return shell_quote(line if len(line) <= _LONGEST_LINE else _pretty(body))


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _of_each(limit: str) -> str:
    """A limit of what a list holds, told from one of the list."""
    return f"each {limit}" if limit.startswith("at ") else limit


def limits_of(schema: Schema) -> Iterator[str]:
    """The bounds of a number, a text or a list, in words."""
    unit = {"string": " characters", "array": " items"}.get(str(schema.get("type")), "")
    names = ("minLength", "minItems", "minimum"), ("maxLength", "maxItems", "maximum")
    least, most = (next((schema[one] for one in some if one in schema), None) for some in names)
    if least is not None and most is not None:
        yield f"{_number(least)} to {_number(most)}{unit}"
    elif least is not None:
        yield f"at least {_number(least)}{unit}"
    elif most is not None:
        yield f"at most {_number(most)}{unit}"
    if "exclusiveMinimum" in schema:
        yield f"more than {_number(schema['exclusiveMinimum'])}"
    if "format" in schema:
        yield str(schema["format"])
    if len(pattern := schema.get("pattern", "")) in range(1, _LONGEST_PATTERN):
        yield f"matches {pattern}"


def _number(value: float) -> str:
    """A bound of a schema, which pydantic writes as a fraction at times."""
    return str(int(value)) if value == int(value) else str(value)


def _by_status(problems: Iterable[ProblemEntry]) -> tuple[ProblemEntry, ...]:
    return tuple(sorted(problems, key=lambda one: one.status))


def _problem(document: Mapping[str, Any]) -> ProblemEntry:
    slug = document["type"].rpartition(":")[2]
    return ProblemEntry(str(document["status"]), slug, document["title"], document["help"])


def _references(part: Any) -> Iterator[str]:
    """The names of the schemas that a part of the document refers to."""
    if isinstance(part, Mapping):
        if "$ref" in part and "/schemas/" in part["$ref"]:
            yield named(part)
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, Sequence) and not isinstance(part, str):
        for value in part:
            yield from _references(value)


def _searched_operation(one: ApiOperation) -> Section:
    fields = [*one.parameters, *(one.body.fields if one.body else ())]
    words = [f"{one.method} {one.path}.", one.text.striptags(), *map(_words, fields)]
    return Section(one.id, one.title, 2, " ".join(filter(None, words)))


def _searched_object(one: Object) -> Section:
    words = [one.text.striptags(), *map(_words, one.fields)]
    return Section(one.name, one.name, 2, " ".join(filter(None, words)))


def _words(field: Field) -> str:
    said = field.text.striptags()
    return f"{field.name}: {said}" if said else f"{field.name}."


def markdown(text: str) -> Markup:
    """A description of the document as HTML. Raw HTML in it stays text."""
    return Markup(_MARKDOWN.render(text))  # noqa: S704 - raw HTML is escaped
