"""Section `[audit]` of `lake.toml`. Not here: the choice by it (`engines/test_auditor.py`)."""

import pytest
from pydantic import ValidationError

from backfill_assets import LakeSettings
from backfill_assets.engines.settings import audit_of

BODY = {"start_date": "2024-03-01", "assets_only": True}


def test_who_counts_is_chosen_by_sizes_where_nothing_is_said() -> None:
    audit = audit_of(LakeSettings.model_validate(BODY))
    assert (audit.engine, audit.engine_from_mib) == ("auto", 1024)
    audit = audit_of(LakeSettings.model_validate({**BODY, "audit": {"engine": "duckdb"}}))
    assert audit.engine == "duckdb"


def test_a_counter_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"audit\.engine"):
        LakeSettings.model_validate({**BODY, "audit": {"engine": "spark"}})
