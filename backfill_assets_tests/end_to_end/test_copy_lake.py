"""A lake copied into a bucket, worked on there, and copied back: the tables of a lake that was
never moved.

Lives here: `copy-lake` between a folder and a server of moto's, with late data, a snapshot and
`verify --deep` in each place. Does not live here: what is copied, kills and refusals
(`buckets.test_copy_lake`).
"""

import json
from datetime import timedelta
from pathlib import Path

import pytest
import requests

from backfill_assets.buckets.copy_lake import copy_lake
from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.reading.whole import candidates_of
from backfill_assets.upkeep.doctor import VerifyRequest, verify_tables
from backfill_assets.upkeep.maintain import maintain_tables
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.end_to_end.test_bucket_lake import EARLY, LATE, bare_bucket, machine
from backfill_assets_tests.end_to_end.test_invariance import RULES, assert_same, made
from backfill_assets_tests.end_to_end.worlds import World, land, span
from backfill_assets_tests.stores import StoreServer

pytestmark = pytest.mark.long


def copy(source: str, target: str) -> dict[str, object]:
    done = run("copy-lake", source, target, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    assert (found["from"], found["to"]) == (source, target)
    return found


def assert_sound(world: World) -> None:
    """Nothing of it differs from its receipts, by `verify --deep`."""
    lake, pipeline = world.open()
    checked = [*verify_tables(lake.lake, pipeline.contracts, VerifyRequest(rows=True, deep=True))]
    assert [d for d in checked if d.level.name != "OK"] == []


@pytest.mark.slow
def test_a_lake_copied_into_a_bucket_and_back_is_the_lake_that_was_never_moved(
    spark: object, bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKFILL_ASSETS_STATE", str(tmp_path / "state"))
    stays = made(tmp_path / "stays", [EARLY])
    stays.backfill(span(RULES))
    copy(str(stays.root), bucket_address)
    moved = World(machine(bucket_address, tmp_path / "state"))
    assert_same(moved, stays)
    assert moved.states() == stays.states()
    assert_sound(moved)

    lake, pipeline = moved.open()
    kept = create_snapshot(
        lake.lake, pipeline, SnapshotRequest("spring", ("features",), unfit="take")
    )
    assert kept.tables["features"].pinned
    land(stays, "late.jsonl", LATE)
    place_at(moved.root).copy("landing/late.jsonl", place_at(stays.root), "landing/late.jsonl")
    for world in (stays, moved):
        world.backfill(span(RULES))
    assert_same(moved, stays)
    with set_to(Clock(off=timedelta(days=120))):
        assert [t for t in maintain_tables(lake.lake, pipeline).tables if t.replaced], (
            "what nothing pins goes"
        )
    assert_sound(moved)

    copy(bucket_address, str(tmp_path / "back"))
    back = World(tmp_path / "back")
    assert_same(back, stays)
    assert back.states() == stays.states()
    assert_sound(back)
    for place in (bucket_address, str(back.root)):
        shown = run("snapshot", "show", "spring", "--lake", place, "--json")
        assert json.loads(shown.stdout)["digest"] == kept.digest, (
            "every byte that it names was read"
        )


@pytest.mark.slow
def test_empty_objects_that_stand_for_folders_are_no_files_of_a_lake(
    bucket_address: str, moto_server: StoreServer, tmp_path: Path
) -> None:
    lake = bare_bucket(bucket_address, tmp_path / "state")
    lake.place.write("sql/nothing.sql", b"")
    for written in ("tables/staging", ".candidates/gone/tables/staging"):
        folder = f"{bucket_address.removeprefix('s3://')}/{written}/writes/of-s3a/"
        requests.put(f"{moto_server.endpoint}/{folder}", timeout=60).raise_for_status()
        assert f"{written}/writes/of-s3a" in lake.place.tokens(), "listed as if it were a file"
    with candidates_of(lake.place).making("gone") as finish:
        finish(b"{}")
    copy_lake(lake, target := tmp_path / "copy")
    assert {"lake.toml", "nothing.sql"} <= {
        path.name for path in target.rglob("*") if path.is_file()
    }
    assert not (target / "tables").exists()
