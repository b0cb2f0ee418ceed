"""The log of a table of others is opened by its versions, and what lacks or cannot be opened is named.
Not here: what its commits brought (`intake.test_source_log`)."""

import re
from pathlib import Path

import pytest

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.log_reading import commit_actions, list_log, log_versions, open_at
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.place.folder import Folder
from backfill_assets_tests.tables import append

ROW = ("a", "2024-03-01 10:00", "A", 1)


def test_a_log_is_opened_at_each_of_its_versions(tmp_path: Path) -> None:
    for _ in range(3):
        append(tmp_path, "2024-03-01 20:00", ROW)
    table = Folder(str(tmp_path))
    assert log_versions(list_log(table)) == range(3)
    assert [open_at(table, version).count() for version in range(3)] == [1, 2, 3]
    told, digest = commit_actions(table, 1)
    assert ["add" in action for action in told].count(True) == 1
    assert re.fullmatch("[0-9a-f]{64}", digest)
    (tmp_path / commit_name(1)).unlink()
    with pytest.raises(LandingError, match="its log lacks version 1, which was not read yet"):
        log_versions(list_log(table))
    with pytest.raises(LandingError, match="version 2 cannot be opened"):
        open_at(table, 2)
