"""A plan may work by the pipeline file as git knows it at a commit; where there is no such file it is refused.

Tested here: `operations.plan_code` with a real repository. Not tested here: runs by older code (`cli/test_plan.py`).
"""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.operations.plan_code import OVERRIDE, pin_code, working_by
from backfill_assets_tests.operations.planning import versions_of
from backfill_assets_tests.operations.synthetic import synthetic_lake

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
    named = SimpleNamespace(tables="pipeline.py:tables")
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
