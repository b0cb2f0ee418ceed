"""The program `backfill-assets`: its commands, its exit codes, and errors as one line on stderr.

A new command is an entry in `commands` of its room's `__init__`. Exit codes: 0 fine, 1 something
was found or failed, 2 wrong usage or settings, 3 a plan waits as it was told to, 130 interrupted
(143 by TERM).
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import click

from backfill_assets.cli.common import lake_option
from backfill_assets.cli.drawing import broken_lines, remark
from backfill_assets.kernel.core.errors import BackfillError, SettingsError, unusable_file_error
from backfill_assets.kernel.core.process import collect_seldom
from backfill_assets.kernel.core.rooms import Command, installed_rooms, resolve_reference
from backfill_assets.kernel.core.texts import did_you_mean, scrub_secrets

INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


HEADINGS = ("Begin", "Load", "Look", "Correct", "Trust", "Keep")  # in the order of a lake's life


def all_commands() -> dict[str, Command]:
    """Return the commands of all rooms by their names, in the order of the rooms."""
    return {name: command for room in installed_rooms() for name, command in room.commands.items()}


class _CommandGroup(click.Group):
    """The commands, each imported when used; the product's own errors and interrupts take one line,
    no traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; None if there is none."""
        entry = all_commands().get(cmd_name)
        if entry is None:
            return None
        with _end_process_by_interrupts():
            command: click.Command = resolve_reference(entry.reference)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the name, the command and what is left of `args`; raises SettingsError for an
        unknown name."""
        commands = all_commands()
        if (name := args[0]) in commands or name.startswith("-"):
            return super().resolve_command(ctx, args)
        fix = f"{did_you_mean(name, commands)}`backfill-assets --help` lists all commands"
        raise SettingsError(
            f"the command {name!r}", "there is none of that name", "Nothing was done", fix
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        for heading in HEADINGS:
            with formatter.section(heading):
                below = [(n, c.line) for n, c in all_commands().items() if c.heading == heading]
                formatter.write_dl(below)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error of the product is one line on stderr and exit code 1 or 2."""
        try:
            return super().invoke(ctx)
        except click.exceptions.Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            if interrupt := _interrupt_of(error):
                ctx.exit(_say_interrupt(interrupt))
            if isinstance(error, BackfillError):
                for one in (error, *error.also):
                    remark(f"Error: {one}")
                ctx.exit(2 if isinstance(error, SettingsError) else 1)
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                remark(f"Error: {unusable_file_error(error)}")
                ctx.exit(1)
            asks_for_help = isinstance(error, click.exceptions.NoArgsIsHelpError)
            if isinstance(error, click.UsageError) and not asks_for_help:
                text = broken_lines(scrub_secrets(error.format_message()), len("Error: "))
                raise click.UsageError(text, error.ctx) from None
            raise  # click handles it, and ends quietly on a closed pipe


def _say_interrupt(interrupt: KeyboardInterrupt) -> int:
    """Say on stderr what was written before the interrupt, and return the exit code for it. Only
    the product's own `Interrupted` knows what was written, and by which signal."""
    written = getattr(interrupt, "written", "") or "what was not committed is not written"
    click.echo(f"Interrupted: {written}. Run the same command again.", err=True)
    return 128 + int(getattr(interrupt, "number", signal.SIGINT))


@contextlib.contextmanager
def _end_process_by_interrupts() -> Iterator[None]:
    """Let the kernel end the process by an interrupt in here, where nothing is open yet. Python
    loses an interrupt at the end of an import: there it runs in the callback of a weak reference,
    whose errors are only printed.
    """
    is_main = threading.current_thread() is threading.main_thread()
    has_default_handler = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_main or not has_default_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt_of(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt that an error is or came from; None if it came from none.

    Python 3.11 turns one during the creation of a class into a RuntimeError, libraries turn one
    during an import into errors of their own, and DuckDB one during a query.
    """
    origin: BaseException | None = error
    while origin is not None and not isinstance(origin, KeyboardInterrupt):
        is_of_duckdb = isinstance(origin, RuntimeError) and str(origin) == "Query interrupted"
        if is_of_duckdb:
            return KeyboardInterrupt()
        origin = origin.__cause__ or origin.__context__
    return origin


@click.group(
    cls=_CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
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
            _end_by_signal(int(ended.code) - 128)
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
            null_device = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(null_device, True)
            setattr(sys, name, os.fdopen(null_device, mode))


def _end_by_signal(number: int) -> None:
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
