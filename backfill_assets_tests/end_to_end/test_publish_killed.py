"""A publication that is killed at any moment: readers see all old or all new days, and doing it again ends it.

Tested here: `operations.publications.publish` in a process of its own, killed. Not tested here: what it changes
(`operations.test_candidates`).
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from backfill_assets.lake.versions import unfinished
from backfill_assets.lake.view import settled_view
from backfill_assets.operations.publications import publish
from backfill_assets_tests.operations.beside import Beside
from backfill_assets_tests.operations.planned import BUILT, DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages", "processes")

PUBLISHING = """
import sys
from pathlib import Path
from backfill_assets.operations.publications import publish
from backfill_assets_tests.operations.beside import Beside
beside = Beside.reopened(Path(sys.argv[1]))
print("ready", flush=True)
publish(beside.request(), act=True)
print("done", flush=True)
"""


def seen(beside: Beside) -> list[list[int]]:
    """The values of each table that a reader of both sees."""
    view = settled_view(beside.made.lake, beside.made.pipeline.contracts)
    return [beside.made.values(t, view.table(t).version) for t in BUILT]


def test_a_publication_killed_at_any_moment_is_seen_whole_or_not_at_all_and_is_done_by_the_next_one(
    tmp_path: Path,
) -> None:
    beside = Beside.of(Planned(tmp_path / "lake"), *BUILT)
    ended = 0
    for value, delay in enumerate((0.0, 0.02, 0.04, 0.06, 0.09, 0.13, 0.2), 2):
        before = seen(beside)
        beside.build_all(value)
        child = subprocess.Popen(
            [sys.executable, "-c", PUBLISHING, str(beside.made.root)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)  # the moment of the kill, not a wait for something
        child.kill()
        child.wait()
        ended += child.stdout.read() == "done\n"
        after = [[value] * DAYS] * len(BUILT)
        assert seen(beside) in (before, after)
        publish(beside.request(), act=True)
        assert (seen(beside), unfinished(beside.made.lake)) == (after, ())
    assert ended < 7, "none was killed in time"
