"""A lake in a bucket as it is opened.

Tested here: `lake.in_bucket`. Not tested here: what lies in it (`end_to_end.test_bucket_lake`).
"""

from datetime import date
from typing import Any

import pytest

from backfill_assets.core.addresses import local_root
from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.in_bucket import refuse_unreachable
from backfill_assets.lake.settings import LakeSettings

SELECT = "id AS event_key, at AS event_ts, at AS arrival_ts, 0 AS seq, entity, value, flag"


def settings(files: str = "/landing/*.csv", **others: Any) -> LakeSettings:
    source = {"files": files, "format": "csv", "select": SELECT}
    return LakeSettings.model_validate({"start_date": date(2024, 3, 1), "source": source, **others})


@pytest.mark.parametrize("files", ["/landing/*.csv", "landing/*.csv", "s3://other/landing/*.csv"])
def test_settings_that_need_no_folder_of_the_lake_are_taken(files: str) -> None:
    refuse_unreachable(local_root("s3://bucket/lake"), settings(files))


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (settings(tables={"orders": {"external": "/orders", "day": "day"}}), "tables of others .* in a folder only"),
        (settings(spark={"engine": "sc://host:15002"}), "computes on machines that do not see"),
        (settings(spark={"engine": "spark://host:7077"}), "computes on machines that do not see"),
        (settings(exports={"days": {"table": "raw", "to": "export"}}), "begins at the lake's folder"),
    ],
    ids=["tables of others", "Connect elsewhere", "a cluster", "a relative export"],
)
def test_settings_that_cannot_work_in_a_bucket_are_refused_by_name(refused: LakeSettings, why: str) -> None:
    with pytest.raises(SettingsError, match=f"s3://bucket/lake/lake.toml.*{why}"):
        refuse_unreachable(local_root("s3://bucket/lake"), refused)
