"""Reads of consumers, tried against rows that are staged and not yet published.
Not here: other gates (`test_gates`), the write that this one refuses (`kernel.write.test_rebuild`),
and refusing queries that write (`reading.test_sql`)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.queries import failed_reads, failed_staged_reads
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand, stage_by_hand
from backfill_assets_tests.synthetic import synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
FAILS_UNLESS_ONE_NINE = (
    "SELECT error('value 9 on ' || n) FROM (SELECT count(*) AS n FROM staging WHERE value = 9) "
    "WHERE n <> 1"
)


def rows(*values: int) -> list[dict[str, Any]]:
    return [{"entity": "A", "value": v, "event_date": day(n)} for n, v in enumerate(values)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with two days of staging: the values 1 and 9."""
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, STAGING, rows(1, 9))
    return lake


def tried(lake: Lake, query: str, *values: int, contract: Contract = STAGING) -> list[str]:
    """The read with these values staged in place of the first days."""
    staged = stage_by_hand(lake, contract, rows(*values))
    return failed_reads(
        lake, [contract], [query], contract, staged.paths, [day(n) for n in range(len(values))]
    )


def test_staged_days_stand_in_place_of_the_standing_ones_and_the_others_stay(lake: Lake) -> None:
    assert failed_reads(lake, [STAGING], [FAILS_UNLESS_ONE_NINE]) == []
    assert tried(lake, FAILS_UNLESS_ONE_NINE, 2) == []
    [told] = tried(lake, FAILS_UNLESS_ONE_NINE, 9)
    assert "value 9 on 2" in told
    [told] = tried(lake, FAILS_UNLESS_ONE_NINE, 9, 9)
    assert "value 9 on 2" in told
    assert tried(lake, FAILS_UNLESS_ONE_NINE, 9, 1) == []


def test_under_a_candidate_its_days_stand_in_place_of_the_lakes_and_all_other_tables_are_the_lakes(
    lake: Lake,
) -> None:
    follower = replace(STAGING, name="total")
    publish_by_hand(lake, follower, rows(9))
    there = replace(
        lake, root=lake.root / "candidate", shared=lake.root, own=frozenset({STAGING.name})
    )
    reads = [
        FAILS_UNLESS_ONE_NINE,
        "SELECT t.value FROM staging JOIN total AS t USING (event_date)",
    ]

    def told(*values: int) -> list[str]:
        publish_by_hand(there, STAGING, rows(*values), digest=str(values))
        return failed_reads(there, [STAGING, follower], reads)

    assert failed_reads(there, [STAGING, follower], reads) == [], (
        "it has built nothing: readers see the lake's days"
    )
    assert told(1) == []
    [failed] = told(9)
    assert "value 9 on 2" in failed, "the second day is still the lake's"
    assert told(9, 1) == []
    staged = stage_by_hand(there, STAGING, rows(1))
    [failed] = failed_reads(there, [STAGING], reads[:1], STAGING, staged.paths, [day(0)])
    assert "value 9 on 0" in failed


def test_the_pipeline_gives_each_read_to_the_tables_that_it_names_and_makes_no_day_outdated(
    tmp_path: Path,
) -> None:
    lake, plain = synthetic_lake(tmp_path, 1)
    path = tmp_path / "lake.toml"
    path.write_text(
        f'{path.read_text()}\n[gates]\nreads = ["SELECT 1 FROM Staging JOIN labels USING '
        '(entity)"]\n'
    )
    reading = chosen_pipeline(open_lake(lake.root))
    assert {c.name for c in reading.contracts if c.consumer_queries} == {"staging", "labels"}
    assert reading.codes == chosen_pipeline(lake).codes
    assert plain.table("staging").contract.consumer_queries == ()


def test_what_is_no_single_select_fails_and_an_unknown_table_is_named(lake: Lake) -> None:
    [told] = tried(lake, "DROP TABLE staging", 1)
    assert "DROP" in told
    [told] = tried(lake, "SELECT * FROM nowhere", 1)
    assert "nowhere" in told


LOGGING = "enable_logging(storage_path=$${}$$)"


@pytest.mark.parametrize(
    ("wrap", "effect"),
    [
        ("SELECT * FROM {}", "enable_profiling(save_location=$${}$$, format=$$json$$)"),
        ("SELECT * FROM {}", "checkpoint()"),
        *(
            (wrap, LOGGING)
            for wrap in ("SELECT 1 IN (FROM {})", "FROM query('FROM {}')", "FROM staging, {}")
        ),
    ],
)
def test_a_table_function_that_may_do_more_than_read_fails(
    lake: Lake, tmp_path: Path, effect: str, wrap: str
) -> None:
    file = tmp_path / "settings.json"
    file.write_text("mine")
    [told] = tried(lake, wrap.format(effect.format(file)), 1)
    assert "may do more than read" in told or "configuration has been locked" in told
    assert (file.read_text(), failed_reads(lake, [STAGING], ["SELECT value FROM staging"])) == (
        "mine",
        [],
    )


@pytest.mark.parametrize(
    "reads",
    [
        "range(3)",
        "'{}'",
        "read_parquet('{}')",
        "glob('{}')",
        "(SELECT unnest([1]))",
        "json_each('[1]')",
        "(VALUES (1))",
    ],
)
def test_files_series_and_values_may_be_read_beside_the_tables(
    lake: Lake, tmp_path: Path, reads: str
) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    assert tried(lake, f"SELECT * FROM staging, {reads.format(tmp_path / 'a.parquet')}", 1) == []


class FarAway(Staged):
    """Staged files in a bucket, of which none may come to this machine."""

    @property
    def paths(self) -> list[str]:
        pytest.fail("its files were brought here")


def test_staged_files_of_a_table_that_no_consumer_reads_stay_where_they_lie(lake: Lake) -> None:
    staged = FarAway.__new__(FarAway)
    assert failed_staged_reads(lake, [STAGING], STAGING, staged, [day(0)]) == []
