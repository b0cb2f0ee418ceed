"""The command `agent`, where its extra is not installed.

Not tested here: its tools (`test_tools`), and the protocol, which the package `mcp` tests.
"""

import sys
from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.synthetic import synthetic_lake


def test_without_the_extra_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 2)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    done = run("--lake", str(lake.root), "agent")
    assert done.exit_code == 1
    assert 'pip install "backfill-assets[agent]"' in done.stderr
    assert "Nothing was served" in done.stderr
