"""Days of a table in a folder elsewhere: those that changed, whole, once; whatever was there and
was stopped. Not here: PostgreSQL (`end_to_end.test_export_postgres`), and the notes themselves
(`test_export_sinks`)."""

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from backfill_assets.export.export import export_all, export_days
from backfill_assets.export.export_sinks import NOTES, FolderSink
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.choice import bucket_prefix_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import FILE_NAME, load_settings
from backfill_assets_tests.builders import day
from backfill_assets_tests.faults import doing_before
from backfill_assets_tests.planned import DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")


def values(folder: Path, column: str = "event_date") -> dict[date, Any]:
    """What a reader of the folder sees: the value of each day."""
    found = ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
    return {date.fromisoformat(r[column]): r["value"] for r in found}


def test_a_first_export_brings_every_day_a_second_one_nothing_and_a_third_only_days_with_other_rows(
    made: Planned, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = export_days(made.lake, made.pipeline, "staging", str(out))
    assert (len(first.replaced), first.rows, first.same) == (DAYS, DAYS, 0)
    assert values(out / "staging") == dict.fromkeys(map(day, range(DAYS)), 1)
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*.parquet")}
    again = export_days(made.lake, made.pipeline, "staging", str(out))
    assert (again.replaced, again.same) == ((), DAYS)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*.parquet")} == before
    assert "nothing changed, 8 day(s) as they were" in str(again)
    made.chunk(1, (1, 2), 2)
    assert export_days(made.lake, made.pipeline, "staging", str(out)).replaced == (day(1), day(2))
    assert [values(out / "staging")[day(n)] for n in range(4)] == [1, 2, 2, 1]


def test_days_go_to_a_bucket_and_are_replaced_there(
    made: Planned, bucket_address: str, tmp_path: Path
) -> None:
    to = f"{bucket_address}/out/"

    def there() -> dict[date, Any]:
        for name in (n for n in bucket_prefix_at(to).below("staging") if n.endswith(".parquet")):
            Folder(str(tmp_path / "seen")).copy(name, bucket_prefix_at(to), name)
        return values(tmp_path / "seen" / "staging")

    first = export_days(made.lake, made.pipeline, "staging", to)
    assert (first.to, len(first.replaced)) == (f"{bucket_address}/out/staging", DAYS)
    assert there() == dict.fromkeys(map(day, range(DAYS)), 1)
    made.chunk(1, (1, 2), 2)
    done = export_days(made.lake, made.pipeline, "staging", to)
    assert (done.replaced, done.same) == ((day(1), day(2)), DAYS - 2)
    shutil.rmtree(tmp_path / "seen")
    assert [there()[day(n)] for n in range(4)] == [1, 2, 2, 1]
    with pytest.raises(BackfillError, match="no export goes to ftp://"):
        export_days(made.lake, made.pipeline, "staging", "ftp://host/out")


def test_what_a_stopped_export_replaced_is_brought_again_after_the_lake_returned(
    made: Planned, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export_days(made.lake, made.pipeline, "staging", str(out))
    made.write("staging", dict.fromkeys(range(DAYS), 7))
    in_the_way = out / "staging" / f"event_date={day(2)}" / "part-0.parquet"
    in_the_way.unlink()
    (in_the_way / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="part-0"):
        export_days(made.lake, made.pipeline, "staging", str(out))
    shutil.rmtree(in_the_way)
    assert values(out / "staging")[day(1)] == 7
    made.write("staging", dict.fromkeys(range(DAYS), 1))
    export_days(made.lake, made.pipeline, "staging", str(out))
    assert values(out / "staging") == dict.fromkeys(map(day, range(DAYS)), 1)


def test_an_export_whose_files_an_erasure_takes_away_says_so_and_is_done_again(
    made: Planned, tmp_path: Path
) -> None:
    out, old = tmp_path / "out", made.lake.store.data_files(made.contract("staging"))

    def erased() -> None:
        made.chunk(1, range(DAYS), 9)
        for file in old[3:]:
            Path(file).unlink()

    with (
        doing_before(FolderSink.replace, erased),
        pytest.raises(
            BackfillError, match=r"took files of the exported version away meanwhile.* Export again"
        ),
    ):
        export_days(made.lake, made.pipeline, "staging", str(out))
    export_days(made.lake, made.pipeline, "staging", str(out))
    assert values(out / "staging") == dict.fromkeys(map(day, range(DAYS)), 9)


def test_a_table_that_was_made_anew_replaces_the_rows_of_the_one_before(
    made: Planned, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for value in (2, 3, 4):
        made.write("staging", dict.fromkeys(range(DAYS), value))
    export_days(made.lake, made.pipeline, "staging", str(out))
    shutil.rmtree(made.lake.table_place("staging").local())
    made.write("staging", dict.fromkeys(range(DAYS), 5))
    done = export_days(made.lake, made.pipeline, "staging", str(out))
    assert (len(done.replaced), done.newer) == (DAYS, 0)
    assert values(out / "staging") == dict.fromkeys(map(day, range(DAYS)), 5)


def test_a_file_that_somebody_deleted_is_brought_again(made: Planned, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_days(made.lake, made.pipeline, "staging", str(out))
    (out / "staging" / f"event_date={day(3)}" / "part-0.parquet").unlink()
    assert export_days(made.lake, made.pipeline, "staging", str(out)).replaced == (day(3),)


def test_stale_days_stay_as_they_are_there_and_are_named(made: Planned, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_days(made.lake, made.pipeline, "features", str(out))
    made.write("staging", {4: 9})
    made.write("features", {4: 9})
    made.write("staging", {4: 10})
    done = export_days(made.lake, made.pipeline, "features", str(out))
    assert f"stale {day(4)}" in done.unfit
    assert day(4) not in done.replaced
    assert values(out / "features", made.contract("features").day_column)[day(4)] == 1


def test_a_place_that_holds_a_newer_version_is_left_alone(made: Planned, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_days(made.lake, made.pipeline, "staging", str(out))
    notes = out / "staging" / NOTES
    notes.write_text(
        notes.read_text().replace('"version": 1', '"version": 9').replace('"rows": 1', '"rows": 2')
    )
    done = export_days(made.lake, made.pipeline, "staging", str(out))
    assert (done.replaced, done.newer) == ((), DAYS)


def test_the_lakes_own_tables_are_no_place(made: Planned) -> None:
    with pytest.raises(BackfillError, match="among the lake's own tables"):
        export_days(made.lake, made.pipeline, "staging", str(made.lake.tables))


def test_exports_of_the_settings_are_done_by_name_and_an_unknown_one_is_refused(
    made: Planned,
) -> None:
    with (made.lake.root / FILE_NAME).open("a") as toml:
        toml.write('[exports.shop]\ntable = "staging"\nto = "out"\n')
    lake = Lake(made.lake.root, load_settings(made.lake.root))
    [done] = export_all(lake, made.pipeline)
    assert (done.to, len(done.replaced)) == (str(made.lake.root / "out" / "staging"), DAYS)
    assert [e.replaced for e in export_all(lake, made.pipeline, ["shop"])] == [()]
    with pytest.raises(BackfillError, match=r"the export nobody.*Known are shop"):
        export_all(lake, made.pipeline, ["nobody"])
