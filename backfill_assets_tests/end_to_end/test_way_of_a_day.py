"""The three ways of a day as the guide draws them, how many files one meets on each, and how often
a command looks at the lake.

Tested here: the steps of *How it works* in their order, and the files and functions that are
entered, by a profiler in this process. The pin `ways.txt` holds the files; a way may lead through
fewer, never through more. Not tested here: what the files of logs cost (`test_opened_logs`), and
what each step does.
"""

import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import CodeType, FrameType

import pytest

import backfill_assets
from backfill_assets.engines.sail import no_isolation_reason
from backfill_assets.intake.raw import load_raw
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.derived import build_candidate
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.drawn_ways import drawn_steps, step_code
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import backfill, content, delivery, land, make_lake

pytestmark = pytest.mark.usefixtures("spark")
PACKAGE = f"{Path(backfill_assets.__file__).parent}/"
DAYS = [f"2024-03-0{n}" for n in range(1, 5)]
# Whole looks of a command and its run, at its beginning and its end; a fence looks besides.
AT_MOST = 2
PIN = Path(__file__).with_name("ways.txt")
SLACK = 1.05  # a long function may become two without a word here
Entered = Sequence[CodeType]
Follow = Callable[[Lake], list[CodeType]]


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


def _of_a_late_file(made: Lake) -> list[CodeType]:
    """From the look at the landing folder to the last commit of raw and its ledgers."""
    number = 1 + len([*Path(made.root, "landing").rglob("*.jsonl")])
    late = delivery(number, f"{DAYS[3]} 22:00:00", f"{DAYS[1]} 10:00:00", f"late {number}")
    land(made, f"late {number}.jsonl", [late])
    with followed() as entered:
        backfill(made, DAYS[3], DAYS[3], ["raw"])
    return _between(entered, "list", "commit", "A late file becomes rows")


def _of_a_state(made: Lake) -> list[CodeType]:
    """From a folder to the state of one day of a table that other tables make."""
    with followed() as entered:
        lake = open_lake(made.root)
        pipeline = chosen_pipeline(lake)
        states = pipeline.states(read_view(lake, pipeline.contracts))
        states.of("training", date.fromisoformat(DAYS[0]))
    return entered


def _of_a_write(made: Lake) -> list[CodeType]:
    """From compute to commit, as each caller of a rebuild has it."""
    with followed() as entered:
        backfill(made, DAYS[2], DAYS[2], ["staging"], force=True)
    return _between(entered, "compute", "commit", "A day from request to commit")


WAYS: Mapping[str, Follow] = {
    "A late file becomes rows": _of_a_late_file,
    "A day's state": _of_a_state,
    "A day from request to commit": _of_a_write,
}


def _of_a_command(made: Lake) -> list[CodeType]:
    """A whole command of a person, with Dagster's run."""
    with followed() as entered:
        words = ("--from", DAYS[2], "--to", DAYS[2], "--tables", "staging", "--force")
        assert run("backfill", *words, "--lake", made.root).exit_code == 0
    return entered


def _between(entered: Entered, first: str, last: str, way: str) -> list[CodeType]:
    """What is entered from a step of the way on to the last time that another one is taken."""
    codes = {step.name: step_code(step) for step in drawn_steps()[way]}
    end = len(entered) - [*reversed(entered)].index(codes[last])
    return [*entered[entered.index(codes[first]) : end]]


def test_the_guide_has_one_numbering_and_each_step_one_function() -> None:
    steps = {step for way in drawn_steps().values() for step in way}
    assert sorted(step.number for step in steps) == [*range(1, len(steps) + 1)]
    for way in drawn_steps().values():
        assert [step.number for step in way] == sorted(step.number for step in way)


@pytest.mark.parametrize("way", WAYS)
def test_a_way_takes_the_steps_that_the_guide_draws_in_their_order(way: str, made: Lake) -> None:
    """The last way is followed through a command, as Dagster takes part in it."""
    is_write = WAYS[way] is _of_a_write
    entered = iter(_of_a_command(made) if is_write else WAYS[way](made))
    for step in drawn_steps()[way]:
        code = step_code(step)
        assert any(code is one for one in entered), (
            f"{way}: step {step.number} ({step.function}) is not entered after those drawn above "
            f"it. Correct the drawing in How it works, or the way."
        )


@pytest.mark.skipif(bool(no_isolation_reason()), reason="the pin is of Sail")
def test_no_way_leads_through_more_files_or_functions_than_before(made: Lake) -> None:
    found = {way: _functions_by_file(follow(made)) for way, follow in WAYS.items()}
    pinned = _pinned(found)
    for way, files in found.items():
        before = pinned[way]
        assert len(files) <= len(before), (
            f"{way}: {len(files)} files, {len(before)} before. New: {_more(files, before)}. Do "
            f"without one; where it must be, BACKFILL_ASSETS_PIN=1 pins the way anew."
        )
        assert sum(files.values()) <= SLACK * sum(before.values()), (
            f"{way}: {sum(files.values())} functions, {sum(before.values())} before. More in: "
            f"{_more(files, before)}"
        )


def _functions_by_file(entered: Entered) -> Counter[str]:
    """How many functions of each file are entered; lambdas and comprehensions are none."""
    named = {code for code in entered if not code.co_name.startswith("<")}
    return Counter(map(_place, named))


def _pinned(found: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    """What `ways.txt` says; where that is asked it is written from `found` first."""
    if os.environ.get("BACKFILL_ASSETS_PIN"):
        lines = (
            f"{way}: {file} {functions}"
            for way, files in found.items()
            for file, functions in sorted(files.items())
        )
        PIN.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    pinned = dict[str, Counter[str]]()
    for line in PIN.read_text(encoding="utf-8").splitlines():
        way, _, rest = line.partition(": ")
        file, _, functions = rest.partition(" ")
        pinned.setdefault(way, Counter())[file] = int(functions)
    return pinned


def _more(files: Counter[str], before: Counter[str]) -> str:
    """The files that are new, or of which more functions are entered."""
    return ", ".join(f"{file} {before[file]} -> {files[file]}" for file in sorted(files - before))


def _place(code: CodeType) -> str:
    return code.co_filename.removeprefix(PACKAGE)


def test_a_command_and_its_run_look_at_the_lake_at_their_beginning_and_at_their_end(
    made: Lake,
) -> None:
    with followed() as entered:
        result = run("backfill", "--from", DAYS[1], "--to", DAYS[1], "--force", "--lake", made.root)
    assert result.exit_code == 0, result.output
    assert [entered.count(of.__code__) for of in (load_raw, build_candidate)] == [1, 5], (
        "else nothing was followed"
    )
    assert entered.count(read_view.__code__) <= AT_MOST


def test_what_lands_and_is_loaded_in_the_middle_of_a_run_is_stale_after_it(made: Lake) -> None:
    """Each table of the run is made from what the run found: no receipt claims to know the late
    row."""
    built = iter(range(3))

    def meanwhile(frame: FrameType) -> None:
        if frame.f_code is build_candidate.__code__ and next(built) == 1:
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
