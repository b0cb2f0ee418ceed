"""What a lake holds after years of use: landings, late data, backfills, rollbacks, candidates,
snapshots and upkeep.

    python -m backfill_assets_tests.benchmarks.years [DAYS]

Lives here: the simulation through the product's own writer, without an engine, and its figures
beside their bounds. Commits leave the logs after `rollback_days`. Of Dagster there are the rows
alone: a run per commit that names days, with a materialization per day, and the job's rule by which
they go. Commits have the times at which they were made; upkeep reads a clock by which the day that
lies `KEPT` simulated days back was exactly `rollback_days` ago.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from backfill_assets.candidates.candidates import discard_candidate
from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.cli.findings import Level
from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.plans.rollback import (
    RollbackRequest,
    preview_rollback,
    release_days,
    roll_back,
)
from backfill_assets.reports.status import lake_status
from backfill_assets.upkeep.doctor_tables import examine_snapshots
from backfill_assets.upkeep.maintain import maintain_tables
from backfill_assets_tests.builders import WINDOW, day, receipt, write_rows
from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.logs import versions
from backfill_assets_tests.planned import BUILT, DAYS, Planned, scatter
from backfill_assets_tests.synthetic import arrival

if TYPE_CHECKING:
    from backfill_assets_tests.benchmarks.dagster_rows import DagsterRows

SHOWN = (10, 40, 100, 200, 300, 400)
(
    LATE_EVERY,
    SCATTER_EVERY,
    PLAN_EVERY,
    SNAPSHOT_EVERY,
    ROLLBACK_EVERY,
    UPKEEP_EVERY,
    CANDIDATE_EVERY,
) = (3, 5, 10, 20, 30, 30, 50)
COMMITS_A_DAY, LIVE_FILES_A_DAY, BYTES_PER_COMMIT = 9, 3, 8000  # of all tables together
EVENTS_PER_RUN = 4  # on average: late data and plans write several days


@dataclass(frozen=True)
class Figures:
    """A lake on one day: data files, those of the newest versions, commits, bytes of all files,
    runs of Dagster and their events, and the processor seconds of `status` in a process of its
    own."""

    day: int
    files: int
    live: int
    commits: int
    bytes: int
    runs: int
    events: int
    status_s: float


@dataclass
class Years:
    """A lake that is used day by day; `kept` is how many days a rollback is promised."""

    made: Planned
    kept: int = 90
    plans: dict[str, int] = field(default_factory=dict)
    began: list[float] = field(default_factory=lambda: [time.time()] * DAYS)
    dagster: "DagsterRows" = field(init=False)

    def __post_init__(self) -> None:
        """Begin without rows of Dagster."""
        from backfill_assets_tests.benchmarks.dagster_rows import (
            DagsterRows,
        )  # `status` is timed without

        self.dagster = DagsterRows()

    def live_through(self, number: int) -> None:
        """All that happens on a day."""
        self.began.append(time.time())
        late = number - 2 if number % LATE_EVERY == 0 else None
        self._land(number, late)
        if number % SCATTER_EVERY == 0:
            scatter(self.made, "features", number - 3)
        if number % PLAN_EVERY == 0:
            self._plan(number)
        if number % SNAPSHOT_EVERY == 0:
            days = DayRange(day(number - 5), day(number))
            create_snapshot(
                self.made.lake,
                self.made.pipeline,
                SnapshotRequest(f"s{number}", ["staging"], days, unfit="take"),
            )
        if number % CANDIDATE_EVERY == 0:
            self._publish(number)
        self.dagster.follow(self.made)
        if number % UPKEEP_EVERY == 0:
            self._keep_house(number)

    def _land(self, number: int, late: int | None) -> None:
        version = self.made.write("raw", {number: 1})
        rows = [arrival(day(number), f"F-{number}")]
        rows += (
            [{**rows[0], "event_date": day(late), "fingerprint": f"L-{number}"}]
            if late is not None
            else []
        )
        said = receipt(
            "arrivals",
            {day(number): DayEntry(len(rows), f"F-{number}", "")},
            inputs={"raw": version},
        )
        path = self.made.lake.table_place(ARRIVALS.name).local()
        month = rows[0]["arrival_month"]  # of which a load writes all rows again
        if path.exists():
            rows += (
                DeltaTable(path)
                .to_pyarrow_table(filters=[("arrival_month", "=", month)])
                .to_pylist()
            )
        write_rows(path, ARRIVALS, rows, said, f"arrival_month = '{month}'")
        self.made.write("staging", {number: 1, **({late: number} if late is not None else {})})
        again = range(late, late + WINDOW - 1) if late is not None else ()
        self.made.write("features", dict.fromkeys((*again, number), number))

    def _plan(self, number: int) -> None:
        """A backfill of five days; every third of them is put back and released."""
        plan = f"p{number}"
        self.made.chunk(1, range(number - 9, number - 4), number, plan)
        self.plans[plan] = number
        if number % ROLLBACK_EVERY == 0:
            asked = RollbackRequest(plan=plan)
            roll_back(self.made.lake, self.made.pipeline, asked, Provenance("rollback"))
            release_days(self.made.lake, self.made.pipeline, asked, Provenance("release"))

    def _publish(self, number: int) -> None:
        beside = CandidateWorld.of(self.made, "features")
        beside.there.write("features", dict.fromkeys(range(number - 7, number), -number))
        beside.publish()
        discard_candidate(self.made.lake, "v2")

    def _keep_house(self, number: int) -> None:
        days = self.made.lake.settings.retention.rollback_days
        since = self.began[max(number - self.kept, 0)]
        with set_to(Clock(stopped=since + days * 86_400)):
            maintain_tables(self.made.lake, self.made.pipeline)
        self.dagster.prune(since)

    def figures(self, number: int) -> Figures:
        """The figures of today."""
        tables = self.made.lake.root / "tables"
        everything = [
            p for p in self.made.lake.root.rglob("*") if p.is_file() and ".snapshots" not in p.parts
        ]
        names = ("raw", *BUILT)
        live = sum(len(self.made.lake.store.data_files(self.made.contract(t))) for t in names)
        return Figures(
            number,
            sum(p.suffix == ".parquet" and "_delta_log" not in p.parts for p in everything),
            live,
            sum(len(versions(t)) for t in tables.iterdir()),
            sum(p.stat().st_size for p in everything),
            self.dagster.instance.get_runs_count(),
            sum(self.dagster.events.values()),
            seconds_of_status(self.made.root),
        )

    def broken(self, number: int) -> list[str]:
        """What does not work any more of all that was promised: rollbacks of plans, snapshots,
        rows."""
        found = [
            f"{d.object}: {d.what}"
            for d in examine_snapshots(self.made.lake)
            if d.level is not Level.OK
        ]
        for plan, of in self.plans.items():
            if of > number - self.kept and of % ROLLBACK_EVERY:
                preview_rollback(
                    self.made.lake, self.made.pipeline, RollbackRequest(plan=plan, over_newer=True)
                )
        values = self.made.values("staging")
        return found + (
            [] if len(values) == number + 1 else [f"{len(values)} of {number + 1} days have rows"]
        )


def beyond(found: Figures) -> list[str]:
    """The figures that are beyond their bounds, in words."""
    live = found.day * LIVE_FILES_A_DAY + 30
    kept = (90 + UPKEEP_EVERY) * COMMITS_A_DAY
    bounds = {
        "files": (found.files, live + kept),
        "live": (found.live, live),
        "runs": (found.runs, live + kept),
        "events": (found.events, EVENTS_PER_RUN * (live + kept)),
        "commits": (found.commits, found.day * COMMITS_A_DAY + 30),
        "bytes": (found.bytes, (found.day * COMMITS_A_DAY + 30) * BYTES_PER_COMMIT),
    }
    return [f"{name}: {now}, bound {bound}" for name, (now, bound) in bounds.items() if now > bound]


def simulate(root: Path, days: int, kept: int = 90) -> Iterator[tuple[Years, Figures]]:
    """Use a new lake for so many days; the lake and its figures on some of them, and on the
    last."""
    years = Years(Planned(root), kept)
    for number in range(DAYS, days):
        years.live_through(number)
        if number + 1 in (*SHOWN, days):
            yield years, years.figures(number)


def seconds_of_status(root: Path) -> float:
    """The processor seconds that a process of its own needs to show all states, its start
    included."""
    words = [sys.executable, "-m", "backfill_assets_tests.benchmarks.years", "status", str(root)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(days: int) -> int:
    """Print the figures, `status` on the last day beside the first, and what is beyond its bound or
    broken (then 1)."""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        root, known = Path(folder) / "lake", list[Figures]()
        print("  day  files   live  commits       MB   runs  events  status CPU s", flush=True)
        for years, found in simulate(root, days):
            known.append(found)
            size = found.bytes / 1e6
            figures = f"{found.day + 1:5}{found.files:7}{found.live:7}{found.commits:9}{size:9.1f}"
            print(f"{figures}{found.runs:7}{found.events:8}{found.status_s:10.2f}", flush=True)
            wrong = [*beyond(found), *years.broken(found.day)]
            failed |= bool(wrong)
            print(
                "; ".join(wrong)
                or "      within all bounds; snapshots and the rollbacks of kept plans work"
            )
        print(
            f"status takes {known[-1].status_s / known[0].status_s:.1f} times as long as on day "
            f"{known[0].day + 1}"
        )
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["status"]:
        reopened = Planned.reopened(Path(sys.argv[2]))
        lake_status(reopened.lake, reopened.pipeline)
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
