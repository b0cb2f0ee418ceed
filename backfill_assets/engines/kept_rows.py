"""Upserts: rows that stand, and whose keys the new rows lack, come along, by whoever counts their
files (`auditor`).

Not here: the same by DuckDB (`kernel.tables.query_files.keep_rows`), and whether a merge may keep
rows (`kernel.write.derived`).
"""

from collections.abc import Sequence
from datetime import date

from backfill_assets.engines.auditor import is_for_engine, rows_of
from backfill_assets.engines.engine_sql import EngineRows
from backfill_assets.engines.frame_files import stage_more
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.tables.fingerprints import comparable, quoted
from backfill_assets.kernel.tables.query_files import keep_rows
from backfill_assets.kernel.tables.staging import Staged


def kept_rows(
    lake_session: LakeSession,
    contract: Contract,
    staged: Staged,
    version: int,
    days: Sequence[date],
) -> dict[date, int]:
    """As `query_files.keep_rows`, which adds the rows where DuckDB counts; else the engine does,
    where the files lie."""
    lake = lake_session.lake
    stands = lake.store.files(contract, version, days, altered=True) if version >= 0 else []
    if not stands or not is_for_engine(lake_session, contract, [*staged.files, *stands]):
        return keep_rows(lake, contract, staged, version, days)
    session, stands = lake_session.spark(), lake.store.files(contract, version, days)
    sides = {"stands": rows_of(session, stands, contract)}
    sides["comes"] = rows_of(session, staged.files, contract)
    lacking = EngineRows(session, **sides).frame(_lacking_rows(contract))
    added = stage_more(lacking, lake, contract, staged, len(days))
    staged.files = (*staged.files, *added)
    return dict(rows_of(session, added, contract).groupBy(contract.day_column).count().collect())


def _lacking_rows(contract: Contract) -> str:
    """The query of the rows of `stands` whose day and key `comes` lacks."""
    by = dict.fromkeys((contract.day_column, *contract.key))
    keys = [f"{comparable(contract.column(c))} AS __key_{i}" for i, c in enumerate(by)]
    same = " AND ".join(
        f"stood.__key_{i} IS NOT DISTINCT FROM came.__key_{i}" for i in range(len(keys))
    )
    return (
        f"SELECT {', '.join(map(quoted, contract.column_names))} "
        f"FROM (SELECT *, {', '.join(keys)} FROM stands) AS stood "
        f"ANTI JOIN (SELECT {', '.join(keys)} FROM comes) AS came ON {same}"
    )
