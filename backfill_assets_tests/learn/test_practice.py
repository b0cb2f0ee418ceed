"""Each drill, done well and done badly by a scripted person: the scores come in that order.
Not here: the terminal (`learn.test_practice_command`)."""

import resource
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.server import ensure_server, stop_server
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.learn.drills import PLANTS
from backfill_assets.learn.example_lakes import make_sample
from backfill_assets.learn.lab_lakes import copy_lake, load_days
from backfill_assets.learn.practice import Desk, DrillScore, Watch, run_drill
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.lakes import backfill

pytestmark = pytest.mark.usefixtures("spark", "storages")
FIRST, LAST = date(2026, 11, 1), date(2026, 11, 14)
DAYS = inclusive_range(FIRST, LAST)
LIMIT = 300.0
Act = Callable[[Path], object]
Script = Iterator[
    str | float | Act
]  # a line typed, seconds that pass, or something done in the other terminal


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Path:
    """Two weeks of the sample, loaded."""
    root = tmp_path_factory.mktemp("drills") / "sample"
    make_sample(root, DAYS)
    load_days(open_lake(root), DAYS, tables=None)
    return root


def catch_up(root: Path) -> None:
    load_days(open_lake(root), DAYS, tables=None)


def rebuild_everything(root: Path) -> None:
    backfill(open_lake(root), FIRST, LAST, force=True)


def refused(root: Path) -> None:
    with pytest.raises(BackfillError, match="key"):
        catch_up(root)


def made_again(first: date) -> Act:
    return lambda root: load_days(open_lake(root), DayRange(first, DAYS.end), tables=None)


def mended_log(root: Path) -> None:
    assert run("mend", "staging", "--yes", "--lake", root).exit_code == 0


def withdrawn(root: Path) -> None:
    (file,) = (root / "landing").rglob("*-again.jsonl")
    file.unlink()
    assert run("landing", "accept", "--note", "resent", "--lake", root).exit_code == 0


def freed(root: Path) -> None:
    server = ensure_server(root, LakeSession(open_lake(root)).engine).process.pid
    assert resource.prlimit(server, resource.RLIMIT_FSIZE)[0] < 1000, "it writes no data file"
    stop_server(root, force=True)


def select_put_back(root: Path) -> None:
    shutil.copyfile(root / "lake.toml.yesterday", root / "lake.toml")


def bound_warns(root: Path) -> None:
    with (root / "lake.toml").open("a") as file:
        file.write('skew = "warn"\n')


WELL: dict[str, tuple[str, list[Act]]] = {  # the place of the fault, and what mends it
    "kill-mid-commit": ("staging", [mended_log]),
    "server-dies": ("server", [catch_up]),
    "disk-full": ("disk", [freed, catch_up]),
    "duplicates": ("orders-2026-11-14-again.jsonl", [withdrawn]),
    "late-burst": ("stale", [catch_up]),
    "bad-code": ("staging", [made_again(date(2026, 11, 12))]),
    "wrong-select": ("select", [select_put_back]),
    "foreign-write": ("2026-11-14", [made_again(LAST)]),
    "skew": ("max_key_share", [refused, bound_warns, catch_up]),
}
HARMFUL: dict[str, list[Act]] = {  # done before anybody looked well
    "duplicates": [catch_up],
    "late-burst": [rebuild_everything],
    "foreign-write": [rebuild_everything],
}


def person(lines: Iterator[str | float | Act], root: Path) -> Desk:
    """A desk whose person follows a script; each look takes a second."""
    now = [0.0]

    def read() -> str:
        now[0] += 1
        step = next(lines, "quit")
        if isinstance(step, float):
            now[0] += step
        elif not isinstance(step, str):
            step(root)
        return step if isinstance(step, str) else ""

    return Desk(read, lambda _line: None, lambda: now[0])


def well(name: str) -> Script:
    place, acts = WELL[name]
    yield 10.0
    yield f"see {place}"
    for act in acts:
        yield 10.0
        yield act


def badly(name: str) -> Script:
    yield "see everywhere"
    yield 60.0
    yield "hint"
    yield "hint"
    yield from HARMFUL.get(name, ())
    yield 60.0
    if name in HARMFUL:
        yield from WELL[name][1]
    yield "quit"


def drilled(name: str, sample: Path, folder: Path, script: Script) -> DrillScore:
    watch = Watch(copy_lake(sample, folder / "copy").root)
    watch.plant(PLANTS[name])
    return run_drill(watch, person(script, watch.root), LIMIT)


@pytest.mark.parametrize("name", PLANTS)
def test_a_drill_done_well_scores_more_than_the_same_done_badly(
    name: str, sample: Path, tmp_path: Path
) -> None:
    good = drilled(name, sample, tmp_path / "good", well(name))
    bad = drilled(name, sample, tmp_path / "bad", badly(name))
    assert good.mended_s is not None, good
    assert (good.hints, good.wrong_guesses, good.needless) == (0, 0, 0), good
    assert good.points > 90, good
    assert bad.points < good.points - 20, (good, bad)
    assert bad.wrong_guesses == 1
    assert bad.hints == 2


def test_a_forced_rebuild_of_everything_counts_the_days_that_were_right(
    sample: Path, tmp_path: Path
) -> None:
    script: Script = iter([rebuild_everything])
    score = drilled("foreign-write", sample, tmp_path, script)
    assert score.mended_s is not None
    assert score.needless > 2 * len(DAYS), (
        "six tables, and only the newest day and what reads it had to be made"
    )


def test_a_score_loses_points_for_time_hints_guesses_needless_days_and_harm() -> None:
    best = DrillScore(LIMIT, planted=5, seen_s=0.0, mended_s=0.0, wrong_rows=5)
    assert best.points == 100
    for worse, lost in (
        ({"seen_s": LIMIT / 2}, 15),
        ({"mended_s": None}, 50),
        ({"hints": 1}, 5),
        ({"wrong_guesses": 2}, 10),
        ({"needless": 3}, 6),
        ({"needless": 99}, 30),
        ({"wrong_rows": 6}, 10),
    ):
        assert replace(best, **worse).points == 100 - lost, worse
    assert DrillScore(LIMIT, hints=9).points == 0
