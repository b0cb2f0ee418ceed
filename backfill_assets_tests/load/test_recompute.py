"""Which days are passed over when others are computed again; no engine is asked.

Not tested here: computing (`operations.test_check_engine`).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.core.states import Codes
from backfill_assets.lake.replace import Provenance
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.recompute import UNNAMED, SessionElsewhere, recompute
from backfill_assets_tests.builders import day
from backfill_assets_tests.operations.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")


def test_a_day_whose_receipt_does_not_say_how_its_rows_came_about_is_passed_over(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    session = SessionElsewhere(made.lake, tmp_path / "home")
    asked = RebuildRequest(
        session, made.pipeline, made.pipeline.table("features"), DayRange(day(2), day(4)), Provenance("")
    )
    assert {d.passed_over for d in recompute(asked).days} == {UNNAMED}
    other = replace(made.pipeline, codes=dict.fromkeys(made.pipeline.codes, Codes("new", "new")))
    told = recompute(replace(asked, pipeline=other)).days
    assert [(d.day, d.passed_over) for d in told] == [
        (day(n), "it was made with other code or settings") for n in (2, 3)
    ]
