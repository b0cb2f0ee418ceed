"""A plan may work by the pipeline file as git knows it at a commit; where there is no such file it
is refused.

Tested here: `plans.code` with a real repository. Not tested here: runs by older code
(`plans/test_plan_command.py`).
"""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import CODE_TAG
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.own_files import reached_paths
from backfill_assets.plans.code import OVERRIDE, OVERRIDE_SQL, pin_code, using_code
from backfill_assets.plans.files import find_plan
from backfill_assets.plans.preflight import refuse_moved_pins
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.logs import place_of
from backfill_assets_tests.own import OWN_PIPELINE
from backfill_assets_tests.planning import versions_of
from backfill_assets_tests.synthetic import START, synthetic_lake

pytestmark = pytest.mark.usefixtures("processes")  # git
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    """What git says in that folder."""
    done = subprocess.run(
        ("git", *IDENTITY, *words), cwd=folder, check=True, capture_output=True, text=True
    )
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
    return SimpleNamespace(
        root=there.root, place=place_of(there.root), settings=SimpleNamespace(pipeline=named)
    )


def test_the_file_at_a_tag_is_frozen_and_found_by_all_who_work_within(lake: Any) -> None:
    code = pin_code(lake, "good", reached_paths)
    assert (code.ref, code.commit) == ("good", git(lake.root, "rev-parse", "good"))
    path, _, name = code.tables.partition(":")
    assert ((lake.root / path).read_text(), name) == ("version = 1\n", "tables")
    again = pin_code(lake, code.commit[:10], reached_paths)
    assert (again.tables, again.digest, again.files) == (code.tables, code.digest, 1)
    assert code.digest in str(code)
    before = os.environ.get(OVERRIDE)
    with using_code(code):
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
def test_what_has_no_older_version_is_refused_unchanged(
    lake: Any, named: str | None, ref: str, told: str
) -> None:
    lake.settings.pipeline.tables = named
    before = versions_of(lake)
    with pytest.raises(BackfillError, match=told):
        pin_code(lake, ref, reached_paths)
    assert versions_of(lake) == before


def committed(lake: Any, **files: str) -> None:
    """One more commit, of these files by their names without a suffix."""
    for name, text in files.items():
        path = lake.root / name.replace("__", "/").replace("_py", ".py").replace("_sql", ".sql")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        git(lake.root, "add", str(path))
    git(lake.root, "commit", "-q", "-m", "one more")


def test_what_it_imports_from_beside_it_is_frozen_with_it_and_the_digest_holds_all(
    lake: Any,
) -> None:
    committed(
        lake,
        pipeline_py="import sums, json\n",
        sums_py="from parts import one\n",
        parts__one_py="ONE = 1\n",
    )
    older = pin_code(lake, "HEAD", reached_paths)
    frozen = (lake.root / older.tables.partition(":")[0]).parent
    assert {str(p.relative_to(frozen)) for p in frozen.rglob("*.py")} == {
        "pipeline.py",
        "sums.py",
        "parts/one.py",
    }
    committed(lake, parts__one_py="ONE = 2\n")
    newer = pin_code(lake, "HEAD", reached_paths)
    assert (frozen / "parts/one.py").read_text() == "ONE = 1\n"
    assert newer.digest != older.digest
    assert newer.files == older.files == 3
    assert pin_code(lake, "HEAD~1", reached_paths).digest == older.digest, "by content alone"


def test_a_file_that_was_no_python_then_is_refused(lake: Any) -> None:
    before = versions_of(lake)
    committed(lake, pipeline_py="import sums(\n")
    with pytest.raises(BackfillError, match="is no Python"):
        pin_code(lake, "HEAD", reached_paths)
    assert versions_of(lake) == before


def test_sql_files_are_those_of_the_commit_too_and_may_stand_alone(lake: Any) -> None:
    committed(lake, sql__a_sql="-- old", sql__b_sql="-- old")
    git(lake.root, "rm", "-q", "sql/b.sql")
    committed(lake, sql__a_sql="-- new")
    lake.settings.pipeline.sql = "sql/*.sql"
    code = pin_code(lake, "HEAD~1", reached_paths)
    assert [p.read_text() for p in sorted(lake.root.glob(code.sql))] == ["-- old", "-- old"]
    assert code.files == 3
    with using_code(code):
        assert (os.environ[OVERRIDE], os.environ[OVERRIDE_SQL]) == (code.tables, code.sql)
    assert os.environ.get(OVERRIDE_SQL) is None
    lake.settings.pipeline.tables = None
    alone = pin_code(lake, "HEAD", reached_paths)
    assert (alone.tables, alone.files) == ("", 1)
    lake.settings.pipeline.sql = "other/*.sql"
    with pytest.raises(BackfillError, match="git does not know such a file there"):
        pin_code(lake, "HEAD", reached_paths)


@pytest.mark.parametrize("way", ["relative", "absolute", "link", "sql"])
def test_the_files_may_lie_in_another_repository_than_the_lake(
    lake: Any, tmp_path: Path, way: str
) -> None:
    other = SimpleNamespace(root=tmp_path / "other", place=place_of(tmp_path / "other"))
    other.root.mkdir()
    git(other.root, "init", "-q")
    committed(
        other, src__tables_py="import sums\n", src__sums_py="SUM = 'old'\n", sql__a_sql="-- old"
    )
    git(other.root, "tag", "good")
    committed(other, src__sums_py="SUM = 'new'\n", sql__a_sql="-- new")
    named = {"relative": "../../other/src/tables.py", "absolute": str(other.root / "src/tables.py")}
    if way == "link":
        (lake.root / "pipeline.py").unlink()
        (lake.root / "pipeline.py").symlink_to(other.root / "src/tables.py")
    lake.settings.pipeline.tables = (
        f"{named.get(way, 'pipeline.py')}:tables" if way != "sql" else None
    )
    lake.settings.pipeline.sql = "../../other/sql/*.sql" if way == "sql" else None
    code = pin_code(lake, "good", reached_paths)
    assert code.commit == git(other.root, "rev-parse", "good")
    if way == "sql":
        assert [p.read_text() for p in lake.root.glob(code.sql)] == ["-- old"]
    else:
        frozen = lake.root / code.tables.partition(":")[0]
        assert (frozen.read_text(), frozen.with_name("sums.py").read_text()) == (
            "import sums\n",
            "SUM = 'old'\n",
        )
        lake.settings.pipeline.sql = "../../repository/lake/sql/*.sql"
        with pytest.raises(BackfillError, match="they lie in 2 git repositories"):
            pin_code(lake, "good", reached_paths)


def test_a_plan_is_pinned_to_the_older_code_and_held_to_it(tmp_path: Path) -> None:
    root = synthetic_lake(tmp_path / "lake", 3)[0].root
    with (root / "lake.toml").open("a") as settings:
        settings.write('[pipeline]\ntables = "pipeline.py:tables"\n')
    git(root, "init", "-q")
    (root / "pipeline.py").write_text("import beside\n" + OWN_PIPELINE)
    for change in ("ONE = 1\n", "ONE = 2\n"):
        (root / "beside.py").write_text(change)
        git(root, "add", "pipeline.py", "beside.py")
        git(root, "commit", "-q", "-m", "one more")
    words = ("--partitions", str(START), "--tables", "totals", "--code", "HEAD~1", "--json")
    made = read(run("plan", "--lake", root, *words))
    lake, today = open_lake(root), chosen_pipeline(open_lake(root))
    plan = find_plan(lake, made["id"])
    assert plan.code
    told = f"HEAD~1 ({git(root, 'rev-parse', 'HEAD~1')[:12]}; 2 file(s), digest {plan.code.digest})"
    assert plan.tags(plan.chunk(1))[CODE_TAG] == told
    view = read_view(lake, today.contracts)
    with pytest.raises(BackfillError, match="the code of totals was"):
        refuse_moved_pins(plan, lake, today, today.states(view))
    with using_code(plan.code):
        older = chosen_pipeline(open_lake(root))
        refuse_moved_pins(plan, lake, older, older.states(view))
    git(root, "checkout", "-q", "HEAD~1")
    same = chosen_pipeline(open_lake(root))
    assert same.codes["totals"] == older.codes["totals"], (
        "checked out, the same files are the same code"
    )
