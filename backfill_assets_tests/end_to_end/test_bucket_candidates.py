"""Candidates and frozen code of a lake in a bucket: made, built, published and discarded, from any
machine.

Lives here: that nothing of them needs a folder that two machines share. Does not live here: what a
candidate is (`candidates.test_candidates`, `test_candidate`), and older code of plans in a folder
(`plans.test_code`).
"""

from pathlib import Path

import pytest

from backfill_assets.candidates.candidates import (
    candidate_names,
    candidate_status,
    create_candidate,
    discard_candidate,
)
from backfill_assets.candidates.publications import PublishRequest, publish_candidate_days
from backfill_assets.kernel.core.addresses import CANDIDATES
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.end_to_end.test_bucket_lake import in_bucket
from backfill_assets_tests.end_to_end.test_invariance import RULES, assert_same
from backfill_assets_tests.end_to_end.worlds import World, span

pytestmark = pytest.mark.long


@pytest.mark.slow
def test_a_candidate_of_a_lake_in_a_bucket_is_built_by_one_machine_and_published_by_another(
    spark: object, bucket_address: str, tmp_path: Path
) -> None:
    folder, (one, two) = in_bucket(bucket_address, tmp_path, "one", "two")
    for world in (folder, one):
        world.backfill(span(RULES))

    lake, pipeline = one.open()
    there = create_candidate(lake.lake, pipeline, "v2", ("features",), lambda path: (path,))
    World(there.root).backfill(span(RULES), "features")
    lake, pipeline = two.open()
    assert candidate_names(lake.lake) == ["v2"]
    found = candidate_status(lake.lake, "v2", chosen_pipeline)
    assert (found.error, found.behind, len(found.tables["features"])) == ("", {}, len(span(RULES)))
    (two.root / CANDIDATES / "v2" / ".dagster").mkdir(parents=True)
    candidate, candidate_pipeline = World(two.root / CANDIDATES / "v2").open()
    published = publish_candidate_days(
        PublishRequest(lake.lake, pipeline, candidate.lake, candidate_pipeline), act=True
    )
    assert [t.same for t in published.tables] == [len(span(RULES))]
    assert_same(one, folder)
    discard_candidate(lake.lake, "v2")
    assert place_at(one.root).below(CANDIDATES) == []
    assert not (two.root / CANDIDATES / "v2").exists(), "nor does this machine keep its run history"
    assert_same(two, folder)
