"""What upkeep adds to `[retention]`. Not here: what `maintain` deletes by it
(`upkeep/test_maintain.py`)."""

import pytest
from pydantic import ValidationError

from backfill_assets import LakeSettings
from backfill_assets.kernel.core.rooms import installed_rooms
from backfill_assets.kernel.tables.settings import model_with
from backfill_assets.upkeep.settings import retention_of

BODY = {"start_date": "2024-03-01", "assets_only": True}


def test_runs_and_copies_are_kept_for_ever_where_nothing_is_said() -> None:
    kept = retention_of(LakeSettings.model_validate(BODY))
    assert (kept.rollback_days, kept.run_days, kept.copy_days, kept.file_mib) == (
        90,
        None,
        None,
        256,
    )


def test_a_key_goes_with_its_room_and_the_section_stays() -> None:
    without = model_with(room for room in installed_rooms() if room.name != "upkeep")
    settings = without.model_validate({**BODY, "retention": {"rollback_days": 30}})
    assert settings.retention.rollback_days == 30
    with pytest.raises(ValidationError, match=r"retention\.run_days"):
        without.model_validate({**BODY, "retention": {"run_days": 30}})
