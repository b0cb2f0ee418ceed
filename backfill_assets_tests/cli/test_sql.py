"""`sql` as a person meets it: drawn, as JSON and as CSV; a mistake is one line.

Tested here: `cli.sql`. Not tested here: what a query may touch (`operations.test_sql`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")

QUERY = "SELECT event_key, value, entity, event_ts FROM staging WHERE value < 10 OR event_key = 'c' ORDER BY 1"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
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


def test_dates_and_times_of_any_year_are_shown_as_text(lake: Path) -> None:
    query = (
        "SELECT DATE '12000-01-01' AS day, [DATE '12000-01-01', NULL] AS days, TIMESTAMPTZ '12000-01-01' AS at, 1 AS n"
    )
    assert read(run("sql", "--lake", lake, query, "--json")) == [
        {"day": "12000-01-01", "days": ["12000-01-01", None], "at": "12000-01-01 00:00:00.000000Z", "n": 1}
    ]
    for more in ((), ("--csv",)):
        assert "12000-01-01 00:00:00.000000Z" in run("sql", "--lake", lake, query, *more).stdout


def test_what_cannot_be_answered_is_one_line_and_exit_code_1(lake: Path) -> None:
    for query in ("SELECT * FROM nowhere", "SELEC 1", "DROP TABLE staging"):
        done = run("sql", query, "--lake", lake)
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1), done.stderr
        assert done.stderr.startswith("Error: the query: ")
    assert run("sql", "SELECT 1", "--at", "2024-01-01", "--snapshot", "x", "--lake", lake).exit_code == 2
