"""A publication that is killed at any moment: readers see all old or all new days, and doing it
again ends it.

Tested here: `candidates.publications.publish_candidate_days` in a process of its own, killed. Not tested here:
what it changes (`candidates.test_candidates`).
"""

import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets.candidates.publications import publish_candidate_days
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.versions import record_versions, unfinished_switches
from backfill_assets.kernel.tables.view import settled_view
from backfill_assets.plans.rollback import RollbackRequest, roll_back
from backfill_assets_tests.builders import day
from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.candidates.conftest import beside
from backfill_assets_tests.planned import BUILT, DAYS, Planned

__all__ = ["beside"]  # a fixture

pytestmark = pytest.mark.usefixtures("storages", "processes")
KILLED = """
import os, sys
from pathlib import Path
from backfill_assets.kernel.tables import versions
from backfill_assets.kernel.write import replace
from backfill_assets.candidates.publications import publish_candidate_days
from backfill_assets_tests.candidate_world import CandidateWorld
beside, left = CandidateWorld.reopened(Path(sys.argv[1])), [int(sys.argv[3])]
function = {"commit": replace.replace_days_locked, "entry": versions.live_runs}[sys.argv[2]]
def trace(frame, event, _):
    if frame.f_code is function.__code__:
        left[0] -= 1
        if not left[0]:
            os._exit(9)
sys.settrace(trace)
publish_candidate_days(beside.request(), act=True)
"""


def seen(beside: CandidateWorld) -> list[list[int]]:
    """The values of each table that a reader of both sees."""
    view = settled_view(beside.made.lake, beside.made.pipeline.contracts)
    return [beside.made.values(t, view.table(t).version) for t in BUILT]


@pytest.mark.parametrize("is_finished", [True, False])
@pytest.mark.parametrize(
    ("step", "number", "commits"), [("commit", 1, 0), ("commit", 2, 1), ("entry", 2, 2)]
)
def test_nothing_but_itself_ends_a_publication_that_was_killed_at_any_commit(
    tmp_path: Path, step: str, number: int, commits: int, is_finished: bool
) -> None:
    beside = CandidateWorld.of(Planned(tmp_path / "lake"), *BUILT)
    made, lake = beside.made, beside.made.lake
    made.chunk(1, (3,), 2)  # of a plan that has nothing to do with it
    beside.build_all(5)
    record_versions(lake, made.pipeline.contracts, "as it was made")
    before, after = seen(beside), [[5] * DAYS] * len(BUILT)
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(made.root), step, str(number)], check=False
    )
    assert child.returncode == 9
    stopped = unfinished_switches(lake)
    assert (seen(beside), len(stopped)) == (before, int(commits > 0))
    others = (
        lambda: publish_candidate_days(beside.request(days=DayRange(day(1), day(3))), act=True),
        lambda: roll_back(
            lake, made.pipeline, RollbackRequest(plan="p1", over_newer=True), Provenance("")
        ),
    )
    for other in others if stopped else ():
        with pytest.raises(
            BackfillError, match=r"publish v2 was stopped: .* Finish it with .*Nothing was written"
        ):
            other()
        record_versions(lake, made.pipeline.contracts, "a run")
        assert (seen(beside), unfinished_switches(lake)) == (before, stopped)
    if is_finished:
        publish_candidate_days(beside.request(), act=True)
    elif stopped:
        roll_back(lake, made.pipeline, RollbackRequest(plan=stopped[0].id), Provenance(""))
    assert (seen(beside), unfinished_switches(lake)) == (after if is_finished else before, ())
