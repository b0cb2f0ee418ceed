"""The landed days by receipts: equal to those by all rows of the ledger after any history, and found
without reading a row.

Not here: what rows say of a day (`test_ledger`), and scans that append them (`test_scan`).
"""

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.intake import landed_days as by_receipts
from backfill_assets.intake.content_store import content_name_by_path
from backfill_assets.intake.landed_days import (
    append_events,
    event_reader,
    landed_by_day,
    names_days,
    of_days,
    with_names,
)
from backfill_assets.intake.ledger import FILES, LANDED, WITHDRAWN, landed_days, read_files
from backfill_assets.kernel.core.ledgers import source_table_name
from backfill_assets.kernel.core.view import LandedDay
from backfill_assets.kernel.log import log
from backfill_assets.kernel.log.log_state import KEEP_EVERY
from backfill_assets.kernel.log.state_files import STATES_FOLDER
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets_tests.builders import day, receipt, write_rows
from backfill_assets_tests.files import SMALLEST, bare_lake

SEEN = datetime(2024, 3, 1, 9, tzinfo=UTC)
PATHS = ("dt=1/a.csv", "dt=1/b.csv", "dt=2/c.csv")
NAMES = ("one", "other", *(content_name_by_path(c, p) for c in ("one", "other") for p in PATHS))


def event(path: str, content: str, number: int, **facts: Any) -> dict[str, Any]:
    """A landing, the `number`th of its ledger."""
    of_day = {"arrival_date": day(0), "rows": 3, "bad_rows": 1, "usable_rows": 2}
    file = {"size": 10, "mtime_ns": 7, "first_scan": SEEN, "home_day": day(0)}
    recorded = {"recorded_at": SEEN + timedelta(seconds=number), "counted_by": "s", "note": None}
    known = {"event": LANDED, "path": path, "sha256": content, **of_day, **file, **recorded}
    return {**known, **facts}


def cells(events: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """Events as rows in the order of the ledger's columns."""
    return [tuple(e[c] for c in FILES.column_names) for e in events]


def by_all_rows(lake: Lake) -> Mapping[Any, LandedDay]:
    """The landed days as every row of the ledger gives them."""
    return landed_days(read_files(lake.store), by_receipts.are_dumps(lake, ""))


def elsewhere(lake: Lake, to: Path) -> Lake:
    """The lake for somebody who knows nothing of its logs: a copy of it."""
    shutil.copytree(lake.root, to)
    return open_lake(to)


@st.composite
def landings(draw: st.DrawFn) -> list[dict[str, Any]]:
    path, content = draw(st.sampled_from(PATHS)), draw(st.sampled_from(NAMES))
    days = draw(st.sets(st.integers(0, 3), min_size=1, max_size=3))
    seen = SEEN + timedelta(days=draw(st.integers(0, 1)))
    usable = draw(st.integers(0, 2))
    facts = {"first_scan": seen, "usable_rows": usable, "home_day": day(min(days))}
    return [event(path, content, 0, arrival_date=day(n), **facts) for n in sorted(days)]


def withdrawals() -> st.SearchStrategy[list[dict[str, Any]]]:
    keys = st.tuples(st.sampled_from(PATHS), st.sampled_from(NAMES))
    return keys.map(lambda k: [event(*k, 0, event=WITHDRAWN, rows=0, bad_rows=0, usable_rows=0)])


WAYS = ("scan", "an earlier release", "another program", "nothing new", "kind")
STEPS = st.lists(
    st.tuples(st.sampled_from(("scan", "scan", *WAYS)), st.one_of(landings(), withdrawals())),
    min_size=1,
    max_size=8,
)


def step(lake: Lake, way: str, events: list[dict[str, Any]]) -> Lake:
    """The lake after one of the things that happen to a ledger."""
    files = lake.table_place(FILES.name).local()
    if way == "scan":
        append_events(lake, cells(events), "scan", "")
    elif way == "an earlier release":
        write_rows(files, FILES, events, receipt(FILES.name, {}))
    elif way == "another program" and lake.store.exists(FILES.name):
        write_rows(files, FILES, events)
    elif way == "nothing new":
        append_events(lake, [], "scan", "")
    elif way == "kind":
        return with_kind(lake, "changes" if by_receipts.are_dumps(lake, "") else "snapshot")
    return lake


def with_kind(lake: Lake, kind: str) -> Lake:
    """The lake whose files are of another kind from now on."""
    (lake.root / FILE_NAME).write_text(SMALLEST + f'kind = "{kind}"\n')
    return open_lake(lake.root)


@given(STEPS)
@settings(max_examples=25, deadline=None)
def test_the_days_by_receipts_are_those_by_all_rows_after_any_history(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, list[dict[str, Any]]]]
) -> None:
    lake = bare_lake(tmp_path_factory.mktemp("lake"))
    for number, (way, events) in enumerate(history):
        at = SEEN + timedelta(seconds=number)
        lake = step(lake, way, [e | {"recorded_at": at} for e in events])
        expected = by_all_rows(lake)
        found = landed_by_day(lake, "")
        assert found == expected, (number, way)
        named = with_names(lake, "", found, [*found])
        assert {d: n.names for d, n in named.items()} == {d: n.names for d, n in expected.items()}
        around = by_receipts.records_around(event_reader(lake.store, ""), of_days([day(1)]))
        paths = {r.path for r in around}
        assert around == [r for r in read_files(lake.store) if r.path in paths]
    shutil.rmtree(lake.root)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with a landed file on each of three days."""
    made = bare_lake(tmp_path / "lake")
    for number, path in enumerate(PATHS):
        append_events(
            made, cells([event(path, path, number, arrival_date=day(number))]), "scan", ""
        )
    return made


def without_rows(lake: Lake, to: Path) -> Lake:
    """The lake elsewhere, without the data files of its ledger: nobody can read a row of it."""
    found = elsewhere(lake, to)
    for file in found.table_place(FILES.name).local().rglob("part-*.parquet"):
        file.unlink()
    return found


def test_a_look_reads_no_row_of_the_ledger(lake: Lake, tmp_path: Path) -> None:
    assert {
        d: n.contents for d, n in landed_by_day(without_rows(lake, tmp_path / "b"), "").items()
    } == {day(n): 1 for n in range(3)}


def test_a_lake_of_an_earlier_release_is_named_by_the_next_scan_without_news(
    tmp_path: Path,
) -> None:
    old = bare_lake(tmp_path / "lake")
    append_events(old, [], "scan", "")
    assert not old.store.exists(FILES.name), "nothing landed"
    rows = [event("a", "a", 0), event("b", "b", 1, arrival_date=day(1))]
    write_rows(old.table_place(FILES.name).local(), FILES, rows, receipt(FILES.name, {}))
    expected = landed_by_day(old, "")
    append_events(old, [], "scan", "")
    version = old.store.head(FILES.name)
    append_events(old, [], "scan", "")
    assert old.store.head(FILES.name) == version, "once"
    assert names_days(old)
    assert landed_by_day(old, "") == expected != {}


@pytest.mark.parametrize("harm", ["flipped", "cut off", "gone"])
def test_a_damaged_kept_state_is_passed_over(tmp_path: Path, harm: str) -> None:
    lake = bare_lake(tmp_path / "lake")
    for n in range(KEEP_EVERY + 1):
        landing = event(str(n), str(n), n, arrival_date=day(n), home_day=day(n))
        append_events(lake, cells([landing]), "scan", "")
    kept = [*(lake.table_place(FILES.name).local() / log.LOG / STATES_FOLDER).iterdir()]
    assert kept
    for file in kept:
        content = file.read_bytes()
        changed = content[:40] + bytes([content[40] ^ 1]) + content[41:]
        file.write_bytes(changed if harm == "flipped" else content[:40])
        if harm == "gone":
            file.unlink()
    found = landed_by_day(without_rows(lake, tmp_path / "copy"), "")
    assert [found[day(n)].contents for n in range(KEEP_EVERY + 1)] == [1] * (KEEP_EVERY + 1)


def test_a_commit_of_an_earlier_release_that_comes_between_is_not_lost(
    lake: Lake, tmp_path: Path
) -> None:
    twin, new = elsewhere(lake, tmp_path / "twin"), event("new", "new", 9)
    append_events(twin, cells([new]), "scan", "")
    without_the_other = twin.store.receipt(FILES.name, twin.store.head(FILES.name))
    files = lake.table_place(FILES.name).local()
    write_rows(files, FILES, [event("late", "late", 8)], receipt(FILES.name, {}))
    write_rows(files, FILES, [new], without_the_other)
    assert landed_by_day(lake, "") == by_all_rows(lake)
    assert landed_by_day(lake, "")[day(0)].contents == 3


def test_dumps_of_a_source_with_a_name_follow_from_the_dump_before(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    source = 'files = "landing/**"\nformat = "jsonl"\nselect = "*"\nkind = "snapshot"\n'
    (root / FILE_NAME).write_text(f"start_date = 2024-02-26\n[sources.stock]\n{source}")
    whole = open_lake(root)
    dumps = [
        event(f"dt={day(n)}/all.jsonl", str(n), n, arrival_date=day(n), home_day=day(n))
        for n in range(3)
    ]
    for each in dumps:
        append_events(whole.of_source("stock"), cells([each]), "scan", "")
    found = with_names(whole, "stock", landed_by_day(whole, "stock"), [day(n) for n in range(3)])
    assert found[day(2)].names == frozenset({"2", "1 before"})
    version = whole.store.head(source_table_name(FILES.name, "stock"))
    append_events(whole.of_source("stock"), [], "scan", "")
    assert whole.store.head(source_table_name(FILES.name, "stock")) == version, "named already"
