"""`backfill-assets demo`: a sample lake, backfilled twice through Dagster, with what one should look at.

Lives here: making the lake and telling about it. Does not live here: the sample's rows (`sample`), the run (`runner`).
Only a lake that carries the marker of this command is ever loaded or replaced by it.
"""

import json
import os
import shutil
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.backfill import work
from backfill_assets.cli.common import json_option, lake_option, lake_root, print_json
from backfill_assets.cli.drawing import aside, draw_table, number
from backfill_assets.cli.progress import Asked, Outcome
from backfill_assets.cli.sample import FEWEST_DAYS, SELECT, sample_files
from backfill_assets.core.days import ONE_DAY, DayRange, midnight
from backfill_assets.core.errors import SettingsError

if TYPE_CHECKING:
    from backfill_assets.lake.home import Lake
    from backfill_assets.operations.status import StatusReport

MARKER = ".demo"
SETTINGS = {
    "files": "landing/**/*.jsonl", "format": "jsonl", "select": SELECT, "windows_days": [3, 7], "horizon_days": 3,
    "maturity_days": 2, "memory": "1g",
}  # fmt: skip


@click.command()
@click.option("--new", is_flag=True, help="Replace the sample lake by a fresh one that ends yesterday.")
@click.option("--days", type=click.IntRange(FEWEST_DAYS, 366), default=30, show_default=True, help="Of a fresh sample.")
@json_option
@lake_option
@click.pass_context
def demo(ctx: click.Context, new: bool, days: int, as_json: bool) -> None:
    """Make a sample lake (unless there is one), load all of it through Dagster, twice."""
    from backfill_assets.lake.home import open_lake

    root = lake_root()
    span = prepare(root, days, new)
    lake = open_lake(root)
    from backfill_assets.lake.model import make_pipeline
    from backfill_assets.operations.status import status
    from backfill_assets.pipeline.tables import tables

    pipeline = make_pipeline(tables(lake.settings))
    outcomes = []
    for told in ("Every table over every day", "The same again: nothing changes"):
        aside(f"{told}:")
        outcomes.append(work(lake, Asked(span, tuple(t.name for t in pipeline.tables), note="demo")))
        if not outcomes[-1].success:
            aside(f"Error: {outcomes[-1].cause}")
            ctx.exit(1)
    report = status(lake, pipeline, span)
    refused = quarantined(lake)
    if as_json:
        runs = [o.to_dict() for o in outcomes]
        print_json({"lake": str(root), "runs": runs, "quarantine": refused, "status": report.to_dict()})
    else:
        _draw(lake, report, refused, outcomes)


def prepare(root: Path, days: int, new: bool) -> DayRange:
    """The days of the sample lake at `root`, made first if there is none; raises SettingsError for another's lake."""
    known = _read_marker(root)
    if known is None and root.exists() and any(root.iterdir()):
        raise SettingsError(
            f"the lake {root}",
            "`demo` did not make it",
            "It was left as it is",
            "Name an empty folder with --lake, or use `backfill-assets backfill`",
        )
    if known is not None and not new:
        aside(f"The sample lake {root} holds {known}; `--new` makes one that ends yesterday.")
        return known
    if known is not None:
        _remove(root)
    last = datetime.now(UTC).date() - ONE_DAY
    made = DayRange(last - ONE_DAY * (days - 1), last + ONE_DAY)
    _make(root, made)
    aside(f"Made the sample lake {root}: {made}, {len(made)} days.")
    return made


def _read_marker(root: Path) -> DayRange | None:
    try:
        said = json.loads((root / MARKER).read_text(encoding="utf-8"))
        return DayRange(date.fromisoformat(said["first"]), date.fromisoformat(said["end"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise SettingsError(
            str(root / MARKER), "it is not what `demo` writes", "The lake was left as it is", "Remove the lake by hand"
        ) from None


def _remove(root: Path) -> None:
    """The old sample, its server first. The marker goes last, so that an interrupted removal can be done again."""
    from backfill_assets.lake.server import stop_server

    stop_server(root)
    for path in sorted(root.iterdir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()
    (root / MARKER).unlink()


def _make(root: Path, days: DayRange) -> None:
    from backfill_assets.cli.settings import lake_toml

    root.mkdir(parents=True, exist_ok=True)
    (root / MARKER).write_text(json.dumps({"first": str(days.start), "end": str(days.end)}) + "\n", encoding="utf-8")
    for name, text in sample_files(days.start, len(days)).items():
        path = root / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        # As if each had been delivered when its day was over: a scan waits for files that were just written.
        landed = midnight(date.fromisoformat(path.stem[len("orders-") :][:10]) + ONE_DAY).timestamp()
        os.utime(path, (landed, landed))
    (root / "lake.toml").write_text(lake_toml({**SETTINGS, "start_date": days.start}), encoding="utf-8")


def quarantined(lake: "Lake") -> dict[str, int]:
    """How many rows are in quarantine for which reason, the most frequent first."""
    from backfill_assets.lake.ledger import QUARANTINE, read_arrow

    rows = read_arrow(lake.table_path(QUARANTINE.name), columns=("reason",))
    return dict(Counter(r["reason"] for r in rows).most_common())


def _draw(lake: "Lake", report: "StatusReport", refused: dict[str, int], outcomes: list[Outcome]) -> None:
    from backfill_assets.cli.dagster_home import ui_command
    from backfill_assets.operations.reasons import kinds

    lines: list[Any] = list(zip(*report.tables.values(), strict=True))
    rows = [[str(line[0].day), *(_cell(d) for d in line)] for line in lines]
    rows.append(["all", *(number(sum(d.rows or 0 for d in column)) for column in report.tables.values())])
    draw_table(["rows of", *report.tables], rows)
    click.echo()
    draw_table(["lines", "in quarantine because"], [[number(n), reason] for reason, n in kinds(refused).shown])
    click.echo()
    names = [t.table for t in outcomes[0].tables]
    parts = {o.run_id: {t.table: t for t in o.tables} for o in outcomes}
    took = [
        [name, *(f"{p[name].seconds:.1f} s, {p[name].changed} of {p[name].days} changed" for p in parts.values())]
        for name in names
    ]
    took.append(["the whole run", *(f"{o.seconds:.1f} s" for o in outcomes)])
    draw_table(["table", "first run", "again"], took)
    click.echo()
    click.echo(f"See both runs in Dagster:  {ui_command(lake)}")
    click.echo(f"Look at any day:           backfill-assets show staging {report.days.last if report.days else ''}")


def _cell(day: Any) -> str:
    """Rows, and the state where it is not fresh."""
    return number(day.rows) if day.state.value == "fresh" else f"{day.state.value} {number(day.rows)}"
