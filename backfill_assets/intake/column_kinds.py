"""Kinds of the columns of landed contents, kept beside the content store, and columns whose kind
changed between files.

A number is exact in any type; its text is not (1 and 1.0, 1 and 1.00), so columns that become text
are told of. Not here: values, and whether a file can be read at all (`casting`). The file may be
lost with the store.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from backfill_assets.intake.content_store import StoredFile, find_content
from backfill_assets.kernel.core.column_types import ColumnType
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.port import Place

AT_FIRST = 20  # contents are looked at in a lake in which no kinds were noted
KINDS_FILE = "kinds.json"  # column in small letters -> kind -> path of the latest file that has it


def note_kinds(
    store: Place, contents: Sequence[tuple[str, StoredFile]], before: Iterable[tuple[str, str]] = ()
) -> None:
    """Add the kinds of the columns of contents of the store, each with its landed path. A column
    without a value has none. `before`: paths and names of contents, the newest last, to begin with
    where nothing was ever noted."""
    if not contents:
        return
    if not store.exists(KINDS_FILE):
        found = ((path, find_content(store, name)) for path, name in [*before][-AT_FIRST:])
        earlier = [(path, content) for path, content in found if content is not None]
        contents = [*earlier, *contents]
    known = store.read_json(KINDS_FILE)
    for path, content in contents:
        for name, kind in _column_kinds(content).items():
            known.setdefault(name, {})[kind] = path
    store.write(KINDS_FILE, json.dumps(known, sort_keys=True).encode())


def changed_kinds(store: Place, paths: Collection[str]) -> dict[str, dict[str, str]]:
    """The columns, in small letters, that have several kinds in files of these landed paths: kind
    -> one of them."""
    several = dict[str, dict[str, str]]()
    for name, kinds in sorted(store.read_json(KINDS_FILE).items()):
        found = {kind: path for kind, path in kinds.items() if path in paths}
        if len(found) > 1:
            several[name] = found
    return several


def columns_made_text(select: str, types: Mapping[str, ColumnType]) -> set[str]:
    """The columns of files, in small letters, that `select` makes texts of, unless it casts them to
    another type first; none if it cannot be read. `types` are of the delivery columns."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from backfill_assets.intake.select import select_expressions, selected_names

    def is_cast(node: Any) -> bool:
        """Whether the value is cast to something else than a text."""
        return isinstance(node, exp.Cast) and node.to.this not in exp.DataType.TEXT_TYPES

    told = set()
    with suppress(SettingsError, SqlglotError):
        for name, expression in zip(
            selected_names(select), select_expressions(select), strict=True
        ):
            parsed: Any = sqlglot.parse_one(expression, read="spark")
            is_text = name in types and types[name].kind == "STRING"
            if is_text:
                columns = parsed.find_all(exp.Column)
                told |= {c.name.lower() for c in columns if not is_cast(c.parent)}
    return told


def _column_kinds(content: StoredFile) -> dict[str, str]:
    """The kinds of a content's columns that have a value, by small letters; none of a content that
    is refused or not in the store. Reads only the footer."""
    import pyarrow.parquet as pq

    if content.refused is not None or not content.store.exists(content.name):
        return {}
    with (
        content.store.open(content.name, at_end=True, at_hand=True) as opened,
        pq.ParquetFile(opened) as file,
    ):
        footer, schema = file.metadata, file.schema_arrow
    with_values = {name.lower() for name in schema.names}
    for place in range(footer.num_columns):
        chunks = [footer.row_group(g).column(place) for g in range(footer.num_row_groups)]
        if all(_is_empty(chunk) for chunk in chunks):
            with_values.discard(footer.schema.column(place).path.lower())
    # Of a text file all columns are texts in the store; what their values are is noted beside.
    types_of_text = {name.lower(): kind for name, kind in content.types.items()}
    kinds = dict[str, str]()
    for field in schema:
        name = field.name.lower()
        kind = types_of_text.get(name) or _kind_of_type(field.type)
        is_ours = name.startswith("__")
        if kind and name in with_values and not is_ours:
            kinds[name] = kind
    return kinds


def _is_empty(chunk: Any) -> bool:
    """Whether a column chunk of a footer has no value; without statistics, none at all."""
    nulls = chunk.statistics.null_count if chunk.statistics else 0
    return bool(chunk.num_values == nulls)


def _kind_of_type(found: Any) -> str:
    """The kind of an Arrow type in words: what does not change the text of a value (the width of
    whole numbers, the encoding of texts, dictionaries) is left out. Empty for a column of NULLs
    alone."""
    import pyarrow as pa

    if pa.types.is_dictionary(found):
        return _kind_of_type(found.value_type)
    if pa.types.is_null(found):
        return ""
    if pa.types.is_integer(found):
        return "a whole number"
    if pa.types.is_string(found) or pa.types.is_large_string(found):
        return "a text"
    return "a timestamp" if pa.types.is_timestamp(found) else str(found)
