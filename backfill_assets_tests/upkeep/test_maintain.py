"""The upkeep of a lake: which tables, since when, and that no state of a day changes by it.
Not here: what can go of one table (`upkeep.test_housekeeping`)."""

import json
import os
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from backfill_assets.intake.ledger import FILES
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import LOCKS
from backfill_assets.kernel.tables.data_files import files_of_version
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.table_places import UNFINISHED
from backfill_assets.kernel.tables.versions import (
    entry_numbers,
    record_versions,
    unfinished_switches,
)
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import keep_plan, set_mark
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.restore import restore_partitions
from backfill_assets.plans.rollback import RollbackRequest, roll_back
from backfill_assets.reading.whole import MAKING, snapshots_of
from backfill_assets.upkeep.maintain import Upkeep, maintain_tables, rewrite_layout
from backfill_assets_tests.builders import day, receipt, write_rows
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.faults import doing_before
from backfill_assets_tests.files import SMALLEST, bare_lake
from backfill_assets_tests.intake import test_arrivals as arriving
from backfill_assets_tests.landed import land
from backfill_assets_tests.logs import place_of
from backfill_assets_tests.oracle import unruly
from backfill_assets_tests.planned import BUILT, DAYS, Planned, scatter
from backfill_assets_tests.synthetic import landed

pytestmark = pytest.mark.usefixtures("storages")

LATER = Clock(off=timedelta(days=120))
find_upkeep = partial(maintain_tables, act=False)


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    """Eight days, of which two were written again."""
    found = Planned(tmp_path / "lake")
    found.chunk(1, (1, 2), 2)
    return found


def replaced(found: Upkeep) -> dict[str, int]:
    return {t.table: len(t.replaced) for t in found.tables if t.replaced}


def test_what_stopped_commands_left_of_snapshots_and_candidates_goes_unless_one_runs(
    made: Planned,
) -> None:
    left = [".snapshots/half/snapshot.json", ".candidates/half/candidate.json"]
    for name in (*left, ".snapshots/half/staging/part.parquet"):
        made.lake.place.write(name, json.dumps({UNFINISHED: MAKING}).encode())
    find_upkeep(made.lake, made.pipeline)
    with snapshots_of(made.lake.place).alone():
        made.lake.place.write(
            left[0], json.dumps({UNFINISHED: MAKING}).encode()
        )  # a command makes it now
        maintain_tables(made.lake, made.pipeline)
        assert [made.lake.place.exists(name) for name in left] == [True, False]
    maintain_tables(made.lake, made.pipeline)
    assert made.lake.place.below(".snapshots") == []


def test_locks_that_killed_processes_left_in_a_bucket_go_and_those_that_are_held_stay(
    bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    root = local_root(bucket_address)
    place, nothing = place_at(root), Pipeline((), {})
    place.write(FILE_NAME, SMALLEST.encode())
    for name, seconds in {"dead": 0, "held": 3600}.items():
        place.write(
            f"{LOCKS}/plan-{name}-chunk-1.lock",
            json.dumps({"seconds": seconds, "owner": "another"}).encode(),
        )
    find_upkeep(open_lake(root), nothing)
    assert place.exists(f"{LOCKS}/plan-dead-chunk-1.lock"), "it only looked"
    maintain_tables(open_lake(root), nothing)
    assert [name for name in place.names(LOCKS) if name.startswith("plan-")] == [
        "plan-held-chunk-1.lock"
    ]


def test_replaced_files_go_after_the_days_of_retention_and_no_state_or_row_changes(
    made: Planned,
) -> None:
    assert replaced(find_upkeep(made.lake, made.pipeline)) == {}, "they are a few seconds old"
    states = {(t, d): made.states().of(t, day(d)) for t in BUILT for d in range(8)}
    rows = audit_table(made.lake, made.contract("staging"))
    with set_to(LATER):
        assert replaced(find_upkeep(made.lake, made.pipeline)) == {"staging": 2, "features": 2}
        assert replaced(find_upkeep(made.lake, made.pipeline, ["staging"])) == {"staging": 2}
        done = maintain_tables(made.lake, made.pipeline)
        assert done.done
        assert replaced(done) == {"staging": 2, "features": 2}
        assert replaced(find_upkeep(made.lake, made.pipeline)) == {}
    assert {(t, d): made.states().of(t, day(d)) for t in BUILT for d in range(8)} == states
    assert audit_table(made.lake, made.contract("staging")) == rows


def test_a_plan_that_is_not_finished_keeps_what_it_may_have_to_put_back(made: Planned) -> None:
    days = DayRange(day(1), day(5))
    plan = make_plan(
        made.lake, made.pipeline, PlanRequest(days, BUILT, Policy(chunk="2d", canary=0, force=True))
    )
    keep_plan(made.lake, plan)
    set_mark(made.lake, plan.id, "started")
    made.chunk(1, (1, 2), 3, plan.id)
    with set_to(LATER):
        assert replaced(find_upkeep(made.lake, made.pipeline)) == {"staging": 2, "features": 2}, (
            "from before the plan"
        )
        set_mark(made.lake, plan.id, "ended", "cancelled")
        assert replaced(find_upkeep(made.lake, made.pipeline)) == {"staging": 4, "features": 4}


def test_small_files_of_days_become_one_and_states_and_the_loaded_version_stay_true(
    made: Planned,
) -> None:
    for table in ("raw", *BUILT):
        scatter(made, table, 3)
    loaded = made.states().view.source("raw").loaded_version
    states = {(t, d): made.states().of(t, day(d)) for t in BUILT for d in range(8)}
    assert find_upkeep(made.lake, made.pipeline).uneven == dict.fromkeys(("raw", *BUILT), (day(3),))
    done = maintain_tables(made.lake, made.pipeline)
    assert f"raw: files of {day(3)} written again in better sizes, no row changed" in done.lines()
    assert find_upkeep(made.lake, made.pipeline).uneven == {}
    view = made.states().view
    assert view.source("raw").loaded_version == view.table("raw").version > loaded
    assert {(t, d): made.states().of(t, day(d)) for t in BUILT for d in range(8)} == states
    with set_to(LATER):
        maintain_tables(made.lake, made.pipeline)
    rows = audit_table(
        made.lake, made.contract("raw"), made.states().view.source("raw").loaded_version
    )
    assert len(rows) == 8, "builds read the files that stay"


def test_a_landed_table_whose_load_was_cut_off_waits_for_the_next_load(made: Planned) -> None:
    made.write("raw", {2: 5})
    scatter(made, "raw", 3)
    version = made.view("raw").version
    maintain_tables(made.lake, made.pipeline)
    assert made.view("raw").version == version


def retain(made: Planned, **days: int) -> None:
    kept = made.lake.settings.retention.model_copy(update=days)
    made.lake = replace(
        made.lake, settings=made.lake.settings.model_copy(update={"retention": kept})
    )


def test_files_of_the_versions_that_readers_see_stay_until_a_lake_version_moves_them_on(
    made: Planned,
) -> None:
    record_versions(made.lake, made.pipeline.contracts, "a run")
    made.write("staging", {0: 9})
    with set_to(LATER):
        assert replaced(find_upkeep(made.lake, made.pipeline)) == {"staging": 2, "features": 2}
        assert entry_numbers(place_of(made.root)) == [1]
        assert replaced(maintain_tables(made.lake, made.pipeline)) == {"staging": 2, "features": 2}
        assert replaced(find_upkeep(made.lake, made.pipeline)) == {"staging": 1}, "readers moved on"
        assert entry_numbers(place_of(made.root)) == [2], (
            "no file of the older one is promised any more"
        )


def test_an_upkeep_between_the_preview_of_a_rollback_and_its_commit_costs_it_no_row(
    made: Planned,
) -> None:
    plan = RollbackRequest(plan="p1")
    before = [made.values(t) for t in BUILT]

    def upkeep() -> None:
        with set_to(LATER):
            assert replaced(maintain_tables(made.lake, made.pipeline)) == {
                "staging": 2,
                "features": 2,
            }

    with (
        doing_before(restore_partitions, upkeep),
        pytest.raises(BackfillError, match=r"gone or altered.* put back"),
    ):
        roll_back(made.lake, made.pipeline, plan, Provenance(""))
    assert ([made.values(t) for t in BUILT], unfinished_switches(made.lake)) == (before, ())
    made.chunk(2, (3,), 2, plan="p2")
    scatter(made, "staging", 5)
    with doing_before(restore_partitions, lambda: maintain_tables(made.lake, made.pipeline)):
        roll_back(made.lake, made.pipeline, plan.model_copy(update={"plan": "p2"}), Provenance(""))
    assert [made.values(t) for t in BUILT] == before
    assert len(files_of_version(made.lake, made.contract("staging"))) == DAYS, (
        "the day of two files has one"
    )


def test_copies_of_files_that_lie_in_the_landing_folder_go_where_lake_toml_says_so(
    made: Planned,
) -> None:
    record = landed(day(0), datetime.now(UTC))
    name = str(record["sha256"])
    write_rows(made.lake.table_place(FILES.name).local(), FILES, [record], receipt("files", {}))
    land(made.lake.stock.local(), f"{name}.jsonl-1.parquet", b"parsed")
    os.utime(land(made.lake.root / "landing", f"{day(0)}.jsonl", b"{}\n" * 3).path, ns=(0, 0))
    assert maintain_tables(made.lake, made.pipeline).copies == (0, 0), "it is not asked for"
    retain(made, copy_days=30)
    assert find_upkeep(made.lake, made.pipeline).copies == (1, 6)
    assert "1 parsed content(s) deleted" in str(maintain_tables(made.lake, made.pipeline).lines())
    assert not [n for n in made.lake.stock.names() if n.startswith(name)]


@pytest.mark.parametrize("dies", [False, True])
def test_upkeep_that_lost_its_lock_names_no_version_whose_deliveries_the_ledger_lacks(
    tmp_path: Path, dies: bool
) -> None:
    """Another load comes while files are written again, and is whole or cut off."""
    lake, days = bare_lake(tmp_path), arriving.DAYS
    history = unruly(0, days[0], days=6, rows=24, keys=6)

    def load(*of: date, dies: bool = False) -> None:
        arriving.load(lake, arriving.on(history, {*of}), {*of}, dies=dies)

    load(*days[:2])
    known = read_view(lake, arriving.CONTRACTS).source("raw").loaded_version
    rewrite_layout(lake, arriving.RAW, partial(load, days[2], dies=dies))
    named = read_view(lake, arriving.CONTRACTS).source("raw").loaded_version
    assert named == (known if dies else lake.store.head("raw"))
    load(days[3])
    told = read_view(lake, arriving.CONTRACTS).source("raw").arrivals.values()
    assert {arrived for rows in told for arrived, _ in rows} == {*days[:4]}
