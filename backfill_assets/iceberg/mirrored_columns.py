"""The columns of an Iceberg table as a mirror of it has them: their types in Delta, and what they
are called in the mirror's files.

Not here: the rows (`mirrored_rows`) and the mirror's log (`mirror`). Iceberg finds a column in
files by its number, so that it can be renamed, and another one get its name. A mirror calls a
column in files as it was called first, and any other one of that name otherwise: the first one that
differs turns on Delta's column mapping by name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.digests import digest_of

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

MODE = "delta.columnMapping.mode"
STORED_NAME, STORED_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
# In a mirror's properties: what columns are called in files, by number; a digest of the columns.
NAMES, COLUMNS = "iceberg.names", "iceberg.columns"


@dataclass(frozen=True)
class MirroredColumns:
    """The columns of a mirror at a commit."""

    fields: tuple[Mapping[str, Any], ...]  # in Delta's JSON, without mapping
    numbers: tuple[int, ...]  # of these fields in Iceberg
    # What columns are called in files, those that are gone, too; by number, with its type where it
    # has parts.
    names: Mapping[str, str]
    left_out: tuple[str, ...]  # columns of types that Delta lacks
    was_mapped: bool = False

    @cached_property
    def stored(self) -> dict[str, str]:
        """What each column is called in files."""
        pairs = zip(self.fields, self.numbers, strict=True)
        return {field["name"]: self.names[_key(number, field["type"])] for field, number in pairs}

    @property
    def is_mapped(self) -> bool:
        """Whether some column is, or was, called otherwise in files."""
        return self.was_mapped or any(name != there for name, there in self.stored.items())

    @property
    def schema(self) -> str:
        """The columns in Delta's JSON."""
        fields = list[Mapping[str, Any]]()
        for field, number in zip(self.fields, self.numbers, strict=True):
            mapping = {STORED_ID: number, STORED_NAME: self.stored[field["name"]]}
            fields.append({**field, "metadata": mapping if self.is_mapped else {}})
        return json.dumps({"type": "struct", "fields": fields})

    @property
    def properties(self) -> dict[str, str]:
        """The properties of a mirror with these columns."""
        mode = {MODE: "name"} if self.is_mapped else {}
        names = json.dumps(dict(self.names), sort_keys=True)
        return {NAMES: names, COLUMNS: digest_of(self.schema), **mode}

    @property
    def protocol(self) -> dict[str, Any]:
        """What readers and writers of a mirror with these columns have to know, in Delta's JSON."""
        features = ["columnMapping"] if self.is_mapped else []
        if "timestamp_ntz" in self.schema:
            features.append("timestampNtz")
        if not features:
            return {"minReaderVersion": 1, "minWriterVersion": 2}
        versions = {"minReaderVersion": 3, "minWriterVersion": 7}
        return {**versions, "readerFeatures": features, "writerFeatures": features}


def mirrored_columns(schema: "Schema", properties: Mapping[str, str | None]) -> MirroredColumns:
    """The columns of an Iceberg schema in a mirror that has these properties (none: a new one)."""
    fields, numbers, left_out = list[Mapping[str, Any]](), list[int](), list[str]()
    names: dict[str, str] = json.loads(properties.get(NAMES) or "{}")
    for field in schema.fields:
        told = _delta_field(schema, field.name)
        if told is None:
            left_out.append(field.name)
            continue
        fields.append(told)
        numbers.append(field.field_id)
        key, taken = _key(field.field_id, told["type"]), {n.lower() for n in names.values()}
        if key not in names:
            is_free = field.name.lower() not in taken
            names[key] = field.name if is_free else f"{field.name}-{len(names)}"
    was_mapped = bool(properties.get(MODE))
    return MirroredColumns(tuple(fields), tuple(numbers), names, tuple(left_out), was_mapped)


def _key(number: int, kind: Any) -> str:
    """What tells a column in the names of a mirror. One with parts that are others now is another
    column, since files name the parts."""
    return str(number) if isinstance(kind, str) else f"{number} {json.dumps(kind)}"


def _delta_field(schema: "Schema", name: str) -> Mapping[str, Any] | None:
    """A column in Delta's JSON, in which no value is required; None for a type that Delta lacks."""
    import pyarrow as pa
    from deltalake import Schema
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    kind = schema_to_pyarrow(schema.select(name)).field(0).type
    if _has_no_type(kind):
        return None
    told = json.loads(Schema.from_arrow(pa.schema([pa.field(name, kind)])).to_json())
    (field,) = told["fields"]
    return {**field, "metadata": {}}


def _has_no_type(kind: Any) -> bool:
    """Whether Delta has no type for values of a type of Arrow, or of a part of one."""
    import pyarrow as pa

    is_lacking = (
        pa.types.is_time(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_null(kind)
        or isinstance(kind, pa.BaseExtensionType)
        or (pa.types.is_timestamp(kind) and kind.unit == "ns")
    )
    return is_lacking or any(_has_no_type(kind.field(n).type) for n in range(kind.num_fields))
