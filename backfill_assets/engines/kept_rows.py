"""Upserts: rows that stand, and whose keys the new rows lack, come along, by whoever counts their
files (`auditor`).

Not here: the same by DuckDB (`writing.keep_rows`), and whether a merge may keep rows
(`kernel.write.derived`).
"""

from collections.abc import Sequence
from datetime import date

from backfill_assets.engines.auditor import is_for_engine, rows_of
from backfill_assets.engines.engine_fingerprints import comparable
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.mapping import quoted
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.write.writing import keep_rows, write_there


def kept_rows(
    lake_session: LakeSession,
    contract: Contract,
    staged: Staged,
    version: int,
    days: Sequence[date],
) -> dict[date, int]:
    """As `writing.keep_rows`, which adds the rows where DuckDB counts; else the engine does, where
    the files lie."""
    lake = lake_session.lake
    stands = lake.store.files(contract, version, days, altered=True) if version >= 0 else []
    if not stands or not is_for_engine(lake_session, contract, [*staged.files, *stands]):
        return keep_rows(lake, contract, staged, version, days)
    from pyspark.sql import functions as F

    session, stands = lake_session.spark(), lake.store.files(contract, version, days)
    keys = [
        comparable(contract.column(c)) for c in dict.fromkeys((contract.day_column, *contract.key))
    ]
    stood = rows_of(session, stands, contract).selectExpr(
        "*", *(f"{k} AS __stands_{i}" for i, k in enumerate(keys))
    )
    comes = rows_of(session, staged.files, contract).selectExpr(
        *(f"{k} AS __comes_{i}" for i, k in enumerate(keys))
    )
    same = F.expr(" AND ".join(f"__stands_{i} <=> __comes_{i}" for i in range(len(keys))))
    lacking = stood.join(comes, same, "left_anti").selectExpr(*map(quoted, contract.column_names))
    added = write_there(lacking, lake, contract, staged, len(days))
    staged.files = (*staged.files, *added)
    return dict(rows_of(session, added, contract).groupBy(contract.day_column).count().collect())
