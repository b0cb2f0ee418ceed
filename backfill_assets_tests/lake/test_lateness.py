"""Lateness read from real Delta tables, against plain Python and against known answers. No JVM."""

import json
import random
import statistics
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import ONE_DAY, DayRange, midnight
from backfill_assets.core.lateness import Cell
from backfill_assets.lake.lateness import MATURITIES_DAYS, Flip, Lateness, flips, read_lateness
from backfill_assets.lake.settings import LabelSettings
from backfill_assets.lake.store import TableStore
from backfill_assets.pipeline import contracts
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.files import bare_lake

FIRST = date(2024, 2, 26)
AS_KNOWN = contracts.features_as_known((7, 28))


def delivery(arrival: datetime, event: datetime | None, number: int = 0) -> dict[str, Any]:
    """A row of raw; without an event it is a delete."""
    return {
        "seq": number, "arrival_ts": arrival, "version_ts": arrival, "event_ts": event, "event_key": f"k{number}",
        "op": "upsert" if event else "delete", "entity": "A", "value": 1 if event else None,
        "flag": 0 if event else None, "source_file": "sha", "arrival_date": arrival.date(),
    }  # fmt: skip


def version(number: int, entity: str | None, day: date, known: tuple[datetime, datetime | None], value: int = 1) -> Any:
    """A row of staging; its flag is 1 for odd values."""
    return {
        "event_key": f"k{number}", "event_ts": midnight(day), "entity": entity, "value": value, "flag": value % 2,
        "version_ts": known[0], "seq": number, "known_from": known[0], "known_until": known[1], "event_date": day,
    }  # fmt: skip


def asked(entity: str, day: date) -> dict[str, Any]:
    numbers = ("events_short", "events_long", "value_short", "value_long", "flagged_long", "days_since_last")
    return {"entity": entity, **dict.fromkeys(numbers, 1), "feature_date": day}


def table(folder: Path, contract: Contract, rows: Iterable[Mapping[str, Any]]) -> tuple[TableStore, str, int]:
    """A table of that name in a lake's store, at its first version."""
    lake = bare_lake(folder)
    write_rows(lake.table_path(contract.name), contract, list(rows))
    return lake.store, contract.name, 0


def test_late_early_and_deleted_rows_are_counted_apart(tmp_path: Path) -> None:
    arrived = midnight(FIRST + ONE_DAY)
    late, early = arrived - timedelta(microseconds=1), arrived + timedelta(hours=30)
    found = read_lateness(*table(tmp_path, contracts.raw(), [delivery(arrived, e) for e in (late, early, None)]))
    assert found.cells == (Cell(FIRST + ONE_DAY, FIRST, 1), Cell(FIRST + ONE_DAY, FIRST + ONE_DAY * 2, 1))
    assert (found.early, found.deletes) == (1, 1)
    assert found.overall
    assert (found.overall.rows, found.overall.least_s, found.overall.greatest_s) == (2, -30 * 3600, 1e-6)


def test_quantiles_are_exact_per_arrival_day_per_event_day_and_over_all(tmp_path: Path) -> None:
    random.seed(7)
    instants = [midnight(FIRST) + timedelta(microseconds=random.randrange(4 * 86_400_000_000)) for _ in range(120)]
    rows = [delivery(a, a - timedelta(seconds=random.randrange(-9000, 200_000)), n) for n, a in enumerate(instants)]
    found = read_lateness(*table(tmp_path, contracts.raw(), rows))

    def spread(chosen: list[dict[str, Any]]) -> Any:
        late = [(r["arrival_ts"] - r["event_ts"]).total_seconds() for r in chosen]
        cuts = statistics.quantiles(late, n=100, method="inclusive") if len(late) > 1 else late * 100
        return pytest.approx((len(late), min(late), cuts[49], cuts[89], cuts[98], max(late)))

    def of(day: date, column: str) -> list[dict[str, Any]]:
        return [r for r in rows if r[column].date() == day]

    assert vars_of(found.overall) == spread(rows)
    assert [vars_of(s) for _, s in found.by_arrival] == [spread(of(d, "arrival_ts")) for d, _ in found.by_arrival]
    assert [vars_of(s) for _, s in found.by_event] == [spread(of(d, "event_ts")) for d, _ in found.by_event]
    assert sum(s.rows for _, s in found.by_event) == sum(c.rows for c in found.cells) == len(rows)


def vars_of(spread: Any) -> tuple[float, ...]:
    return tuple(vars(spread).values())


def test_only_the_asked_arrival_days_and_the_asked_version_are_read(tmp_path: Path) -> None:
    days = [midnight(FIRST + ONE_DAY * n) for n in range(3)]
    store, raw, first = table(tmp_path, contracts.raw(), [delivery(d, d) for d in days])
    write_rows(bare_lake(tmp_path).table_path(raw), contracts.raw(), [delivery(days[1], days[0])])
    assert [d for d, _ in read_lateness(store, raw, 1, DayRange(FIRST + ONE_DAY, FIRST + ONE_DAY * 2)).by_event] == [
        FIRST,
        FIRST + ONE_DAY,
    ]
    assert len(read_lateness(store, raw, first).cells) == 3


def test_without_upserts_there_is_nothing_but_the_count_of_deletes(tmp_path: Path) -> None:
    raw = table(tmp_path, contracts.raw(), [delivery(midnight(FIRST), None)])
    assert read_lateness(*raw) == Lateness(deletes=1)


@pytest.mark.parametrize(("measure", "rule"), [("events", "any"), ("value", "rise"), ("flag", "rise")])
def test_flips_are_what_counting_each_label_twice_gives(tmp_path: Path, measure: Any, rule: Any) -> None:
    random.seed(11)
    labels = LabelSettings(measure=measure, rule=rule, horizon_days=3)
    since = midnight(FIRST + ONE_DAY * 25)
    staging = [_random_version(number, since) for number in range(120)]
    rows = [(entity, FIRST + ONE_DAY * n) for entity in "ABC" for n in range(0, 24, 2)]
    days = DayRange(FIRST + ONE_DAY * 2, FIRST + ONE_DAY * 20)
    store, *_ = table(tmp_path, contracts.staging(), staging)
    table(tmp_path, AS_KNOWN, [asked(*r) for r in rows])
    tables = ("staging", 0), (AS_KNOWN.name, 0)

    def answer(entity: str, day: date, known: list[dict[str, Any]]) -> bool:
        def total(first: int, last: int) -> int:
            reach = [r for r in known if r["entity"] == entity and first <= (r["event_date"] - day).days <= last]
            return sum(1 if measure == "events" else r[measure] for r in reach)

        return total(1, 3) > (0 if rule == "any" else total(-2, 0))

    now = [r for r in staging if r["known_until"] is None]
    then = [r for r in staging if r["known_from"] < since and (r["known_until"] or since) >= since]
    for within in (None, days):
        expected = []
        for maturity in MATURITIES_DAYS:
            ripe = [(e, d) for e, d in rows if midnight(d + ONE_DAY * (4 + maturity)) <= since]
            ripe = [r for r in ripe if within is None or r[1] in within]
            expected.append(Flip(maturity, len(ripe), sum(answer(*r, now) != answer(*r, then) for r in ripe)))
        assert flips(store, tables, labels, since, within) == tuple(expected)
    assert expected[0].flipped, "the case must have something to find"


def _random_version(number: int, since: datetime) -> Any:
    """A version that became known around `since`, at that very instant among others."""
    known = since + ONE_DAY * random.choice((-9, -1, 0, 1))
    until = random.choice((None, None, known + ONE_DAY, since if since > known else None))
    day = FIRST + ONE_DAY * random.randrange(24)
    return version(number, random.choice(("A", "B", "C", None)), day, (known, until), random.randrange(5))


def test_a_version_is_known_from_after_its_arrival_until_its_replacement_has_arrived(tmp_path: Path) -> None:
    since = midnight(FIRST + ONE_DAY * 9)
    table(tmp_path, AS_KNOWN, [asked(e, FIRST) for e in ("arrives at the instant", "is replaced at it")])
    rows = [
        version(0, "arrives at the instant", FIRST + ONE_DAY, (since, None)),
        version(1, "is replaced at it", FIRST + ONE_DAY, (midnight(FIRST), since)),
    ]
    store, *_ = table(tmp_path, contracts.staging(), rows)
    tables = ("staging", 0), (AS_KNOWN.name, 0)
    assert flips(store, tables, LabelSettings(horizon_days=1), since)[0] == Flip(0, 2, 2)


def test_a_year_of_real_commits_gives_the_known_lateness_and_flips(tmp_path: Path, shared: Path) -> None:
    home = shared / "data" / "openstack_changes"
    known = json.loads((home / "golden.json").read_text(encoding="utf-8"))
    store = bare_lake(tmp_path).store
    _golden_tables(tmp_path / "tables", known["sql"], shared)
    found, answers = read_lateness(store, "raw", 0), known["golden"]
    assert found.overall
    late = answers["lateness_days_all_deliveries"]
    days = [round(s / 86400, 4) for s in vars_of(found.overall)[1:]]
    assert days == [late[name] for name in ("min", "p50", "p90", "p99", "max")]
    share = sum(c.rows for c in found.cells if c.age_days) / found.overall.rows
    assert share == pytest.approx(answers["late_share"]["arrives_on_a_later_date"])
    assert found.early == answers["late_share"]["arrives_before_it_happened"]
    since = datetime.fromisoformat(known["params"]["T1"]).replace(tzinfo=UTC)
    tables = ("staging", 0), (AS_KNOWN.name, 0)
    turned = flips(store, tables, LabelSettings(horizon_days=known["params"]["H"]), since)
    assert {f"M={f.maturity_days}d": {"n": f.labels, "flipped": f.flipped} for f in turned} == answers[
        "label_flips_T1_to_T_by_maturity_lag"
    ]


def _golden_tables(folder: Path, sql: Mapping[str, str], shared: Path) -> None:
    """raw, staging and features_as_known as the known answers' own SQL makes them, with the columns that are read."""
    import duckdb
    from deltalake import write_deltalake

    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    for step in ("deliveries_view", "winners", "days", "feat_pit"):
        engine.execute(sql[step].replace("$DATASETS", str(shared / "data")))
    queries = {
        "raw": "SELECT op, arrival_ts::TIMESTAMPTZ AS arrival_ts, event_ts::TIMESTAMPTZ AS event_ts, "
        "arrival_ts::DATE AS arrival_date FROM d",
        "staging": "SELECT entity, value, flag, event_ts::DATE AS event_date, arrival_ts::TIMESTAMPTZ AS known_from, "
        "valid_to::TIMESTAMPTZ AS known_until FROM win WHERE op <> 'delete'",
        "features_as_known": "SELECT entity, d AS feature_date FROM feat_pit",
    }
    for name, query in queries.items():
        write_deltalake(folder / name, engine.sql(query).to_arrow_table())
