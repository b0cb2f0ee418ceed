"""Ten thousand ticks in a world that fails: what can be made is asked for, what cannot is not asked
for for ever.

Tested here: the decisions of `dagster.adapter.ticks` over a long life, with real states and a
simulated Dagster. Not tested here: single decisions (`test_ticks`). In this world files land,
deliveries come late, days cannot be made, runs are cancelled and forgotten, the clock jumps by
hours and years, gates are relaxed, and other people's runs pile up.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from backfill_assets import LakeSettings
from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.backfill_requests import TickState
from backfill_assets.dagster.adapter.ticks import (
    LANDING,
    LATE_DATA,
    SCAN,
    Tick,
    decide_landing,
    decide_late_data,
)
from backfill_assets.intake.files import LandedFile
from backfill_assets.intake.landed_changes import Comparison
from backfill_assets.intake.ledger import FileRecord, RowCounts
from backfill_assets.kernel.core.days import parse_day
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.core.states import States
from backfill_assets_tests.builders import CONTRACTS, START, day, loaded
from backfill_assets_tests.clocks import jumps
from backfill_assets_tests.daemon import RUN_KEY
from backfill_assets_tests.dagster.adapter.fake_dagster import FakeDagster
from backfill_assets_tests.strategies import examples

pytestmark = pytest.mark.usefixtures("storages")
TICKS, DAYS, ATTEMPTS, LOOKED_AT_EVERY = 10_000, 5, 3, 10
CHAIN = CONTRACTS[:3]  # raw, staging, features: a table to wait for and one that waits
# From being makeable to being asked for, behind retries, caps and runs that are not over.
PATIENCE_TICKS = 200
NOW = datetime(2030, 1, 1, tzinfo=UTC)
SUCCESS, FAILURE, CANCELED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)
Request = tuple[str, str, str]  # table, day, identity


class World:
    """A lake, its landing folder, and Dagster, all in memory."""

    def __init__(self, seed: int) -> None:
        self.chance, self.dagster, self.story = Random(seed), FakeDagster(), loaded(DAYS)
        self.story.build_all(*map(day, range(DAYS)))
        self.fresh: dict[str, tuple[LandedFile, date]] = {}
        self.altered: list[FileRecord] = []
        self.cannot: set[tuple[str, date]] = set()
        self.files = self.moment = 0
        self.jump = jumps(seed)
        self.asked, self.forgotten = Counter[Request](), Counter[Request]()
        self.waited = Counter[tuple[str, date]]()
        self.relax()
        self.look_anew()

    def look_anew(self) -> None:
        """Read the lake; nothing changes it but runs that end."""
        self.states = States(CHAIN, self.story.view(), self.story.codes)

    def relax(self) -> None:
        """Other gates: what could not be made can be tried again."""
        most = {c.name: {"max_rows": self.chance.randrange(10**9)} for c in CHAIN}
        lateness = {"runs_per_tick": 3, "runs_per_day": 100_000, "attempts": ATTEMPTS}
        source = {"files": "landing/*.jsonl", "format": "jsonl", "select": "seq"}
        body = {
            "start_date": str(START),
            "source": source,
            "lateness": lateness,
            "gates": {"tables": most},
        }
        self.settings = LakeSettings.model_validate(body)

    def look(self) -> TickState:
        no_logs = SimpleNamespace(receipt=lambda table, version: None)
        lake: Any = SimpleNamespace(
            root=Path("lake"), address="lake", settings=self.settings, store=no_logs
        )
        dagster: Any = self.dagster
        busy = runs.busy_days(dagster, str(lake.root), CHAIN)
        return TickState(
            dagster, lake, self.states, busy, NOW + timedelta(seconds=5 * self.moment) + self.jump()
        )

    def tick(self) -> None:
        """What happens in five seconds: a tick of one of the sensors, runs that end."""
        self.moment += 1
        seen = self.look()
        if self.moment % 2:
            self.launch(LATE_DATA, decide_late_data(seen))
        else:
            self.launch(LANDING, decide_landing(seen, {"": self.comparison()}))
        if self.moment % LOOKED_AT_EVERY == 0:
            self.watch(seen)
        active = list(self.dagster.get_runs(dg.RunsFilter(statuses=runs.ACTIVE)))
        for run in sorted(active, key=lambda r: r.tags.get(RUN_KEY, "")):
            if self.chance.random() < 0.4:
                self.end(run)

    def comparison(self) -> Comparison:
        return Comparison([f for f, _ in self.fresh.values()], self.altered, [], [])

    def launch(self, sensor: str, tick: Tick) -> None:
        assert len(tick.requests) <= 3
        for request in tick.requests:
            run = self.dagster.launch(request, sensor)
            if run is not None:
                self.asked.update(_requests(run))
                often = [r for r in _requests(run) if self.asked[r] > ATTEMPTS + self.forgotten[r]]
                assert not often, "asked for again and again"
        assert self.dagster.dropped == [], "a request that Dagster drops holds its place for ever"

    def watch(self, seen: TickState) -> None:
        """Count how long what can be made was left alone."""
        busy = runs.busy_days(seen.instance, "lake", CHAIN)
        found = rebuild_needs(self.states, busy, seen.until).ready
        blocked = {("raw", d) for r in self.altered for d in r.days}
        left = {(name, d) for name, days in found.items() for d in days} - self.cannot - blocked
        left |= {("file", d) for _, d in self.fresh.values()} if not self.dagster_scans() else set()
        self.waited = Counter({key: self.waited[key] + 1 for key in left})
        late = {key: n for key, n in self.waited.items() if n * LOOKED_AT_EVERY > PATIENCE_TICKS}
        assert not late, f"never asked for: {late}"

    def dagster_scans(self) -> bool:
        return bool(self.dagster.get_runs(dg.RunsFilter(statuses=runs.ACTIVE, job_name=SCAN)))

    def end(self, run: dg.DagsterRun) -> None:
        """The run ends: it makes all its days, or none."""
        if run.job_name == SCAN or self.chance.random() < 0.7:
            self.take_stock(run)
        names = [k.path[-1] for k in run.asset_selection or ()]
        days = [parse_day(d) for _, d, _ in _requests(run)]
        if self.chance.random() < 0.02 and int(run.tags.get(runs.ATTEMPT_TAG, 0)) == 0:
            self.dagster.end(run, CANCELED)
        elif any((name, d) in self.cannot for name in names for d in days):
            self.dagster.end(run, FAILURE)
        else:
            self.dagster.end(run, SUCCESS)
            for name in names:
                self.make(name, days)
        self.look_anew()

    def take_stock(self, run: dg.DagsterRun) -> None:
        if run.job_name == SCAN or "raw" in {k.path[-1] for k in run.asset_selection or ()}:
            for name, (_, arrival) in self.fresh.items():
                self.story.land(arrival, name)
            self.fresh.clear()

    def make(self, name: str, days: list[date]) -> None:
        if name == "raw":
            for d in days:
                self.story.load(d, touching={d, day(self.chance.randrange(DAYS))})
        else:
            self.story.build(name, *days)

    def news(self) -> None:
        """Something happens, seldom."""
        what = self.chance.random()
        if what < 0.05:
            self.files += 1
            name, arrival = f"new-{self.files}", day(self.chance.randrange(DAYS + 1))
            self.fresh[name] = (LandedFile(name, Path(name), 1, 0), arrival)
        elif what < 0.06:
            self.cannot.add((self.chance.choice(CHAIN).name, day(self.chance.randrange(DAYS))))
        elif what < 0.063 and self.cannot:
            self.cannot.clear()
            self.relax()
        elif what < 0.07:
            arrival = day(self.chance.randrange(DAYS))
            self.altered = [] if self.altered else [_record(arrival)]
        elif what < 0.08 and self.dagster.kept:
            self.forget()
        elif what < 0.2:
            self.dagster.add_run(
                dg.DagsterRun(SCAN, tags={runs.SENSOR_TAG: LANDING}, status=SUCCESS)
            )

    def forget(self) -> None:
        """Somebody deletes a run that ended."""
        run = self.chance.choice([*self.dagster.kept.values()][-40:])
        if run.status in runs.ENDED:
            self.forgotten.update(_requests(run))
            self.dagster.delete_run(run.run_id)


def _record(arrival: date) -> FileRecord:
    return FileRecord("a", "sha", 1, 0, NOW, arrival, {arrival: RowCounts(1, 0, 1)}, counted_by="")


def _requests(run: dg.DagsterRun) -> Iterator[Request]:
    ops: Any = run.run_config.get("ops", {})
    for op, body in ops.items():
        for asked, known in body["config"]["asked"].items():
            yield op.removeprefix("make_"), asked, known


def test_over_thousands_of_ticks_all_that_can_be_made_is_asked_for_and_nothing_for_ever() -> None:
    ticks = examples(TICKS)
    world = World(seed=20_260_101)
    for _ in range(ticks):
        world.news()
        world.tick()
    assert len(world.dagster.kept) > ticks / 10
    assert max(world.asked.values()) >= ATTEMPTS, "some days were given up"
    world.altered = []
    for _ in range(3 * PATIENCE_TICKS):
        world.tick()
    left = {
        (n, d)
        for n, days in rebuild_needs(world.states, {}, NOW.date()).ready.items()
        for d in days
    }
    assert left <= world.cannot, "only what cannot be made is left"
    assert not world.fresh
