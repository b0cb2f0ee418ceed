"""`backfill-assets guide`: the titles of the guides, or the text of one.

Not here: their texts (`guides/*.md`), and lakes to try them on (`demo`).
"""

from pathlib import Path

import click

from backfill_assets.cli.common import json_and_lake, print_json
from backfill_assets.cli.drawing import draw_table
from backfill_assets.core.errors import SettingsError

FOLDER = Path(__file__).parent.parent / "guides"
FIRST = (  # the order in which a newcomer reads them; all others follow by name
    "first-lake", "own-files", "several-sources", "own-tables", "late-data", "correcting-the-past", "trust",
    "production", "beside-what-you-have", "how-it-works",
)  # fmt: skip


def guides() -> dict[str, Path]:
    """Return the file of every guide by its name, those of `FIRST` first."""
    found = {path.stem: path for path in sorted(FOLDER.glob("*.md"))}
    names = [name for name in FIRST if name in found]
    return {name: found[name] for name in (*names, *(n for n in found if n not in FIRST))}


@click.command()
@click.argument("name", required=False)
@json_and_lake
def guide(name: str | None, as_json: bool) -> None:
    """List the guides, or print the one called NAME as Markdown, without a pager.

    A test runs the commands of every guide and compares what they print with what the guide shows.
    """
    known = guides()
    if name is None:
        titles = {n: path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for n, path in known.items()}
        if as_json:
            print_json(titles)
            return
        draw_table(["guide", "about"], list(titles.items()))
        click.echo("`backfill-assets guide NAME` prints one.")
        return
    if name not in known:
        raise SettingsError(
            f"the guide {name!r}",
            "there is none of that name",
            "Nothing was printed",
            f"Take one of {', '.join(known)}",
        )
    text = known[name].read_text(encoding="utf-8")
    if as_json:
        print_json({"guide": name, "text": text})
    else:
        click.echo(text, nl=False)
