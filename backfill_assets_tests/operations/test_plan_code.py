"""A plan may work by the pipeline file as git knows it at a commit; where there is no such file it is refused.

Tested here: `operations.plan_code` with a real repository. Not tested here: runs by older code (`cli/test_plan.py`).
"""

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import CODE_TAG
from backfill_assets.lake.home import open_lake
from backfill_assets.lake.view import read_view
from backfill_assets.operations.plan_code import OVERRIDE, pin_code, working_by
from backfill_assets.operations.plan_files import find_plan
from backfill_assets.operations.plan_pins import refuse_moved
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.operations.planning import versions_of
from backfill_assets_tests.operations.synthetic import START, synthetic_lake
from backfill_assets_tests.own import OWN_PIPELINE

pytestmark = pytest.mark.usefixtures("processes")  # git
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    """What git says in that folder."""
    done = subprocess.run(("git", *IDENTITY, *words), cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    """A lake whose file pipeline.py was committed twice; the first commit has the tag good."""
    there, _ = synthetic_lake(tmp_path / "repository" / "lake", 1)
    git(there.root.parent, "init", "-q")
    for number in (1, 2):
        (there.root / "pipeline.py").write_text(f"version = {number}\n")
        git(there.root, "add", "pipeline.py")
        git(there.root, "commit", "-q", "-m", f"version {number}")
        if number == 1:
            git(there.root, "tag", "good")
    named = SimpleNamespace(tables="pipeline.py:tables", sql=None)
    return SimpleNamespace(root=there.root, settings=SimpleNamespace(pipeline=named))


def test_the_file_at_a_tag_is_frozen_and_found_by_all_who_work_within(lake: Any) -> None:
    code = pin_code(lake, "good")
    assert (code.ref, code.commit) == ("good", git(lake.root, "rev-parse", "good"))
    path, _, name = code.tables.partition(":")
    assert ((lake.root / path).read_text(), name) == ("version = 1\n", "tables")
    assert pin_code(lake, code.commit[:10]).tables == code.tables
    before = os.environ.get(OVERRIDE)
    with working_by(code):
        assert os.environ[OVERRIDE] == code.tables
    assert os.environ.get(OVERRIDE) == before


@pytest.mark.parametrize(
    ("named", "ref", "told"),
    [
        ("pipeline.py:tables", "nowhere", "is no commit, branch or tag"),
        ("pipeline.py:tables", "--all", "is no commit, branch or tag"),
        ("other.py:tables", "good", "git does not know it so"),
        ("a_module:tables", "good", "they are made by the module a_module"),
        (None, "good", "they are those of this product"),
    ],
)
def test_what_has_no_older_version_is_refused_and_nothing_changes(
    lake: Any, named: str | None, ref: str, told: str
) -> None:
    lake.settings.pipeline.tables = named
    before = versions_of(lake)
    with pytest.raises(BackfillError, match=told):
        pin_code(lake, ref)
    assert versions_of(lake) == before


def test_tables_in_sql_files_are_refused_because_they_would_be_todays(lake: Any) -> None:
    lake.settings.pipeline.sql = "sql/*.sql"
    with pytest.raises(BackfillError, match="some are made by SQL files"):
        pin_code(lake, "good")


def test_a_plan_is_pinned_to_the_older_code_and_held_to_it(tmp_path: Path) -> None:
    root = synthetic_lake(tmp_path / "lake", 3)[0].root
    with (root / "lake.toml").open("a") as settings:
        settings.write('[pipeline]\ntables = "pipeline.py:tables"\n')
    git(root, "init", "-q")
    for change in ("", "\nMORE = 1\n"):
        (root / "pipeline.py").write_text(OWN_PIPELINE + change)
        git(root, "add", "pipeline.py")
        git(root, "commit", "-q", "-m", "one more")
    words = ("--partitions", str(START), "--tables", "totals", "--code", "HEAD~1", "--json")
    made = CliRunner().invoke(app, ["plan", "--lake", str(root), *words])
    assert made.exit_code == 0, made.output
    lake, today = open_lake(root), chosen_pipeline(open_lake(root))
    plan = find_plan(lake, json.loads(made.output)["id"])
    assert plan.code
    assert plan.tags(plan.chunk(1))[CODE_TAG] == f"HEAD~1 ({git(root, 'rev-parse', 'HEAD~1')[:12]})"
    view = read_view(lake, today.contracts)
    with pytest.raises(BackfillError, match="the code of totals was"):
        refuse_moved(plan, today, today.states(view))
    with working_by(plan.code):
        older = chosen_pipeline(open_lake(root))
        refuse_moved(plan, older, older.states(view))
