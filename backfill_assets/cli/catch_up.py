"""`backfill-assets catch-up` and `replay-late`: what the sensors would do, now and here; and letting late rows count.

Lives here: the loop over requests, one run each, until nothing is left, and the two commands. Does not live here: what
a day needs (`core.needs`), requests (`core.requests`), and the sensors, which do the same on their own.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import days_options, inclusive, json_option, lake_option, lake_root, opened, print_json
from backfill_assets.cli.drawing import aside, draw_table, number
from backfill_assets.cli.progress import Asked, Outcome

if TYPE_CHECKING:
    from backfill_assets.core.requests import Ask
    from backfill_assets.lake.home import Lake

Settled = Collection[tuple[str, date]]


@dataclass
class CaughtUp:
    """The runs of a catch-up, in order, and what stays undone: days per table that still need making."""

    runs: list[tuple[Asked, Outcome]] = field(default_factory=list)
    left: dict[str, list[str]] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        """Whether every run succeeded and nothing is left."""
        return all(outcome.success for _, outcome in self.runs) and not self.left


@click.command("catch-up")
@click.option("--dry-run", is_flag=True, help="Only say what would be run first; nothing is started.")
@click.option("--note", default="", help="Why; it is kept in the receipts.")
@json_option
@lake_option
def catch_up(dry_run: bool, note: str, as_json: bool) -> None:
    """Load what landed and rebuild every day that needs it, level by level: what the sensors do by themselves.

    Exit code 1 if a run fails or a day still needs making afterwards.
    """
    from backfill_assets.lake.home import open_lake

    lake = open_lake(lake_root())
    if dry_run:
        _tell_first(lake, as_json)
        return
    _scan(lake)
    _report(_until_settled(lake, note, "catch-up", ()), as_json)


@click.command("replay-late")
@days_options(required=True)
@click.option("--note", required=True, help="Why these rows count after all; it is kept in the receipts.")
@click.option("--dry-run", is_flag=True, help="Only say what would be released; nothing is written.")
@json_option
@lake_option
def replay_late(first: date, last: date, note: str, dry_run: bool, as_json: bool) -> None:
    """Let rows of `too_late` count whose event days lie in --from .. --to (both included), and rebuild those days only.

    Exit code 1 if a run fails or a day still needs making afterwards.
    """
    from backfill_assets.lake.home import open_lake
    from backfill_assets.lake.lock import load_lock
    from backfill_assets.lake.spark import Workshop
    from backfill_assets.lake.too_late import release, waiting

    if not note.strip():
        raise click.BadParameter("say why, in a few words", param_hint="--note")
    days, lake = inclusive(first, last), open_lake(lake_root())
    if dry_run:
        _draw_late(waiting(lake, days.start, days.last), "would count")
        return
    others = {(name, day) for name, found in _needed(lake).items() for day in found}
    with load_lock(lake.locks):
        released = release(Workshop(lake), days.start, days.last, note.strip())
    if not as_json:
        _draw_late(released, "count now")
    _report(_until_settled(lake, note.strip(), "replay-late", others), as_json)


def _draw_late(found: Mapping[tuple[date, date], int], verb: str) -> None:
    if not found:
        click.echo("Nothing is kept in too_late for these days.")
        return
    rows = [[str(d), str(a), number(n)] for (a, d), n in sorted(found.items(), key=lambda item: item[0][::-1])]
    draw_table(["event day", "arrived", "rows"], rows)
    click.echo(f"{number(sum(found.values()))} row(s) that came too late {verb}.")


def _scan(lake: "Lake") -> None:
    from backfill_assets.lake.lock import load_lock
    from backfill_assets.lake.scan import scan
    from backfill_assets.lake.spark import Workshop

    with load_lock(lake.locks):
        report = scan(Workshop(lake))
    for path in (*report.altered, *report.missing):
        aside(f"{path} is altered or missing: the days made from it are left alone (see `backfill-assets scan`)")


def _needed(lake: "Lake") -> Mapping[str, frozenset[date]]:
    from backfill_assets.core.needs import needed_days
    from backfill_assets.lake.view import read_view

    _, pipeline = opened()
    return needed_days(pipeline.states(read_view(lake, pipeline.contracts)), datetime.now(UTC).date())


def _until_settled(lake: "Lake", note: str, reason: str, left_alone: Settled) -> CaughtUp:
    """Run request after request, looking anew after each; a request that changed nothing is not repeated."""
    from backfill_assets.cli.backfill import work

    done, tried = CaughtUp(), set[str]()
    while True:
        found = next((ask for ask in _asks(lake, left_alone) if ask.key not in tried), None)
        if found is None:
            break
        tried.add(found.key)
        asked = Asked(found.days, (found.table,), note=note, reason=reason)
        done.runs.append((asked, work(lake, asked)))
    left = {n: sorted(str(d) for d in days if (n, d) not in left_alone) for n, days in _needed(lake).items()}
    done.left = {n: days for n, days in left.items() if days}
    return done


def _asks(lake: "Lake", left_alone: Settled) -> "Iterator[Ask]":
    """Today's requests, upstream first."""
    from backfill_assets.core.needs import needs
    from backfill_assets.core.requests import asks
    from backfill_assets.lake.view import read_view

    _, pipeline = opened()
    states = pipeline.states(read_view(lake, pipeline.contracts))
    found = needs(states, {}, datetime.now(UTC).date())
    for name, days in found.ready.items():
        wanted = [d for d in days if (name, d) not in left_alone]
        yield from asks(states, name, wanted, {}, 1, frozenset())[0]


def _tell_first(lake: "Lake", as_json: bool) -> None:
    wanted = [f"{ask.table} {ask.days}" for ask in _asks(lake, ())]
    if as_json:
        print_json({"would_run_first": wanted})
        return
    for line in wanted:
        click.echo(f"would run  {line}")
    click.echo(f"{len(wanted)} run(s) first; what follows from them is known once they are done.")


def _report(done: CaughtUp, as_json: bool) -> None:
    if as_json:
        runs = [{"days": str(a.days), "reason": a.reason, **o.to_dict()} for a, o in done.runs]
        print_json({"runs": runs, "left": done.left})
    else:
        _draw(done)
    for asked, outcome in done.runs:
        if not outcome.success:
            aside(f"Error: {', '.join(asked.tables)} {asked.days}: {outcome.cause}")
    for name, days in done.left.items():
        aside(f"Error: {name}: {len(days)} day(s) from {days[0]} still need making")
    if not done.success:
        click.get_current_context().exit(1)


def _draw(done: CaughtUp) -> None:
    rows = [
        [t.table, str(asked.days), str(t.changed), str(t.days - t.changed), number(t.rows), f"{t.seconds:.1f} s"]
        for asked, outcome in done.runs
        for t in outcome.tables
        if not t.cause
    ]
    if rows:
        draw_table(["table", "days", "changed", "unchanged", "rows", "took"], rows)
    if not done.runs:
        click.echo("Nothing to do: every day that can be is up to date.")
