"""Two homes of Dagster on one lake: each looks after its own runs, and neither spoils what the other knows.

Tested here: ticks of both on one lake without an engine. Not tested here: two runs on the same days, which the lake's
locks and receipts settle (`end_to_end.test_races`).
"""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.operations.status import attention
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.ticks import LATE_DATA
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.orchestration.ticking import Made, all_fail, asked, day, late, stale

pytestmark = pytest.mark.usefixtures("storages")

Homes = tuple[dg.DagsterInstance, dg.DagsterInstance]


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[Homes]:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        dg.DagsterInstance.local_temp(str(tmp_path / "one")) as one,
        dg.DagsterInstance.local_temp(str(tmp_path / "two")) as two,
    ):
        yield one, two


def test_what_one_home_gave_up_the_other_still_tries(lake: Made, homes: Homes) -> None:
    one, two = homes
    stale(lake, 2)
    all_fail(lake, one)
    assert late(lake, one).requests == []
    assert asked(late(lake, two)) == [f"staging {day(2)}"]


def test_what_needs_a_person_in_one_home_is_not_taken_back_by_the_other(lake: Made, homes: Homes) -> None:
    stale(lake, 2)
    all_fail(lake, homes[0])
    defs = assemble(lake[0].root, tables)
    sensor = next(s for s in defs.sensors or () if s.name == LATE_DATA)
    for home in homes:
        with dg.build_sensor_context(instance=home, definitions=defs) as context:
            sensor.evaluate_tick(context)
    (line,) = attention(lake[0].root)
    assert str(day(2)) in line
