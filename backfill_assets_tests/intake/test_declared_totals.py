"""Deliveries held against the totals that their manifests declare, before anything of them is in
raw. Not here: reading manifests (`intake.test_declared`)."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.declared import DeclaredTotals
from backfill_assets.intake.declared_totals import totals_disagreement
from backfill_assets.intake.files import LandingError
from backfill_assets.intake.landed_changes import compare_sources
from backfill_assets.intake.raw import AS_DECLARED
from backfill_assets.intake.scan import scan_source, withdraw_disputed
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.rejected import unusable_rows
from backfill_assets.reports.show import report_of_day
from backfill_assets.upkeep.doctor import examine_everything
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.lakes import Cells, backfill, content, delivery, land_bytes, make_lake
from backfill_assets_tests.pipeline.built_in import contract

pytestmark = pytest.mark.users_do

TEXTS = ["0.1", " 0.2", "1e1", "n/a", "", None]
FRACTIONS = [0.1, 0.2, 1e16, float("nan"), None, -0.0]
START = "2024-03-01"
DAY = date.fromisoformat(START)


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Lake, StoredFile]:
    """A content of six rows."""
    columns = {
        "text": TEXTS,
        "double": FRACTIONS,
        "whole": [1 << 62] * 6,
        "exact": [Decimal("0.10")] * 6,
        "day": [day(0)] * 6,
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    return bare_lake(tmp_path / "lake"), StoredFile(
        "a" * 64, Folder(str(tmp_path)), "a.parquet", rows=6
    )


@pytest.mark.parametrize(
    ("column", "total", "others"),
    [
        ("text", "10.3", 1),
        ("double", "10000000000000000.3", 1),
        ("whole", str(6 << 62), 0),
        ("exact", "0.6", 0),
    ],
)
@pytest.mark.usefixtures("storages")
def test_sums_are_exact_of_any_type(
    stored: tuple[Lake, StoredFile], column: str, total: str, others: int
) -> None:
    lake, file = stored
    assert totals_disagreement(lake, file, [DeclaredTotals("m", 6, {column: Decimal(total)})]) == ""
    off = totals_disagreement(
        lake, file, [DeclaredTotals("m", None, {column: Decimal(total) + Decimal("0.01")})]
    )
    assert off.startswith(f"its totals (m) disagree: the sum of {column} is {total}")
    assert ("1 value(s) that are no numbers" in off) == bool(others)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (DeclaredTotals("m", 7), "its totals (m) disagree: the file has 6 rows, declared are 7"),
        (
            DeclaredTotals("m", 6, {"nix": Decimal(1)}),
            "its totals (m) disagree: the file has no column 'nix'",
        ),
        (DeclaredTotals("m", fault="not JSON"), "its totals (m) cannot be read: not JSON"),
    ],
)
@pytest.mark.usefixtures("storages")
def test_what_does_not_agree_is_named(
    stored: tuple[Lake, StoredFile], declared: DeclaredTotals, why: str
) -> None:
    lake, file = stored
    assert totals_disagreement(lake, file, [declared]) == why
    assert totals_disagreement(lake, file, [DeclaredTotals("n", 6), declared]) == why, (
        "each of several must hold"
    )


def test_a_file_that_nobody_decodes_is_held_against_nothing_only_if_it_was_refused(
    stored: tuple[Lake, StoredFile],
) -> None:
    lake, file = stored[0], replace(stored[1], is_undecoded=True)
    agreed = [DeclaredTotals("m", 6)]
    assert totals_disagreement(lake, file, agreed) == ""
    assert totals_disagreement(lake, replace(file, refused="it is torn"), agreed) == (
        "its totals (m) are held against nothing: it is torn"
    )


def declare(lake: Lake, text: str) -> None:
    land_bytes(lake.root / "landing", "a.jsonl.totals.json", text.encode())


def told_by_accept(lake: Lake) -> str:
    told = run("landing", "accept", "a.jsonl", "--note", "why", "--lake", lake.root).stdout
    assert told.startswith("unchanged  a.jsonl: its totals")
    assert "it is in quarantine; correct the file or its manifest" in told
    return told


def is_named_by_doctor(lake: Lake, pipeline: Pipeline) -> bool:
    line = "1 loaded file(s) are not what their manifests declare: a.jsonl (its totals"
    return any(line in d.what for d in examine_everything(lake.root, lambda _: pipeline.tables))


def assert_clean_without_manifest(lake: Lake) -> None:
    """Take the manifest of a.jsonl away: nothing contradicts what was loaded then."""
    (lake.root / "landing" / "a.jsonl.totals.json").unlink()
    assert scan_source(LakeSession(lake)).is_clean
    assert not compare_sources(LakeSession(lake)).disputed


def raw_after_load(lake: Lake) -> list[Cells]:
    """The rows of raw once its first day was loaded again."""
    backfill(lake, START, START, ["raw"])
    return content(lake, "raw")


def test_a_file_is_loaded_once_it_is_as_declared_and_not_changed_by_a_later_one(
    spark: object, tmp_path: Path
) -> None:
    rows = [delivery(n, f"{START} 10:00:00", None, f"k{n}", value=n) for n in (1, 2)]
    lake = make_lake(tmp_path, {"a.jsonl": [*rows, {"seq": "none"}], "copy.jsonl": rows[:1]}, START)
    session, pipeline = LakeSession(lake), chosen_pipeline(lake)
    declare(lake, '{"rows": 3, "sums": {"value": 4}}')
    why = "its totals (a.jsonl.totals.json) disagree: the sum of value is 3, declared is 4"

    assert scan_source(session).unreadable == {"a.jsonl": why}
    assert why in told_by_accept(lake)
    assert [row[0] for row in raw_after_load(lake)] == [1], "of the other file"
    assert [(row[2], row[4]) for row in content(lake, "quarantine")] == [(0, why)]
    assert compare_sources(session).is_scanned

    declare(lake, '{"rows": 3, "sums": {"value": 3}}')
    assert compare_sources(session).uncounted
    assert len(raw_after_load(lake)) == 2
    entry = read_view(lake, [contract("raw")]).table("raw").latest[DAY].entry
    assert entry.counts[AS_DECLARED] == 1
    shown = {f.path: f.as_declared for f in report_of_day(lake, pipeline, "raw", DAY).files}
    assert shown == {"a.jsonl": True, "copy.jsonl": False}

    before = content(lake, "raw")
    declare(lake, '{"rows": 4}')
    with pytest.raises(LandingError, match=r"the file has 3 rows, declared are 4"):
        backfill(lake, START, START, ["raw"], force=True)
    assert content(lake, "raw") == before
    assert compare_sources(session).disputed
    assert ["loaded, but its totals" in line for line in unusable_rows(lake).contradicted] == [True]
    assert unusable_rows(lake).as_declared == 0
    assert is_named_by_doctor(lake, pipeline)

    assert_clean_without_manifest(lake)
    declare(lake, '{"rows": 4}')
    assert list(scan_source(session).contradicted) == ["a.jsonl"]
    assert withdraw_disputed(session, "the sender says so") == ["a.jsonl"]
    assert len(raw_after_load(lake)) == 1
    assert unusable_rows(lake).contradicted == ()
