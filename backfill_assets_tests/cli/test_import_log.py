"""`import-log` as a person uses it: counts, the next command, a loaded lake without duplicates. No JVM."""

from pathlib import Path

import duckdb
import pytest

from backfill_assets_tests.cli.typed import read, run

LOG = """
    SELECT i % 50 AS id, TIMESTAMP '2024-03-01' + INTERVAL (i % 50) HOUR AS happened,
        TIMESTAMP '2024-03-01' + INTERVAL (i) HOUR AS came, i * 2 AS amount FROM range(60) t(i)
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command for a log of sixty rows of fifty keys."""
    duckdb.connect().execute(f"COPY ({LOG}) TO '{tmp_path}/log.parquet' (FORMAT parquet)")
    given = [
        "import-log",
        tmp_path / "log.parquet",
        "--into",
        tmp_path / "lake",
        "--key",
        "id",
        "--event-ts",
        "happened",
    ]
    return [*map(str, given), "--arrival-ts", "came"]


def test_counts_come_with_the_next_command_and_as_json(words: list[str], tmp_path: Path) -> None:
    shown = " ".join(run(*words).output.split())
    assert "60 rows of 50 keys: 10 duplicate(s), 0 row(s) without key or time; 3 file(s), 3 written now" in shown
    assert f"backfill-assets catch-up --lake {tmp_path / 'lake'}" in shown
    assert (found := read(run(*words, "--json")))["duplicates"] == 10
    assert (found["written"], found["payload"]) == (0, ["id", "amount"])


def test_a_loaded_lake_has_no_duplicates_and_equals_the_newest_row_of_each_key(
    words: list[str], processes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", "sail")
    found = read(run(*words, "--load", "--json"))
    assert (found["duplicates"], found["duplicates_left"], found["mismatches"]) == (10, 0, 0)
