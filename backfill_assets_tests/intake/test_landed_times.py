"""Moments of landed Parquet in each unit that writers use, INT96 too, and the bounds of the
calendar, on each engine.

Tested here: rows of whole files with such columns, selected or not. Not tested here: digits that no
engine keeps (`intake.test_parquet_files`), and texts that are moments (`test_deliveries`).
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets import LakeSettings
from backfill_assets.intake.content_store import StoredFile, find_content
from backfill_assets.intake.deliveries import read_deliveries
from backfill_assets.intake.ingest import ingest
from backfill_assets_tests import strategies  # noqa: F401 - the profile of properties
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.landed import land, stock

# Microseconds since 1970: of the calendar's first and last moment, and of what 64 bits of
# nanoseconds hold.
FIRST, LAST, LAST_DAY = -62_135_596_800_000_000, 253_402_300_799_999_999, 253_402_214_400_000_000
WITHIN_64_BITS = st.integers(-9_223_372_036_854_775, 9_223_372_036_854_775)
MOMENTS = st.one_of(st.integers(FIRST, LAST), st.sampled_from([FIRST, LAST, LAST_DAY]))
SEEN, AT = datetime(2024, 3, 10, tzinfo=UTC), datetime(2024, 3, 5, 9, tzinfo=UTC)
SELECT = "id AS event_key, at AS event_ts, at AS arrival_ts, 'a' AS who"


def chosen(with_until: bool) -> LakeSettings:
    payload = {"who": "STRING"} | ({"until": "TIMESTAMP"} if with_until else {})
    select = SELECT + (", until" if with_until else "")
    source = {"files": "x", "format": "parquet", "select": select, "payload": payload}
    return LakeSettings.model_validate(
        {"start_date": date(2024, 3, 1), "source": source, "features": {"entity": ["who"]}}
    )


def stocked(folder: Path, columns: dict[str, Any], *, is_old: bool) -> StoredFile:
    table, sink = pa.table(columns), pa.BufferOutputStream()
    pq.write_table(table, sink, use_deprecated_int96_timestamps=is_old)
    intake = ingest(
        land(folder / "landing", "a.parquet", sink.getvalue().to_pybytes()),
        "parquet",
        stock(folder),
    )
    found = find_content(stock(folder), intake.sha256, SEEN, date(2024, 3, 5))
    assert found is not None
    assert found.refused is None
    return found


def moments_of(micros: Sequence[int], unit: str = "us") -> pa.Array:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us")).cast(pa.timestamp(unit))


@settings(max_examples=12, deadline=None)
@given(st.data(), st.sampled_from(["INT96", "us", "ns"]))
def test_moments_of_the_calendar_are_rows_in_any_unit_whether_selected_or_not(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, unit: str
) -> None:
    moments = data.draw(
        st.lists(WITHIN_64_BITS if unit == "ns" else MOMENTS, min_size=1, max_size=5)
    )
    columns = {
        "id": [f"k{n}" for n in range(len(moments))],
        "at": pa.array([AT] * len(moments), pa.timestamp("us")),
        "until": moments_of(moments, "ns" if unit == "ns" else "us"),
    }
    file = stocked(tmp_path_factory.mktemp("times"), columns, is_old=unit == "INT96")
    for is_selected in (True, False):
        read = read_deliveries(spark, [file], chosen(is_selected)).orderBy("row_number")
        until = "unix_micros(until) AS until" if is_selected else "row_number AS until"
        rows = read.selectExpr("reason", until).collect()
        assert [r["reason"] for r in rows] == [None] * len(moments)
        if is_selected:
            assert [r["until"] for r in rows] == moments


def test_a_moment_beyond_the_calendar_costs_its_row_where_its_column_is_read(
    spark: "SparkSession", tmp_path: Path
) -> None:
    columns = {
        "id": ["a", "b"],
        "at": pa.array([AT] * 2, pa.timestamp("us")),
        "until": moments_of([LAST, LAST + 1]),
    }
    file = stocked(tmp_path, columns, is_old=True)
    counts = {}
    for is_selected in (True, False):
        rows = read_deliveries(spark, [file], chosen(is_selected)).select("reason").collect()
        counts[is_selected] = sum(r["reason"] is None for r in rows)
    assert counts == {True: 1, False: 2}
