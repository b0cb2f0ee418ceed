"""Tries what the house promises: that a room can be deleted and all else stays green.

`python .ci/without.py ROOM…` makes a copy of the checkout without these rooms (their folders, tests
and lines in `backfill_assets/rooms.py`, and every test that imports them) and runs the type
checker, the import contracts and the quick tests there. Exit code 1 where one fails. A room that
needs one of them goes with it (`Room.needs`). `--turn` takes three rooms at once, other ones each
day; `--all` takes every room that can be left out. `--use` also loads a sample lake in the copy
and lets a file come late. Not here: which rooms there are (`backfill_assets/rooms.py`), and whether
a missing room is missed by users.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE, TESTS = "backfill_assets", "backfill_assets_tests"
LACKING = "BACKFILL_ASSETS_WITHOUT"  # tells tests of the whole house that it is not
A_TURN = 3
DAYS_OF_SAMPLE = 10
CHECKS = (
    ("mypy",),
    ("lint-imports", "--no-cache"),
    ("pytest", "-q", "-m", "quick", "-p", "no:cacheprovider"),
)


def copy_of_checkout(into: Path) -> Path:
    """Copy the files that git knows, as they are now, and give the copy."""
    listed = subprocess.run(
        (shutil.which("git") or "git", "ls-files"),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / name, into / name)
    return into


def with_those_that_need(named: list[str]) -> list[str]:
    """These rooms, and the rooms that go with them."""
    sys.path.insert(0, str(CHECKOUT))
    from backfill_assets.kernel.core.rooms import installed_rooms

    return [
        *named,
        *(r.name for r in installed_rooms() if {*named} & {*r.needs} and r.name not in named),
    ]


def names_of_doors(rooms: list[str]) -> set[str]:
    """What these rooms add to the public doors, as dotted names."""
    from backfill_assets.kernel.core.rooms import installed_rooms

    gone = [room for room in installed_rooms() if room.name in rooms]
    return {f"{PACKAGE}.{name}" for room in gone for name in room.public}


def delete_room(copy: Path, room: str) -> None:
    """Delete a room's folder, its tests, its line, and what public doors and import contracts say
    of it."""
    if not (copy / PACKAGE / room / "__init__.py").exists():
        raise SystemExit(f"{room}: there is no such room in {PACKAGE}/. Nothing was tried.")
    shutil.rmtree(copy / PACKAGE / room)
    shutil.rmtree(copy / TESTS / room, ignore_errors=True)
    delete_lines(copy / PACKAGE / "rooms.py", rf'^    "{room}",$')
    for door in (copy / PACKAGE).rglob("*.pyi"):
        delete_lines(door, rf"^from {PACKAGE}\.{room}\b.*$")
    delete_lines(copy / "pyproject.toml", rf'^  "{PACKAGE}\.{room}\b.*$')
    delete_lines(copy / "pyproject.toml", rf'^  ".*-> {PACKAGE}\.{room}\b.*$')


def delete_lines(file: Path, pattern: str) -> None:
    """Delete the lines of a file that match."""
    text = file.read_text("utf-8")
    file.write_text(re.sub(pattern + r"\n", "", text, flags=re.MULTILINE), "utf-8")


def delete_tests_of(copy: Path, gone: set[str]) -> None:
    """Delete the tests that import a module that is gone, and then those that import these."""
    tests = {module_of(copy, path): path for path in (copy / TESTS).rglob("*.py")}
    while lost := {name for name, path in tests.items() if imports_any(path, gone)}:
        for name in lost:
            tests.pop(name).unlink()
            delete_lines(copy / TESTS / "conftest.py", rf'^    "{name}",  # a plugin of pytest$')
        gone |= lost


def importers_of(copy: Path, gone: set[str]) -> list[Path]:
    """Give, and print, the files of the package that import what is gone. The type checker would
    find it in the checkout, which is installed."""
    found = [path for path in (copy / PACKAGE).rglob("*.py") if imports_any(path, gone)]
    for path in found:
        print(f"{path.relative_to(copy)} imports a room that is gone")
    return found


def module_of(copy: Path, path: Path) -> str:
    """The dotted name of a module."""
    return ".".join(path.relative_to(copy).with_suffix("").parts)


def imports_any(path: Path, gone: set[str]) -> bool:
    """Whether a file imports one of these modules or packages, or something of them."""
    return any(
        name == lost or name.startswith(f"{lost}.") for name in imports_of(path) for lost in gone
    )


def imports_of(path: Path) -> Iterator[str]:
    """The modules that a file imports, and each name from them."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def check_copy(copy: Path, rooms: str) -> bool:
    """Run the checks in the copy, with this environment's programs; gives whether all passed."""
    environ = {**os.environ, "PYTHONPATH": str(copy), LACKING: rooms}
    passed = True
    for command in CHECKS:
        print(f"--- {' '.join(command)}", flush=True)
        program = (str(Path(sys.executable).parent / command[0]), *command[1:])
        passed &= subprocess.run(program, cwd=copy, env=environ).returncode == 0
    return passed


def use_lake(copy: Path) -> bool:
    """Load a sample lake by the copy's commands, then take in a file that comes late; gives whether
    each command went well. The whole house makes the sample, since `learn` may be gone."""
    from backfill_assets.learn.example_lakes import days_until, make_sample

    lake = copy / ".artifacts" / "sample"
    make_sample(lake, days_until(datetime.now(UTC).date(), DAYS_OF_SAMPLE))
    late = max((lake / "landing").rglob("*.jsonl"))
    aside = shutil.move(late, copy / ".artifacts" / late.name)
    look = ("sql", "SELECT count(*) FROM training")
    passed = run_commands(copy, lake, ("catch-up",), look)
    shutil.move(aside, late)
    return run_commands(copy, lake, ("catch-up",), look, ("server", "stop")) and passed


def run_commands(copy: Path, lake: Path, *commands: tuple[str, ...]) -> bool:
    """Run commands of the copy's command line; gives whether all of them ended well."""
    environ = {**os.environ, "PYTHONPATH": str(copy), "BACKFILL_ASSETS_LAKE": str(lake)}
    passed = True
    for command in commands:
        print(f"--- backfill-assets {' '.join(command)}", flush=True)
        call = "from backfill_assets.cli.app import main; main()"
        program = (sys.executable, "-c", call, *command)
        passed &= subprocess.run(program, cwd=copy, env=environ).returncode == 0
    return passed


def rooms_of_turn(day: date) -> list[str]:
    """The rooms whose turn it is: the whole list passes by in as many days as it has rooms."""
    rooms, first = rooms_to_leave_out(), day.toordinal() * A_TURN
    return [rooms[(first + i) % len(rooms)] for i in range(A_TURN)]


def rooms_to_leave_out() -> list[str]:
    """The rooms of which the tests say that nobody imports them."""
    sys.path.insert(0, str(CHECKOUT))
    from backfill_assets_tests.sources import CAN_BE_LEFT_OUT

    return sorted(CAN_BE_LEFT_OUT)


def main() -> int:
    """Delete the named rooms from a copy and check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", metavar="ROOM")
    parser.add_argument("--turn", action="store_true", help="three rooms, by the day")
    parser.add_argument("--all", action="store_true", help="all rooms that can be left out")
    parser.add_argument("--use", action="store_true", help="load a sample lake in the copy, too")
    given = parser.parse_args()
    named = [*given.rooms]
    if given.all:
        named = rooms_to_leave_out()
    elif given.turn:
        named = rooms_of_turn(datetime.now(UTC).date())
    if not named:
        parser.error("name a room, or ask for --turn or --all")
    rooms = with_those_that_need(named)
    with tempfile.TemporaryDirectory(prefix="without-") as folder:
        copy = copy_of_checkout(Path(folder))
        for room in rooms:
            delete_room(copy, room)
        if not [*(copy / PACKAGE).glob("*/in_dagster.py")]:
            delete_lines(copy / "pyproject.toml", r'^  ".*\.in_dagster -> dagster",$')
        gone = {f"{folder}.{room}" for room in rooms for folder in (PACKAGE, TESTS)}
        gone |= names_of_doors(rooms)
        delete_tests_of(copy, gone)
        passed = not importers_of(copy, gone) and check_copy(copy, ", ".join(rooms))
        if passed and given.use:
            passed = use_lake(copy)
    print(f"without {', '.join(rooms)}: {'all passed' if passed else 'FAILED'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
