"""The lateness of rows and the report of it: exact counts and quantiles, and what it refuses. No
JVM. Not here: how it is drawn (`reports.test_lateness_command`)."""

import json
import random
import statistics
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY, midnight
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reports.completeness import Cell
from backfill_assets.reports.lateness import LatenessScope, lateness_report, read_lateness
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.late_lake import FRONTIER, late_lake
from backfill_assets_tests.pipeline.built_in import contract

NOW = FRONTIER + timedelta(hours=6)

Made = tuple[Lake, Pipeline]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Read only: who changes a lake makes one."""
    return late_lake(tmp_path_factory.mktemp("late"))


def test_a_lake_without_deliveries_says_what_to_run(made: Made, tmp_path: Path) -> None:
    lake, pipeline = made
    with pytest.raises(BackfillError, match=r"no delivery is loaded yet.*`backfill-assets scan`"):
        lateness_report(type(lake)(tmp_path, lake.settings), pipeline, LatenessScope(), NOW)


FIRST = date(2024, 2, 26)


def delivery(arrival: datetime, event: datetime | None, number: int = 0) -> dict[str, Any]:
    """A row of raw; without an event it is a delete."""
    return {
        "seq": number,
        "arrival_ts": arrival,
        "version_ts": arrival,
        "event_ts": event,
        "event_key": f"k{number}",
        "op": "upsert" if event else "delete",
        "entity": "A",
        "value": 1 if event else None,
        "flag": 0 if event else None,
        "source_file": "sha",
        "arrival_date": arrival.date(),
    }


def table(
    folder: Path, contract: Contract, rows: Iterable[Mapping[str, Any]]
) -> tuple[TableStore, str, int]:
    """A table of that name in a lake's store, at its first version."""
    lake = bare_lake(folder)
    write_rows(lake.table_place(contract.name).local(), contract, list(rows))
    return lake.store, contract.name, 0


def test_late_early_and_deleted_rows_are_counted_apart(tmp_path: Path) -> None:
    arrived = midnight(FIRST + ONE_DAY)
    late, early = arrived - timedelta(microseconds=1), arrived + timedelta(hours=30)
    found = read_lateness(
        *table(tmp_path, contract("raw"), [delivery(arrived, e) for e in (late, early, None)])
    )
    assert found.cells == (
        Cell(FIRST + ONE_DAY, FIRST, 1),
        Cell(FIRST + ONE_DAY, FIRST + ONE_DAY * 2, 1),
    )
    assert (found.early, found.deletes) == (1, 1)
    assert found.overall
    assert (found.overall.rows, found.overall.min, found.overall.max) == (2, -30 * 3600, 1e-6)


def test_quantiles_are_exact_per_arrival_day_per_event_day_and_over_all(tmp_path: Path) -> None:
    random.seed(7)
    instants = [
        midnight(FIRST) + timedelta(microseconds=random.randrange(4 * 86_400_000_000))
        for _ in range(120)
    ]
    rows = [
        delivery(a, a - timedelta(seconds=random.randrange(-9000, 200_000)), n)
        for n, a in enumerate(instants)
    ]
    found = read_lateness(*table(tmp_path, contract("raw"), rows))

    def spread(chosen: list[dict[str, Any]]) -> Any:
        late = [(r["arrival_ts"] - r["event_ts"]).total_seconds() for r in chosen]
        cuts = (
            statistics.quantiles(late, n=100, method="inclusive") if len(late) > 1 else late * 100
        )
        return pytest.approx(
            (len(late), min(late), cuts[49], cuts[89], cuts[94], cuts[98], max(late))
        )

    def of(day: date, column: str) -> list[dict[str, Any]]:
        return [r for r in rows if r[column].date() == day]

    assert vars_of(found.overall) == spread(rows)
    assert [vars_of(d.spread) for d in found.by_arrival] == [
        spread(of(d.day, "arrival_ts")) for d in found.by_arrival
    ]
    assert [vars_of(d.spread) for d in found.by_event] == [
        spread(of(d.day, "event_ts")) for d in found.by_event
    ]
    assert (
        sum(d.spread.rows for d in found.by_event) == sum(c.rows for c in found.cells) == len(rows)
    )


def vars_of(spread: Any) -> tuple[float, ...]:
    return tuple(vars(spread).values())


def test_a_year_of_real_commits_gives_the_known_lateness(tmp_path: Path, shared: Path) -> None:
    home = shared / "data" / "openstack_changes"
    known = json.loads((home / "golden.json").read_text(encoding="utf-8"))
    store = bare_lake(tmp_path).store
    _golden_tables(tmp_path / "tables", known["sql"], shared)
    found, answers = read_lateness(store, "raw", 0), known["golden"]
    assert found.overall
    late = answers["lateness_days_all_deliveries"]
    names = ("min", "p50", "p90", "p99", "max")
    assert [round(getattr(found.overall, name) / 86400, 4) for name in names] == [
        late[name] for name in names
    ]
    share = sum(c.rows for c in found.cells if c.age_days) / found.overall.rows
    assert share == pytest.approx(answers["late_share"]["arrives_on_a_later_date"])
    assert found.early == answers["late_share"]["arrives_before_it_happened"]


def _golden_tables(folder: Path, sql: Mapping[str, str], shared: Path) -> None:
    """raw as the known answers' own SQL gives it, with the columns that are read."""
    import duckdb
    from deltalake import write_deltalake

    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    engine.execute(sql["deliveries_view"].replace("$DATASETS", str(shared / "data")))
    query = (
        "SELECT op, arrival_ts::TIMESTAMPTZ AS arrival_ts, event_ts::TIMESTAMPTZ AS event_ts, "
        "arrival_ts::DATE AS arrival_date FROM d"
    )
    write_deltalake(folder / "raw", engine.sql(query).to_arrow_table())
