"""Commands in texts that Dagster shows: each names the lake, unless commands find it anyway.

Not tested here: the words of a command (`kernel.core.test_commands`), and refusals with such
commands (`dagster.test_messages`).
"""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.dagster.adapter.printed_commands import commands_with_lake
from backfill_assets.kernel.core.commands import show_command
from backfill_assets.kernel.core.process import LAKE_VARIABLE

DAY = date(2024, 3, 2)


def test_every_command_of_a_text_names_the_lake_but_one_that_needs_none(tmp_path: Path) -> None:
    lake = tmp_path / "my lake"
    text = (
        "Look with `backfill-assets show t 2024-03-02`, `backfill-assets guide plans`, or "
        "`lake_checks`"
    )
    shown = f"`backfill-assets show t 2024-03-02 --lake '{lake}'`"
    assert commands_with_lake(text, lake) == text.replace(
        "`backfill-assets show t 2024-03-02`", shown
    )
    assert commands_with_lake(commands_with_lake(text, lake), lake) == commands_with_lake(
        text, lake
    )


def test_a_lake_that_commands_find_by_themselves_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LAKE_VARIABLE, str(tmp_path))
    assert commands_with_lake(text := f"`{show_command('t', DAY)}`", tmp_path) == text
