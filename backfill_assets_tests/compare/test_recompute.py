"""Which days are passed over when others are computed again, and what is not asked of Sail; no
engine is asked. Not here: computing (`compare.test_prove_check_engine`)."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from backfill_assets.compare.recompute import (
    UNNAMED_INPUTS,
    SessionOnOwnServer,
    _lost_input,
    _view_at_heads,
    _view_then,
    recompute_days,
)
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import Codes
from backfill_assets.kernel.tables.sections import FeatureColumnSettings
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Table, make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.upkeep.maintain import maintain_tables
from backfill_assets_tests.builders import day, receipt
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.planned import Planned, scatter

pytestmark = pytest.mark.usefixtures("storages")


def asked_of(made: Planned, folder: Path, last: int) -> RebuildRequest:
    """Features of the third day and those behind it, on a session elsewhere."""
    session, known = (
        SessionOnOwnServer(made.lake, folder / "home"),
        KnownStates(made.lake, made.pipeline),
    )
    return RebuildRequest(
        session, known, made.pipeline.table("features"), DayRange(day(2), day(last)), Provenance("")
    )


def test_a_day_whose_receipt_does_not_say_how_its_rows_came_about_is_passed_over(
    tmp_path: Path,
) -> None:
    made = Planned(tmp_path / "lake")
    made.names_inputs = False
    made.write("features", {2: 5, 3: 5})
    asked = asked_of(made, tmp_path, 4)
    assert {d.passed_over for d in recompute_days(asked).days} == {UNNAMED_INPUTS}
    other = replace(made.pipeline, codes=dict.fromkeys(made.pipeline.codes, Codes("new", "new")))
    told = recompute_days(replace(asked, known=KnownStates(made.lake, other))).days
    why = "it was made with other code or settings"
    assert [(d.day, d.passed_over) for d in told] == [(day(2), why), (day(3), why)]


def test_a_table_that_an_asset_returns_is_refused_before_an_engine_starts(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    made.write("features", {2: 5})
    asked = asked_of(made, tmp_path, 3)
    given = Table(replace(asked.table.contract, made_by="sales"))
    with pytest.raises(BackfillError, match="the asset sales of a project returns its rows"):
        recompute_days(replace(asked, table=given))
    assert not (tmp_path / "home").exists()


def test_a_declared_column_that_overflows_silently_on_sail_is_no_opinion_on_what_spark_made(
    tmp_path: Path,
) -> None:
    """The lake is on Spark, so that nobody refused it when it was made."""
    lake = Planned(tmp_path / "lake").lake
    column = FeatureColumnSettings(name="n", agg="sum", of="value * 2", days=7)
    changes = {
        "features": lake.settings.features.model_copy(update={"columns": (column,)}),
        "spark": lake.settings.spark.model_copy(update={"engine": "sail"}),
    }
    other = replace(lake, settings=lake.settings.model_copy(update=changes))
    pipeline = make_pipeline(tables(other.settings))
    session, days = SessionOnOwnServer(other, tmp_path / "home"), DayRange(day(2), day(4))
    known = KnownStates(session.lake, pipeline)
    with pytest.raises(SettingsError, match=r"n in lake.toml .*\*: on sail not always"):
        recompute_days(
            RebuildRequest(session, known, pipeline.table("features"), days, Provenance(""))
        )


def test_an_input_whose_files_upkeep_took_is_read_where_the_same_rows_stand(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    asked, days = asked_of(made, tmp_path, 3), {day(2): made.view("features").latest[day(2)]}
    said = receipt("features", inputs={"staging": made.view("staging").version})
    scatter(made, "staging", 2)
    maintain_tables(made.lake, made.pipeline)

    def lost() -> str:
        states = made.states()
        view = _view_at_heads(asked, _view_then(asked, states, said), states.view, days)
        return _lost_input(asked, made.pipeline.states(view), days)

    with set_to(Clock(off=timedelta(days=120))):
        maintain_tables(made.lake, made.pipeline)
        assert lost() == ""
        made.write("staging", {2: 9})
        assert lost().startswith(f"files of version {said.inputs['staging']} of staging are gone")


def test_a_receipt_that_names_each_input_and_nothing_else_says_enough(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    read = made.lake.store.data_files(made.contract("staging"), made.view("staging").version)
    made.write("staging", {2: 9})
    for path in read:
        Path(path).unlink()
    (found,) = recompute_days(asked_of(made, tmp_path, 3)).days
    assert found.passed_over.startswith("files of version ")
