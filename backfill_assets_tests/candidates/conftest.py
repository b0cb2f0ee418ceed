"""A candidate beside a lake, for the tests of this room.

Here: the fixture alone. Not here: the candidate's world (`candidate_world`).
"""

import pytest

from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.planned import BUILT, Planned


@pytest.fixture
def beside(made: Planned) -> CandidateWorld:
    """A candidate beside the lake with the plan p1."""
    return CandidateWorld.of(made, *BUILT)
