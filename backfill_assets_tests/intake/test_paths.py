"""A path names a day only where nothing else can be meant, and a number orders files only where all
else is equal.

Tested here: what a path says by itself, and what rows get from it; keys that name their event day,
and a lake that promises it, loaded in any order. Not tested here: such days from the scan to raw
(`intake.test_path_days`).
"""

import random
import re
from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from backfill_assets.intake.paths import (
    BY_NUMBER,
    NUMBER,
    are_paths_numbered,
    day_of_path,
    key_day_text,
)
from backfill_assets.intake.select import (
    arrival_at_day_end,
    delivery_number,
    select_expressions,
    uses_path,
)
from backfill_assets.intake.settings import LandedSource
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.tables.embedded import duckdb_cursor
from backfill_assets_tests.end_to_end.worlds import World, by_arrival, land, make_world, span
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.oracle import TABLES, Row, Rules, delivery, expected, unruly

MARCH = date(2024, 3, 1)
PLAIN = {
    **dict.fromkeys(
        (
            "dt=2024-03-01/part-0.csv",
            "arrival_date=2024-03-01/part-0.csv",
            "loadDate=2024-3-1/part-0.csv",
            "a/2024/03/01/05/o.csv",
            "2024/03/01.csv.gz",
            "year=2024/month=3/day=1/x.csv",
            "Y=2024/M=03/D=01/hour=07/x.csv",
            "orders-2024-03-01.csv",
            "orders_2024-03-01T09-15-30.csv",
            "dt=2024-03-01/of-2024-02-28.csv",
        ),
        MARCH,
    ),
    "2024/2/29/x.csv": date(2024, 2, 29),
    "dt=2024-02-30/x.csv": None,
    "orders.csv": None,
    "12024-03-01.csv": None,
}
AMBIGUOUS = {
    **dict.fromkeys(
        (
            "year=2024/region=12/store=7/2024-03-01.csv",
            "year=2024/month=03/part=7/2024-03-01.csv",
            "valid_from=2024-03-04/dt=2024-03-01/o.csv",
            "dt=2024-02-30/2024-03-01.csv",
        ),
        MARCH,
    ),
    **dict.fromkeys(
        (
            "year=2024/week=09/day=3/o.csv",
            "year=2024/month=03/part=7/o.csv",
            "2024/month=03/day=01/o.csv",
            "orders2024/03/01/o.csv",
            "2024-03/01/o.csv",
            "2024/03/7-of-9.csv",
            "week=2024-03-04/o.csv",
            "event_date=2024-02-01/dt=2024-03-01/o.csv",
            "2024-03-01_2024-03-31.csv",
        ),
        None,
    ),
}


@pytest.mark.parametrize(("path", "day"), [*PLAIN.items(), *AMBIGUOUS.items()])
def test_a_day_is_read_only_by_keys_that_say_so_whole_and_unambiguous(
    path: str, day: date | None
) -> None:
    assert day_of_path(path) == day


@pytest.mark.parametrize(
    "names",
    [
        [
            "dt=2024-03-01/o-9h.csv",
            "dt=2024-03-01/o-10h.csv",
            "dt=2024-03-02/o-9h.csv",
            "dt=2024-03-02/o.csv",
        ],
        ["dt=2024-03-01/o.csv", "dt=2024-03-02/o.csv"],
        ["dt=2024-03-01/o-9h.csv", "dt=2024-03-01/p-10h.csv"],
        ["dt=2024-03-01/o-9.csv", "dt=2024-03-01/o-09.csv"],
        ["dt=2024-03-01/eu/o-1.csv", "dt=2024-03-01/us/o-2.csv"],
        ["dt=2024-03-01/o-1709999990123.csv", "dt=2024-03-01/o-1710000010456.csv"],
        ["o-9.csv", "o-10.csv"],
        ["dt=2024-03-09/o_09-15-30.csv", "dt=2024-03-09/o_17-05-10.csv"],
        ["dt=2024-03-09/T18_30_20.0079Z.csv", "dt=2024-03-09/T18_30_20.1Z.csv"],
    ],
)
def test_numbers_order_files_of_one_day_only_where_the_paths_are_alike_otherwise(
    names: list[str],
) -> None:
    assert are_paths_numbered(
        ["dt=2024-03-01/o-9h.csv", "dt=2024-03-01/o-10h.csv", "dt=2024-03-02/o-9h.csv"]
    )
    assert not are_paths_numbered(names)


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("dt=2024-03-01/o-9h.csv", "9"),
        ("o.7.csv", "7"),
        ("7", "7"),
        ("a/7.csv", "7"),
        ("2/o.csv", None),
        ("o-20240301173000.csv", None),
        ("o-1.5.csv", None),
        ("o-0,5.csv", None),
    ],
)
def test_a_number_is_whole_or_none(path: str, number: str | None) -> None:
    found = re.search(NUMBER, path)
    assert (found[1] if found else None) == number


DAYS = {date(2024, 2, 29): "2024-02-29 23:59:59.999999", None: None}


def test_the_arrival_is_the_end_of_the_day_that_the_path_names(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([(d,) for d in DAYS], "day date")
    found = frame.select("day", arrival_at_day_end(frame.day).cast("string").alias("at")).collect()
    assert {r["day"]: r["at"] for r in found} == DAYS


def test_the_number_of_a_row_grows_within_its_file_and_fits_64_bits(spark: "SparkSession") -> None:
    rows = [("f" * 64, 1), ("f" * 64, 2), ("0" * 64, 1)]
    frame = spark.createDataFrame(rows, "sha256 string, row_number bigint")
    found = [
        r["n"]
        for r in frame.select(delivery_number(frame.sha256, frame.row_number).alias("n")).collect()
    ]
    assert found == [2**60, 2**60 + 1, 1]


def test_the_number_in_a_name_orders_files_then_rows_within_64_bits(spark: "SparkSession") -> None:
    rows = [
        ("dt=2024-03-01/orders.csv", 7),
        ("dt=2024-03-01/o-9h.csv", 1),
        ("dt=2024-03-01/o-9h.csv", 20),
        ("o-010.csv.gz", 1),
        ("o-20240301173000.csv", 999_999_999),
    ]
    frame = spark.createDataFrame(rows, "_file string, _row bigint").selectExpr(
        *select_expressions(BY_NUMBER)
    )
    assert [r["seq"] for r in frame.collect()] == [
        None,
        9_000_000_001,
        9_000_000_020,
        10_000_000_001,
        None,
    ]


@pytest.mark.parametrize(
    ("select", "uses"),
    [
        ("a AS event_key, at AS arrival_ts", False),
        ("a AS event_key, `at` `arrival_ts`", False),
        ("a AS event_key", True),
        ("substr(_file, 1, 3) AS country, at AS arrival_ts", True),
        ("'_file' AS country, at AS arrival_ts", False),
    ],
)
def test_a_select_depends_on_paths_where_it_names_them_or_no_arrival(
    select: str, uses: bool
) -> None:
    assert uses_path(select) is uses


START = date(2024, 2, 25)
RULES = Rules(
    START, datetime.fromisoformat("2024-03-20"), date(2024, 3, 10), (2, 5), 5, "value", "rise", 3, 1
)
NO_DAY = "event_key names no day, and key_day = "
OTHER_DAY = "the day of event_ts is another than its key's, and key_day = "
TOO_EARLY = "the day of its key lies more than 1 day(s) after its arrival"


@pytest.mark.parametrize("template", ["YYYY-MM", "", "YYYYMMDDMM", "yyyy-mm-dd", "COMM-YYYYMMDD"])
def test_a_template_shows_year_month_and_day_once(template: str) -> None:
    with pytest.raises(ValidationError, match="each of YYYY, MM and DD once: ord-YYYYMMDD"):
        LandedSource(files="x", format="csv", select="x", key_day=template)


def test_the_engines_find_the_same_text_in_a_key(spark: "SparkSession", tmp_path: Path) -> None:
    keys = [
        "ö-20240229-7",
        "a" + "\N{COMBINING DIAERESIS}20240229",
        "\N{GRINNING FACE}-20240230",
        "x-2024",
        "",
        "o-2024 1 2",
    ]
    text = key_day_text("o-YYYYMMDD")
    spread = spark.createDataFrame([(k,) for k in keys], "event_key string").selectExpr(
        f"{text} AS text"
    )
    with duckdb_cursor(bare_lake(tmp_path)) as engine:
        values = ", ".join(f"('{k}')" for k in keys)
        found = [
            t
            for (t,) in engine.execute(
                f"SELECT {text} FROM (VALUES {values}) t(event_key)"
            ).fetchall()
        ]
    assert [r["text"] for r in spread.collect()] == found
    assert found[:3] == ["2024-02-29", "2024-02-29", "2024-02-30"]


def delivered() -> tuple[list[Row], dict[tuple[date, int], str]]:
    """Deliveries whose keys begin with a day, mostly that of their events; and why some are set
    aside, by arrival day and place."""
    rows, days = unruly(4, START), dict[str, date]()
    rows += [
        delivery(900, "2024-03-03 10:00", key="no day"),
        delivery(901, "2024-03-03 10:00", key="x", op="delete"),
    ]
    for row in rows:
        days.setdefault(row["event_key"], row["event_ts"].date() if row["event_ts"] else START)
    keyed = [
        r | {"event_key": f"{days[r['event_key']]:%Y%m%d}-{r['event_key']}"} for r in rows[:-2]
    ] + rows[-2:]
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
    text = "".join(
        t for t in path.read_text().splitlines(keepends=True) if not t.startswith("key_day")
    )
    path.write_text(text.replace("[source]\n", f"[source]\n{line}"))


def test_rows_that_break_the_promise_are_set_aside_and_the_others_give_what_they_give_alone(
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
        world.backfill(
            DayRange(days[first], days[min(first + 3, len(days) - 1)] + timedelta(days=1)), "raw"
        )
    for template, wanted in (("YYYYMMDD", kept), ("", rows), ("YYYYMMDD-", kept)):
        promise(world, f'key_day = "{template}"\n' if template else "")
        world.backfill(span(RULES))
        assert {t: world.content(t) for t in TABLES} == expected(wanted, RULES)
        assert world.states()["raw"] == world.states()["staging"] == {"fresh"}
        found = Counter(r["reason"].split('"')[0] for r in world.content("quarantine"))
        assert found == (Counter() if wanted is rows else Counter(aside.values()))
