"""Commands as a person types them, for the tests of the command line.

Lives here: running one in this process, reading its JSON, and a text that no page may obey. Does not live here: any
assertion about what it says.
"""

import json
from typing import Any

from click.testing import CliRunner, Result

from backfill_assets.cli.app import app
from backfill_assets.cli.common import Overrides
from backfill_assets_tests.operations.planned import Planned

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}&"


def run(*args: object, overrides: Overrides | None = None) -> Result:
    """The command with these words, run in this process."""
    return CliRunner().invoke(app, [str(a) for a in args], obj=overrides)


def instead(made: Planned) -> Overrides:
    """Commands work on this lake and its own pipeline."""
    return Overrides(opened=lambda: (made.lake, made.pipeline))


def read(result: Result) -> Any:
    """The document that a command printed, which must have ended well."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
