"""`backfill-assets snapshot create | list | show | drop`: days of tables kept under a name. No JVM.

Not here: keeping them (`operations.snapshots`) and reading them (`operations.reader`).
"""

from typing import Any

import click

from backfill_assets.cli.backfill import chosen
from backfill_assets.cli.common import (
    TEXT,
    answer,
    days_options,
    json_and_lake,
    lake_option,
    newest_option,
    opened,
    print_json,
)
from backfill_assets.cli.drawing import draw_table, number, say
from backfill_assets.core.days import DayRange, ranges
from backfill_assets.operations.snapshots import (
    Snapshot,
    SnapshotRequest,
    create_snapshot,
    drop_snapshot,
    file_of,
    find_snapshot,
    held_bytes,
    snapshot_names,
)


@click.group()
@lake_option
def snapshot() -> None:
    """Keep versions of tables and days under a name: the same rows for ever, whatever is rebuilt or vacuumed."""


@snapshot.command("create", short_help="Keep the newest versions.")
@click.argument("name")
@days_options(default="all")
@click.option("--tables", "named", help="Comma-separated. [default: all]")
@click.option("--note", type=TEXT, default="", help="Why; it is kept in the snapshot.")
@click.option(
    "--unfit", type=click.Choice(["refuse", "warn", "take"]), default="refuse", show_default=True,
    help="What to do about days that are missing, stale, incomplete or pending, or that will change.",
)  # fmt: skip
@newest_option
@json_and_lake
def create(name: str, days: DayRange | None, named: str | None, note: str, as_json: bool, **options: Any) -> None:
    """Keep the newest versions of tables under NAME: the days --from through --to, or all that they hold.

    The files are copied, and their rows read once and held against the receipts; their SHA-256 are proven at reads.
    """
    lake, pipeline = opened()
    tables = chosen(named, [t.name for t in pipeline.tables]) if named else ()
    kept = create_snapshot(lake, pipeline, SnapshotRequest(name, tables, days, note, **options))
    _draw(kept, as_json)


@snapshot.command("list", short_help="All snapshots of the lake.")
@json_and_lake
def list_snapshots(as_json: bool) -> None:
    """All snapshots of the lake, and the bytes that nothing but a snapshot still holds."""
    lake, _ = opened()
    snapshots = [(find_snapshot(lake, n), held_bytes(lake, n)) for n in snapshot_names(lake)]
    if as_json:
        print_json([{**s.to_dict(), "tables": list(s.tables), "held_bytes": held} for s, held in snapshots])
        return
    rows = [(s.name, s.made_at, s.by, len(s.tables), s.digest[:12], held, s.note) for s, held in snapshots]
    if rows:
        draw_table(["snapshot", "made", "by", "tables", "digest", "bytes held by it", "note"], rows)
    else:
        click.echo("This lake has no snapshot.")


@snapshot.command("show", short_help="What it keeps, proven.")
@click.argument("name")
@json_and_lake
def show_snapshot(name: str, as_json: bool) -> None:
    """What a snapshot keeps, proven: every file is read, and compared with its SHA-256."""
    lake, _ = opened()
    shown = find_snapshot(lake, name)
    for table in shown.tables.values():
        for file in table.files:
            file_of(lake, name, file)
    _draw(shown, as_json)


@snapshot.command("drop", short_help="Let go of it.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do it.")
@json_and_lake
def drop(name: str, yes: bool, as_json: bool) -> None:
    """Let go of a snapshot and of the files that only it holds. What names it can no longer be read."""
    lake, _ = opened()
    held = held_bytes(lake, name)
    if yes:
        drop_snapshot(lake, name)
    size = f"{number(held)} bytes"
    line = f"dropped {name}; {size} are free" if yes else f"would drop {name}, and free {size}; do it with --yes"
    answer({"name": name, "held_bytes": held, "dropped": yes}, as_json, [line])


def _draw(shown: "Snapshot", as_json: bool) -> None:
    if as_json:
        print_json(shown)
        return
    say(f"snapshot {shown.name}, made {shown.made_at:%Y-%m-%dT%H:%MZ} by {shown.by}{shown.note and ': '}{shown.note}")
    rows = [
        (name, str(t.version), t.rows, len(t.days), len(t.files), ranges(t.days)) for name, t in shown.tables.items()
    ]
    draw_table(["table", "version", "rows", "days", "data files", "which days"], rows)
    click.echo(f"digest {shown.digest}")
