"""What sensors left for a person.

Tested here: `reading.attention`. Not tested here: what rooms find by themselves, and `status`.
"""

from pathlib import Path

import pytest

from backfill_assets.reading.attention import keep_alarms, sensor_alarms

pytestmark = pytest.mark.usefixtures("storages")


def test_what_every_sensor_of_every_instance_found_stands_there_until_it_is_over(
    tmp_path: Path,
) -> None:
    keep_alarms(tmp_path, "home-1", "landing", {"altered files": "a is altered"})
    keep_alarms(tmp_path, "home-2", "landing", {"altered files": "a is altered", "scan": "in vain"})
    assert sensor_alarms(tmp_path) == ["a is altered", "in vain"]
    keep_alarms(tmp_path, "home-2", "landing", {})
    assert sensor_alarms(tmp_path) == ["a is altered"]
