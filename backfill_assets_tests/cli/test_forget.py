"""`forget` shows first; an obstacle ends it before anything is written. No engine.

Tested here: `cli.forget`. Not tested here: the erasure itself (`end_to_end.test_forget`).
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets_tests.operations.synthetic import synthetic_lake

ASKED = ["forget", "ann-77", "--note", "asked for", "--json", "--lake"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    made = synthetic_lake(tmp_path / "lake", 2)[0].root
    (held := made / ".snapshots" / "march" / "x.json").parent.mkdir(parents=True)
    held.write_text("ann-77")
    return made


def test_without_yes_it_says_what_holds_the_entity_and_writes_nothing(root: Path) -> None:
    done = CliRunner().invoke(app, [*ASKED, str(root)])
    found = json.loads(done.stdout)
    assert (done.exit_code, found["done"], found["holding"]) == (0, False, {".snapshots/march": 1})
    assert "--drop snapshots" in found["obstacles"][0]
    assert not (root / ".forgotten").exists()


def test_an_obstacle_ends_it_before_the_entity_is_recorded(root: Path) -> None:
    done = CliRunner().invoke(app, [*ASKED, str(root), "--yes"])
    assert done.exit_code == 1
    assert "march in .snapshots would lose rows. Nothing was erased." in done.stderr
    assert not (root / ".forgotten").exists()
