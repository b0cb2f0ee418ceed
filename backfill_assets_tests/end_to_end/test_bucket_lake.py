"""A whole lake in a bucket: the tables of a lake in a folder, from two machines.

Lives here: `--lake s3://…` on a server of moto's, the landing in a folder, each machine by a state
folder of its own. Does not live here: machines that are stopped (`test_bucket_stops`), and what
requests cost (`test_bucket_requests`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from deltalake import DeltaTable

from backfill_assets.buckets.objects import Objects
from backfill_assets.buckets.store_errors import lost_request_error
from backfill_assets.intake.declared import read_declared
from backfill_assets.intake.files import LandedFile
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.errors import TransientError
from backfill_assets.kernel.core.receipts import Provenance, parse_receipt
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.log.log import open_delta
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import LOCKS
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.plans.restore import (
    RestoreRequest,
    release_partitions,
    restore_partitions,
)
from backfill_assets.reading.kept_snapshots import find_snapshot
from backfill_assets.upkeep.doctor import VerifyRequest, verify_tables
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.end_to_end.test_invariance import ROWS, RULES, assert_same, made
from backfill_assets_tests.end_to_end.worlds import World, land, span
from backfill_assets_tests.files import SMALLEST, publish_by_hand
from backfill_assets_tests.processes import PIPES, start

LATE = [row for row in ROWS if row["seq"] % 5 == 0]
EARLY = [row for row in ROWS if row["seq"] % 5]


def machine(address: str, state: Path) -> Path:
    """The folder that another machine has of a lake, by its own state folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_VARIABLE, str(state))
        return local_root(address)


def in_bucket(address: str, tmp_path: Path, *machines: str) -> tuple[World, list[World]]:
    """A lake in a folder into which the early rows landed, and one in a bucket that reads the same
    files, as each of these machines has it."""
    folder = made(tmp_path / "folder", [EARLY])
    worlds = [World(machine(address, tmp_path / name)) for name in machines]
    text = (folder.root / FILE_NAME).read_text().replace('"landing/**"', f'"{folder.landing}/**"')
    place_at(worlds[0].root).write(FILE_NAME, text.encode())
    return folder, worlds


@pytest.mark.slow
def test_a_lake_in_a_bucket_is_a_folders_for_two_machines(
    spark: object, bucket_address: str, tmp_path: Path
) -> None:
    folder, (one, two) = in_bucket(bucket_address, tmp_path, "one", "two")
    for world in (folder, one):
        world.backfill(span(RULES))
    assert_same(one, folder)
    assert two.states() == one.states() == folder.states()

    land(folder, "late.jsonl", LATE)
    for world in (folder, two):
        world.backfill(span(RULES))
    assert_same(one, folder)
    assert one.states() == folder.states()

    lake, pipeline = one.open()
    checked = [*verify_tables(lake.lake, pipeline.contracts, VerifyRequest(rows=True, deep=True))]
    assert [d for d in checked if d.level.name != "OK"] == []
    contract, first = pipeline.contract("features", ""), RULES.start
    seen = one.look().view.table("features").latest[first].version
    wanted = RestoreRequest(contract, {first: 1}, {first: seen})
    restore_partitions(lake.lake, wanted, Provenance("test"))
    assert two.look().of("features", first) is State.HELD
    release_partitions(two.open()[0].lake, contract, [first], Provenance("test"))
    two.backfill(span(RULES))
    assert_same(one, folder)


def bare_bucket(address: str, state: Path) -> Lake:
    """A lake of settings only, as one machine has it."""
    root = machine(address, state)
    place_at(root).write(FILE_NAME, SMALLEST.replace('"landing', '"/landing').encode())
    return open_lake(root)


def content(lake: Lake) -> list[tuple[Any, Any]]:
    found = DeltaTable(lake.table_place("staging").uri()).to_pyarrow_table().to_pylist()
    return sorted((r["event_date"], r["value"]) for r in found)


def written(lake: Lake, value: int, *numbers: int) -> None:
    rows = [{"entity": "A", "value": value, "event_date": day(n)} for n in numbers]
    publish_by_hand(lake, STAGING, rows, f"digest {value}")


WRITER = """
import sys
from pathlib import Path
from backfill_assets_tests.end_to_end.test_races import write_days
write_days(Path(sys.argv[1]), int(sys.argv[2]), 5, "the same days")
"""


@pytest.mark.slow
def test_no_acknowledged_commit_of_two_machines_on_one_table_is_lost(
    bucket_address: str, tmp_path: Path
) -> None:
    lake = bare_bucket(bucket_address, tmp_path / "0")
    roots = [machine(bucket_address, tmp_path / str(n)) for n in range(2)]
    started = [
        start("-c", WRITER, root, str(n), fresh=True, **PIPES) for n, root in enumerate(roots)
    ]
    told = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0, 0], [stderr for _, stderr in told]
    acknowledged = [line for stdout, _ in told for line in stdout.split()]
    table = DeltaTable(lake.table_place("staging").uri())
    recorded = [
        r.write_id for commit in table.history() if (r := parse_receipt(commit.get("userMetadata")))
    ]
    assert sorted(recorded) == sorted(acknowledged)
    assert len({*acknowledged}) == 10
    assert len(content(lake)) == 5, "each day holds one writer's row"


def test_a_lost_lease_costs_no_commit(bucket_address: str, tmp_path: Path) -> None:
    """Two writers in one critical section: the commit of the one that read an older log is refused
    and repeated."""
    one, two = (bare_bucket(bucket_address, tmp_path / name) for name in ("one", "two"))
    written(one, 1, 0)
    tries = list[int]()

    def overtaken() -> None:
        tries.append(one.store.head("staging"))
        if len(tries) == 1:
            one.place.delete(f"{LOCKS}/staging.lock")
            written(two, 2, 0)

    publish_by_hand(
        one, STAGING, [{"entity": "A", "value": 3, "event_date": day(0)}], "digest 2", overtaken
    )
    assert (tries, content(one)) == ([1, 2], [(day(0), 3)])


def test_two_machines_create_one_at_once(
    bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (bare_bucket(bucket_address, tmp_path / name) for name in ("one", "two"))
    create = DeltaTable.create

    def overtaken(*args: Any, **more: Any) -> DeltaTable:
        monkeypatch.setattr(DeltaTable, "create", create)
        one.place.delete(f"{LOCKS}/staging.lock")
        written(two, 2, 0)
        return create(*args, **more)

    monkeypatch.setattr(DeltaTable, "create", overtaken)
    written(one, 3, 1)
    assert content(one) == [(day(0), 2), (day(1), 3)]


def test_a_silent_store_is_no_absence(
    bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = bare_bucket(bucket_address, tmp_path)
    written(lake, 1, 0)
    lake.place.write(".snapshots/jan/snapshot.json", b"{}")
    manifest = LandedFile("_manifest.csv", Path(), 9, 0, place=lake.place.at("landing"))
    looks: dict[str, Callable[[], object]] = {
        "a log": lambda: open_delta(lake.table_place("staging")),
        "a snapshot": lambda: find_snapshot(lake, "jan"),
        "a file beside a manifest": lambda: manifest.has_beside("orders.csv"),
        "a manifest": lambda: read_declared([manifest], []),
    }

    def unanswered(self: Objects, key: str) -> None:
        raise lost_request_error(self.uri(key))

    for verb in ("open", "fetch", "token"):
        monkeypatch.setattr(Objects, verb, unanswered)
    monkeypatch.setattr(
        DeltaTable, "__init__", Mock(side_effect=OSError("Generic S3 error: error sending request"))
    )
    for look in looks.values():
        with pytest.raises(TransientError):
            look()


def test_own_files_of_the_lake_are_fetched_as_they_are_now(
    bucket_address: str, tmp_path: Path
) -> None:
    root = machine(bucket_address, tmp_path)
    place, settings = place_at(root), SMALLEST.replace('"landing', '"/landing')
    place.write(FILE_NAME, f'{settings}[pipeline]\nsql = "sql/*.sql"\n'.encode())
    place.write("sql/one.sql", b"-- 1")
    place.write("tables/raw/x.sql", b"no file of the lake's owner")
    open_lake(root)
    place.write("sql/one.sql", b"-- 2")
    place.write("sql/two.sql", b"-- 3")
    open_lake(root)
    assert {p.relative_to(root).as_posix(): p.read_text() for p in root.rglob("*.sql")} == {
        "sql/one.sql": "-- 2",
        "sql/two.sql": "-- 3",
    }
    place.delete("sql/two.sql")
    open_lake(root)
    assert [p.name for p in root.rglob("*.sql")] == ["one.sql"]
