"""Section `[controls.NAME]` of `lake.toml`. Not here: judging controls (`reconcile`)."""

from backfill_assets import LakeSettings
from backfill_assets.reading.settings import controls_of

BODY = {"start_date": "2024-03-01", "assets_only": True}


def test_a_known_total_may_be_a_number_and_is_of_days_where_nothing_is_said() -> None:
    total = {"query": "SELECT 1 AS value", "expected": 1, "tolerance": 0.5}
    settings = LakeSettings.model_validate({**BODY, "controls": {"total": total}})
    control = controls_of(settings)["total"]
    assert (control.expected, control.tolerance, control.grain) == ("1", "0.5", "day")
    assert controls_of(LakeSettings.model_validate(BODY)) == {}
