"""The command line as a person meets it: help, errors read aloud, exit codes. No JVM."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from backfill_assets.cli.common import Overrides
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets_tests.cli.typed import commands, read, run
from backfill_assets_tests.processes import CHECKOUT, as_in_a_terminal, run_python
from backfill_assets_tests.secret_forms import FORMS, SECRET
from backfill_assets_tests.synthetic import START, synthetic_lake


@pytest.mark.parametrize("command", [name for name, _ in commands()])
def test_every_command_explains_itself(command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.mark.whole_house
@pytest.mark.parametrize(
    "told_as", [RuntimeError, partial(SettingsError, "Dagster's home", "it cannot be opened")]
)
def test_an_interrupt_that_something_else_came_of_is_an_interrupt(
    tmp_path: Path, told_as: Callable[..., Exception]
) -> None:
    """In Python 3.11 one that comes while a class is made is a RuntimeError, which may be told as
    what was at work."""

    def refuse() -> NoReturn:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise told_as("Nothing was done", "Try again") from interrupt

    result = run("status", "--lake", tmp_path, overrides=Overrides(opened=refuse))
    assert result.exit_code == 130
    assert (
        result.stderr
        == "Interrupted: what was not committed is not written. Run the same command again.\n"
    )


@pytest.mark.whole_house
def test_an_interrupt_while_duckdb_computes_is_an_interrupt(tmp_path: Path) -> None:
    """DuckDB tells it as an error of its own, without what it came of."""

    def busy() -> NoReturn:
        raise RuntimeError("Query interrupted")

    result = run("status", "--lake", tmp_path, overrides=Overrides(opened=busy))
    assert (result.exit_code, result.stderr[:12]) == (130, "Interrupted:")


@pytest.mark.whole_house
def test_every_command_that_a_text_advises_exists() -> None:
    """In every text of the package: errors, help, pages. What cannot be typed must not be
    advised."""
    known = {name for name, _ in commands()}
    form = re.compile(r"""(?:[`">]|  )backfill-assets ([a-z][a-z-]*)(?: ([a-z]+))?""")
    advised = [
        (path.name, match[1], match[2])
        for path in (CHECKOUT / "backfill_assets").rglob("*")
        if path.suffix in (".py", ".j2")
        for match in form.finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(advised) > 20
    assert [a for a in advised if not {a[1], f"{a[1]} {a[2]}"} & known] == []


@pytest.mark.usefixtures("processes")
def test_an_interrupt_after_the_last_word_ends_the_process_without_a_traceback() -> None:
    late = (
        "import atexit, os, signal, sys; atexit.register(lambda: os.kill(os.getpid(), "
        "signal.SIGINT))"
    )
    command = "sys.argv[1:] = ['--version']; from backfill_assets.cli.app import main; main()"
    with as_in_a_terminal():
        words = [sys.executable, "-c", f"{late}; {command}"]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


@pytest.mark.usefixtures("processes")
def test_an_interrupt_while_a_command_is_imported_is_never_lost() -> None:
    """Python runs the callback of a module's lock then, and only prints what it raises."""
    strike = (
        "import os, signal, sys, weakref\n"
        "class Lock: pass\n"
        "class Strikes:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'backfill_assets.reports.status_command':\n"
        "            lock = Lock()\n"
        "            last = weakref.ref(lock, lambda _: os.kill(os.getpid(), signal.SIGINT))\n"
        "            del lock\n"
        "from backfill_assets.cli.app import main\n"
        "sys.meta_path.insert(0, Strikes())\n"
        "sys.argv[1:] = ['status', '--help']\n"
        "main()\n"
    )
    with as_in_a_terminal():
        ended = subprocess.run(
            [sys.executable, "-c", strike], capture_output=True, text=True, check=False
        )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.whole_house
def test_a_lake_that_does_not_exist_is_told_with_the_commands_that_make_one(tmp_path: Path) -> None:
    result = run("status", "--lake", tmp_path / "none")
    assert result.exit_code == 2
    assert "`backfill-assets init`" in result.stderr
    assert "`backfill-assets demo`" in result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1


@pytest.mark.whole_house
@pytest.mark.parametrize(
    ("typed", "meant"), [("backfil", "backfill"), ("statsu", "status"), ("frobbing", "")]
)
def test_a_mistyped_command_is_answered_with_the_one_most_like_it(typed: str, meant: str) -> None:
    result = run(typed)
    near = f"Did you mean {meant}? " if meant else ""
    told = (
        f"the command '{typed}': there is none of that name. Nothing was done. "
        f"{near}`backfill-assets --help`"
    )
    assert (result.exit_code, result.stderr.startswith(f"Error: {told}")) == (2, True)


@pytest.mark.whole_house
def test_the_lake_may_be_named_before_and_after_the_verb_and_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic_lake(tmp_path / "a", 1)
    synthetic_lake(tmp_path / "b", 2)
    monkeypatch.setenv("BACKFILL_ASSETS_LAKE", str(tmp_path / "b"))
    assert read(run("status", "--json"))["to"] == str(START + ONE_DAY)
    assert read(run("--lake", tmp_path / "a", "status", "--json"))["to"] == str(START)
    assert read(run("--lake", tmp_path / "b", "status", "--json", "--lake", tmp_path / "a"))[
        "to"
    ] == str(START)


@pytest.mark.parametrize(
    "command",
    [("server", "status"), pytest.param(("doctor",), marks=pytest.mark.slow), ("status",)],
)
def test_no_command_prints_the_token_of_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    synthetic_lake(tmp_path, 1)
    for engine in (
        "sc://host:15002/;token=hunter2",
        "sc:/host/;token=hunter2",
    ):  # the second is refused
        monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", engine)
        result = run(*command, "--lake", tmp_path)
        assert "hunter2" not in result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)


def writes_where_it_cannot(known: KnownStates, _: Work) -> NoReturn:
    (known.lake.root / ".locks").mkdir()
    pytest.fail("it could be written")


@pytest.mark.parametrize(
    "command", [("scan",), ("landing", "accept", "--note", "x"), ("backfill",)]
)
def test_a_lake_that_cannot_be_written_is_one_line_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    lake, _ = synthetic_lake(tmp_path, 1)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "nowhere"))
    shutil.rmtree((lake.root / ".locks"), ignore_errors=True)
    (lake.root / ".locks").write_text("a file, so that no folder can be made there")
    days = ("--from", str(START), "--to", str(START)) if command == ("backfill",) else ()
    result = run(
        *command, *days, "--lake", tmp_path, overrides=Overrides(work=writes_where_it_cannot)
    )
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        f"Error: {(lake.root / '.locks')}: file exists. What was being done was not finished. "
    )


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("show", "staging", str(START)),
        ("audit",),
        ("plan", "list"),
        ("snapshot", "list"),
        ("lateness",),
        ("sql", "SELECT count(*) FROM files"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_that_only_looks_imports_neither_dagster_nor_spark(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    synthetic_lake(tmp_path, 1)
    code = f"""
        import sys
        from backfill_assets.cli.app import app
        app(["--lake", {str(tmp_path)!r}, *{words!r}], standalone_mode=False)
        print(*{{"pyspark", "dagster", "grpc", "duckdb", "pandas", "matplotlib", "jinja2"}} & set(sys.modules), sep=",")
    """
    imported = run_python(code, fresh=True).splitlines()[-1]
    engine = {"duckdb", "pandas"} if words[0] in ("sql", "lateness") else set()
    assert {*imported.split(",")} - {""} <= engine


SELECT = (
    'select = "id AS event_key, CAST(at AS timestamp) AS event_ts, id AS entity, 1 AS value, 0 AS '
    'flag"'
)
PLACES = {
    "files": '[source]\nfiles = "{}"\nformat = "csv"\n' + SELECT,
    "table": '[source]\ntable = "{}"\n' + SELECT,
    "external": 'assets_only = true\n[tables.o]\nexternal = "{}"\nday = "d"',
    "engine": '[spark]\nengine = "{}"\n[source]\nfiles = "landing/*.csv"\nformat = "csv"\n'
    + SELECT,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", [name for name, text in FORMS.items() if re.match(r"\w+:/\S+\Z", text)]
)
@pytest.mark.parametrize("place", PLACES)
def test_no_command_shows_the_secret_of_an_address(tmp_path: Path, place: str, form: str) -> None:
    (tmp_path / "lake.toml").write_text(
        f"start_date = 2024-03-01\n{PLACES[place].format(FORMS[form])}\n"
    )
    for words in (
        ("status",),
        ("status", "--json"),
        ("show", "raw"),
        ("landing", "x"),
        ("report",),
    ):
        done = run(*words, "--lake", tmp_path)
        assert SECRET not in done.output + str(done.exception)
    done = run("status", "--lake", FORMS[form])
    assert done.exit_code != 0
    assert SECRET not in done.output + str(done.exception)
