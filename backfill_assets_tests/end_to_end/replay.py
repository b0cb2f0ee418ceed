"""Landing after landing with only the sensors acting, and after each the truth, computed apart from
the package. Here: `Replay`, which lands, lets the sensors settle and compares staging's files and
rows with the deliveries. Not here: the deliveries and assertions about the end
(`test_late_data`)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

import dagster as dg
import duckdb
from deltalake import DeltaTable

from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets_tests.daemon import Daemon
from backfill_assets_tests.end_to_end.worlds import World, land
from backfill_assets_tests.lakes import data_files
from backfill_assets_tests.oracle import Row, ordered, staged

Days = dict[date, list[Row]]


@dataclass
class Step:
    """One landing: the runs it took and the event days of staging whose content the deliveries
    changed."""

    runs: list[str]
    changed: set[date]


@dataclass
class Replay:
    """A world whose sensors are ticked by `daemon`. `landed` are the deliveries so far."""

    world: World
    instance: dg.DagsterInstance
    landed: list[Row] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    files: int = 0

    def __post_init__(self) -> None:
        self.daemon = Daemon(open_lake(self.world.root), self.instance, self.world.tables_of)

    def start(self, rows: Sequence[Row]) -> None:
        """Deliveries that the lake already holds."""
        self.landed += rows

    def put(self, rows: Sequence[Row], ending: str = "parquet") -> None:
        """One more file with these deliveries in the landing folder."""
        self.files += 1
        land(self.world, f"{self.files:04d}.{ending}", rows)
        self.landed += rows

    def settle(self) -> Step:
        """Tick until nothing is asked for; what changed on disk is exactly what the deliveries
        changed."""
        before, files_before = self._truth_before(), data_files(self.lake, "staging")
        runs = self.daemon.settle()
        after, files_after = by_event_day(staged(self.landed)), data_files(self.lake, "staging")
        changed = {d for d in before.keys() | after.keys() if before.get(d) != after.get(d)}
        rewritten = {
            d
            for d in files_before.keys() | files_after.keys()
            if files_before.get(d) != files_after.get(d)
        }
        assert rewritten == changed, (
            f"only on disk {rewritten - changed}, only in truth {changed - rewritten}"
        )
        assert by_event_day(self.world.content("staging")) == after
        self._no_key_is_current_twice()
        self._settled = after
        self.steps.append(Step(runs, changed))
        return self.steps[-1]

    @property
    def lake(self) -> Lake:
        return open_lake(self.world.root)

    def _truth_before(self) -> Days:
        found: Days = getattr(self, "_settled", None) or by_event_day(self.world.content("staging"))
        return found

    def _no_key_is_current_twice(self) -> None:
        db = duckdb.connect()
        db.register(
            "staging", DeltaTable(str(self.world.root / "tables" / "staging")).to_pyarrow_table()
        )
        twice = (
            "select event_key from staging where known_until is null group by 1 having count(*) > 1"
        )
        assert db.execute(twice).fetchall() == []


def by_event_day(rows: Iterable[Row]) -> Days:
    """Rows by event day, each day's in an order of their own."""
    days: dict[date, list[Row]] = defaultdict(list)
    for row in rows:
        days[row["event_date"]].append(row)
    return {d: ordered(mine) for d, mine in days.items()}
