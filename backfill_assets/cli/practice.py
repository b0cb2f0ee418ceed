"""`backfill-assets demo`, `example`, `guide`, `lab` and `drill`: lakes and texts to learn from, faults against a clock.

Not here: making lakes (`operations.example_lakes`), the texts (`guides/*.md`), the labs, the faults and the score
(`labs`), and a lake of one's own (`init`).
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import click

from backfill_assets.cli.backfill import allowed, work
from backfill_assets.cli.common import DAY, FILE, json_and_lake, lake_root, opened, print_json, wants_json
from backfill_assets.cli.drawing import (
    Page,
    PageSection,
    TextTable,
    draw_table,
    html_of,
    number,
    remark,
    say,
    write_whole,
)
from backfill_assets.cli.output import answer
from backfill_assets.cli.progress import RunOutcome
from backfill_assets.core.clock import utc_today
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError, SettingsError, refuse_unknown
from backfill_assets.core.ownership import refuse_foreign
from backfill_assets.core.plans import Work
from backfill_assets.engine.confs import OWN_SERVERS, scrub
from backfill_assets.engine.server import stop_server
from backfill_assets.labs.model import LABS, LabStep, run_lab
from backfill_assets.lake.home import Lake
from backfill_assets.lake.settings import load_settings
from backfill_assets.lake.view import Known
from backfill_assets.operations import example_lakes as samples
from backfill_assets.operations.example_lakes import FEWEST_DAYS, MARKER, STEPS, examples, make_example
from backfill_assets.operations.rejected import kinds, refused_rows
from backfill_assets.operations.status import DayStatus, StatusReport, status


@click.command()
@click.option("--new", is_flag=True, help="Replace the sample lake by a fresh one.")
@click.option("--days", type=click.IntRange(FEWEST_DAYS, 366), default=30, show_default=True, help="Of a fresh sample.")
@click.option("--to", "last", type=DAY, help="Last day of a fresh sample. [default: yesterday]")
@click.option("--engine", type=click.Choice(OWN_SERVERS), help="Of a fresh sample; embedded (Spark) unless said.")
@json_and_lake
@click.pass_context
def demo(ctx: click.Context, new: bool, days: int, last: date | None, engine: str | None) -> None:
    """Make a sample lake (unless there is one), load all of it through Dagster, twice."""
    stop = last + ONE_DAY if last else utc_today()
    span = prepare(lake_root(), allowed(samples.days_until(stop, days), date.min), new, engine)
    lake, pipeline = opened()
    outcomes = []
    for title in ("Every table over every day:", "The same again: nothing changes:"):
        remark(title)
        outcomes.append(work(Known(lake, pipeline), Work(span, tuple(t.name for t in pipeline.tables), note="demo")))
        if not outcomes[-1].success:
            remark(f"Error: {outcomes[-1].cause}")
            ctx.exit(1)
    report = status(lake, pipeline, span)
    refused = refused_rows(lake, "")
    document = {"lake": lake.address, "runs": outcomes, "quarantine": refused, "status": report}
    answer(document, [partial(_draw, lake, report, refused, outcomes)])


def prepare(root: Path, days: DayRange, new: bool, engine: str | None = None) -> DayRange:
    """Return the days of the sample lake at `root`, first made over `days` if there is none; a lake without the
    sample's marker is left alone. Raises SettingsError for another's lake, and for one that was made with another
    engine than `engine`."""
    refuse_foreign(root)
    known = samples.sample_days(root)
    if known is None and root.exists() and any(root.iterdir()):
        raise samples.not_ours(root)
    if known is not None and not new:
        if engine not in (None, has := load_settings(root).spark.engine):
            raise SettingsError(
                f"the sample lake {root}", f"its engine is {scrub(has)}, not {engine}", "Nothing was done",
                f'Add --new for a fresh one, or set engine = "{engine}" in its lake.toml: its days stay as they are',
            )  # fmt: skip
        remark(f"The sample lake {root} holds {known}; `--new` makes a fresh one.")
        return known
    if known is not None:
        _remove(root)
    samples.make_sample(root, days, engine or "embedded")
    remark(f"Made the sample lake {root}: {days}, {len(days)} days.")
    return days


def _remove(root: Path) -> None:
    """Remove the old sample, its server first and its marker last: an interrupted removal can be done again."""
    stop_server(root)
    for path in sorted(root.iterdir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()
    (root / MARKER).unlink()


def _draw(lake: Lake, report: StatusReport, refused: dict[str, int], outcomes: list[RunOutcome]) -> None:
    from backfill_assets.cli.dagster_home import lake_words

    lines: list[tuple[DayStatus, ...]] = list(zip(*report.tables.values(), strict=True))
    rows: list[list[object]] = [[line[0].day, *(_cell(d) for d in line)] for line in lines]
    rows.append(["all", *(sum(d.rows or 0 for d in column) for column in report.tables.values())])
    draw_table(["rows of", *report.tables], rows)
    click.echo()
    draw_table(["lines", "in quarantine because"], [[n, reason] for reason, n in kinds(refused).shown])
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
    words, table, day = lake_words(lake), [*report.tables][:2][-1], lines[-1][0].day
    week = f"--from {max(lines[0][0].day, day - timedelta(days=6))} --to {day}"
    click.echo(f"See both runs in Dagster:  backfill-assets {words}ui")
    click.echo(f"Look at any day:           backfill-assets {words}show {table} {day}")
    click.echo(f"Correct a week:            backfill-assets {words}plan {week} --tables {table} --force")


def _cell(day: DayStatus) -> str:
    """Return the rows, and the state where it is not fresh."""
    return number(day.rows) if day.state.value == "fresh" else f"{day.state.value} {number(day.rows)}"


@click.command()
@click.argument("name", required=False)
@json_and_lake
def example(name: str | None) -> None:
    """List the lakes to learn from, or make the one called NAME in the folder of --lake, which must be empty.

    Each tells in its STEPS.md what it shows, which commands to run, and what comes out.
    """
    known = examples()
    if name is None:
        hint = "`backfill-assets example NAME --lake DIR` makes one; its STEPS.md leads through it."
        answer(known, [TextTable(("example", "shows"), [*known.items()]), hint])
        return
    root = lake_root()
    make_example(name, root)
    read = f"Read {root / STEPS}: it begins in an empty folder, by making this lake under a name of its own."
    document = {"example": name, "lake": str(root), "steps": str(root / STEPS)}
    answer(document, [f"made {root}: {known[name]}", read])


@click.command()
@click.argument("name", required=False)
@click.option("--html", type=FILE, help="Also write the lab as one page.")
@json_and_lake
def lab(name: str | None, html: Path | None) -> None:
    """List the labs, or run the one called NAME: it makes a lake of its own, and deletes it at its end.

    Every step that says WRONG is the unsafe form, which really ran.
    """
    if name is None:
        answer(LABS, [TextTable(("lab", "shows"), [*LABS.items()])])
        return
    done = []
    with tempfile.TemporaryDirectory(prefix="backfill-assets-lab-") as folder:
        for step in run_lab(name, Path(folder) / "lake"):
            done.append(step)
            if not wants_json():
                click.secho(f"\n{step.title or step.form}", bold=True)
                for line in step.text.splitlines():
                    say(line)
                _section(step).draw()
    if html:
        page = Page(f"lab {name}", LABS[name], "a lake of its own", [_section(s) for s in done])
        write_whole(html, html_of(page))
    answer({"lab": name, "steps": [{**vars(s), "holds": s.holds} for s in done]})


def _section(step: LabStep) -> PageSection:
    tables = [TextTable(step.columns, step.rows)] if step.columns else []
    is_code = "\n" in step.text
    return PageSection(
        step.title or step.form, tables, [step.verdict] if step.form else [], about=[] if is_code else [step.text],
        code=step.text if is_code else "",
    )  # fmt: skip


@click.command()
@click.argument("name", required=False)
@click.option("--seconds", type=click.IntRange(1), default=300, show_default=True, help="The time there is.")
@click.option("--sample", is_flag=True, help="Drill on a sample lake, not on a copy of the lake.")
@click.option("--plant-only", is_flag=True, help="Make the copy, plant the fault, name both, and leave them.")
@json_and_lake
def drill(name: str | None, seconds: int, sample: bool, plant_only: bool) -> None:
    """List the drills, or plant the fault NAME in a copy of the lake (a sample if there is none), to be mended in
    another terminal. The lake itself is only read. Exit code 1 if the copy was not well in time.
    """
    from backfill_assets.labs.drills import PLANTS
    from backfill_assets.labs.practice import Desk, Watch, drill_lake, practise

    if name is None:
        known = {plant: (function.__doc__ or "").strip() for plant, function in PLANTS.items()}
        answer(known, [TextTable(("drill", "fault"), [*known.items()])])
        return
    refuse_unknown("drill", [name], PLANTS, "Nothing was planted")
    folder = Path(tempfile.mkdtemp(prefix="backfill-assets-drill-"))
    try:
        watch = Watch(drill_lake(None if sample else lake_root(), folder / "lake"))
        planted = watch.plant(PLANTS[name])
    except BackfillError:
        shutil.rmtree(folder)
        raise
    if plant_only:
        print_json({"copy": watch.root, "symptom": planted.symptom, "hints": planted.hints})
        return
    score = practise(watch, Desk(_reader(), remark), seconds)
    figures = {**vars(score), "points": score.points}
    answer(figures, [TextTable(["figure", "value"], [*figures.items()])])
    remark(f"The copy stays, as commands may still work on it: delete {folder} when you are done.")
    if score.mended_s is None:
        click.get_current_context().exit(1)


def _reader() -> Callable[[], str]:
    """Return a function that gives the next line of the person, "" if none comes within a second."""
    lines = Queue[str]()

    def listen() -> None:
        """Run in a thread, which ends with the process."""
        for line in sys.stdin:
            lines.put(line)

    def read() -> str:
        """Wait a second at most."""
        with suppress(Empty):
            return lines.get(timeout=1.0)
        return ""

    Thread(target=listen, daemon=True).start()
    return read


FOLDER = Path(__file__).parent.parent / "guides"
FIRST = (  # the order in which a newcomer reads them; all others follow by name
    "first-lake", "own-files", "as-others-write", "full-dumps", "several-sources", "own-tables", "late-data",
    "correcting-the-past", "trust", "production", "servers", "in-your-project", "your-spark", "how-it-works",
)  # fmt: skip


def guides() -> dict[str, Path]:
    """Return the file of every guide by its name, `FIRST` first."""
    files = {path.stem: path for path in sorted(FOLDER.glob("*.md"))}
    names = [name for name in FIRST if name in files]
    return {name: files[name] for name in (*names, *(n for n in files if n not in FIRST))}


@click.command()
@click.argument("name", required=False)
@json_and_lake
def guide(name: str | None) -> None:
    """List the guides, or print the one called NAME as Markdown, without a pager.

    A test runs the commands of every guide and compares what they print with what the guide shows.
    """
    known = guides()
    if name is None:
        titles = {n: path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for n, path in known.items()}
        answer(titles, [TextTable(("guide", "about"), [*titles.items()]), "`backfill-assets guide NAME` prints one."])
        return
    refuse_unknown("guide", [name], known, "Nothing was printed")
    text = known[name].read_text(encoding="utf-8")
    answer({"guide": name, "text": text}, [partial(click.echo, text, nl=False)])
