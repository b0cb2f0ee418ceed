"""Column mapping of Delta: what a table's columns, and the fields in them, are called in its data
files.

Not here: which files a table has, and their rows. A table whose columns may be renamed and dropped
without a file being written has names of its own in its files (by the mode `name`), or numbers of
the fields (by the mode `id`); its log says which. Partition values stand under these names, too.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.tables.fingerprints import quoted_name

if TYPE_CHECKING:
    import pyarrow as pa

MODE = "delta.columnMapping.mode"  # of a table: none, name or id
NEWEST = "delta.columnMapping.maxColumnId"  # of a table: the last number of a field
STORED_NAME, STORED_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
FIELD_ID = b"PARQUET:field_id"  # as Arrow tells the number of a field in a file


def mapping_mode(configuration: Mapping[str, str | None]) -> str:
    """How a table, by its properties, finds its columns in its files: `name`, `id`, or empty where
    they are called alike."""
    mode = configuration.get(MODE) or "none"
    return "" if mode == "none" else mode


def newest_number(configuration: Mapping[str, str | None]) -> int:
    """The number of the field that a table, by its properties, got last; 0 of one without
    mapping."""
    return _whole_number(configuration.get(NEWEST)) if mapping_mode(configuration) else 0


def _whole_number(told: object) -> int:
    """The number that a log says, in whatever form; 0 where it says none."""
    text = str(told)
    return int(text) if text.isdecimal() else 0


def stored_name(field: Mapping[str, Any]) -> str:
    """What a field of a schema, as Delta writes it, is called in files."""
    return str((field.get("metadata") or {}).get(STORED_NAME) or field["name"])


def stored_columns(schema: str) -> dict[str, str]:
    """The columns of a schema, in Delta's JSON, by what each is called in files."""
    return {stored_name(field): str(field["name"]) for field in json.loads(schema)["fields"]}


def named_paths(schema: str) -> frozenset[str]:
    """Every column and every field in one, as a text of the column, of its path by names, and of
    the path that it has in files. Two schemas of a table agree on a name if they have the same text
    of it."""
    found = set[str]()
    for field in json.loads(schema)["fields"]:
        column = str(field["name"])
        for path, stored, _ in _paths_of(field, "", ""):
            found.add(json.dumps([column, path, stored]))
    return frozenset(found)


def returned_paths(schema: str, newest: int, known: Iterable[str]) -> frozenset[str]:
    """The columns and fields that a table has again, and that its schemas since reading began
    lacked: `known` (texts of `named_paths`) tells these schemas, and a new field would have a
    number above `newest`, the last one before. Rows that came under those schemas were read
    without the field. Each is a text of `named_paths` whose path in files is that of no field."""
    stored_before = {stored for _, _, stored in map(json.loads, known)}
    found = set[str]()
    for field in json.loads(schema)["fields"]:
        for path, stored, number in _paths_of(field, "", ""):
            if 0 < number <= newest and stored not in stored_before:
                lacking = f"{stored.rpartition('/')[0]}/"
                found.add(json.dumps([str(field["name"]), path, lacking]))
    return frozenset(found)


def _paths_of(
    field: Mapping[str, Any], above: str, stored_above: str
) -> Iterator[tuple[str, str, int]]:
    """The path of a field, and of each one in it, by names and as it is in files, with its number
    (0: it has none)."""
    path, stored = f"{above}/{field['name']}", f"{stored_above}/{stored_name(field)}"
    yield path, stored, _whole_number((field.get("metadata") or {}).get(STORED_ID))
    for inner in _fields_within(field["type"]):
        yield from _paths_of(inner, path, stored)


def _fields_within(kind: Any) -> list[Mapping[str, Any]]:
    """The fields of the structs in a type, whether it is one or holds them."""
    if isinstance(kind, str):
        return []
    if kind["type"] == "struct":
        return [*kind["fields"]]
    parts = ("elementType", "keyType", "valueType")
    return [field for part in parts if part in kind for field in _fields_within(kind[part])]


def earlier_names(paths: Iterable[str], schema: str) -> dict[str, str]:
    """What columns of a schema are called now, by each other name that they had, as the texts of
    `named_paths` of all schemas of the table tell. Names that differ by their case are none."""
    found = dict[str, str]()
    now = stored_columns(schema)
    for name, roots in _roots_by_name(paths).items():
        for root in roots:
            if root in now and now[root].lower() != name.lower():
                found[name] = now[root]
    return found


def doubted_columns(paths: Collection[str], schema: str) -> frozenset[str]:
    """The names, in small letters, of columns of whose earlier rows no name tells the values, by
    the texts of `named_paths` of all schemas that the table had, `schema` the last: the column's
    name, or one that it had, was another column's, too, or a field in it was called otherwise or
    was another one; or either was gone for a while (`returned_paths`)."""
    by_name = defaultdict[str, set[str]](set)
    for name, roots in _roots_by_name(paths).items():
        by_name[name.lower()] |= roots
    found = {name for name, roots in by_name.items() if len(roots) > 1}
    for earlier, name in earlier_names(paths, schema).items():
        if earlier.lower() in found:
            found.add(name.lower())
    return frozenset(found | _columns_of_altered_fields(paths))


def altered_names(paths: Collection[str], schema: str) -> frozenset[str]:
    """The names that columns had, by the texts of `named_paths` of all schemas that the table had,
    `schema` the last, and that no column of it has, or one that is doubted."""
    present, doubted = {*stored_columns(schema).values()}, doubted_columns(paths, schema)
    known = _roots_by_name(paths)
    return frozenset(n for n in known if n not in present or n.lower() in doubted)


def _roots_by_name(paths: Iterable[str]) -> dict[str, set[str]]:
    """What the columns of each name were called in files."""
    found = defaultdict[str, set[str]](set)
    for column, path, stored in map(json.loads, paths):
        if path == f"/{column}":
            found[column].add(stored[1:])
    return found


def _columns_of_altered_fields(paths: Collection[str]) -> set[str]:
    """The columns, in small letters, in which a field was renamed or is another one."""
    roots, meanings = _roots_by_name(paths), defaultdict[tuple[str, str], set[str]](set)
    names = defaultdict[str, set[str]](set)  # of a column, by what it is called in files
    for column, path, stored in map(json.loads, paths):
        inner = path.removeprefix(f"/{column}").lower()
        for root in roots[column]:
            names[root].add(column.lower())
            if stored.startswith(f"/{root}/"):
                meanings[root, inner].add(stored)
                meanings[root, stored].add(inner)
    altered = {root for (root, _), found in meanings.items() if len(found) > 1}
    return {name for root in altered for name in names[root]}


def with_later_names(schema: str, later: str) -> str:
    """A schema, in Delta's JSON, whose columns are called as in a later one of the same table, if
    that has them, and others as before; without those whose names others of it have then. A table
    that was made anew has other columns of the same names."""
    told, now = json.loads(schema), stored_columns(later)
    lasting = {stored_name(f) for f in told["fields"]} & {*now}
    fields = [{**f, "name": now.get(stored_name(f), f["name"])} for f in told["fields"]]
    taken = {now[root].lower() for root in lasting}
    told["fields"] = [
        field
        for field in fields
        if stored_name(field) in lasting or field["name"].lower() not in taken
    ]
    return json.dumps(told)


def column_expressions(schema: str, mode: str, file: "pa.Schema") -> dict[str, str]:
    """For each column of a schema, in Delta's JSON, that a file has: the expression of DuckDB for
    it over the file's own columns, with the names of today in it. `file`: the columns of the file;
    `mode`: of the mapping."""
    fields = json.loads(schema)["fields"]
    found = dict[str, str]()
    for field in fields:
        stored = _stored_field(field, mode, file)
        if stored is not None:
            column = quoted_name(stored.name)
            found[str(field["name"])] = _renamed(field["type"], mode, stored.type, column, 0)
    return found


def _stored_field(field: Mapping[str, Any], mode: str, among: Iterable["pa.Field"]) -> Any:
    """The field of a file, among these, that holds a field of the schema; None if the file lacks
    it."""
    told = (field.get("metadata") or {}).get(STORED_ID)
    if mode != "id" or told is None:  # a table that is mapped since had no numbers before
        name = stored_name(field)
        return next((there for there in among if there.name == name), None)
    number = str(told).encode()
    return next((there for there in among if (there.metadata or {}).get(FIELD_ID) == number), None)


def _renamed(kind: Any, mode: str, stored: "pa.DataType", value: str, depth: int) -> str:
    """The expression for a value of a type, whose form in the file is `stored`, with the names of
    the schema in it. `depth`: of the lambdas around it."""
    if not _fields_within(kind):
        return value
    if kind["type"] == "struct":
        parts = list[str]()
        for field in kind["fields"]:
            there = _stored_field(field, mode, [stored.field(n) for n in range(stored.num_fields)])
            part = "NULL"
            if there is not None:
                inner = f"struct_extract({value}, '{_escaped(there.name)}')"
                part = _renamed(field["type"], mode, there.type, inner, depth)
            parts.append(f"{quoted_name(field['name'])} := {part}")
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(parts)}) END"
    item = f"item_{depth}"
    if kind["type"] == "array":
        element = _renamed(kind["elementType"], mode, stored.value_type, item, depth + 1)
        return f"list_transform({value}, lambda {item}: {element})"
    key = _renamed(kind["keyType"], mode, stored.key_type, f"{item}.key", depth + 1)
    held = _renamed(kind["valueType"], mode, stored.item_type, f"{item}.value", depth + 1)
    entry = f"struct_pack(key := {key}, value := {held})"
    entries = f"list_transform(map_entries({value}), lambda {item}: {entry})"
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE map_from_entries({entries}) END"


def _escaped(name: str) -> str:
    return name.replace("'", "''")
