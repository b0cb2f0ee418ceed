"""Makes the README's pictures anew: `python -m backfill_assets_tests.browser.pictures`. A few minutes, one Chromium.

Lives here: which pages are shown and how small they are made. Does not live here: the clicks (`ui`) and the site
(`site`).
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
COLOURS = 64  # of a palette: pages have few colours, and a picture stays below 100 kB
WIDTH_PX = 1100


def main() -> None:
    """Start a sample site, look at three pages, write three pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as opened, site(Path(folder)) as running:
        ui = Ui(opened.new_page(viewport={"width": 1400, "height": 800}), running.url)
        ui.go(f"/locations/{LOCATION}/asset-groups/lake")
        small(ui.shot("lineage"), "lineage")
        ui.go("/assets/raw")
        ui.page.get_by_text("Plots", exact=True).first.click()
        ui.settle()
        small(ui.shot("plots"), "plots")
        ui.page.set_viewport_size({"width": 1200, "height": 1000})
        ui.page.goto(_report(running, Path(folder)).as_uri())
        small(ui.shot("report"), "report")


def _report(running: Site, folder: Path) -> Path:
    file = folder / "report.html"
    command = [sys.executable, "-m", "backfill_assets", "--lake", str(running.lake.root), "report", "--html", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return file


def small(shot: Path, name: str) -> None:
    """A screenshot as a picture of the README: narrower, with a palette."""
    with Image.open(shot) as full:
        height = round(full.height * WIDTH_PX / full.width)
        full.convert("RGB").resize((WIDTH_PX, height)).quantize(COLOURS).save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
