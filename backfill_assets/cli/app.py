"""The command `backfill-assets`: its verbs and its exit codes.

Lives here: putting the commands together, and turning errors into one line on stderr. Does not live here: any command.
Exit codes: 0 fine, 1 something was found or failed, 2 wrong usage or settings, 130 interrupted (143 by TERM).
"""

import os
import signal

import click

from backfill_assets.cli import (
    backfill,
    catch_up,
    demo,
    doctor,
    landing,
    lateness,
    report,
    server,
    settings,
    show,
    status,
)
from backfill_assets.cli.common import lake_option
from backfill_assets.core.errors import BackfillError, SettingsError, unusable


class _Group(click.Group):
    """Tells the product's own errors, and interrupts, in one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what the product refuses is one line on stderr and exit code 1 or 2."""
        try:
            return super().invoke(ctx)
        except BackfillError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(2 if isinstance(error, SettingsError) else 1)
        except BrokenPipeError:
            raise  # click ends quietly when nobody reads on
        except OSError as error:
            click.echo(f"Error: {unusable(error)}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt as interrupt:
            click.echo("Interrupted: what was not committed is not written. Run the same command again.", err=True)
            ctx.exit(128 + getattr(interrupt, "number", signal.SIGINT))


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@lake_option
@click.version_option(package_name="backfill-assets")
def app() -> None:
    """Rebuild any day of any table of a lake: in any order, any number of times.

    Exit codes: 0 fine, 1 something was found or failed, 2 wrong usage or settings.
    """


for _command in (
    settings.init,
    demo.demo,
    landing.scan,
    landing.landing,
    backfill.backfill,
    catch_up.catch_up,
    catch_up.replay_late,
    status.status,
    show.show,
    lateness.lateness,
    report.report,
    doctor.doctor,
    server.server,
):
    app.add_command(_command)


def main() -> None:
    """The console script."""
    os.umask(0o077)  # until the lake says otherwise
    app(prog_name="backfill-assets")
