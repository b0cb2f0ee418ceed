"""Queries by the names of tables: answered from the lake's files, and unable to touch any other file.

Tested here: `operations.sql`, without an engine. Not tested here: the command's drawing (`cli.test_sql`).
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.core.errors import BackfillError
from backfill_assets.operations.reader import LakeReader
from backfill_assets.operations.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.operations.sql import Question, ask
from backfill_assets_tests.operations.readable_lake import TABLE, readable_lake, version_of_event, write

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def reader(tmp_path: Path) -> LakeReader:
    return readable_lake(tmp_path / "it's a lake")


def rows(reader: LakeReader, query: str, at: datetime | None = None, snapshot: str = "") -> list[tuple[object, ...]]:
    found = ask(reader.lake, reader.pipeline, Question(query, at, snapshot)).rows
    return [tuple(row.values()) for row in found.to_pylist()]


def test_tables_are_known_by_their_names_also_those_without_rows(reader: LakeReader) -> None:
    assert rows(reader, "SELECT count(*), min(event_key) FROM staging WHERE event_date = '2024-03-02'") == [(2, "c")]
    assert rows(reader, "WITH s AS (FROM Staging) SELECT count(*) FROM s LEFT JOIN raw USING (event_key)") == [(4,)]


def test_tables_are_also_known_as_they_were_and_as_a_snapshot_keeps_them(reader: LakeReader) -> None:
    create_snapshot(reader.lake, reader.pipeline, SnapshotRequest("spring", (TABLE,)))
    before = list(reader.lake.store.commits(TABLE))[-1].at
    write(reader, [version_of_event(1, "c", 31)], "new")
    query = "SELECT sum(value)::BIGINT FROM staging"
    assert rows(reader, query) == [(34,)]
    assert rows(reader, query, at=before) == rows(reader, query, snapshot="spring") == [(33 + (1 << 60),)]
    with pytest.raises(BackfillError, match="no commit by"):
        rows(reader, query, at=datetime(2001, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('{folder}/*')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "COPY staging TO '{live}' (FORMAT parquet, USE_TMP_FILE false)",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{live}' (FORMAT parquet, USE_TMP_FILE false)",
        "ATTACH '{folder}/x.db'",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW staging",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
        "INSTALL httpfs",
        "",
    ],
)
def test_a_query_reads_no_other_file_and_writes_none(reader: LakeReader, tmp_path: Path, query: str) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("secret")
    [live, *_] = reader.lake.store.data_files(reader.pipeline.table(TABLE).contract)
    before = Path(live).read_bytes()
    asked = query.format(file=file, folder=tmp_path, live=live.replace("'", "''"))
    with pytest.raises(BackfillError, match="the query"):
        rows(
            reader, f"{asked} " if "FROM" not in asked else f"{asked}, staging" if asked.startswith("SELECT") else asked
        )
    assert Path(live).read_bytes() == before
    assert not list(tmp_path.glob("out*"))


def test_a_table_that_is_not_there_is_answered_with_those_that_are(reader: LakeReader) -> None:
    with pytest.raises(BackfillError, match=r"nowhere does not exist.*Its tables are raw, staging"):
        rows(reader, "SELECT * FROM nowhere")


def test_days_that_are_not_fit_are_told_beside_the_answer(reader: LakeReader) -> None:
    assert ask(reader.lake, reader.pipeline, Question("SELECT 1 FROM staging")).unfit == {}
    DeltaTable(str(reader.lake.table_path(TABLE))).delete("event_key = 'a'")  # another program
    found = ask(reader.lake, reader.pipeline, Question("SELECT 1 FROM staging"))
    assert (found.rows.num_rows, found.unfit) == (3, {TABLE: "stale 2024-03-01"})
