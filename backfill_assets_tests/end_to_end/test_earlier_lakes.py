"""Lakes whose format is not this release's are refused by name, and nothing is written.

Tested here: a lake of before 0.3 (`earlier/1e67185.tar.xz`, named by the commit that made it), and
one of a later format. Not tested here: lakes made by 6f78c832, which go on (`test_lakes_before`).
"""

import tarfile
from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.logs import commit_file, versions

EARLIER = Path(__file__).parent / "earlier"
COMMANDS = (["status"], ["catch-up"], ["sql", "SELECT * FROM staging"])


def unpacked(archive: str, folder: Path) -> Path:
    with tarfile.open(EARLIER / archive) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_lake_of_before_0_3_is_refused_with_the_way_to_a_new_one(
    command: list[str], tmp_path: Path
) -> None:
    root = unpacked("1e67185.tar.xz", tmp_path)
    before = {path: path.read_bytes() for path in (root / "tables").rglob("*.json")}
    refused = run(*command, "--lake", root)
    assert refused.exit_code, refused.output
    assert "a version of backfill-assets before 0.3 wrote to it" in refused.output
    assert "Make the lake anew" in refused.output
    assert {path: path.read_bytes() for path in (root / "tables").rglob("*.json")} == before


def test_a_lake_of_a_newer_format_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    root = unpacked("6f78c832/files.tar.xz", tmp_path) / "made"
    table = root / "tables" / "staging"
    commit = commit_file(table, versions(table)[-1])
    commit.write_text(
        commit.read_text().replace('backfill_assets\\":1,', 'backfill_assets\\":2,'),
        encoding="utf-8",
    )
    known = versions(table)
    for command in ("status", "catch-up"):
        refused = run(command, "--lake", root)
        assert refused.exit_code, refused.output
        assert "a newer version of backfill-assets wrote to it" in refused.output
        assert "Upgrade backfill-assets" in refused.output
    assert versions(table) == known
