"""Queries by the names of tables: answered from the lake's files, and unable to touch any other
file. Not here: the command's drawing (`reading.test_sql_command`)."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.embedded import SPILL, new_engine, rows_query
from backfill_assets.kernel.tables.versions import UnfinishedSwitch, record_versions, switch_tables
from backfill_assets.reading.queries import refuse_writing
from backfill_assets.reading.reader import LakeReader
from backfill_assets.reading.sql import answer_query, arrow_dataset, bounded_table, own_engine
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.planned import BUILT, DAYS, Planned
from backfill_assets_tests.readable_lake import FIRST, TABLE, version_of_event, write

pytestmark = pytest.mark.usefixtures("storages")


def rows(
    reader: LakeReader, query: str, at: datetime | int | None = None, snapshot: str = ""
) -> list[tuple[object, ...]]:
    found = answer_query(reader.lake, reader.pipeline, query, at, snapshot).rows
    return [tuple(row.values()) for row in found.to_pylist()]


def test_tables_are_known_by_their_names_also_those_without_rows(reader: LakeReader) -> None:
    assert rows(
        reader, "SELECT count(*), min(event_key) FROM staging WHERE event_date = '2024-03-02'"
    ) == [(2, "c")]
    assert rows(
        reader, "WITH s AS (FROM Staging) SELECT count(*) FROM s LEFT JOIN raw USING (event_key)"
    ) == [(4,)]


def test_tables_are_also_known_as_they_were_and_as_a_snapshot_keeps_them(
    reader: LakeReader,
) -> None:
    create_snapshot(reader.lake, reader.pipeline, SnapshotRequest("spring", (TABLE,), unfit="take"))
    before = list(reader.lake.store.commits(TABLE))[-1].at
    write(reader, [version_of_event(1, "c", 31)], "new")
    query = "SELECT sum(value)::BIGINT FROM staging"
    assert rows(reader, query) == [(34,)]
    assert (
        rows(reader, query, at=before)
        == rows(reader, query, snapshot="spring")
        == [(33 + (1 << 60),)]
    )
    with pytest.raises(BackfillError, match="no commit by"):
        rows(reader, query, at=datetime(2001, 1, 1, tzinfo=UTC))
    with pytest.raises(BackfillError, match="no lake version 0"):
        rows(reader, query, at=0)


def test_an_instant_between_the_commits_of_a_publication_shows_all_tables_as_before_it(
    tmp_path: Path,
) -> None:
    made, work = Planned(tmp_path / "lake"), UnfinishedSwitch("p9", "publish p9", "Finish it")
    with switch_tables(made.lake, made.pipeline.contracts, BUILT, work):
        made.write("staging", dict.fromkeys(range(DAYS), 5))
        between = utc_now()
        made.write("features", dict.fromkeys(range(DAYS), 5))
    both = "SELECT DISTINCT s.value, f.value AS ahead FROM staging s, features f"
    for at, values in ((between, (1, 1)), (utc_now(), (5, 5))):
        [found] = answer_query(made.lake, made.pipeline, both, at).rows.to_pylist()
        assert (found["value"], found["ahead"]) == values


def test_a_lake_version_also_has_the_landed_files_of_then(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    made.list_files()
    number = record_versions(made.lake, made.pipeline.contracts, "made").number
    count = "SELECT count(*) AS n FROM files"
    assert answer_query(made.lake, made.pipeline, count, number).rows.to_pylist() == [{"n": DAYS}]


FORGED = "SELECT * REPLACE (999999 AS value) FROM staging"
TO_LIVE = "TO '{live}' (FORMAT parquet, USE_TMP_FILE false)"
TOUCHING = [
    "SELECT * FROM read_text('{secret}'), staging",
    "SELECT * FROM '{secret}', staging",
    "SELECT * FROM glob('{folder}/*'), staging",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    f"COPY staging {TO_LIVE}",
    f"EXPLAIN ANALYZE COPY (SELECT 1) {TO_LIVE}",
    "ATTACH '{folder}/x.db'",
    "CREATE TABLE t AS SELECT 1",
    "DROP VIEW staging",
    "SET enable_external_access = true",
    "SELECT 1; SELECT 2",
    "INSTALL httpfs",
    " ",
]
WRITING = [
    f"WITH t AS MATERIALIZED (COPY ({FORGED}) {TO_LIVE}) SELECT 1",
    f"WITH t AS (COPY ({FORGED}) {TO_LIVE}) SELECT * FROM t",
    f"WITH t AS MATERIALIZED (COPY ({FORGED}) {TO_LIVE}) SELECT (SELECT count(*) FROM t) AS n",
    f"WITH a AS (SELECT 1), t AS MATERIALIZED (COPY ({FORGED}) {TO_LIVE}) SELECT * FROM a",
    f"WITH o AS (WITH t AS MATERIALIZED (COPY ({FORGED}) {TO_LIVE}) SELECT 1) SELECT * FROM o",
    f"SELECT (WITH t AS MATERIALIZED (COPY ({FORGED}) {TO_LIVE}) SELECT 1)",
    f"SELECT * FROM (WITH t AS MATERIALIZED (COPY ({FORGED}) {TO_LIVE}) SELECT 1)",
    f"SELECT * FROM query($$WITH t AS MATERIALIZED (COPY ({FORGED}) {TO_LIVE}) SELECT 1$$)",
    f"/* no plan */ WITH t AS MATERIALIZED (COPY ({FORGED}) {TO_LIVE}) SELECT 1 -- none",
    "WITH t AS MATERIALIZED (COPY (SELECT * FROM read_parquet('{live}')) TO '{live}' (FORMAT "
    "parquet)) SELECT 1",
    "WITH t AS MATERIALIZED (COPY (SELECT 1) TO '{live}' (FORMAT csv)) SELECT 1",
    "WITH t AS MATERIALIZED (COPY (SELECT 1) TO '{folder}/out.csv') SELECT 1",
    "WITH t AS MATERIALIZED (COPY (SELECT 1) TO '/dev/stdout' (FORMAT csv)) SELECT 1",
    "WITH t AS MATERIALIZED (COPY (SELECT 1) TO '{spill}/out.csv' (FORMAT csv, USE_TMP_FILE "
    "false)) SELECT 1",
    "WITH t AS MATERIALIZED (COPY (SELECT 1 AS z, 2 AS y) TO '{spill}' (FORMAT csv, PARTITION_BY "
    "(y))) SELECT 1",
    "WITH t AS MATERIALIZED (COPY (SELECT 1) TO '{spill}/../out.csv' (FORMAT csv, USE_TMP_FILE "
    "false)) SELECT 1",
    "WITH t AS MATERIALIZED (INSERT INTO staging SELECT * FROM staging RETURNING *) SELECT * FROM "
    "t",
    "WITH t AS MATERIALIZED (UPDATE staging SET value = 1 RETURNING *) SELECT * FROM t",
    "WITH t AS MATERIALIZED (DELETE FROM staging RETURNING *) SELECT * FROM t",
    "WITH t AS (MERGE INTO staging USING staging AS s ON true WHEN MATCHED THEN DELETE RETURNING "
    "*) SELECT 1",
    "WITH t AS (CREATE TABLE x AS SELECT 1) SELECT 1",
    "WITH t AS (ATTACH '{folder}/x.db') SELECT 1",
    "SELECT * FROM enable_logging('QueryLog', storage = 'file', storage_path = '{folder}/out')",
    "SELECT * FROM enable_profiling(save_location = '{folder}/out.json')",
]


@pytest.mark.parametrize("past", ["now", "snapshot", "at"])
def test_a_query_that_would_write_or_read_another_file_is_refused_wherever_it_would(
    reader: LakeReader, tmp_path: Path, past: str
) -> None:
    create_snapshot(reader.lake, reader.pipeline, SnapshotRequest("spring", (TABLE,), unfit="take"))
    (tmp_path / "secret.txt").write_text("secret")
    moment = list(reader.lake.store.commits(TABLE))[-1].at if past == "at" else None
    before = contents(tmp_path)
    for query in (*TOUCHING, *WRITING):
        asked = filled_in(query, reader, tmp_path)
        with pytest.raises(BackfillError, match="the query"):
            rows(reader, asked, at=moment, snapshot="spring" if past == "snapshot" else "")
        assert contents(tmp_path) == before, asked


def test_a_plan_that_writes_is_refused_also_where_nothing_else_hinders_it(
    reader: LakeReader, tmp_path: Path
) -> None:
    before, refused = contents(tmp_path), []
    with own_engine(reader.lake) as engine:
        engine.execute("CREATE TABLE staging AS SELECT 1 AS value")
        for query in WRITING:
            asked = filled_in(query, reader, tmp_path)
            try:
                refuse_writing(engine, asked)
            except BackfillError as error:
                refused.append(str(error))
            except duckdb.Error:
                continue  # DuckDB does not take it at all
            else:
                assert "enable_" in asked
        assert engine.sql("FROM staging").fetchall() == [(1,)]
    assert contents(tmp_path) == before
    assert len([r for r in refused if "it would write" in r]) == len(refused) >= 12


def filled_in(query: str, reader: LakeReader, folder: Path) -> str:
    [live, *_] = reader.lake.store.data_files(reader.pipeline.table(TABLE).contract)
    words = {
        "live": live,
        "folder": folder,
        "secret": folder / "secret.txt",
        "spill": reader.lake.root / SPILL,
    }
    return query.format_map({name: str(word).replace("'", "''") for name, word in words.items()})


def contents(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"}


VALUES: dict[str, list[object]] = {
    "BOOLEAN": [True, False],
    "INT": [-1, 2**31 - 1],
    "BIGINT": [-1, 2**63 - 1],
    "DOUBLE": [float("nan"), -0.0],
    "STRING": ["", "é'\0"],
    "DATE": [date(1, 1, 1), date(9999, 12, 31)],
    "BINARY": [b"", b"\0\xff"],
    "TIMESTAMP": [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)],
    "DECIMAL(38,18)": [
        Decimal("-1.000000000000000001"),
        Decimal("99999999999999999999.999999999999999999"),
    ],
}


def test_rows_of_every_type_come_through_arrow_as_duckdb_reads_them_itself(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    lists: dict[str, list[object]] = {
        f"ARRAY<{kind}>": [[], [*values, None]] for kind, values in VALUES.items()
    }
    cells = {
        f"c{n}": (kind, [*values, None])
        for n, (kind, values) in enumerate({**VALUES, **lists}.items())
    }
    columns = [Column(name, kind, name, nullable=True) for name, (kind, _) in cells.items()]
    older = Contract(
        "made",
        "made",
        (Column("day", "DATE", "day"), *columns),
        day_column="day",
        key=(),
        inputs=(),
    )
    made = [
        {"day": FIRST + timedelta(n % 2), **{c: v[n] for c, (_, v) in cells.items()}}
        for n in range(3)
    ]
    files = list(stage_by_hand(lake, older, made).paths)
    newer = replace(
        older, columns=(*older.columns[:-1], Column("added", "BIGINT", "added", nullable=True))
    )
    for contract in (older, newer):
        with new_engine(lake.root) as engine:
            engine.register("arrow", arrow_dataset(files, contract))
            ours = engine.sql("FROM arrow ORDER BY day, c1").to_arrow_table()
            theirs = engine.sql(
                f"FROM ({rows_query(files, contract)}) ORDER BY day, c1"
            ).to_arrow_table()
        assert ours.schema == theirs.schema
        assert repr(ours.to_pylist()) == repr(
            theirs.to_pylist()
        )  # as texts: nan is not nan, and -0.0 is 0.0


def test_a_query_that_reads_may_speak_of_writing(reader: LakeReader) -> None:
    query = "SELECT count(*) AS \"COPY\" FROM staging WHERE entity <> 'INSERT INTO x' -- DELETE"
    assert rows(reader, query) == [(4,)]
    assert rows(reader, "DESCRIBE staging")[0][:2] == ("event_key", "VARCHAR")
    assert (
        len(
            rows(
                reader,
                "SELECT * FROM (PIVOT staging ON entity IN ('A') USING count(*) GROUP BY "
                "event_date)",
            )
        )
        == 2
    )


def test_a_ledger_has_no_rows_before_its_first_one(reader: LakeReader) -> None:
    for query in (
        "SELECT arrival_date, row_number, reason FROM quarantine",
        "SELECT event_key FROM too_late",
    ):
        assert rows(reader, query) == []


def test_a_table_that_is_not_there_is_answered_with_those_that_are(reader: LakeReader) -> None:
    with pytest.raises(
        BackfillError, match=r"there is no table nowhere.*Choose one of raw, staging"
    ):
        rows(reader, "SELECT * FROM nowhere")


def test_an_answer_is_held_within_a_bound() -> None:
    with duckdb.connect() as engine:
        assert bounded_table(engine.sql("SELECT * FROM range(10)").to_arrow_reader()).num_rows == 10
        with pytest.raises(BackfillError, match="its answer has more than 1 MiB"):
            bounded_table(engine.sql("SELECT * FROM range(1_000_000)").to_arrow_reader(), 1 << 20)
