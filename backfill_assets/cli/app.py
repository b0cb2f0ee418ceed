"""The program `backfill-assets`: its commands, its exit codes, and errors as one line on stderr.

Exit codes: 0 fine, 1 something was found or failed, 2 wrong usage or settings, 130 interrupted (143 by TERM).
"""

import contextlib
import os
import signal
import sys

import click

from backfill_assets.cli import (
    backfill,
    catch_up,
    compare,
    demo,
    doctor,
    landing,
    lateness,
    plan,
    report,
    rollback,
    run,
    server,
    snapshot,
    sql,
    status,
    ui,
)
from backfill_assets.cli.common import lake_option
from backfill_assets.cli.drawing import aside
from backfill_assets.core.errors import BackfillError, SettingsError, unusable
from backfill_assets.core.process import collect_seldom

INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


class _Group(click.Group):
    """A group that shows the product's own errors, and interrupts, in one line without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error of the product is one line on stderr and exit code 1 or 2."""
        try:
            return super().invoke(ctx)
        except click.exceptions.Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            if interrupt := _interrupt_of(error):
                written = getattr(interrupt, "told", "") or "what was not committed is not written"
                click.echo(f"Interrupted: {written}. Run the same command again.", err=True)
                ctx.exit(128 + getattr(interrupt, "number", signal.SIGINT))
            if isinstance(error, BackfillError):
                aside(f"Error: {error}")
                ctx.exit(2 if isinstance(error, SettingsError) else 1)
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                aside(f"Error: {unusable(error)}")
                ctx.exit(1)
            raise  # click handles it, and ends quietly on a closed pipe


def _interrupt_of(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt that an error is or came from: Python 3.11 turns one during the creation of a class into a
    RuntimeError, and libraries turn one during an import into errors of their own."""
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, KeyboardInterrupt):
        behind = behind.__cause__ or behind.__context__
    return behind


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@lake_option
@click.version_option(package_name="backfill-assets")
def app() -> None:
    """Rebuild any day of any table of a lake: in any order, any number of times.

    Exit codes: 0 fine, 1 something was found or failed, 2 wrong usage or settings.
    """


# The line of each command in a list: whole on a screen of 60 characters, where click would cut off sentences.
for _command, _line in (
    (demo.init, "Write a commented lake.toml."),
    (demo.demo, "Make a sample lake, load it twice."),
    (demo.example, "Lakes to learn from, step by step."),
    (landing.scan, "Take stock of the landing folder."),
    (landing.landing, "Accept altered or missing files."),
    (backfill.backfill, "Make days of tables again."),
    (plan.plan, "Plan a backfill in chunks, with a price."),
    (run.run, "Run a plan: chunk, gate, chunk."),
    (catch_up.catch_up, "Load and rebuild all that needs it."),
    (catch_up.replay_late, "Let rows that came too late count."),
    (rollback.rollback, "Put days back to what they held."),
    (rollback.release, "Let days go that were put back."),
    (compare.compare, "What differs between two versions."),
    (compare.check_engine, "Days again on the other engine."),
    (report.audit, "Every write: who, when, why."),
    (status.status, "States of all days and tables."),
    (status.show, "All that is known of one day."),
    (sql.sql, "A SELECT over the lake's tables."),
    (snapshot.snapshot, "Keep days under a name, for ever."),
    (lateness.lateness, "How late rows come."),
    (report.report, "The whole lake on one page."),
    (doctor.doctor, "Find what is wrong with a lake."),
    (ui.ui, "Dagster's pages, for you alone."),
    (doctor.mend, "Mend a table's damaged log."),
    (server.server, "Start or stop the lake's server."),
):
    _command.short_help = _line
    app.add_command(_command)
for _command, _line in (
    (landing.accept, "Follow what lies there now."),
    (server.start, "Start it now."),
    (server.stop, "Stop it; the next use starts one."),
    (server.status, "Whether it runs, since when."),
    (snapshot.create, "Keep the newest versions."),
    (snapshot.list_snapshots, "All snapshots of the lake."),
    (snapshot.show_snapshot, "What it keeps, proven."),
    (snapshot.drop, "Let go of it."),
    (plan.list_plans, "All plans of the lake."),
    (plan.show_plan, "A plan and how far it is."),
    (plan.pause, "Stop after the current chunk."),
    (plan.resume, "Take a pause back."),
    (plan.cancel, "End it; what is written stays."),
):
    _command.short_help = _line


def main() -> None:
    """Run the command that `sys.argv` names, as the console script `backfill-assets` does."""
    _open_streams()
    os.umask(0o077)  # until the lake says otherwise
    collect_seldom()
    try:
        app(prog_name="backfill-assets")
    except SystemExit as ended:
        if ended.code not in INTERRUPTED:
            raise
        _die_of(int(ended.code) - 128)


def _open_streams() -> None:
    """Point a closed standard stream at the null device: else the next opened file would get its text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, mode))


def _die_of(number: int) -> None:
    """End this process by the signal that interrupted it, as shells expect of a program that was interrupted.

    The interpreter's own way out can hang: gRPC may still wait for answers.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
