"""`backfill-assets lab`: an unsafe form that fails beside the safe one, on a throw-away lake; terminal, JSON or a page.

Not here: the labs (`labs`).
"""

import tempfile
from pathlib import Path

import click

from backfill_assets.cli.common import FILE, json_and_lake, print_json
from backfill_assets.cli.drawing import Page, PageSection, TextTable, draw_table, html_of, say, write_whole
from backfill_assets.labs.model import LABS, LabStep, run_lab


@click.command()
@click.argument("name", required=False)
@click.option("--html", type=FILE, help="Also write the lab as one page.")
@json_and_lake
def lab(name: str | None, html: Path | None, as_json: bool) -> None:
    """List the labs, or run the one called NAME: it makes a lake of its own, and deletes it at its end.

    Every step that says WRONG is the unsafe form, which really ran.
    """
    if name is None:
        if as_json:
            print_json(LABS)
        else:
            draw_table(["lab", "shows"], list(LABS.items()))
        return
    done = []
    with tempfile.TemporaryDirectory(prefix="backfill-assets-lab-") as folder:
        for step in run_lab(name, Path(folder) / "lake"):
            done.append(step)
            if not as_json:
                _draw(step)
    if html:
        page = Page(f"lab {name}", LABS[name], "a lake of its own", [_section(s) for s in done])
        write_whole(html, html_of(page))
    if as_json:
        print_json({"lab": name, "steps": [{**vars(s), "holds": s.holds} for s in done]})


def _section(step: LabStep) -> PageSection:
    tables = [TextTable(step.columns, step.rows)] if step.columns else []
    is_code = "\n" in step.text
    return PageSection(
        step.title or step.form, tables, [step.verdict] if step.form else [], about=[] if is_code else [step.text],
        code=step.text if is_code else "",
    )  # fmt: skip


def _draw(step: LabStep) -> None:
    click.secho(f"\n{step.title or step.form}", bold=True)
    for line in step.text.splitlines():
        say(line)
    _section(step).draw()
