"""Full dumps: whatever the order in which they land and are loaded, a lake holds the newest one
before each day's end. Not here: usable rows (`test_deliveries`)."""

import os
import random
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets import LakeSettings
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.erasure.landed_files import erase_landed_rows
from backfill_assets.erasure.traces import Trace
from backfill_assets.intake.forgotten import begin_erasure
from backfill_assets.intake.ledger import dump_before, landed_days, read_files
from backfill_assets.intake.scan import scan_source
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.plans.moves import moved_rows
from backfill_assets.reading.account import accounts_by_table
from backfill_assets.reconcile.reconcile_layers import reconcile_layers
from backfill_assets_tests.lakes import LONG_AGO, backfill, content, land_bytes

START = date(2024, 3, 1)
SETTINGS = """start_date = 2024-03-01
[source]
files = "landing/**/*.csv"
format = "csv"
kind = "snapshot"
max_vanished_share = {share}{promise}
select = "id AS event_key, CAST(at AS timestamp) AS event_ts, city"
payload = {{ city = "STRING" }}
[features]
entity = ["city"]
columns = [{{ name = "events_7d", agg = "count", days = 7 }}]
[labels]
label = "count_ahead() > 0"
[spark]
memory = "2g"
"""
Dump = Mapping[str, str]  # key -> city


def day(number: int) -> date:
    return START + timedelta(number)


@pytest.fixture
def lake(spark: object, tmp_path: Path) -> Lake:
    """A lake of dumps, none landed."""
    return made(tmp_path)


def made(folder: Path, share: float = 1.0, promise: str = "") -> Lake:
    (folder / "lake.toml").write_text(SETTINGS.format(share=share, promise=promise))
    return open_lake(folder)


def deletes(lake: Lake) -> list[tuple[date, str]]:
    return sorted((r[-1], str(r[4])) for r in content(lake, "raw") if r[5] == "delete")


def refused(lake: Lake) -> dict[str, str]:
    return {r.path: r.refused for r in read_files(lake.store) if r.refused}


def land(lake: Lake, number: int, dump: Dump | str, name: str = "all.csv") -> Path:
    rows = (
        dump
        if isinstance(dump, str)
        else "".join(f"{k},2024-03-01 10:00:00,{c}\n" for k, c in dump.items())
    )
    return land_bytes(
        lake.root / "landing", f"dt={day(number)}/{name}", f"id,at,city\n{rows}".encode()
    )


def load(lake: Lake, first: int, last: int, tables: Sequence[str] = ("raw", "staging")) -> None:
    backfill(lake, day(first), day(last), tables=list(tables))


def stale(lake: Lake) -> list[date]:
    pipeline = chosen_pipeline(lake)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    return [day(n) for n in range(9) if states.of("raw", day(n)) is State.STALE]


def held(lake: Lake) -> dict[str, str]:
    """The current row of every key: of raw the newest delivery, unless it is a delete."""
    newest = dict[str, tuple[object, str, str]]()
    for row in content(lake, "raw"):
        seq, arrived, key, op, city = row[0], row[1], str(row[4]), str(row[5]), str(row[6])
        newest[key] = max(
            newest.get(key, ((), "", "")),
            ((arrived, seq), op, city),
            key=lambda state: str(state[0]),
        )
    return {key: city for key, (_, op, city) in newest.items() if op == "upsert"}


def agrees(lake: Lake, dump: Dump) -> bool:
    current = {str(r[0]): str(r[2]) for r in content(lake, "staging") if r[6] is None}
    return held(lake) == current == dict(dump)


def is_explained(lake: Lake) -> bool:
    pipeline = chosen_pipeline(lake)
    view = read_view(lake, pipeline.contracts)
    (found,) = accounts_by_table(lake, view).values()
    wrong = [
        b
        for b in reconcile_layers(lake, pipeline).wrong
        if b.name.startswith(("landed", "current"))
    ]
    return not (found.wrong or wrong) and sum(n for n, _ in found.parts()) == found.rows


@pytest.mark.parametrize(("seed", "promise"), [(0, ""), (1, '\nkey_day = "YYYY-MM-DD"')])
def test_dumps_in_any_order_of_landing_and_loading_give_the_newest_one(
    lake: Lake, seed: int, promise: str
) -> None:
    chance, lake = random.Random(seed), made(lake.root, promise=promise)
    keys = [f"{START}{letter}" for letter in "abcdef"]
    dumps = {n: {k: chance.choice("xyz") for k in keys if chance.random() < 0.6} for n in range(5)}
    order = chance.sample(sorted(dumps), len(dumps))
    for n in order:
        land(lake, n, {**dumps[n], **({f"2024-03-0{n + 1}": "broken"} if promise and n else {})})
        if chance.random() < 0.5:
            first, last = sorted(chance.choices(range(5), k=2))
            load(lake, first, last)
    for _ in range(2):  # the second finds nothing to do
        load(lake, 0, 4)
        assert agrees(lake, dumps[4])
        assert is_explained(lake)
        assert stale(lake) == []
    changes = [
        dumps[0].keys(),
        *(dict(dumps[n].items() ^ dumps[n + 1].items()).keys() for n in range(4)),
    ]
    unusable = 3 * bool(promise)  # each of which vanishes with the next dump
    wanted = sum(map(len, changes)) + unusable
    assert len(content(lake, "raw")) == wanted, "a row for each key that came, changed or vanished"


def test_a_late_dump_in_between_makes_the_next_day_stale_and_moves_its_deletes(lake: Lake) -> None:
    land(lake, 0, {"a": "x", "b": "x"})
    land(lake, 4, {"a": "x"})
    load(lake, 0, 4)
    land(lake, 2, {"b": "x", "c": "x"})
    scan_source(LakeSession(lake))
    assert stale(lake) == [day(2), day(4)]
    load(lake, 0, 4)
    assert deletes(lake) == [(day(2), "a"), (day(4), "b"), (day(4), "c")]
    assert agrees(lake, {"a": "x"})


def test_an_empty_or_half_dump_is_refused_by_name_until_a_manifest_says_that_it_is_whole(
    lake: Lake,
) -> None:
    lake = made(lake.root, share=0.3)
    land(lake, 0, dict.fromkeys("abcd", "x"))
    half = land(lake, 1, dict.fromkeys("ab", "x"))
    land(lake, 2, "")
    land(lake, 3, dict.fromkeys("abc", "y"))
    load(lake, 0, 3)
    first, second = (refused(lake)[f"dt={day(n)}/all.csv"] for n in (1, 2))
    assert (
        "lacks 2 of 4 key(s) of the dump of 2024-03-01: more than max_vanished_share = 0.3" in first
    )
    assert "lacks 4 of 4 key(s)" in second
    assert agrees(lake, dict.fromkeys("abc", "y")), "the fourth is held against the first"
    assert is_explained(lake)
    half.with_name("all.csv.totals.json").write_text('{"rows": 2}')
    os.utime(half.with_name("all.csv.totals.json"), (LONG_AGO, LONG_AGO))
    load(lake, 0, 3)
    assert {*refused(lake)} == {f"dt={day(2)}/all.csv"}
    assert deletes(lake) == [(day(1), "c"), (day(1), "d")]
    assert agrees(lake, dict.fromkeys("abc", "y"))


def test_a_refused_dump_is_whole_beside_one_that_lands_later(lake: Lake) -> None:
    lake = made(lake.root, share=0.3)
    land(lake, 0, dict.fromkeys("abcd", "x"))
    land(lake, 2, dict.fromkeys("ab", "x"))
    load(lake, 0, 2)
    assert [*refused(lake)] == [f"dt={day(2)}/all.csv"]
    land(lake, 1, dict.fromkeys("abc", "x"))
    load(lake, 0, 2)
    assert [*refused(lake)] == [f"dt={day(2)}/all.csv"], "2 of 3 are too few"
    land(lake, 1, "d,2024-03-01 10:00:00,x\n", "more.csv")
    load(lake, 0, 2)
    assert held(lake) == dict.fromkeys("abcd", "x")


def test_an_unusable_row_keeps_its_key_and_one_without_a_key_keeps_all(lake: Lake) -> None:
    land(lake, 0, dict.fromkeys("abc", "x"))
    land(lake, 1, "a,2024-03-01 10:00:00,x\nb,soon,y\n")
    load(lake, 0, 1)
    assert held(lake) == {"a": "x", "b": "x"}
    assert deletes(lake) == [(day(1), "c")]
    land(lake, 2, "a,2024-03-01 10:00:00,z\ntorn\n")
    load(lake, 0, 2)
    (why,) = refused(lake).values()
    assert "has 1 row(s) without a key or of another day" in why
    assert held(lake) == {"a": "x", "b": "x"}
    land(lake, 3, {"a": "x"})
    load(lake, 0, 3)
    assert agrees(lake, {"a": "x"})


def test_files_of_a_day_are_one_dump_and_of_rows_of_a_key_the_last_counts(lake: Lake) -> None:
    land(lake, 0, {"a": "x"}, "1.csv")
    land(lake, 0, "b,2024-03-01 10:00:00,x\nb,2024-03-01 10:00:00,y\n", "2.csv")
    land(lake, 1, {"b": "y"}, "1.csv")
    land(lake, 1, {"a": "x"}, "2.csv")
    load(lake, 0, 1)
    assert held(lake) == {"a": "x", "b": "y"}
    assert [r for r in content(lake, "raw") if r[-1] == day(1)] == [], "nothing changed"
    assert is_explained(lake)


def test_another_select_moves_the_rows_that_it_changes_and_no_others(lake: Lake) -> None:
    land(lake, 0, {"a": "x", "b": "x"})
    land(lake, 1, {"a": "y"})
    load(lake, 0, 1)
    pipeline = chosen_pipeline(lake)
    days, states = DayRange(day(0), day(2)), pipeline.states(read_view(lake, pipeline.contracts))
    assert moved_rows(LakeSession(lake), states, days) == ()
    path = lake.root / "lake.toml"
    path.write_text(path.read_text().replace("_ts, city", "_ts, upper(city) AS city"))
    found = moved_rows(LakeSession(open_lake(lake.root)), states, days)
    assert [(m.table, m.day, m.changes, m.loses) for m in found] == [
        ("raw", day(0), 2, 0),
        ("raw", day(1), 1, 0),
        ("staging", day(0), 2, 0),
    ]
    path.write_text(
        path.read_text().replace("_ts, upper", "_ts, CAST(at AS timestamp) AS version_ts, upper")
    )
    with pytest.raises(SettingsError, match="it gives version_ts, and files are dumps"):
        scan_source(LakeSession(open_lake(lake.root)))


def test_the_rows_of_a_forgotten_name_leave_all_dumps_and_nothing_else_vanishes(lake: Lake) -> None:
    lake = made(lake.root, share=0.4)
    land(lake, 0, {"a": "ann-77", "b": "x", "c": "ann-77", "d": "x"})
    land(lake, 1, {"a": "ann-77", "b": "y", "c": "ann-77"})  # without ann-77 it lacks one of two
    load(lake, 0, 1)
    trace = Trace({"city": "ann-77"})
    erase_landed_rows(LakeSession(lake), trace, begin_erasure(lake, trace.values, "asked for"))
    load(lake, 0, 1)
    assert agrees(lake, {"b": "y"})
    assert {str(r[4]) for r in content(lake, "raw")} == {"b", "d"}
    assert is_explained(lake)


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no dumps, and a share": (
        {"kind": "changes", "max_vanished_share": 0.1},
        {},
        "max_vanished_share has no effect",
    ),
    "more than all": ({"max_vanished_share": 1.5}, {}, "less than or equal to 1"),
    "a table": (
        {"table": "t", "files": "t", "format": "delta"},
        {},
        "versions of a table are changes",
    ),
    "a window": ({}, {"beyond": "quarantine", "window_days": 3}, "a dump is whole"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_dumps_cannot_have_are_refused(name: str) -> None:
    source, lateness, why = REFUSED[name]
    body = {"files": "*.csv", "format": "csv", "select": "x", "kind": "snapshot", **source}
    with pytest.raises(ValueError, match=why):
        LakeSettings.model_validate({"start_date": START, "source": body, "lateness": lateness})


def test_the_dump_before_is_part_of_what_a_day_is_made_from() -> None:
    assert dump_before(day(3), [day(1), day(3), day(5)]) == day(1)
    assert dump_before(day(1), [day(1)]) is None
    assert landed_days([], are_dumps=True) == {}
