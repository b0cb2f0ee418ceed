"""`backfill-assets schema`: the JSON schema of what a command prints with `--json`, made from the
type that the command's room names for it.

Here: the schema of a type as `json_of` writes its values, and which command has which. Not here:
the types, which stand beside the commands, and their versions (`kernel.core.rooms.Document`).
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, is_dataclass
from inspect import getdoc
from types import UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import click
from pydantic import BaseModel, TypeAdapter

from backfill_assets.cli.app import all_commands
from backfill_assets.cli.common import json_option
from backfill_assets.cli.drawing import TextTable
from backfill_assets.cli.output import write_answer
from backfill_assets.kernel.core.answers import InSchema
from backfill_assets.kernel.core.errors import refuse_unknown_names
from backfill_assets.kernel.core.rooms import Document, resolve_reference

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
NUMBER: Schema = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
SchemaAnswer = Annotated[
    dict[str, Any],
    InSchema(description="The schema of a command; without one, the version of each document."),
]


def all_documents() -> Mapping[str, Document]:
    """What each command prints with `--json`, by the words that name the command."""
    found = {}
    for name, command in all_commands().items():
        for words, document in command.documents.items():
            found[f"{name} {words}".rstrip()] = document
    return found


def document_schema(words: str) -> Schema:
    """The JSON schema of the document of a command, by the words that name it. Raises UnknownName
    for words that name no command with a document."""
    documents = all_documents()
    refuse_unknown_names("document of the command", [words], documents, "Nothing was printed")
    document, records = documents[words], RecordSchemas()
    schema = records.schema_of(resolve_reference(document.reference))
    name = f"urn:backfill-assets:{words.replace(' ', ':')}:{document.version}"
    return {"$schema": DIALECT, "$id": name, **schema, "$defs": records.found}


@dataclass(frozen=True)
class RecordSchemas:
    """Schemas of types, as `json_of` writes their values. `found` has those of records by name."""

    found: dict[str, Schema] = field(default_factory=dict)

    def schema_of(self, kind: Any) -> Schema:
        """The schema of a type; that of a record is a reference to `found`. Pydantic makes those of
        values that hold no others."""
        origin, parts = get_origin(kind) or kind, get_args(kind)
        if origin is Annotated:
            return self._annotated(*parts)
        if origin in (Union, UnionType):
            return {"anyOf": [*map(self.schema_of, parts)]}
        if origin is tuple and Ellipsis not in parts:
            return {"type": "array", "prefixItems": [*map(self.schema_of, parts)]}
        holds_others = bool(parts) and isinstance(origin, type)
        if holds_others and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.schema_of(parts[1])}
        if holds_others and issubclass(origin, Collection):
            return {"type": "array", "items": self.schema_of(parts[0])}
        if is_typeddict(kind) or is_dataclass(kind) or _is_model(kind):
            return self._record(kind)
        return NUMBER if kind is float else TypeAdapter(kind).json_schema(mode="serialization")

    def _annotated(self, kind: Any, *notes: Any) -> Schema:
        """The schema of a type with what its notes say."""
        said = [note for note in notes if isinstance(note, InSchema)]
        for note in said:
            kind = note.written_as or kind
        schema = self.schema_of(kind)
        for note in said:
            words = {"format": note.format, "description": note.description}
            schema = schema | {name: word for name, word in words.items() if word}
        return schema

    def _record(self, kind: Any) -> Schema:
        """A reference to the schema of a record: of what its `to_dict` gives, where it has one."""
        writer = getattr(kind, "to_dict", None)
        if writer is not None:
            return self._record(get_type_hints(writer)["return"])
        if kind.__name__ not in self.found:
            self.found[kind.__name__] = {}  # it may hold others of its kind
            self.found[kind.__name__] = self._fields_of(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def _fields_of(self, kind: Any) -> Schema:
        """The schema of a record: its fields, of which some may be left out."""
        properties, required = {}, []
        for name, hint in get_type_hints(kind, include_extras=True).items():
            may_lack = get_origin(hint) is NotRequired
            if _is_model(kind) and name not in kind.model_fields:
                continue
            properties[name] = self.schema_of(get_args(hint)[0] if may_lack else hint)
            if not may_lack:
                required.append(name)
        schema = {"type": "object", "properties": properties, "required": required}
        return schema | {"description": " ".join((getdoc(kind) or "").split())}


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


@click.command()
@click.argument("words", metavar="[COMMAND]", nargs=-1)
@json_option
def schema(words: tuple[str, ...]) -> None:
    """Print the JSON schema of what COMMAND prints with `--json`, such as `schema plan list`;
    without COMMAND, list which commands have one.

    The last part of its `$id` is its version. Within a version keys may come, and none goes or
    changes its meaning: a program passes over keys that it does not know.
    """
    if words:
        click.echo(json.dumps(document_schema(" ".join(words)), indent=2))
        return
    versions = {name: document.version for name, document in all_documents().items()}
    write_answer(versions, [TextTable(["command", "version"], [*versions.items()])])
