"""Sets of columns that other tables read of a table: fingerprints of them, and of whole rows, decide what is stale.

The fingerprint of some columns is that of a table with just these: another column that no table reads changes none. A
set that no receipt knows falls back to whole rows, which at worst says stale too often. Not here: taking fingerprints
(`lake.audit`, `load.arrivals`) and comparing them (`core.digests`).
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

from backfill_assets.core.contracts import Basis, Contract, Input
from backfill_assets.core.payload import MACHINERY

NAME_CHARS = 12
SEPARATOR, SAYS = "|", ":"
Sets = Mapping[str, tuple[str, ...]]  # the columns by the name of their set


@lru_cache(maxsize=1024)
def name_of(columns: tuple[str, ...]) -> str:
    """The name of a set of columns, whatever their order."""
    return hashlib.sha256("\n".join(sorted(columns)).encode()).hexdigest()[:NAME_CHARS]


def rows_read(contracts: Iterable[Contract], table: str) -> Sets:
    """The sets of some of a table's columns whose content makes days of other tables."""
    known = {c.name: c for c in contracts}
    asked = (i for c in known.values() for i in c.inputs if i.table == table and i.basis is Basis.CONTENT)
    return _proper((i.columns for i in asked if i.columns is not None), known[table].column_names)


def deliveries_read(contracts: Iterable[Contract], delivered: Iterable[str]) -> Sets:
    """The sets of some of a delivery's columns that make days as known at a cut."""
    known, all_of_it = {c.name: c for c in contracts}, tuple(delivered)
    asked = [i for c in known.values() for i in c.inputs if i.basis is Basis.KNOWN_AT_CUT and i.columns is not None]
    return _proper((delivery_columns(i, known, all_of_it) for i in asked if i.table in known), all_of_it)


def delivery_columns(wanted: Input, contracts: Mapping[str, Contract], delivered: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a delivery that reach those columns of a table of versions that an input reads: also all that
    decide which version was current."""
    versions = contracts[wanted.table]
    unread = set(versions.column_names) - set(wanted.columns or versions.column_names) - MACHINERY.keys()
    return tuple(c for c in delivered if c not in unread)


def _proper(asked: Iterable[tuple[str, ...]], there: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    parts = (tuple(c for c in there if c in columns) for columns in asked)
    return {name_of(part): part for part in parts if len(part) < len(there)}


def narrowed(wanted: Input, made: Iterable[Input]) -> Input:
    """The input with the columns that another one reads of the same days in the same way; itself where none does."""
    alike = (i for i in made if (i.table, i.basis) == (wanted.table, wanted.basis) and i.columns is not None)
    columns = next((i.columns for i in alike), None) if wanted.columns is None else wanted.columns
    return Input(wanted.table, wanted.before, wanted.after, wanted.basis, columns)


def fingerprint_in(text: str, name: str = "") -> str:
    """The fingerprint of a set of columns in the ledger's text (whole deliveries first, then sets by name); that of
    whole deliveries for no name or an unknown one."""
    if SEPARATOR not in text:  # a fast way: most lakes have no others
        return text
    whole, *parts = text.split(SEPARATOR)
    return next((p.removeprefix(f"{name}{SAYS}") for p in parts if name and p.startswith(f"{name}{SAYS}")), whole)
