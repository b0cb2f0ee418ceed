"""The way of a day from a command to its commit: as the guide draws it, and how often the lake is
looked at.

Tested here: one command of a person and its run in this process, followed by a profiler. Not tested
here: what the files of logs cost (`test_opened_logs`), and what each stop of the way does.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import pytest

import backfill_assets
from backfill_assets.cli.backfill import run_if_needed
from backfill_assets.dagster.adapter.backfill_requests import work_of
from backfill_assets.dagster.adapter.io_manager import RebuildIOManager
from backfill_assets.dagster.adapter.metadata import day_metadata
from backfill_assets.engines.frame_files import write_frame
from backfill_assets.intake.raw import load
from backfill_assets.kernel.tables.committer import commit_files
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit
from backfill_assets.kernel.write.derived import build
from backfill_assets.kernel.write.gates import judge
from backfill_assets.kernel.write.replace import replace_days_locked
from backfill_assets.pipeline.transforms.staging import staging as transform
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import backfill, content, delivery, land, make_lake
from backfill_assets_tests.processes import CHECKOUT

pytestmark = pytest.mark.usefixtures("spark")
PACKAGE = f"{Path(backfill_assets.__file__).parent}/"
DAYS = [f"2024-03-0{n}" for n in range(1, 5)]
# Whole looks of a command and its run, at its beginning and its end; a fence looks besides.
AT_MOST = 2
GUIDE = CHECKOUT / "backfill_assets" / "guides" / "how-it-works.md"
STOPS: Mapping[str, CodeType] = {  # each with the code of the function whose call is the stop
    "ask": run_if_needed.__code__,
    "state": read_view.__code__,
    "run": work_of.__code__,
    "rebuild": build.__code__,
    "compute": transform.__code__,
    "stage": write_frame.__code__,
    "audit": audit.__code__,
    "judge": judge.__code__,
    "hand over": RebuildIOManager.handle_output.__code__,
    "fence": replace_days_locked.__code__,
    "commit": commit_files.__code__,
    "show": day_metadata.__code__,
}
ENTERED_AT_MOST = 66  # files, without `kernel/core`, `engines` and `pipeline` (63 were counted): more are more to read


@pytest.fixture(scope="module")
def made(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Four days of all tables."""
    rows = [delivery(n, f"{d} 09:00:00", None, f"k{n}", value=n) for n, d in enumerate(DAYS, 1)]
    lake = make_lake(tmp_path_factory.mktemp("way") / "lake", rows, DAYS[0])
    backfill(lake, DAYS[0], DAYS[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(make_home(tmp_path_factory.mktemp("home"))))
        yield lake


@contextmanager
def followed(meanwhile: Callable[[FrameType], None] = lambda _: None) -> Iterator[list[CodeType]]:
    """The code of each function of the package that this thread enters in the block, none for a
    module or class that is imported; `meanwhile` is called with its frame."""
    entered: list[CodeType] = []

    def follow(frame: FrameType, event: str, _argument: object) -> None:
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if event == "call" and is_function and frame.f_code.co_filename.startswith(PACKAGE):
            entered.append(frame.f_code)
            meanwhile(frame)

    sys.setprofile(follow)
    try:
        yield entered
    finally:
        sys.setprofile(None)


def test_the_guide_draws_the_stops_of_a_day_with_the_files_that_lead_to_each(made: Lake) -> None:
    """Files that lead to a stop are those of the calls on the stack there that led to no stop
    before."""
    waiting, found = dict(STOPS), dict[str, list[str]]()

    def meanwhile(frame: FrameType) -> None:
        name = next(iter(waiting), "")
        if name and frame.f_code is waiting[name]:
            del waiting[name]
            before = {file for files in found.values() for file in files}
            found[name] = [
                file for file in dict.fromkeys(reversed(list(_stack(frame)))) if file not in before
            ]

    with followed(meanwhile) as entered:
        words = (
            "--from",
            DAYS[2],
            "--to",
            DAYS[2],
            "--tables",
            "staging",
            "--force",
            "--lake",
            made.root,
        )
        assert run("backfill", *words).exit_code == 0
    assert _drawn() == found
    until_commit = {_place(code) for code in entered[: entered.index(commit_files.__code__)]}
    counted = sorted(
        p for p in until_commit if not p.startswith(("kernel/core/", "engines/", "pipeline/"))
    )
    assert len(counted) <= ENTERED_AT_MOST, counted


def _stack(frame: FrameType | None) -> Iterator[str]:
    """The files of the package on the stack, the innermost first."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            yield _place(frame.f_code)
        frame = frame.f_back


def _place(code: CodeType) -> str:
    return code.co_filename.removeprefix(PACKAGE)


def _drawn() -> dict[str, list[str]]:
    """The stops of the guide's drawing, each with its files."""
    (drawing,) = re.findall(
        r"^## The way of a day\n.*?^```\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S
    )
    stops = re.split(r"^ *\d+ ([a-z ]+?)  +", drawing, flags=re.M)[1:]
    return {
        name: re.findall(r"[a-z_/]+\.py", text)
        for name, text in zip(stops[::2], stops[1::2], strict=True)
    }


def test_a_command_and_its_run_look_at_the_lake_at_their_beginning_and_at_their_end(
    made: Lake,
) -> None:
    with followed() as entered:
        result = run("backfill", "--from", DAYS[1], "--to", DAYS[1], "--force", "--lake", made.root)
    assert result.exit_code == 0, result.output
    assert [entered.count(of.__code__) for of in (load, build)] == [1, 5], (
        "else nothing was followed"
    )
    assert entered.count(read_view.__code__) <= AT_MOST


def test_what_lands_and_is_loaded_in_the_middle_of_a_run_is_stale_after_it(made: Lake) -> None:
    """Each table of the run is made from what the run found: no receipt claims to know the late
    row."""
    built = iter(range(3))

    def meanwhile(frame: FrameType) -> None:
        if frame.f_code is build.__code__ and next(built) == 1:
            land(
                made,
                "late.jsonl",
                [delivery(9, f"{DAYS[3]} 23:00:00", f"{DAYS[1]} 10:00:00", "late")],
            )
            backfill(made, DAYS[3], DAYS[3], ["raw"])

    asked = ("--from", DAYS[1], "--to", DAYS[1], "--force", "--tables", "staging,features,labels")
    with followed(meanwhile):
        assert run("backfill", *asked, "--lake", made.root).exit_code == 0
    assert next(built, None) is None, "else nothing landed meanwhile"
    assert _states(made)["staging"] == "stale"
    assert run("catch-up", "--lake", made.root).exit_code == 0
    assert set(_states(made).values()) == {"fresh"}
    assert ("late",) in {row[:1] for row in content(made, "staging")}


def _states(lake: Lake) -> dict[str, str]:
    """The state of the run's day, by table."""
    told = read(run("status", "--from", DAYS[1], "--to", DAYS[1], "--json", "--lake", lake.root))
    return {day["table"]: day["state"] for day in told["days"]}
