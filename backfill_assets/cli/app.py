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


COMMANDS: tuple[click.Command, ...] = (
    demo.init, demo.demo, demo.example, landing.scan, landing.landing, backfill.backfill, plan.plan, run.run,
    catch_up.catch_up, catch_up.replay_late, rollback.rollback, rollback.release, compare.compare, compare.check_engine,
    report.audit, status.status, status.show, sql.sql, snapshot.snapshot, lateness.lateness, report.report,
    doctor.doctor, doctor.mend, ui.ui, server.server,
)  # fmt: skip
for _command in COMMANDS:
    app.add_command(_command)


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
