"""`backfill-assets guide`, `lab` and `drill`: guides, unsafe forms that fail beside safe ones,
faults against a clock.

Not here: the texts (`guides/*.md`), the labs, the faults and the score (`learn.practice`), and
lakes to try on (`demo`).
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, TypedDict

import click

from backfill_assets.cli.common import FILE, json_and_lake, lake_root, print_json, wants_json
from backfill_assets.cli.drawing import (
    Page,
    PageSection,
    TextTable,
    html_of,
    remark,
    say,
    write_file_whole,
)
from backfill_assets.cli.output import write_answer
from backfill_assets.kernel.core.errors import BackfillError, refuse_unknown_names
from backfill_assets.learn.lab import LABS, LabStep, run_lab


class LabStepForm(TypedDict):
    """A step of a lab; what its form gave is open by nature."""

    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    form: str
    expected: Any
    found: Any
    holds: bool


class DoneLab(TypedDict):
    """A lab that was run."""

    lab: str
    steps: Sequence[LabStepForm]


class PlantedCopy(TypedDict):
    """A copy of a lake with a fault, which is left to you."""

    copy: str
    symptom: str
    hints: Sequence[str]


class ScoreForm(TypedDict):
    """The score of a drill."""

    limit: float
    planted: int
    seen_s: float | None
    mended_s: float | None
    wrong_rows: int
    needless: int
    hints: int
    wrong_guesses: int
    points: int


class GuideText(TypedDict):
    """A guide in Markdown."""

    guide: str
    text: str


# Without a name, a line about each by its name.
LabAnswer = dict[str, str] | DoneLab
DrillAnswer = dict[str, str] | PlantedCopy | ScoreForm
GuideAnswer = dict[str, str] | GuideText


@click.command()
@click.argument("name", required=False)
@click.option("--html", type=FILE, help="Also write the lab as one page.")
@json_and_lake
def lab(name: str | None, html: Path | None) -> None:
    """List the labs, or run the one called NAME: it makes a lake of its own, and deletes it at its
    end.

    Every step that says WRONG is the unsafe form, which really ran.
    """
    if name is None:
        write_answer(LABS, [TextTable(("lab", "shows"), [*LABS.items()])])
        return
    done = []
    with tempfile.TemporaryDirectory(prefix="backfill-assets-lab-") as folder:
        for step in run_lab(name, Path(folder) / "lake"):
            done.append(step)
            if not wants_json():
                click.secho(f"\n{step.title or step.form}", bold=True)
                for line in step.text.splitlines():
                    say(line)
                _step_section(step).draw()
    if html:
        page = Page(
            command=f"lab {name}",
            title=LABS[name],
            lake="a lake of its own",
            sections=[_step_section(s) for s in done],
        )
        write_file_whole(html, html_of(page))
    write_answer({"lab": name, "steps": [{**vars(s), "holds": s.holds} for s in done]})


def _step_section(step: LabStep) -> PageSection:
    tables = [TextTable(step.columns, step.rows)] if step.columns else []
    lines = [step.verdict] if step.form else []
    title = step.title or step.form
    if "\n" in step.text:
        return PageSection(title, tables, lines, about=[], code=step.text)
    return PageSection(title, tables, lines, about=[step.text], code="")


@click.command()
@click.argument("name", required=False)
@click.option(
    "--seconds", type=click.IntRange(1), default=300, show_default=True, help="The time there is."
)
@click.option("--sample", is_flag=True, help="Drill on a sample lake, not on a copy of the lake.")
@click.option(
    "--plant-only", is_flag=True, help="Make the copy, plant the fault, name both, and leave them."
)
@json_and_lake
def drill(name: str | None, seconds: int, sample: bool, plant_only: bool) -> None:
    """List the drills, or plant the fault NAME in a copy of the lake (a sample if there is none),
    to be mended in another terminal. The lake itself is only read. Exit code 1 if the copy was not
    well in time.
    """
    from backfill_assets.learn.drills import PLANTS
    from backfill_assets.learn.practice import Desk, Watch, drill_lake, run_drill

    if name is None:
        known = {plant: (function.__doc__ or "").strip() for plant, function in PLANTS.items()}
        write_answer(known, [TextTable(("drill", "fault"), [*known.items()])])
        return
    refuse_unknown_names("drill", [name], PLANTS, "Nothing was planted")
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
    score = run_drill(watch, Desk(_line_reader(), remark), seconds)
    figures = {**vars(score), "points": score.points}
    write_answer(figures, [TextTable(["figure", "value"], [*figures.items()])])
    remark(f"The copy stays, as commands may still work on it: delete {folder} when you are done.")
    if score.mended_s is None:
        click.get_current_context().exit(1)


def _line_reader() -> Callable[[], str]:
    """Return a function that gives the next line of the person, "" if none comes within a
    second."""
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


GUIDES_FOLDER = Path(__file__).parent.parent / "guides"
FIRST = (  # the order in which a newcomer reads them; all others follow by name
    "first-lake",
    "own-files",
    "as-others-write",
    "full-dumps",
    "several-sources",
    "own-tables",
    "late-data",
    "correcting-the-past",
    "trust",
    "production",
    "servers",
    "in-your-project",
    "your-spark",
    "how-it-works",
)


def guide_files() -> dict[str, Path]:
    """Return the file of every guide by its name, `FIRST` first."""
    files = {path.stem: path for path in sorted(GUIDES_FOLDER.glob("*.md"))}
    first = [name for name in FIRST if name in files]
    return {name: files[name] for name in dict.fromkeys((*first, *files))}


@click.command()
@click.argument("name", required=False)
@json_and_lake
def guide(name: str | None) -> None:
    """List the guides, or print the one called NAME as Markdown, without a pager.

    A test runs the commands of every guide and compares what they print with what the guide shows.
    """
    known = guide_files()
    if name is None:
        titles = {
            n: path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            for n, path in known.items()
        }
        write_answer(
            titles,
            [
                TextTable(("guide", "about"), [*titles.items()]),
                "`backfill-assets guide NAME` prints one.",
            ],
        )
        return
    refuse_unknown_names("guide", [name], known, "Nothing was printed")
    text = known[name].read_text(encoding="utf-8")
    write_answer({"guide": name, "text": text}, [partial(click.echo, text, nl=False)])
