"""Makes the README's pictures anew: `python -m backfill_assets_tests.browser.pictures`. A few
minutes, one Chromium.

Lives here: which pages are shown and how small they are made. Does not live here: the clicks (`ui`)
and the site (`site`).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from backfill_assets_tests.browser.site import Site, site
from backfill_assets_tests.browser.ui import LOCATION, Ui, browser
from backfill_assets_tests.processes import CHECKOUT

PICTURES = CHECKOUT / ".pictures"
COLOURS = 256  # of a palette: pages have few colours, and a picture stays below 100 kB
MIDDLE_PANE = (
    240,
    400,
    1040,
    1100,
)  # of an asset's page: the plots, without the lake's folder beside them
WIDTH_PX = 1100


def main() -> None:
    """Start a sample site, look at three pages, write three pictures."""
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        browser() as opened,
        site(Path(folder)) as running,
    ):
        ui = Ui(opened.new_page(viewport={"width": 1400, "height": 800}), running.url)
        ui.go(f"/locations/{LOCATION}/asset-groups/lake")
        small(ui.shot("lineage"), "lineage")
        ui.go("/assets/raw")
        ui.page.set_viewport_size({"width": 1400, "height": 1100})
        ui.page.get_by_text("Plots", exact=True).first.click()
        ui.settle()
        small(ui.shot("plots"), "plots", MIDDLE_PANE)
        ui.page.set_viewport_size({"width": 1200, "height": 1000})
        ui.page.goto(_report(running, Path(folder)).as_uri())
        ui.page.add_style_tag(content=".lake { display: none }")  # a folder of this machine
        small(ui.shot("report"), "report")


def _report(running: Site, folder: Path) -> Path:
    file = folder / "report.html"
    command = [
        sys.executable,
        "-m",
        "backfill_assets",
        "--lake",
        str(running.lake.root),
        "report",
        "--html",
        str(file),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return file


def small(shot: Path, name: str, box: tuple[int, int, int, int] | None = None) -> None:
    """A screenshot, or the `box` of it (left, top, right, bottom), as a picture of the README: a
    palette, few bytes."""
    with Image.open(shot) as full:
        part = full.crop(box) if box else full
        width = min(WIDTH_PX, part.width)
        shown = part.convert("RGB").resize((width, round(part.height * width / part.width)))
        shown.quantize(COLOURS).save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
