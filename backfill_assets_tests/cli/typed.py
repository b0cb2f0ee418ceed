"""Commands as a person types them, for the tests of the command line.
Here: running one in this process, reading its JSON, and a text that no page may obey. Not here: any
assertion about what it says."""

import json
from collections.abc import Iterator
from typing import Any

import click
from click.testing import CliRunner, Result

from backfill_assets.cli.app import app
from backfill_assets.cli.common import Overrides
from backfill_assets_tests.answers import hold_schema, words_of
from backfill_assets_tests.planned import Planned

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}&"


def run(*args: object, on: Planned | None = None, overrides: Overrides | None = None) -> Result:
    """The command with these words, run in this process, on a lake and its own pipeline where one
    is given. What it prints with `--json` is held against its schema."""
    if on is not None:
        overrides = Overrides(opened=lambda: (on.lake, on.pipeline))
    typed = [str(a) for a in args]
    done = CliRunner().invoke(app, typed, obj=overrides)
    if "--json" in typed and done.stdout and (words := words_of(typed)):
        hold_schema(words, json.loads(done.stdout))
    return done


def commands(of: click.Group = app, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command by the words that name it, groups too."""
    context = click.Context(of)
    for name in of.list_commands(context):
        found = of.get_command(context, name)
        assert found is not None
        yield " ".join([*path, name]), found
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)


def read(result: Result) -> Any:
    """The document that a command printed, which must have ended well."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
