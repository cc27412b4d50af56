"""The API reference: pages for people, made from the OpenAPI document of the app."""

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

from service.dashboard.kit.sample_values import Sampler, Schema, referenced_name
from service.dashboard.pages.manual import LONGEST_QUERY, SearchHit, Section, find_hits
from service.domain.errors import NotFound

PATH = "/docs"
_LOCAL = "http://127.0.0.1:8080"
_JSON = "application/json"
_UNSAID = "Successful Response"
"""FastAPI's description of an answer that the route does not describe."""

_LONGEST_PATTERN = 40
"""The first length of a pattern that is not shown: the field's description is clearer to people."""

_LONGEST_LINE = 72
"""The most characters of a body that a sample shows on one line."""

_MOST_VALUES = 16
"""The most values of an enumeration that are listed beside the type."""

_MARKDOWN = MarkdownIt("commonmark", {"html": False})


@dataclass(frozen=True, slots=True)
class TypePiece:
    """Part of the name of a type; `object` is the name of the object that it links to, if any."""

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
    """A kind of problem, with the address of the section that says what to do next."""

    status: str
    slug: str
    title: str
    address: str


@dataclass(frozen=True, slots=True)
class OperationAnswer:
    """A successful answer. `example` is JSON, empty for other media types."""

    status: str
    text: str
    media_types: tuple[str, ...]
    type: tuple[TypePiece, ...]
    example: str


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One method of one path. `problems` are those that only some operations can answer."""

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
        """The address of the group's page."""
        return f"{PATH}/{self.name}"

    @property
    def title(self) -> str:
        """The name as a heading."""
        return self.name.capitalize()

    @property
    def sections(self) -> Sequence[Section]:
        """The texts that a search looks through: one section for each operation and object."""
        found = []
        for operation in self.operations:
            fields = [*operation.parameters, *(operation.body.fields if operation.body else ())]
            words = [
                f"{operation.method} {operation.path}.",
                operation.text.striptags(),
                *map(_describe_field, fields),
            ]
            text = " ".join(filter(None, words))
            found.append(Section(operation.id, operation.title, 2, text))
        for thing in self.objects:
            words = [thing.text.striptags(), *map(_describe_field, thing.fields)]
            found.append(Section(thing.name, thing.name, 2, " ".join(filter(None, words))))
        return found


@dataclass(frozen=True, slots=True)
class ReferencePage:
    """Everything on the page: the contents, a group, or the search results."""

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
        self.text = render_markdown(document.get("info", {}).get("description", ""))
        self._problem_of: dict[str, ProblemEntry] = {}
        for key, example in components.get("examples", {}).items():
            problem = example["value"]
            slug = problem["type"].rpartition(":")[2]
            self._problem_of[key] = ProblemEntry(
                str(problem["status"]), slug, problem["title"], problem["help"]
            )

        groups = []
        for tag in document.get("tags", ()):
            found = [
                (path, method, operation)
                for path, methods in document["paths"].items()
                for method, operation in methods.items()
                if operation["tags"] == [tag["name"]]
            ]
            bodies = [operation.get("requestBody") for _, _, operation in found]
            sent = self._reachable_names(bodies)
            names = sent | self._reachable_names([operation for _, _, operation in found])
            group = OperationGroup(
                tag["name"],
                render_markdown(tag.get("description", "")),
                tuple(self._build_operation(*parts) for parts in found),
                tuple(self._build_object(name, is_sent=name in sent) for name in sorted(names)),
            )
            groups.append(group)
        self.groups = tuple(groups)

    @property
    def problems(self) -> tuple[ProblemEntry, ...]:
        """Every kind of problem, by status."""
        return _by_status(self._problem_of.values())

    def get_group_page(self, name: str) -> ReferencePage:
        """The page of a group. Raises NotFound for an unknown name."""
        for group in self.groups:
            if group.name == name:
                return ReferencePage(self, group)
        raise NotFound(f"the API reference has no group {name[:80]!r}")

    def build_search_page(self, query: str) -> ReferencePage:
        """The operations and objects in which every word of the query occurs; all groups for an
        empty query."""
        asked = query[:LONGEST_QUERY].strip()
        return ReferencePage(self, query=asked, hits=find_hits(self.groups, asked))

    @cached_property
    def common(self) -> tuple[ProblemEntry, ...]:
        """The problems that every operation can answer."""
        answered = [
            self._problem_keys(operation)
            for methods in self._document.get("paths", {}).values()
            for operation in methods.values()
        ]
        shared = set.intersection(*answered) if answered else set()
        return _by_status(problem for key, problem in self._problem_of.items() if key in shared)

    def _reachable_names(self, part: Any) -> set[str]:
        """The names of the objects that the part refers to, directly or through others."""
        found, waiting = set[str](), list(_referenced_names(part))
        while waiting:
            name = waiting.pop()
            if name not in found and name in self._schemas and name != "Problem":
                found.add(name)
                waiting += _referenced_names(self._schemas[name])
        return {name for name in found if "properties" in self._schemas[name]}

    def _build_operation(
        self, path: str, method: str, operation: Mapping[str, Any]
    ) -> ApiOperation:
        body, note = None, ""
        if (request := operation.get("requestBody")) is not None:
            ((media_type, content),) = request["content"].items()
            note = "" if request.get("required") else "The body may be left out."
            if names := list(_referenced_names(content["schema"])):
                body = self._build_object(names[0], is_sent=True)
            else:
                note = f"The body is a file, sent as {media_type}."
        keys = self._problem_keys(operation)
        problems = [problem for key, problem in self._problem_of.items() if key in keys]
        answers = []
        for status, answer in operation["responses"].items():
            if status >= "400":  # "default" as well
                continue
            contents = answer.get("content", {})
            schema = contents.get(_JSON, {}).get("schema")
            answers.append(
                OperationAnswer(
                    status,
                    answer["description"].removeprefix(_UNSAID),
                    tuple(contents),
                    () if schema is None else tuple(self._type_pieces(schema)),
                    "" if schema is None else _pretty_json(self._sampler.make_value(schema)),
                )
            )
        return ApiOperation(
            id=operation["operationId"],
            method=method.upper(),
            path=path,
            title=operation["summary"],
            text=render_markdown(operation.get("description", "")),
            parameters=tuple(
                self._build_field(
                    parameter["name"],
                    {"description": parameter.get("description", ""), **parameter["schema"]},
                    is_required=parameter.get("required", False),
                    where=parameter["in"],
                )
                for parameter in operation.get("parameters", ())
            ),
            body=body,
            body_note=note,
            answers=tuple(answers),
            problems=_by_status(problem for problem in problems if problem not in self.common),
            curl=self._build_curl(path, method.upper(), operation),
        )

    def _build_object(self, name: str, *, is_sent: bool) -> Object:
        """The object of a schema. `is_sent` is True if callers send it; of an answer, every field
        is there."""
        schema = self._schemas[name]
        required = schema.get("required", ()) if is_sent else ()
        fields = schema.get("properties", {}).items()
        return Object(
            name,
            render_markdown(schema.get("description", "")),
            tuple(
                self._build_field(key, field, is_required=key in required) for key, field in fields
            ),
        )

    def _build_field(
        self, name: str, schema: Schema, *, is_required: bool, where: str = ""
    ) -> Field:
        default = schema.get("default")
        return Field(
            name,
            tuple(self._type_pieces(schema)),
            is_required,
            tuple(self._describe_limits(schema)),
            "" if default in (None, "", [], {}) else json.dumps(default),
            render_markdown(schema.get("description", "")),
            where,
        )

    def _type_pieces(self, schema: Schema) -> Iterator[TypePiece]:
        if "anyOf" in schema:
            choices = sorted(schema["anyOf"], key=lambda choice: choice.get("type") == "null")
            for number, choice in enumerate(choices):
                if number:
                    yield TypePiece(" or ")
                yield from self._type_pieces(choice)
        elif "$ref" in schema:
            target = self._schemas[referenced_name(schema)]
            is_object = "properties" in target
            yield (
                TypePiece(referenced_name(schema), referenced_name(schema))
                if is_object
                else TypePiece(target["type"])
            )
        elif schema.get("type") == "array":
            yield TypePiece("list of ")
            yield from self._type_pieces(schema["items"])
        elif isinstance(schema.get("additionalProperties"), Mapping):
            yield TypePiece("map of string to ")
            yield from self._type_pieces(schema["additionalProperties"])
        else:
            yield TypePiece(str(schema.get("type", "any")))

    def _describe_limits(self, schema: Schema) -> Iterator[str]:
        """The limits of a value, in words."""
        for choice in schema.get("anyOf", ()):
            yield from self._describe_limits(choice)
        if "$ref" in schema:
            yield from self._describe_limits(
                {"enum": self._schemas[referenced_name(schema)].get("enum", ())}
            )
        if values := schema.get("enum", ()):
            shown = [json.dumps(value) if value == "" else str(value) for value in values]
            more = len(shown) - _MOST_VALUES
            yield ", ".join(shown[:_MOST_VALUES]) + (f" and {more} more" if more > 0 else "")
        yield from describe_limits(schema)
        if schema.get("type") == "array":
            values = schema["items"]
            for limit in self._describe_limits(values):
                # "each" tells a bound of the elements from one of the list.
                is_bound = "$ref" not in values and limit.startswith("at ")
                yield f"each {limit}" if is_bound else limit

    def _problem_keys(self, operation: Mapping[str, Any]) -> set[str]:
        """The keys of the problem examples that the operation can answer."""
        return {
            key
            for answer in operation["responses"].values()
            for content in answer.get("content", {}).values()
            for key in content.get("examples", ())
        }

    def _build_curl(self, path: str, method: str, operation: Mapping[str, Any]) -> str:
        """A command that sends the request. Capitals in the address are to be replaced."""
        address = _LOCAL + re.sub(r"{(\w+)}", lambda found: found[1].upper(), path)
        wanted = [
            (parameter["name"], self._sampler.make_value(parameter["schema"], parameter["name"]))
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "query" and parameter.get("required")
        ]
        if wanted:
            address += f"?{urlencode(wanted, quote_via=quote)}"
        lines = []
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            lines.append(f"-H 'Content-Type: {media_type}'")
            if "example" in content:
                body = json.dumps(content["example"])
                if len(body) > _LONGEST_LINE:
                    body = _pretty_json(content["example"])
                lines.append(f"-d {shell_quote(body)}")
            else:
                lines.append("--data-binary @bill.csv")
        is_plain = method == ("POST" if lines else "GET")
        how = "" if is_plain else f"-X {method} "
        return " \\\n  ".join([f"curl {how}{shell_quote(address)}", *lines])


def _pretty_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def describe_limits(schema: Schema) -> Iterator[str]:
    """The bounds of a number, a text or a list, in words."""
    unit = {"string": " characters", "array": " items"}.get(str(schema.get("type")), "")
    names = ("minLength", "minItems", "minimum"), ("maxLength", "maxItems", "maximum")
    least, most = (next((schema[name] for name in some if name in schema), None) for some in names)
    if least is not None and most is not None:
        yield f"{_format_bound(least)} to {_format_bound(most)}{unit}"
    elif least is not None:
        yield f"at least {_format_bound(least)}{unit}"
    elif most is not None:
        yield f"at most {_format_bound(most)}{unit}"
    if "exclusiveMinimum" in schema:
        yield f"more than {_format_bound(schema['exclusiveMinimum'])}"
    if "format" in schema:
        yield str(schema["format"])
    if len(pattern := schema.get("pattern", "")) in range(1, _LONGEST_PATTERN):
        yield f"matches {pattern}"


def _format_bound(value: float) -> str:
    """A bound as a whole number if it is one; pydantic writes some bounds as fractions."""
    return str(int(value)) if value == int(value) else str(value)


def _by_status(problems: Iterable[ProblemEntry]) -> tuple[ProblemEntry, ...]:
    return tuple(sorted(problems, key=lambda problem: problem.status))


def _referenced_names(part: Any) -> Iterator[str]:
    """The names of the schemas that a part of the document refers to."""
    if isinstance(part, Mapping):
        if "$ref" in part and "/schemas/" in part["$ref"]:
            yield referenced_name(part)
        for value in part.values():
            yield from _referenced_names(value)
    elif isinstance(part, Sequence) and not isinstance(part, str):
        for value in part:
            yield from _referenced_names(value)


def _describe_field(field: Field) -> str:
    said = field.text.striptags()
    return f"{field.name}: {said}" if said else f"{field.name}."


def render_markdown(text: str) -> Markup:
    """A description in the document as HTML. Raw HTML in the description stays text."""
    return Markup(_MARKDOWN.render(text))  # noqa: S704 - raw HTML is escaped
