"""Which tables are asked for flipped labels, and what is said where they are not there.

Tested here: `lake.label_flips`. Not tested here: the count (`lake.test_label_flips`).
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import open_lake
from backfill_assets.lake.label_flips import label_flips
from backfill_assets.lake.model import make_pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.own import TWO_SOURCES

NOW = datetime(2024, 3, 10, tzinfo=UTC)


def test_of_several_sources_the_one_that_labels_are_made_from_is_asked(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(TWO_SOURCES)
    lake = open_lake(tmp_path)
    pipeline = make_pipeline(tables(lake.settings))
    with pytest.raises(BackfillError, match="the lake has no table staging_truth and no table features_as_known"):
        label_flips(lake, pipeline, read_view(lake, pipeline.contracts), NOW, NOW)
