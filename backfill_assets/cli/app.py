"""The program `backfill-assets`: its commands, its exit codes, and errors as one line on stderr.

A new command is an entry in `SECTIONS` and a function of its name, with `_` for `-`, in the module
that it names. Exit codes: 0 fine, 1 something was found or failed, 2 wrong usage or settings, 3 a
plan waits as it was told to, 130 interrupted (143 by TERM).
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click

from backfill_assets.cli.common import lake_option
from backfill_assets.cli.drawing import broken, remark
from backfill_assets.kernel.core.errors import BackfillError, SettingsError, unusable
from backfill_assets.kernel.core.process import collect_seldom
from backfill_assets.kernel.core.texts import did_you_mean, scrub

INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


# In the order of a lake's life: by command its module, and its line in the list.
SECTIONS = {
    "Begin": {
        "guide": ("learn.practice_command", "Guides: list them, or print one."),
        "demo": ("learn.demo_command", "Make a sample lake, load it twice."),
        "example": ("learn.demo_command", "Lakes to learn from, step by step."),
        "lab": ("learn.practice_command", "Unsafe forms fail beside safe ones."),
        "drill": ("learn.practice_command", "Faults to mend against a clock."),
        "init": ("learn.init_command", "A lake.toml that fits your files."),
    },
    "Load": {
        "scan": ("intake.landing_command", "Take stock of the landing folder."),
        "catch-up": ("cli.catch_up", "Load and rebuild all that needs it."),
        "backfill": ("cli.backfill", "Make days of tables again."),
        "landing": ("intake.landing_command", "Accept altered or missing files."),
        "locate": ("reading.sql_command", "Where a catalog has a table of others."),
        "adopt": ("intake.landing_command", "A Delta table becomes one of the lake."),
        "replay-late": ("cli.catch_up", "Let rows that came too late count."),
    },
    "Look": {
        "status": ("reports.status_command", "States of all days and tables."),
        "show": ("reports.status_command", "Receipt, inputs and history of a day."),
        "sql": ("reading.sql_command", "A SELECT over the lake's tables."),
        "report": ("reports.report_command", "The whole lake on one page."),
        "audit": ("reports.report_command", "Every write: who, when, why."),
        "lateness": ("reports.lateness_command", "How late rows arrive."),
        "checklist": ("upkeep.doctor_command", "What makes this lake trustworthy, computed."),
    },
    "Correct": {
        "plan": ("plans.plan_command", "Plan a backfill in chunks, with a price."),
        "run": ("plans.run_command", "Run a plan: chunk, gate, chunk."),
        "compare": ("compare.compare_command", "What differs between two versions."),
        "rollback": ("plans.rollback_command", "Put days back to what they held."),
        "release": ("plans.rollback_command", "Allow rebuilds of days put back."),
        "candidate": ("candidates.candidate_command", "Tables built beside, switched at once."),
    },
    "Trust": {
        "doctor": ("upkeep.doctor_command", "Find what is wrong with a lake."),
        "verify": ("upkeep.doctor_command", "Rows, bytes and logs against receipts."),
        "reconcile": ("reconcile.reconcile_command", "A table against another side, by key."),
        "controls": ("reports.checks_command", "Known totals against the tables."),
        "prove": ("reports.checks_command", "Recompute days in another order."),
        "check-engine": ("compare.compare_command", "Recompute days on the other engine."),
        "drift": ("reports.checks_command", "Days whose values are off, ranked."),
        "mend": ("upkeep.doctor_command", "Mend a table's damaged log."),
    },
    "Keep": {
        "snapshot": ("candidates.candidate_command", "Keep days under a name, for ever."),
        "export": ("reading.sql_command", "Changed days to a folder or database."),
        "attach": ("reading.sql_command", "Tables by name for DuckDB, Polars, Spark."),
        "register": ("reading.sql_command", "Tables by name in Spark's own catalog."),
        "maintain": ("upkeep.doctor_command", "Delete what nothing needs any more."),
        "copy-lake": ("upkeep.doctor_command", "A lake to another folder or bucket."),
        "forget": ("erasure.forget_command", "Erase an entity for good."),
        "server": ("cli.server", "Start or stop the lake's server."),
        "production": ("cli.server", "A dagster.yaml for servers."),
        "ui": ("cli.server", "Dagster's pages, for you alone."),
    },
}
COMMANDS = {name: entry for commands in SECTIONS.values() for name, entry in commands.items()}


class _Group(click.Group):
    """The commands, each imported when used; the product's own errors and interrupts take one line,
    no traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        with _interrupts_end_it():
            module = import_module(f"backfill_assets.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the name, the command and what is left of `args`; raises SettingsError for an
        unknown name."""
        if (name := args[0]) in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        fix = f"{did_you_mean(name, COMMANDS)}`backfill-assets --help` lists all commands"
        raise SettingsError(
            f"the command {name!r}", "there is none of that name", "Nothing was done", fix
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error of the product is one line on stderr and exit code 1 or 2."""
        try:
            return super().invoke(ctx)
        except click.exceptions.Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            if interrupt := _interrupt_of(error):
                written = (
                    getattr(interrupt, "written", "") or "what was not committed is not written"
                )
                click.echo(f"Interrupted: {written}. Run the same command again.", err=True)
                ctx.exit(128 + getattr(interrupt, "number", signal.SIGINT))
            if isinstance(error, BackfillError):
                for one in (error, *error.also):
                    remark(f"Error: {one}")
                ctx.exit(2 if isinstance(error, SettingsError) else 1)
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                remark(f"Error: {unusable(error)}")
                ctx.exit(1)
            if isinstance(error, click.UsageError) and not isinstance(
                error, click.exceptions.NoArgsIsHelpError
            ):
                said = broken(scrub(error.format_message()), len("Error: "))
                raise click.UsageError(said, error.ctx) from None
            raise  # click handles it, and ends quietly on a closed pipe


@contextlib.contextmanager
def _interrupts_end_it() -> Iterator[None]:
    """Let the kernel end the process by an interrupt in here, where nothing is open yet. Python
    loses an interrupt at the end of an import: there it runs in the callback of a weak reference,
    whose errors are only printed.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt_of(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt that an error is or came from: Python 3.11 turns one during the creation
    of a class into a RuntimeError, libraries turn one during an import into errors of their own,
    and DuckDB one during a query."""
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, KeyboardInterrupt):
        if isinstance(behind, RuntimeError) and str(behind) == "Query interrupted":
            return KeyboardInterrupt()
        behind = behind.__cause__ or behind.__context__
    return behind


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@lake_option
@click.version_option(package_name="backfill-assets")
def app() -> None:
    """Rebuild any day of any table of a lake: in any order, any number of times.

    Exit codes: 0 fine, 1 something was found or failed, 2 wrong usage or settings, 3 a plan waits
    as it was told to, 130 interrupted.
    """


def main() -> None:
    """Run the command that `sys.argv` names, as the console script `backfill-assets` does."""
    _open_streams()
    os.umask(0o077)  # until the lake says otherwise
    collect_seldom()
    try:
        app(prog_name="backfill-assets")
    except SystemExit as ended:
        if ended.code in INTERRUPTED:
            _die_of(int(ended.code) - 128)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(
                signal.SIGINT, signal.SIG_DFL
            )  # one that arrives while Python ends would print a traceback
        raise


def _open_streams() -> None:
    """Point a closed standard stream at the null device: else the next opened file would get its
    text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, mode))


def _die_of(number: int) -> None:
    """End this process by the signal that interrupted it, as shells expect of a program that was
    interrupted.

    The interpreter's own way out can hang: gRPC may still wait for answers.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
