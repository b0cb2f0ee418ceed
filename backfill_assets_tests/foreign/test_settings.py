"""What `foreign` adds to `[access]`. Not here: giving tables their names
(`foreign/test_catalog.py`)."""

import pytest
from pydantic import ValidationError

from backfill_assets import LakeSettings
from backfill_assets.foreign.settings import registered_schema

BODY = {"start_date": "2024-03-01", "assets_only": True}


def test_tables_get_names_in_the_schema_that_is_named_and_none_otherwise() -> None:
    assert registered_schema(LakeSettings.model_validate(BODY)) is None
    named = {"readers": "group", "register_in": "main.lake"}
    settings = LakeSettings.model_validate({**BODY, "access": named})
    assert registered_schema(settings) == "main.lake"
    assert settings.access.umask == 0o027


def test_a_schema_of_three_parts_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"access\.register_in"):
        LakeSettings.model_validate({**BODY, "access": {"register_in": "a.b.c"}})
