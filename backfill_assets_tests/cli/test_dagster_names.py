"""Lines of Dagster's settings, as a person copies them.

Tested here: `cli.dagster_names`. Not tested here: that Dagster opens such a storage
(`dagster/adapter/test_event_storage.py`).
"""

import yaml  # type: ignore[import-untyped]

from backfill_assets.cli.dagster_names import (
    EVENT_STORAGE,
    NAMES_A_STORAGE,
    OUR_EVENT_STORAGE,
)


def test_the_line_for_a_dagster_yaml_is_one_line_of_yaml_that_names_our_storage() -> None:
    assert "\n" not in EVENT_STORAGE
    assert yaml.safe_load(EVENT_STORAGE) == {"event_log_storage": OUR_EVENT_STORAGE}
    assert NAMES_A_STORAGE.search(EVENT_STORAGE)
