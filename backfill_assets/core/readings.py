"""The sets of a table's columns that other tables read: the fingerprints of these sets decide which days are stale.

The fingerprint of a set is computed as of a table with just these columns: a change in a column that no table reads
makes no day stale. For a set that no receipt knows, whole rows decide, which at worst makes a day stale too often. Not
here: taking fingerprints (`lake.audit`, `load.arrivals`) and comparing them (`core.digests`).

Fingerprints name no column. Which ones the files of a day have is a fact of its receipt (`DayEntry.columns`): from it
come the marks in digests and the columns that a day lacks.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from backfill_assets.core.contracts import Column, Contract, Input, InputKind
from backfill_assets.core.payload import MACHINERY
from backfill_assets.core.receipts import Columns, DayEntry, kept_columns

NAME_CHARS = 12
_WIDTH = re.compile(r"BIG(?=INT)|(?<=DECIMAL\()\d+")
SEPARATOR, NAME_END = "|", ":"
Sets = Mapping[str, tuple[str, ...]]  # the columns by the name of their set


@lru_cache(maxsize=1024)
def name_of(columns: tuple[str, ...]) -> str:
    """The name of a set of columns, whatever their order."""
    return hashlib.sha256("\n".join(sorted(columns)).encode()).hexdigest()[:NAME_CHARS]


def rows_read(contracts: Iterable[Contract], table: str) -> Sets:
    """The sets of some of a table's columns whose content makes days of other tables."""
    known = {c.name: c for c in contracts}
    inputs = (i for c in known.values() for i in c.inputs if i.table == table and i.kind is InputKind.CONTENT)
    return _proper_subsets((i.columns for i in inputs if i.columns is not None), known[table].column_names)


def deliveries_read(contracts: Iterable[Contract], delivered: Iterable[str]) -> Sets:
    """The sets of some of a delivery's columns that make days as known at a cut."""
    known, all_columns = {c.name: c for c in contracts}, tuple(delivered)
    inputs = [i for c in known.values() for i in c.inputs if i.kind is InputKind.KNOWN_AT_CUT and i.columns is not None]
    return _proper_subsets((delivery_columns(i, known, all_columns) for i in inputs if i.table in known), all_columns)


def delivery_columns(wanted: Input, contracts: Mapping[str, Contract], delivered: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a delivery that reach the columns an input reads of a table of versions, and all columns that
    decide which version was current."""
    versions = contracts[wanted.table]
    unread = set(versions.column_names) - set(wanted.columns or versions.column_names) - MACHINERY.keys()
    return tuple(c for c in delivered if c not in unread)


def _proper_subsets(column_sets: Iterable[tuple[str, ...]], all_columns: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    parts = (tuple(c for c in all_columns if c in columns) for columns in column_sets)
    return {name_of(part): part for part in parts if len(part) < len(all_columns)}


def narrowed(wanted: Input, others: Iterable[Input]) -> Input:
    """`wanted` with the columns that one of `others` reads of the same table as the same kind of input, if one does."""
    alike = (i for i in others if (i.table, i.kind) == (wanted.table, wanted.kind) and i.columns is not None)
    columns = next((i.columns for i in alike), None) if wanted.columns is None else wanted.columns
    return Input(wanted.table, wanted.before, wanted.after, wanted.kind, columns)


def fingerprint_in(text: str, name: str = "") -> str:
    """The fingerprint of a set of columns in the ledger's text (whole deliveries first, then sets by name). Without a
    name, or for an unknown one, the fingerprint of whole deliveries."""
    if SEPARATOR not in text:  # the usual case, and fast
        return text
    whole, *parts = text.split(SEPARATOR)
    start = f"{name}{NAME_END}"
    return next((p.removeprefix(start) for p in parts if name and p.startswith(start)), whole)


def columns_of(contract: Contract, without: Iterable[str] = ()) -> Columns:
    """The names and types of the contract's columns, except `without`."""
    return kept_columns(tuple((c.name, c.type) for c in contract.columns if c.name not in {*without}))


def lacking_columns(entry: DayEntry, columns: Iterable[Column]) -> list[str]:
    """The names of `columns` that the files of a day lack; none for a day without rows or with unknown columns. Where a
    receipt has no types, arrays are not known."""
    known = entry.columns
    if not entry.rows or known is None:
        return []
    untyped = not all(known.values())
    return [c.name for c in columns if c.name not in known and not (untyped and c.kind.element is not None)]


def mark_of(entry: DayEntry | None, read: Iterable[str] | None, beside: tuple[str, ...] = ()) -> str:
    """The part of a digest that names the columns `read` (None: all) in a day's files and their types, except the
    columns `beside`; empty for a day without rows, and for receipts of earlier versions, whose digests name no columns.
    A wider type counts as the same: it changes no row."""
    if entry is None or not entry.rows or not entry.columns or not all(entry.columns.values()):
        return ""
    return _mark(tuple(entry.columns.items()), None if read is None else tuple(read), beside)


@lru_cache(maxsize=1024)
def _mark(columns: tuple[tuple[str, str], ...], read: tuple[str, ...] | None, beside: tuple[str, ...]) -> str:
    chosen = ((name, kind) for name, kind in columns if name not in beside and (read is None or name in read))
    return " " + name_of(tuple(f"{name} {_WIDTH.sub('', kind)}" for name, kind in chosen))
