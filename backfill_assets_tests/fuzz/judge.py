"""What commands say of a damaged lake beside what they say of the whole one.

Right is: the same answer; or an error in one line that names the file, its table, or what it is
of; or another answer where `doctor` finds the damage. Not here: the damage (`damage`), and which
lake (`lake`).
"""

import re
import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType

import psutil
from click.testing import Result

from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.place.choice import place_at
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.fuzz.damage import GONE, Damage, damage_of
from backfill_assets_tests.fuzz.lake import DAY, kept_lake, laid_out

STAGING = "SELECT * FROM staging ORDER BY ALL"
# By the path of what was damaged: who reads it first.
READERS: Sequence[tuple[str, Sequence[Sequence[str]]]] = (
    (
        "",  # whatever it is
        (
            ("status",),
            ("status", "--json"),
            ("status", "--stale", "--why"),
            ("report", "--json"),
            ("audit", "--json"),
            ("checklist", "--json"),
            ("verify", "--deep", "--json"),
            ("scan", "--json"),
            ("maintain", "--json"),
            ("sql", "SELECT * FROM system.days ORDER BY ALL", "--json"),
            ("sql", "SELECT * FROM daily ORDER BY ALL", "--json"),
            ("sql", STAGING, "--json"),
        ),
    ),
    (
        "^tables/",
        (
            ("show", "staging", DAY, "--json"),
            ("show", "daily", DAY, "--json"),
            ("lateness", "--json"),
            ("sql", "SELECT * FROM labels ORDER BY ALL", "--json", "--newest"),
            ("sql", STAGING, "--json", "--snapshot", "kept"),
        ),
    ),
    (
        r"^\.versions/",
        (
            ("status",),
            ("sql", STAGING, "--json"),
            ("sql", STAGING, "--json", "--newest"),
            ("sql", STAGING, "--json", "--at", "3"),
            ("sql", STAGING, "--json", "--at", "2026-11-29T20:23:15Z"),
        ),
    ),
    (
        r"^\.plans/",
        (
            ("plan", "list", "--json"),
            ("plan", "show", "ended", "--json"),
            ("plan", "show", "waiting", "--json"),
            ("plan", "show", "planned"),
        ),
    ),
    (
        r"^\.snapshots/",
        (
            ("snapshot", "list", "--json"),
            ("snapshot", "show", "kept", "--json"),
            ("sql", STAGING, "--json", "--snapshot", "kept"),
        ),
    ),
    (
        r"^\.candidates/",
        (("candidate", "list", "--json"), ("status", "--json", "--target", "beside")),
    ),
    (r"^(landing|\.stock)/", (("scan", "--json"), ("show", "staging", DAY, "--json"))),
    (r"^\.(upkeep|snapshots)/|/\.state/", (("maintain", "--json"),)),
)
DOCTOR = ("doctor", "--json")
# A day of a table is put back, which an engine is not needed for, and what nobody needs is deleted.
WRITE = (
    *("rollback", "--table", "staging", "--from", DAY, "--to", DAY),
    *("--to-version", "1", "--over-newer", "--yes"),
)
SWEEP = ("maintain", "--yes", "--json")
AFTER_WRITES = (
    WRITE,
    SWEEP,
    ("sql", "SELECT * FROM staging ORDER BY ALL", "--json"),
    ("sql", "SELECT * FROM labels ORDER BY ALL", "--json", "--newest"),
    ("sql", "SELECT * FROM staging ORDER BY ALL", "--json", "--snapshot", "kept"),
)
# Shares of all stories: those that write, and those that ask the doctor in any case.
WRITES, EXAMINED = 0.15, 0.1
SECONDS = 300  # of one command, which takes tenths of one; the machine may have other work
NOW = 1_800_000_000.0  # later than the lake was made
MOST_MIB = 700  # more than before, after one command
MOST_CHARS = 3000  # of an error: a line that one can read
# What people write themselves: another text is another wish.
WRITTEN_BY_PEOPLE = re.compile(r"lake\.toml|\.sql$|^landing/")
MARKS = re.compile(r"^\.plans/.*\.(started|ended|waiting)$|^\.reconciled/|^\.runs/")
COUNTED_BY = re.compile(r"(candidate|snapshot)\.json$|^\.(plans|versions)/")
TOLD = "not what was written"
# What differs from one time to the next.
PASSING = re.compile(r"\d+(\.\d+)? (s|ms|seconds?)\b")


@dataclass(frozen=True)
class Said:
    """What a command said, without what passes."""

    code: int
    out: str
    errors: tuple[str, ...]
    traceback: str = ""


class Hangs(BaseException):
    """A command took too long. No code of the product catches it."""


@contextmanager
def _within_seconds() -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ask(lake: str, words: Sequence[str]) -> Said:
    """What a command says of a lake, by its address; plans are named by what became of them."""
    names = _plans()
    words = [names.get(word, word) if words[0] == "plan" else word for word in words]
    memory = psutil.Process().memory_info().rss
    try:
        with _within_seconds(), set_to(Clock(stopped=NOW)):
            done = run(*words, "--lake", lake)
    except Hangs:
        return Said(-1, "", (), f"took more than {SECONDS} s")
    grown = (psutil.Process().memory_info().rss - memory) >> 20
    if grown > MOST_MIB:
        return Said(-1, "", (), f"took {grown} MiB")
    return _said_of(done, lake)


def _said_of(done: Result, lake: str) -> Said:
    def plain(text: str) -> str:
        return PASSING.sub("…", text.replace(lake, "LAKE"))

    is_expected = done.exception is None or isinstance(done.exception, SystemExit)
    where = "" if is_expected else _place_of(done)
    return Said(done.exit_code, plain(done.stdout), tuple(plain(done.stderr).splitlines()), where)


def _place_of(done: Result) -> str:
    """An exception with the innermost lines of the package that it came through."""
    assert done.exc_info is not None
    frames = traceback.extract_tb(done.exc_info[2])
    ours = [f for f in frames if "/backfill_assets/" in f.filename]
    where = " < ".join(
        f"{f.filename.partition('/backfill_assets/')[2]}:{f.lineno} {f.name}"
        for f in reversed(ours[-5:])
    )
    return f"{done.exception!r}"[:300] + f" in {where}"


@cache
def _plans() -> dict[str, str]:
    """The ids of the lake's plans by what became of them."""
    names = [Path(name) for name, _, _ in kept_lake().files if name.startswith(".plans/")]
    found = {name.stem: "planned" for name in sorted(names)}
    found |= {name.stem: name.suffix[1:] for name in names if name.suffix in (".ended", ".waiting")}
    return {state: plan for plan, state in found.items()}


@cache
def whole_answer(look: Sequence[str]) -> Said:
    """What a command says of the whole lake."""
    with laid_out() as lake:
        return ask(lake, look)


@cache
def whole_after() -> tuple[Said, ...]:
    """What is said after the write."""
    with laid_out() as lake:
        return tuple(ask(lake, words) for words in AFTER_WRITES)


def drawn_looks(path: str, chance: Random, looks: int) -> list[Sequence[str]]:
    """So many commands that read: the first readers of a file, and others."""
    first = [look for of, found in READERS[1:] for look in found if re.search(of, path)]
    others = [look for look in READERS[0][1] if look not in first]
    chance.shuffle(first)
    chance.shuffle(others)
    return [*first[: max(1, looks - 1)], *others][:looks]


def judge(damage: Damage, chance: Random, looks: int = 99) -> list[str]:
    """What is wrong with what commands say of a lake after a damage, of so many looks, and of some
    lakes after a write; none: nothing."""
    asked = [(look, whole_answer(look)) for look in drawn_looks(damage.path, chance, looks)]
    if chance.random() < WRITES:
        asked += zip(AFTER_WRITES, whole_after(), strict=True)
    with laid_out() as lake:
        damage.do(place_at(local_root(lake)))
        doctor = ask(lake, DOCTOR) if chance.random() < EXAMINED else None
        faults, differences = list[str](), list[str]()
        for words, whole in asked:
            said = ask(lake, words)
            faults += _faults(damage, words, said, whole)
            differences += _differences(words, said, whole)
        if differences and not _may_differ(damage):
            doctor = doctor or ask(lake, DOCTOR)
            faults += [] if _finds(damage, doctor) else differences
    if doctor is not None:
        faults += _faults(damage, DOCTOR, doctor, whole_answer(DOCTOR))
    return faults


def _may_differ(damage: Damage) -> bool:
    """Whether another answer is right: of what people write, and of words that a mark holds for
    them, nobody can tell that they were others; a folder counts by its file."""
    is_mark = MARKS.search(damage.path) is not None
    counts = COUNTED_BY.search(damage.path) is not None and damage.what == GONE
    return is_mark or counts or WRITTEN_BY_PEOPLE.search(damage.path) is not None


def _finds(damage: Damage, doctor: Said) -> bool:
    """Whether the doctor finds the damage."""
    is_new = doctor.out != whole_answer(DOCTOR).out
    return is_new and doctor.code == 1 and _is_named(damage, doctor.out)


def _faults(damage: Damage, words: Sequence[str], said: Said, whole: Said) -> list[str]:
    """What no answer may be."""
    what = f"`{' '.join(words)}`"
    if said.traceback:
        return [f"{what} {said.traceback}"]
    if said.code not in (0, 1, 2, 3):
        return [f"{what} ended with {said.code}: {said.errors}"]
    errors = [line for line in said.errors if line.startswith("Error: ")]
    if "Traceback" in "".join(said.errors) + said.out:
        return [f"{what} shows a traceback: {said.errors}"]
    if not said.out and said.code and not errors:
        return [f"{what} ended with {said.code} and says nothing"]
    if errors and said.errors != whole.errors and not _is_named(damage, " ".join(errors)):
        return [f"{what} does not name it: {errors[0][:600]}"]
    return [f"{what} says too much: {e[:200]}" for e in errors if len(e) > MOST_CHARS]


def _is_named(damage: Damage, text: str) -> bool:
    return any(name in text for name in _names_of(damage.path))


def _names_of(path: str) -> list[str]:
    """By any of which a person finds the file."""
    parts = path.split("/")
    if parts[0] == "tables":
        return [parts[1]]
    if parts[0] in (".snapshots", ".candidates"):
        return [parts[1]]
    if parts[0] == ".plans":
        return [Path(path).stem]
    return [path, Path(path).name]


def _differences(words: Sequence[str], said: Said, whole: Said) -> list[str]:
    """Where an answer is another one than of the whole lake, and neither an error nor itself tells
    why."""
    has_more_errors = said.errors != whole.errors and said.errors
    is_told = has_more_errors or TOLD in said.out
    if is_told or said.traceback or (said.code, said.out) == (whole.code, whole.out):
        return []
    return [f"`{' '.join(words)}` says otherwise: {_first_difference(whole, said)}"]


def _first_difference(whole: Said, said: Said) -> str:
    if whole.code != said.code:
        return f"code {said.code} in place of {whole.code}: {said.out[-300:]!r}"
    n = next(
        (n for n, (a, b) in enumerate(zip(whole.out, said.out, strict=False)) if a != b),
        min(len(whole.out), len(said.out)),
    )
    return f"…{said.out[max(0, n - 80) : n + 80]!r} in place of …{whole.out[max(0, n - 20) : n + 80]!r}"


def files_to_damage() -> dict[str, bytes]:
    """The lake's own files by their paths: no rows, which `kernel/log` and `doctor` have tests for,
    but checkpoints."""
    return {
        name: content
        for name, content, _ in kept_lake().files
        if content and (not name.endswith(".parquet") or "_delta_log" in name)
    }


def story(seed: int, paths: str = "", looks: int = 99) -> tuple[Damage, list[str]]:
    """The damage of a seed and what is wrong after it; `paths`: a pattern of the files."""
    chance = Random(f"damage {seed}")
    files = files_to_damage()
    path = chance.choice([name for name in sorted(files) if re.search(paths, name)])
    damage = damage_of(chance, files, path)
    return damage, judge(damage, chance, looks)
