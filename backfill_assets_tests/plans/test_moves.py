"""A time zone in `select` moves rows over midnight: the look says which days gain and lose them,
and writes nothing. Not here: what follows (`plans.test_plan`)."""

from pathlib import Path

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.days import inclusive_range, parse_day
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import make_pipeline
from backfill_assets.plans.model import DayMove
from backfill_assets.plans.moves import moved_rows
from backfill_assets_tests.lakes import SELECT, backfill, configure, delivery, make_lake, toy
from backfill_assets_tests.planning import versions_of

pytestmark = pytest.mark.on_spark("it corrects select by an interval, which Sail refuses by name")

FIRST, LAST = "2024-03-01", "2024-03-03"
SHIFTED = "cast(event_ts AS timestamp) + INTERVAL 2 HOURS AS event_ts,"
LATER = SELECT.replace("event_ts,", SHIFTED).replace("value,", "value + 1 AS value,")


def test_rows_that_another_time_zone_moves_are_told_per_day_beyond_the_range_too(
    spark: object, tmp_path: Path
) -> None:
    rows = [delivery(n, f"2024-03-0{n} 23:30:00", None, f"k{n}") for n in (1, 2)]
    rows.append(delivery(3, "2024-03-03 10:00:00", None, "k3"))
    lake = make_lake(tmp_path, rows, FIRST, lateness={"early_tolerance_days": 1})
    backfill(lake, FIRST, LAST, None, toy())
    now = configure(
        tmp_path, FIRST, source={"files": "landing/**", "format": "jsonl", "select": LATER}
    )
    pipeline = make_pipeline(toy()(now.settings))
    states = pipeline.states(read_view(now, pipeline.contracts))
    before = versions_of(now)
    one = parse_day(FIRST)
    found = moved_rows(LakeSession(now), states, inclusive_range(one, one))
    day = [parse_day(f"2024-03-0{n}") for n in range(1, 4)]
    assert found == (
        DayMove("raw", day[0], 0, 0, 1),
        DayMove("raw", day[1], 0, 0, 1),
        DayMove("echo", day[0], 0, 1, 0),
        DayMove("echo", day[1], 1, 1, 0),
        DayMove("echo", day[2], 1, 0, 0),
    )
    assert versions_of(now) == before
