"""Known totals: a table that was doubled shows at the next judging; a dead control and a lost file
are never green. Not here: tolerances (`reconcile.test_reconcile`)."""

import json
import os
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.kernel.tables.folder import RECONCILED
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.outcomes import (
    OUTCOMES,
    ControlOutcome,
    broken_controls,
    last_outcomes,
)
from backfill_assets.reconcile.reconcile import judge_controls
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.readable_lake import TABLE, readable_lake

pytestmark = pytest.mark.usefixtures("storages")
SUMS = (
    "SELECT event_date AS day, sum(value) AS value FROM staging WHERE known_until IS NULL GROUP "
    "BY 1"
)
EXPECTED = "day,value\n2024-03-01,3\n2024-03-02,1152921504606847006\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    readable_lake(tmp_path)
    (tmp_path / "totals.csv").write_text(EXPECTED)
    return tmp_path


def declare(root: Path, **more: str | float) -> Lake:
    """The lake with one control, `revenue`."""
    control = {"query": SUMS, "expected": "totals.csv"} | more
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in control.items())
    with (root / FILE_NAME).open("a") as toml:
        toml.write(f"\n[controls.revenue]\n{text}\n")
    return open_lake(root)


def judged(lake: Lake) -> ControlOutcome:
    [found] = judge_controls(lake, chosen_pipeline(lake))
    assert last_outcomes(lake) == [found]
    return found


def test_a_table_that_was_doubled_by_an_append_breaks_its_control(root: Path) -> None:
    lake = declare(root)
    assert judged(lake).holds
    path = str(lake.table_place(TABLE).local())
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")
    found = judged(lake)
    assert (found.holds, found.broken) == (False, 2)
    assert "2024-03-01: 6, expected 3" in found.words
    when = f"; judged {found.at[:10]} {found.at[11:16]} UTC"
    assert [*broken_controls(lake, chosen_pipeline(lake))] == [f"{found}{when}"]
    kept = root / RECONCILED / OUTCOMES
    kept.write_text(kept.read_text().replace(found.at, "2024-03-05T10:00:00+00:00"))
    [line] = broken_controls(lake, chosen_pipeline(lake))
    assert line.endswith(
        "; judged 2024-03-05 10:00 UTC, before the last write of staging: `backfill-assets "
        "controls` judges again"
    )


def test_a_user_who_may_only_read_the_lake_sees_the_outcome_and_nothing_is_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(root)
    monkeypatch.setattr(
        os, "access", lambda path, mode: mode == os.R_OK
    )  # root may write everything
    assert run("controls", "--lake", root).stdout == "control revenue: holds\n"
    assert not (root / RECONCILED / OUTCOMES).exists()


@pytest.mark.parametrize(
    "more",
    [
        {"query": "SELECT count(*) AS value FROM staging", "grain": "all", "expected": "4"},
        {
            "query": "SELECT count(*) AS value FROM staging",
            "grain": "all",
            "expected": 4.5,
            "tolerance": 1,
        },
        {"query": SUMS, "expected": f"duckdb:{SUMS}"},
        {
            "query": f"SELECT date_trunc('month', day) AS month, sum(value) AS value FROM ({SUMS}) "
            "GROUP BY 1",
            "grain": "month",
            "expected": "duckdb:SELECT DATE '2024-03-01' AS month, 1152921504606847008 AS value",
            "tolerance": "1%",
        },
    ],
    ids=["a number", "numbers of TOML", "a query", "a month within tolerance"],
)
def test_a_control_takes_a_number_a_query_and_a_tolerance(
    root: Path, more: dict[str, str | float]
) -> None:
    assert judged(declare(root, **more)).holds


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"query": "SELECT nix AS value FROM staging"}, "nix"),
        ({"expected": "gone.csv"}, "gone.csv is no file or folder"),
        ({"query": f"SELECT * FROM ({SUMS}) WHERE false"}, "the query has no rows"),
        (
            {"expected": "duckdb:SELECT DATE '2024-03-01' AS day, NULL AS value"},
            "what is expected has no rows with a value",
        ),
        ({"expected": "duckdb:SELECT 1 AS day"}, "it has no column value"),
        ({"expected": "postgresql://nobody@/none?host=/nowhere#t"}, "postgresql"),
        ({"expected": "lake:nowhere#t"}, "nowhere"),
        ({"query": "DELETE FROM staging"}, "it is DELETE"),
    ],
)
def test_a_control_that_cannot_be_judged_is_no_pass(
    root: Path, more: dict[str, str], words: str
) -> None:
    found = judged(declare(root, **more))
    assert (found.holds, found.broken) == (False, 2 if words == "the query has no rows" else 0)
    assert words in found.error
