"""Keys that name their event day: what breaks the promise is set aside with its reason, all else is as without it.

Tested here: `landing.key_day`, and a lake that promises it, loaded in any order, and without the promise in between.
Not tested here: the ledger by itself (`load.test_arrivals`).
"""

import random
from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from backfill_assets.core.days import DayRange
from backfill_assets.lake.embedded import connection
from backfill_assets.lake.sections import SourceSettings
from backfill_assets.landing.key_day import day_text
from backfill_assets_tests.end_to_end.worlds import World, by_arrival, land, make_world, span
from backfill_assets_tests.engines import SparkSession
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.oracle import TABLES, Row, Rules, delivery, expected, unruly

START = date(2024, 2, 25)
RULES = Rules(START, datetime.fromisoformat("2024-03-20"), date(2024, 3, 10), (2, 5), 5, "value", "rise", 3, 1)
NO_DAY = "event_key names no day, and key_day = "
OTHER_DAY = "the day of event_ts is another than its key's, and key_day = "
TOO_EARLY = "the day of its key lies more than 1 day(s) after its arrival"


@pytest.mark.parametrize("template", ["YYYY-MM", "", "YYYYMMDDMM", "yyyy-mm-dd", "COMM-YYYYMMDD"])
def test_a_template_shows_year_month_and_day_once(template: str) -> None:
    with pytest.raises(ValidationError, match="each of YYYY, MM and DD once: ord-YYYYMMDD"):
        SourceSettings(files="x", format="csv", select="x", key_day=template)


def test_the_engines_find_the_same_text_in_a_key(spark: "SparkSession", tmp_path: Path) -> None:
    keys = [
        "ö-20240229-7",
        "a" + "\N{COMBINING DIAERESIS}20240229",
        "\N{GRINNING FACE}-20240230",
        "x-2024",
        "",
        "o-2024 1 2",
    ]
    text = day_text("o-YYYYMMDD")
    spread = spark.createDataFrame([(k,) for k in keys], "event_key string").selectExpr(f"{text} AS text")
    with connection(bare_lake(tmp_path)) as engine:
        values = ", ".join(f"('{k}')" for k in keys)
        found = [t for (t,) in engine.execute(f"SELECT {text} FROM (VALUES {values}) t(event_key)").fetchall()]
    assert [r["text"] for r in spread.collect()] == found
    assert found[:3] == ["2024-02-29", "2024-02-29", "2024-02-30"]


def delivered() -> tuple[list[Row], dict[tuple[date, int], str]]:
    """Deliveries whose keys begin with a day, mostly that of their events; and why some are set aside, by arrival day
    and place."""
    rows, days = unruly(4, START), dict[str, date]()
    rows += [delivery(900, "2024-03-03 10:00", key="no day"), delivery(901, "2024-03-03 10:00", key="x", op="delete")]
    for row in rows:
        days.setdefault(row["event_key"], row["event_ts"].date() if row["event_ts"] else START)
    keyed = [r | {"event_key": f"{days[r['event_key']]:%Y%m%d}-{r['event_key']}"} for r in rows[:-2]] + rows[-2:]
    aside = dict.fromkeys(((r["arrival_ts"].date(), r["seq"]) for r in rows[-2:]), NO_DAY)
    for row, of_key in zip(keyed, (days[r["event_key"]] for r in rows[:-2]), strict=False):
        arrived = row["arrival_ts"].date()
        if row["op"] == "upsert" and row["event_ts"].date() != of_key:
            aside[arrived, row["seq"]] = OTHER_DAY
        elif row["op"] == "delete" and of_key > arrived + timedelta(days=1):
            aside[arrived, row["seq"]] = TOO_EARLY
    return keyed, aside


def promise(world: World, line: str) -> None:
    """`lake.toml` with this line in [source], in place of the one that it may have."""
    path = world.root / "lake.toml"
    text = "".join(t for t in path.read_text().splitlines(keepends=True) if not t.startswith("key_day"))
    path.write_text(text.replace("[source]\n", f"[source]\n{line}"))


def test_rows_that_break_the_promise_are_set_aside_and_the_others_give_what_they_give_alone_in_any_order(
    spark: "SparkSession", tmp_path: Path
) -> None:
    rows, aside = delivered()
    kept = [r for r in rows if (r["arrival_ts"].date(), r["seq"]) not in aside]
    assert {*aside.values()} == {NO_DAY, OTHER_DAY, TOO_EARLY}
    assert sum(r["op"] == "delete" for r in kept) > 2
    world, chance = make_world(tmp_path, RULES), random.Random(2)
    for day, of_day in by_arrival(rows).items():
        land(world, f"{day}.jsonl", of_day)
    days = [*span(RULES)]
    for number, first in enumerate(chance.sample(range(0, len(days), 4), 4)):
        promise(world, 'key_day = "YYYYMMDD"\n' if number > 1 else "")
        world.backfill(DayRange(days[first], days[min(first + 3, len(days) - 1)] + timedelta(days=1)), "raw")
    for template, wanted in (("YYYYMMDD", kept), ("", rows), ("YYYYMMDD-", kept)):
        promise(world, f'key_day = "{template}"\n' if template else "")
        world.backfill(span(RULES))
        assert {t: world.content(t) for t in TABLES} == expected(wanted, RULES)
        assert world.states()["raw"] == world.states()["staging"] == {"fresh"}
        found = Counter(r["reason"].split('"')[0] for r in world.content("quarantine"))
        assert found == (Counter() if wanted is rows else Counter(aside.values()))
