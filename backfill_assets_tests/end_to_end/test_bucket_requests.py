"""What a lake in a bucket asks of its store, as moto counts it: budgets that fail when a step asks
more.

Lives here: requests of one write, of files that an engine elsewhere wrote, of a day of six tables,
a late batch, a look, a tick with nothing to do. Does not live here: what they do
(`test_bucket_lake`). A request costs some 30 ms; a thousand PUT or LIST 0.005 $, GET 0.0004 $.
"""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.buckets.doctor_store import OF_DAY, OF_TICKS
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.ticks import landing_tick, late_data_tick
from backfill_assets.foreign.observing import unseen_version
from backfill_assets.intake.landed_days import append_events, landed_by_day
from backfill_assets.kernel.core.addresses import STATE_VARIABLE
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.log.log_state import KEEP_EVERY
from backfill_assets.kernel.place.choice import place_at, place_of_others
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import MOST_AT_ONCE
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.reports.status import lake_status
from backfill_assets.upkeep.doctor import VerifyRequest, verify_tables
from backfill_assets_tests.benchmarks.long_logs import lake_of
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.end_to_end.test_bucket_lake import (
    LATE,
    bare_bucket,
    in_bucket,
    machine,
    written,
)
from backfill_assets_tests.end_to_end.test_invariance import RULES
from backfill_assets_tests.end_to_end.worlds import World, land, span
from backfill_assets_tests.faulty_store import (
    faulty,
    hold_request,
    is_request_held,
    release_request,
)
from backfill_assets_tests.files import stage_by_hand
from backfill_assets_tests.foreign.test_observing import FIRST, Others
from backfill_assets_tests.intake.test_landed_days import cells, event
from backfill_assets_tests.processes import until
from backfill_assets_tests.stores import StoreServer

pytestmark = pytest.mark.long

LEDGERS = 5  # logs of a source that a look lists beside those of tables
BUDGETS = {
    "a first day of six tables": 473,
    "a late batch": 305,
    "status": 42,
    "the states, for a machine that knows nothing": 100,
    "landing_tick": 35,
    "late_data_tick": 35,
}


def counted(server: StoreServer, step: Callable[[], object]) -> Counter[str]:
    """The requests of a step by their kind."""
    server.seen()
    step()
    return Counter(request.partition(" ")[0] for request in server.seen())


def test_one_write_asks_no_more_than_its_budget_however_long_the_log_is(
    moto_server: StoreServer, bucket_address: str, tmp_path: Path
) -> None:
    lake = bare_bucket(bucket_address, tmp_path)
    for value in range(9):
        written(lake, value, 0)
    found = counted(moto_server, lambda: written(lake, 9, 0))
    assert found.total() <= 21, found
    assert found["PUT"] <= 8, found  # a lease is renewed on a busy machine
    lake.store.view("staging", "event_date")
    again = counted(moto_server, lambda: lake.store.view("staging", "event_date"))
    assert again == {"LIST": 1}, "one listing says that nothing is new"


@pytest.mark.slow
def test_a_machine_that_knows_nothing_asks_the_same_however_long_the_logs_are(
    moto_server: StoreServer, bucket_address: str, tmp_path: Path
) -> None:
    asked = dict[int, Counter[str]]()
    for commits in (100, 1_100):
        address, folder = f"{bucket_address}/{commits}", tmp_path / str(commits)
        lake_of(folder, 3, 5, commits)
        here, there = Folder(str(folder)), place_at(machine(address, tmp_path / "writer"))
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(there.copy, here.below(), repeat(here), here.below()))

        def look(address: str = address) -> None:
            lake = open_lake(machine(address, tmp_path / "reader"))
            found = lake_status(lake, chosen_pipeline(lake))
            assert (found.unread, found.wrong) == ({}, ())
            assert found.totals()["t000_00"] == {State.FRESH: 5}

        asked[commits] = counted(moto_server, look)
        lake = open_lake(machine(address, tmp_path / "reader"))
        contracts = chosen_pipeline(lake).contracts
        again = counted(moto_server, partial(read_view, lake, contracts))
        assert again == {"LIST": len(contracts) + LEDGERS}, "nothing is new"
    assert asked[100] == asked[1_100], "of a long log only its end is listed"
    assert asked[100].total() <= 270, asked


@pytest.mark.slow
def test_a_table_of_others_that_did_not_move_is_known_by_two_requests_however_long_its_log_is(
    moto_server: StoreServer, bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    others = Others(tmp_path, [], bucket_address)
    others.write(FIRST)
    others.look()
    # A listing has a thousand names; these come before all commits.
    there, earlier = place_of_others(str(others.place)), [f"_delta_log/-{n}" for n in range(1_001)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(there.write, earlier, repeat(b"1")))
    (contract,) = chosen_pipeline(others.lake).contracts
    asked = counted(moto_server, lambda: unseen_version(others.lake, contract))
    assert asked == {"LIST": 1, "GET": 1}
    others.write(FIRST)
    assert "version 2 of" in unseen_version(others.lake, contract)


def test_what_landed_is_known_by_no_more_requests_however_much_landed(
    moto_server: StoreServer, bucket_address: str, tmp_path: Path
) -> None:
    def asked(name: str) -> list[str]:
        """By a machine that knows nothing."""
        anew = open_lake(machine(bucket_address, tmp_path / name))
        moto_server.seen()
        assert landed_by_day(anew, "")
        return moto_server.seen()

    lake, found = bare_bucket(bucket_address, tmp_path), dict[int, list[str]]()
    for number in range(2 * KEEP_EVERY + 1):
        landing = event(f"{number}.csv", str(number), number, arrival_date=day(number))
        append_events(lake, cells([landing]), "scan", "")
        if number in (KEEP_EVERY, 2 * KEEP_EVERY):
            found[number] = asked(f"of {number}")
    assert [r for requests in found.values() for r in requests if ".parquet" in r] == []
    fewer, more = (len(requests) for requests in found.values())
    assert more <= fewer <= 10, found


def written_elsewhere(lake: Lake, days: int) -> Staged:
    """A file for each of some days that no copy of this machine has, as an engine writes them."""
    rows = [{"entity": "A", "value": n, "event_date": day(n)} for n in range(days)]
    staged = stage_by_hand(lake, STAGING, rows)
    for path in map(Path, staged.paths):
        content = path.read_bytes()
        path.unlink()
        staged.table.write(f"{staged.name}/{path.relative_to(staged.folder)}", content)
    staged.files = staged.found(STAGING.partition_column)
    return staged


def test_a_file_that_an_engine_elsewhere_counted_costs_one_request_for_its_end_beside_others(
    moto_server: StoreServer,
    bucket_address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table's lock is held meanwhile, so that no request may wait for the one before."""
    fetched = list[str]()

    def are_all_others_answered() -> bool:
        ends = [r for r in moto_server.seen() if r.startswith("GET") and r.endswith(".parquet")]
        fetched.extend(ends)
        return len(fetched) == MOST_AT_ONCE - 1

    (log := tmp_path / "log").touch()
    with faulty(moto_server.endpoint, share=0) as proxy, ThreadPoolExecutor(1) as beside:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy)
        lake = bare_bucket(bucket_address, tmp_path)
        staged = written_elsewhere(lake, MOST_AT_ONCE)
        staged.files = tuple(replace(file, engine_digest="digest") for file in staged.files)
        entries = {day(n): DayEntry(1, f"fingerprint {n}", "digest") for n in range(MOST_AT_ONCE)}
        write = Write(STAGING, staged, entries, -1, Provenance("test"))
        hold_request(proxy, rf"^GET \S*{day(0)}/part-0\.parquet")
        writing = beside.submit(replace_days, lake, write, lambda _: {})
        try:
            until(lambda: is_request_held(proxy), log, 30)
            until(are_all_others_answered, log, 30)
        finally:
            release_request(proxy)
        writing.result()
    assert not are_all_others_answered(), "and the one that was held"
    assert len(fetched) == MOST_AT_ONCE


def test_a_file_that_an_engine_elsewhere_wrote_is_fetched_once_for_audit_footer_and_digest(
    moto_server: StoreServer, bucket_address: str, tmp_path: Path
) -> None:
    lake = bare_bucket(bucket_address, tmp_path)
    staged = written_elsewhere(lake, 3)
    found = audit_files(lake, staged.paths, STAGING)
    entries = {
        d: DayEntry(p.rows, p.fingerprint, "digest") for d, p in found.items() if d is not None
    }
    moto_server.seen()
    replace_days(lake, Write(STAGING, staged, entries, -1, Provenance("test")), lambda _: {})
    assert [r for r in moto_server.seen() if r.startswith("GET") and r.endswith(".parquet")] == []
    assert [
        d for d in verify_tables(lake, [STAGING], VerifyRequest(deep=True)) if d.level.name != "OK"
    ] == []
    assert (
        len([r for r in moto_server.seen() if r.startswith("GET") and r.endswith(".parquet")]) == 3
    ), "from the store"


@pytest.mark.slow
def test_a_day_a_late_batch_a_look_and_a_tick_ask_no_more_than_their_budgets(
    spark: object, moto_server: StoreServer, bucket_address: str, tmp_path: Path
) -> None:
    folder, [world] = in_bucket(bucket_address, tmp_path, "state")
    first = DayRange(RULES.start, RULES.start + ONE_DAY)
    found = {"a first day of six tables": counted(moto_server, lambda: world.backfill(first))}
    world.backfill(span(RULES))
    land(folder, "late.jsonl", LATE[:3])
    found["a late batch"] = counted(moto_server, lambda: world.backfill(span(RULES)))

    def look() -> None:
        lake = open_lake(world.root)
        lake_status(lake, chosen_pipeline(lake))

    found["status"] = counted(moto_server, look)
    anew = World(machine(bucket_address, tmp_path / "another"))
    found["the states, for a machine that knows nothing"] = counted(moto_server, anew.look)
    with dg.DagsterInstance.ephemeral() as instance:
        context = LakeContext(world.root, tables)
        for tick in (landing_tick, late_data_tick):
            tick(instance, context, utc_now())
            found[tick.__name__] = counted(moto_server, partial(tick, instance, context, utc_now()))
    assert found["a first day of six tables"].total() <= 6 * sum(OF_DAY), "doctor tells its price"
    rounds = found["landing_tick"] + found["late_data_tick"]
    assert rounds.total() <= 6 * sum(OF_TICKS), "doctor tells its price, the tick of plans among it"
    assert {step: n.total() for step, n in found.items() if n.total() > BUDGETS[step]} == {}, found
