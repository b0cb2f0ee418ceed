"""Making Delta tables and committing to them: the only statements of the product that change a table.

Lives here: CREATE with the full schema before the first write, one replace of exact days, one receipt-only commit.
Does not live here: deciding what to write and whether (`lake.replace`).
Why: `replaceWhere` on a missing table checks nothing; its predicate is built from typed dates only, as an IN list
(BETWEEN fails on Delta 4.4.0 with Spark 4.2, and a predicate without the day column would replace the whole table).
"""

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.receipts import Receipt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONFLICTS = (
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentWriteException",
    "ConcurrentTransactionException",
    "MetadataChangedException",
    "ProtocolChangedException",
)


def is_conflict(error: BaseException) -> bool:
    """Whether Delta refused a commit because another was first. Delta's Python classes are siblings, not a family."""
    text = f"{type(error).__name__} {error}"
    return any(name in text for name in CONFLICTS)


def sql_path(path: Path) -> str:
    """The table at `path` as Spark SQL names it."""
    return "delta.`" + str(path).replace("`", "``") + "`"


def sql_text(text: str) -> str:
    """`text` as a Spark SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def ensure_table(session: "SparkSession", path: Path, contract: Contract, rollback_days: int) -> None:
    """Create the table with its schema and properties unless it is there. The caller holds the table's lock."""
    if (path / "_delta_log").is_dir() and any((path / "_delta_log").glob("*.json")):
        return
    lines = ", ".join(
        f"`{c.name}` {c.type}{'' if c.nullable else ' NOT NULL'} COMMENT {sql_text(c.description)}"
        for c in contract.columns
    )
    layout = f"PARTITIONED BY (`{contract.partition_column}`)" if contract.partition_column else ""
    properties = {
        "delta.enableInCommitTimestamps": "true",  # commit times that survive copies of the files
        "delta.enableDeletionVectors": "false",  # other engines read plain files
        "delta.enableExpiredLogCleanup": "false",  # the log is the truth and is kept
        "delta.logRetentionDuration": "interval 36500 days",
        "delta.deletedFileRetentionDuration": f"interval {rollback_days} days",
        "delta.setTransactionRetentionDuration": "interval 30 days",
    }
    settings = ", ".join(f"{sql_text(k)} = {sql_text(v)}" for k, v in properties.items())
    session.sql(
        f"CREATE TABLE IF NOT EXISTS {sql_path(path)} ({lines}) USING delta {layout} "
        f"COMMENT {sql_text(contract.description)} TBLPROPERTIES ({settings})"
    ).collect()


def days_predicate(column: str, days: Iterable[date]) -> str:
    """The exact days as Spark SQL; raises ValueError for no day (an empty list must never mean the whole table)."""
    listed = ", ".join(f"DATE'{d.isoformat()}'" for d in sorted(set(days)))
    if not listed:
        raise ValueError("a replace needs at least one day")
    return f"`{column}` IN ({listed})"


def commit_replace(frame: "DataFrame", path: Path, predicate: str, receipt: Receipt, partition: str) -> None:
    """Replace the rows that match `predicate` by `frame` in one commit that carries the receipt.

    Rows outside the predicate are refused by Delta. The same receipt twice is one commit (`txnAppId`).
    """
    (
        _tagged(frame.hint("rebalance", partition), receipt)
        .mode("overwrite")
        .option("replaceWhere", predicate)
        .save(str(path))
    )


def commit_append(frame: "DataFrame", path: Path, receipt: Receipt) -> None:
    """Append rows with a receipt: for the ledger `files` only, whose rows are events and never change."""
    _tagged(frame, receipt).mode("append").save(str(path))


def commit_receipt(session: "SparkSession", path: Path, receipt: Receipt) -> None:
    """Commit a receipt without data: no file is added or removed."""
    empty = session.read.format("delta").load(str(path)).limit(0)
    _tagged(empty, receipt).mode("append").save(str(path))


def _tagged(frame: "DataFrame", receipt: Receipt):  # type: ignore[no-untyped-def]  # DataFrameWriter of either kind
    return (
        frame.write.format("delta")
        .option("userMetadata", receipt.to_json())
        .option("txnAppId", receipt.write_id)
        .option("txnVersion", "1")
    )
