"""Forty days of use with upkeep: what a lake holds stays within its bounds, and what was promised
works. Here: landings, late data, backfills, rollbacks, a candidate, snapshots and `maintain`
together, without an engine. Not here: runs in Dagster that go (`dagster.adapter.test_rollbacks`).
Commits have the times at which they were made; upkeep reads a clock by which the day that lies
`KEPT` simulated days back was exactly `rollback_days` ago."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.candidates.candidates import discard_candidate
from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.cli.findings import Level
from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.plans.rollback import (
    RollbackRequest,
    preview_rollback,
    release_days,
    roll_back,
)
from backfill_assets.upkeep.doctor_tables import examine_snapshots
from backfill_assets.upkeep.maintain import maintain_tables
from backfill_assets_tests.builders import WINDOW, day, receipt, write_rows
from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.logs import versions
from backfill_assets_tests.planned import BUILT, DAYS, Planned, scatter
from backfill_assets_tests.synthetic import arrival

pytestmark = pytest.mark.usefixtures("storages")
LAST, KEPT = 40, 15
LATE_EVERY, SCATTER_EVERY, PLAN_EVERY, SNAPSHOT_EVERY = 3, 5, 10, 20
ROLLBACK_EVERY, UPKEEP_EVERY, CANDIDATE_EVERY = 30, 30, 35
COMMITS_A_DAY, LIVE_FILES_A_DAY, BYTES_PER_COMMIT = 9, 3, 8000  # of all tables together


def test_a_lake_in_use_stays_small_and_every_kept_rollback_and_snapshot_works(
    tmp_path: Path,
) -> None:
    made, began = Planned(tmp_path / "lake"), [time.time()] * DAYS
    for number in range(DAYS, LAST):
        began.append(time.time())
        live_through(made, number)
        if number % UPKEEP_EVERY == 0:
            days = made.lake.settings.retention.rollback_days
            with set_to(Clock(stopped=began[max(number - KEPT, 0)] + days * 86_400)):
                maintain_tables(made.lake, made.pipeline)
    assert list(beyond(made)) == []
    assert [d.what for d in examine_snapshots(made.lake) if d.level is not Level.OK] == []
    preview_rollback(
        made.lake, made.pipeline, RollbackRequest(plan="p30", over_newer=True)
    )  # as each plan of the last days
    assert len(made.values("staging")) == LAST
    states = made.states()
    assert {states.of("raw", day(n)) for n in range(LAST)} == {State.FRESH}
    assert {states.of("staging", day(n)) for n in range(DAYS, LAST)} == {State.FRESH}


def live_through(made: Planned, number: int) -> None:
    """All that happens on a day, but for the upkeep."""
    land(made, number, number - 2 if number % LATE_EVERY == 0 else None)
    if number % SCATTER_EVERY == 0:
        scatter(made, "features", number - 3)
    if number % PLAN_EVERY == 0:
        made.chunk(1, range(number - 9, number - 4), number, f"p{number}")
    if number % ROLLBACK_EVERY == 0:
        asked = RollbackRequest(plan=f"p{number - PLAN_EVERY}", over_newer=True)
        roll_back(made.lake, made.pipeline, asked, Provenance("rollback"))
        release_days(made.lake, made.pipeline, asked, Provenance("release"))
    if number % SNAPSHOT_EVERY == 0:
        days = DayRange(day(number - 5), day(number))
        create_snapshot(
            made.lake, made.pipeline, SnapshotRequest(f"s{number}", ["staging"], days, unfit="take")
        )
    if number % CANDIDATE_EVERY == 0:
        beside = CandidateWorld.of(made, "features")
        beside.there.write("features", dict.fromkeys(range(number - 7, number), -number))
        beside.publish()
        discard_candidate(made.lake, "v2")


def land(made: Planned, number: int, late: int | None) -> None:
    """A day lands and is loaded; with it, perhaps, a late row of the day `late`."""
    version = made.write("raw", {number: 1})
    rows = [arrival(day(number), f"F-{number}")]
    rows += (
        [{**rows[0], "event_date": day(late), "fingerprint": f"L-{number}"}]
        if late is not None
        else []
    )
    said = receipt(
        "arrivals", {day(number): DayEntry(len(rows), f"F-{number}", "")}, inputs={"raw": version}
    )
    path = made.lake.table_place(ARRIVALS.name).local()
    month = rows[0]["arrival_month"]  # of which a load writes all rows again
    rows += DeltaTable(path).to_pyarrow_table(filters=[("arrival_month", "=", month)]).to_pylist()
    write_rows(path, ARRIVALS, rows, said, f"arrival_month = '{month}'")
    made.write("staging", {number: 1, **({late: number} if late is not None else {})})
    again = range(late, late + WINDOW - 1) if late is not None else ()
    made.write("features", dict.fromkeys((*again, number), number))


def beyond(made: Planned) -> Iterator[str]:
    """What is beyond its bound, in words."""
    everything = [p for p in made.root.rglob("*") if p.is_file() and ".snapshots" not in p.parts]
    names = ("raw", *BUILT)
    commits = LAST * COMMITS_A_DAY + 30
    for what, now, bound in (
        (
            "live files",
            sum(len(made.lake.store.data_files(made.contract(t))) for t in names),
            LAST * LIVE_FILES_A_DAY + 30,
        ),
        (
            "files",
            sum(p.suffix == ".parquet" and "_delta_log" not in p.parts for p in everything),
            225,
        ),
        ("commits", sum(len(versions(t)) for t in (made.root / "tables").iterdir()), commits),
        ("bytes", sum(p.stat().st_size for p in everything), commits * BYTES_PER_COMMIT),
    ):
        if now > bound:
            yield f"{what}: {now}, bound {bound}"
