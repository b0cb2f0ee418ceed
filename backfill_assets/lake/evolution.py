"""A table whose contract has changed since it was made: columns that it gets, keeps, or may lack from then on.

Lives here: what differs between a table's schema and its contract, bringing the schema up without touching a row,
and refusing what that cannot do. Does not live here: the rows of days made before (they read a new column as
NULL, and are `outdated` until they are made again), and what the contract is.

Only the log is written to: one commit of metadata before the first that needs it, which changes no day. A column that
the contract no longer has stays in the schema, empty from then on, so that older days can still be put back.

A wider type is refused like any other, although every value would stay what it is. Files of the narrower type below a
schema of the wider one are allowed by Delta's feature `typeWidening` alone, and delta-rs 1.6 neither opens nor writes a
table that has it (a test holds that it is still so); without the feature what a reader makes of them is its own affair.
Writing every file anew with the schema, in one commit, would leave rollbacks with older files that do not fit. A column
of another name costs as little: what does not read it stays as it is.
"""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.column_types import ColumnType
from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.type_names import delta_type, type_of_delta

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

REASON = "columns"


def evolve(opened: "DeltaTable", path: Path, contract: Contract) -> bool:
    """Give a table the columns of its contract that it lacks, and let NULL stand where the contract has none any more.

    Returns whether anything was written. Raises ContractBroken where a column has another type. The lock is held.
    """
    from deltalake import Field

    there = {f.name: f for f in opened.schema().fields}
    _refuse_other_types(path, contract, {n: type_of_delta(f.type) for n, f in there.items()})
    absent = [c for c in contract.columns if c.name not in there]
    may_lack = {*contract.nullable_columns, *(there.keys() - set(contract.column_names))}
    if absent:
        gets = f"gets {', '.join(f'{c.name} {c.type}' for c in absent)}"
        fields = [Field(c.name, delta_type(c.kind), nullable=True, metadata={"comment": c.description}) for c in absent]
        opened.alter.add_columns(fields, commit_properties=_said(contract, gets))
    loosened = sorted(n for n, f in there.items() if not f.nullable and n in may_lack)
    for name in loosened:
        opened.alter.drop_column_not_null(name, commit_properties=_said(contract, f"{name} may be NULL"))
    return bool(absent or loosened)


def schema_contract(contract: Contract, opened: "DeltaTable") -> Contract:
    """The columns of the table's schema as a contract: also those that `contract` has no more, none that the table has
    yet to get. Files of earlier versions fit it. Columns of types that contracts do not know are left out."""
    columns = tuple(
        Column(f.name, str(kind), "", f.nullable)
        for f in opened.schema().fields
        if (kind := type_of_delta(f.type)) is not None
    )
    return replace(contract, columns=columns, key=(), inputs=(), rules=())


def _said(contract: Contract, note: str) -> "CommitProperties":
    """A receipt of no days, which tells the reader of the log that the commit is ours."""
    from deltalake import CommitProperties

    receipt = Receipt(uuid.uuid4().hex, contract.name, REASON, {}, note=note)
    return CommitProperties(custom_metadata={"userMetadata": receipt.to_json()}, max_commit_retries=0)


def _refuse_other_types(path: Path, contract: Contract, there: "dict[str, ColumnType | None]") -> None:
    other = [(c, there[c.name]) for c in contract.columns if c.name in there and there[c.name] != c.kind]
    if other:
        told = ", ".join(f"{c.name} is {kind or 'of a type that is none of ours'}, not {c.type}" for c, kind in other)
        raise ContractBroken(
            f"the table {path.name}",
            f"{told}: a column's type cannot change, nor widen, in a table that has rows of it",
            "Nothing was written",
            "Give the column its type back, and the new type to a column of another name (e.g. "
            f"{other[0][0].name}_2, in `select` too): only what reads that one is made again; or move "
            f"{path.parent} away and load everything again with `backfill-assets catch-up`",
        )
