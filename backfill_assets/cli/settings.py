"""`backfill-assets init`: writes a `lake.toml` with every key, its default and its meaning.

Not here: the commented file (`operations.lake_file`).
"""

from datetime import date
from typing import Any

import click

from backfill_assets.cli.common import DAY, lake_option, lake_root
from backfill_assets.core.clock import utc_today
from backfill_assets.core.errors import SettingsError

PLAIN = "seq, arrival_ts, version_ts, event_ts, event_key, op, entity, value, flag"


def first_of_year() -> date:
    """Return the default first day: January 1 of this year."""
    return utc_today().replace(month=1, day=1)


@click.command()
@click.option("--start-date", type=DAY, help="The lake's first day. [default: January 1 of this year]")
@click.option("--files", help="Glob of the landed files. [default: landing/**/*.FORMAT]")
@click.option(
    "--format", "form", type=click.Choice(["parquet", "csv", "jsonl"]), default="parquet", show_default=True,
    help="Their format.",
)  # fmt: skip
@click.option("--select", default=PLAIN, help="Spark SQL that maps a file's columns. [default: equal names]")
@click.option("--windows-days", type=(int, int), default=(7, 28), show_default=True, help="Trailing windows.")
@click.option("--horizon-days", type=int, default=7, show_default=True, help="How far labels look ahead.")
@click.option("--maturity-days", type=int, default=7, show_default=True, help="How long labels wait for late data.")
@click.option("--memory", default="2g", show_default=True, help="Heap of the embedded engine.")
@lake_option
def init(start_date: date | None, files: str | None, form: str, select: str, **others: Any) -> None:
    """Write a commented lake.toml. An existing one is never overwritten."""
    from backfill_assets.core.ownership import refuse_foreign
    from backfill_assets.lake.folder import refuse_file
    from backfill_assets.operations.lake_file import lake_toml

    root = lake_root()
    refuse_file(root)
    refuse_foreign(root)
    path = root / "lake.toml"
    values = {
        "start_date": start_date or first_of_year(),
        "files": files or f"landing/**/*.{form}",
        "format": form,
        "select": select,
        **{k: list(v) if isinstance(v, tuple) else v for k, v in others.items()},
    }
    text = lake_toml(values)
    root.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SettingsError(
            str(path), "it exists already", "Nothing was written", "Edit it, or name another folder with --lake"
        ) from None
    click.echo(f"wrote {path}")
    click.echo("Look it over (start_date, files, select), then `backfill-assets scan`.")
