"""Section `[proof]` of `lake.toml`. Not here: what is proven (`compare.test_prove`)."""

import pytest
from pydantic import ValidationError

from backfill_assets import LakeSettings
from backfill_assets.compare.settings import proof_of

BODY = {"start_date": "2024-03-01", "assets_only": True}


def test_no_day_is_proven_where_nothing_is_said() -> None:
    assert proof_of(LakeSettings.model_validate(BODY)).days_per_day == 0
    settings = LakeSettings.model_validate({**BODY, "proof": {"days_per_day": 2}})
    assert proof_of(settings).days_per_day == 2


def test_an_hour_that_no_day_has_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"proof\.hour"):
        LakeSettings.model_validate({**BODY, "proof": {"hour": 24}})
