"""Section `[exports.NAME]` of `lake.toml`. Not here: bringing days there (`export.test_export`)."""

from backfill_assets import LakeSettings
from backfill_assets.export.settings import export_places, exports_of

BODY = {"start_date": "2024-03-01", "assets_only": True}


def test_an_export_names_a_table_and_its_place() -> None:
    declared = {"out": {"table": "staging", "to": "out"}}
    settings = LakeSettings.model_validate({**BODY, "exports": declared})
    assert exports_of(settings)["out"].table == "staging"
    assert export_places(settings) == ["out"]
    assert export_places(LakeSettings.model_validate(BODY)) == []
