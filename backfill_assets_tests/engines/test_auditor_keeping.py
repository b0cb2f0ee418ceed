"""An upsert by the lake's engine keeps the rows that one by DuckDB keeps. Not here: what a merge
keeps, and why (`test_query_files`)."""

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets_tests.builders import day
from backfill_assets_tests.engine_choice import wants_spark
from backfill_assets_tests.engines.test_auditor_numbers import counting
from backfill_assets_tests.engines.test_auditor_numbers import lake_session as lake_session
from backfill_assets_tests.files import publish_by_hand, stage_by_hand
from backfill_assets_tests.strategies import examples

DAYS = [day(n) for n in range(3)]
TABLE = Contract(
    "upserted",
    "t",
    (
        Column("day", "DATE", "d"),
        Column("a key", "STRING", "k", nullable=True),
        Column("x", "DOUBLE", "x", nullable=True),
        Column("n", "INT", "n"),
    ),
    "day",
    ("a key", "x"),
    (),
)
ROWS = st.dictionaries(
    st.tuples(
        st.sampled_from(DAYS),
        st.sampled_from([None, "", "a"]),
        st.sampled_from([None, 0.0, -0.0, 1.5, float("inf"), float("nan")]),
    ),
    st.integers(0, 1),
    max_size=12,
).map(lambda of: [{"day": d, "a key": k, "x": x, "n": n} for (d, k, x), n in of.items()])


@pytest.mark.users_do
@settings(max_examples=2 if wants_spark() else examples(8))
@given(before=ROWS, after=ROWS)
def test_the_engine_keeps_the_rows_that_duckdb_keeps(
    lake_session: LakeSession, before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    publish_by_hand(lake_session.lake, TABLE, before, f"digest {before}")
    version, kept = lake_session.lake.store.view(TABLE.name, TABLE.day_column).version, []
    engines: tuple[Literal["duckdb", "engine"], ...] = ("duckdb", "engine")
    for engine in engines:
        staged = stage_by_hand(lake_session.lake, TABLE, after)
        auditor = counting(lake_session, engine).auditor(TABLE, staged.files)
        counts = auditor.keep_rows(TABLE, staged, version, DAYS[:2])
        found = audit_files(lake_session.lake, staged.paths, TABLE)
        kept.append((counts, {d: (p.rows, p.fingerprint) for d, p in found.items()}))
        staged.drop()
    assert kept[0] == kept[1]
