"""`sql`, `export` and `attach` as a person meets them: drawn, as JSON and as CSV; a mistake is one
line. Not here: what a query may touch (`reading.test_sql`), what is brought
(`export.test_export`)."""

import os
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from backfill_assets.cli.sql_command import write_csv
from backfill_assets.kernel.core.addresses import STATE_VARIABLE
from backfill_assets.kernel.place.port import RUNS
from backfill_assets.kernel.place.processes import PlacedProcess
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.reading.opening import ReadersWait, open_lake
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.end_to_end.test_bucket_lake import bare_bucket, written
from backfill_assets_tests.files import write_json
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.readable_lake import readable_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("storages")

QUERY = (
    "SELECT event_key, value, entity, event_ts FROM staging WHERE value < 10 OR event_key = 'c' "
    "ORDER BY 1"
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """`staging` has two versions: of its second day, an event changed and one came."""
    readable_lake(tmp_path)
    return tmp_path


def test_rows_are_drawn_with_their_number(lake: Path) -> None:
    lines = run("sql", QUERY, "--lake", lake).stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["event_key", "value", "entity", "event_ts"],
        ["a", "1", "A", "2024-03-01T12:00:00+00:00"],
        ["b", "2", "A", "2024-03-01T12:00:00+00:00"],
        ["c", "30", "A", "2024-03-02T12:00:00+00:00"],
        ["3", "row(s)"],
    ]
    assert run("sql", QUERY, "--lake", lake, "--rows", 1).stdout.splitlines()[-1] == (
        "3 row(s), 2 of them not shown (--rows)"
    )


def test_programs_get_json_or_csv(lake: Path) -> None:
    assert [r["value"] for r in read(run("sql", QUERY, "--json", "--lake", lake))] == [1, 2, 30]
    told = run("sql", "SELECT 'a,\"b' AS x, NULL AS y", "--csv", "--lake", lake).stdout
    assert told.splitlines() == ["x,y", '"a,""b",']
    bytes_ = (
        "SELECT 'a'::BLOB AS b, ['\\xFF'::BLOB] AS l, {'d': DATE '2024-03-01'} AS s, "
        "'inf'::DOUBLE AS i"
    )
    assert read(run("sql", bytes_, "--json", "--lake", lake)) == [
        {"b": "61", "l": ["ff"], "s": {"d": "2024-03-01"}, "i": "inf"}
    ]
    told = run("sql", bytes_, "--csv", "--lake", lake).stdout
    assert told.splitlines() == ["b,l,s,i", "61,['ff'],{'d': '2024-03-01'},inf"]


HOSTILE = "SELECT 1 AS \"a\x1b]0;x\x07\u202e\", chr(27) || '[31m' AS v"


def test_a_screen_obeys_neither_a_name_nor_a_value(lake: Path) -> None:
    drawn = run("sql", HOSTILE, "--lake", lake).stdout.splitlines()
    assert (drawn[0].split(), drawn[1].split()) == (
        ["a\\x1b]0;x\\x07\\u202e", "v"],
        ["1", "\\x1b[31m"],
    )
    piped = run("sql", HOSTILE, "--csv", "--lake", lake).stdout.splitlines()
    assert piped == ['"a\x1b]0;x\x07\u202e","v"', "1,\x1b[31m"], "a program gets the bytes"
    screen = Screen()
    write_csv(pa.table({"a\x1b]0;x\x07\u202e": [1], "v": ["\x1b[31m"]}), screen)
    assert screen.getvalue().splitlines() == ['"a\\x1b]0;x\\x07\\u202e","v"', "1,\\x1b[31m"]


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_spreadsheet_computes_no_text_and_splits_no_cell(lake: Path) -> None:
    query = (
        "SELECT '=1+1' AS \"@a\", '+1' AS b, '-1' AS c, '＝x' AS d, -1 AS e, 'x=1' AS f, NULL AS g"
    )
    lines = run("sql", query, "--csv", "--lake", lake).stdout.splitlines()
    assert lines == ["'@a,b,c,d,e,f,g", "'=1+1,'+1,'-1,'＝x,-1,x=1,"]
    out = StringIO()
    write_csv(
        pa.table({"v": ["a;=1+1", "b\r=1+1", "\t=1", "\r=1", "plain"], "n": [1, -2, 3, 4, 5]}), out
    )
    ends = out.getvalue().removesuffix("\n").split("\n")
    assert ends == [
        "v,n",
        '"a;=1+1","1"',
        '"b\r=1+1","-2"',
        '"\'\t=1","3"',
        '"\'\r=1","4"',
        "plain,5",
    ]


def test_what_cannot_be_answered_is_one_line_and_exit_code_1(lake: Path) -> None:
    for query in ("SELECT * FROM nowhere", "SELEC 1", "DROP TABLE staging"):
        done = run("sql", query, "--lake", lake)
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1), done.stderr
        assert done.stderr.startswith("Error: the query: ")
    assert (
        run("sql", "SELECT 1", "--at", "2024-01-01", "--snapshot", "x", "--lake", lake).exit_code
        == 2
    )


@pytest.mark.parametrize("reader", ["duckdb", "polars", "spark"])
def test_all_tables_are_of_the_newest_lake_version_unless_their_heads_are_asked_for(
    tmp_path: Path, reader: str
) -> None:
    made = Planned(tmp_path / "lake")
    heads = run("attach", reader, on=made).stdout
    record_versions(made.lake, made.pipeline.contracts, "a run")
    made.write("staging", {0: 9})
    told = run("attach", reader, on=made).stdout
    of_version = {
        "duckdb": "/staging', version => 1);",
        "polars": "/staging', version=1)",
        "spark": "/staging@v1`;",
    }
    assert of_version[reader] in told
    assert run("attach", reader, "--newest", on=made).stdout == heads


def test_an_export_and_a_snapshot_are_of_the_newest_lake_version_unless_asked_otherwise(
    tmp_path: Path,
) -> None:
    made = Planned(tmp_path / "lake")
    record_versions(made.lake, made.pipeline.contracts, "a run")
    made.write("staging", {0: 9})  # as a chunk that is under way
    export = ["export", "staging", "--to", tmp_path / "out", "--json"]
    keep = ["snapshot", "create", "--tables", "staging", "--unfit", "take", "--json"]
    for newest in ([], ["--newest"]):
        [exported] = read(run(*export, *newest, on=made))
        kept = read(run(*keep, f"s{len(newest)}", *newest, on=made))
        version = 1 + len(newest)
        assert (exported["version"], kept["tables"]["staging"]["version"]) == (version, version)


def test_readers_of_a_lake_in_a_bucket_get_its_address_as_they_write_it(
    tmp_path: Path, bucket_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    written(bare_bucket(bucket_address, tmp_path), 1, 0)
    told = {
        r: run("attach", r, "--lake", bucket_address).stdout for r in ("duckdb", "polars", "spark")
    }
    host = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    secret = (
        f"TYPE s3, PROVIDER credential_chain, ENDPOINT '{host}', URL_STYLE 'path', USE_SSL false);"
    )
    assert secret in told["duckdb"]
    assert len(duckdb.extract_statements(told["duckdb"])) == 4
    assert f"'{bucket_address}/tables/staging'" in told["duckdb"]
    assert f"'{bucket_address}/tables/staging'" in told["polars"]
    assert f"s3a{bucket_address.removeprefix('s3')}/tables/staging" in told["spark"]
    assert str(tmp_path) not in "".join(told.values())
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", os.environ["AWS_ENDPOINT_URL"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://of.another.service/")
    assert secret in run("attach", "duckdb", "--lake", bucket_address).stdout


@pytest.mark.on_spark("its catalog and SQL are Spark's")
def test_spark_reads_every_table_by_name_after_what_attach_says(
    spark: "SparkSession", tmp_path: Path
) -> None:
    made = Planned(tmp_path / "the lake's")
    lines = run("attach", "spark", on=made).stdout.split(";\n")
    names = [*read(run("attach", "spark", "--json", on=made))]
    try:
        for line in filter(None, map(str.strip, lines)):
            spark.sql(line).collect()
        for name in names:
            told = pa.table(spark.sql(f"SELECT * FROM {name}").toArrow()).to_pylist()
            there = (
                DeltaTable(str(made.lake.table_place(name).local())).to_pyarrow_table().to_pylist()
            )
            assert sorted(map(str, map(dict.items, told))) == sorted(
                map(str, map(dict.items, there))
            )
    finally:
        for name in names:
            spark.sql(f"DROP TABLE IF EXISTS {name}").collect()


def test_whoever_reads_while_a_run_keeps_commits_back_is_told_since_when_by_whom_and_what_ends_it(
    tmp_path: Path,
) -> None:
    made = Planned(tmp_path / "lake")
    record_versions(made.lake, made.pipeline.contracts, "made")
    elsewhere = replace(PlacedProcess.this(), host="pod-7", boot="another")
    write_json(made.root / RUNS / "there" / "long-running", vars(elsewhere))
    made.write("staging", {0: 9}, "long-running")
    query, to = ["sql", "SELECT value FROM staging"], str(tmp_path / "out")
    commands = [query, ["export", "staging", "--to", to], ["attach", "polars"], ["status"]]
    assert "readers wait" not in "".join(run(*words, on=made).stderr for words in commands), (
        "nobody else has ended"
    )
    record_versions(made.lake, made.pipeline.contracts, "another run")
    said = "Note: readers wait for the run long-run on pod-7 since 20"
    for words in commands:
        told = " ".join(run(*words, on=made).stderr.split())
        assert said in told
        assert "is read once it ends, or 120 s after its last sign of life; `--newest`" in told
    assert read(run("status", "--json", on=made))["readers_wait"].startswith(
        said.removeprefix("Note: ")
    )
    assert "readers wait" not in run("sql", "SELECT 1", "--newest", on=made).stderr
    with pytest.warns(ReadersWait, match="the run long-run on pod-7"):
        open_lake(made.root)
    (made.root / RUNS / "there" / "long-running").unlink()
    assert "readers wait" not in run("sql", "SELECT 1", on=made).stderr
    open_lake(made.root)
