"""New features beside the old ones, published at once: the lake is then as if it had been built by
them from the start.

Tested here: `candidates.candidates` with the engine. Not tested here: refusals and rollbacks
(`candidates.test_candidates`).
"""

from pathlib import Path
from typing import Any

import pytest

from backfill_assets.candidates.candidates import create_candidate
from backfill_assets.candidates.publications import PublishRequest, publish_candidate_days
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.lakes import backfill, configure, content, delivery, make_lake, snapshot

pytestmark = [pytest.mark.users_do, pytest.mark.usefixtures("spark")]
FIRST, LAST = "2024-03-01", "2024-03-06"
DELIVERIES = [
    delivery(
        n,
        f"2024-03-0{1 + n % 6}T12:00:00Z",
        None,
        f"k{n}",
        entity="AB"[n % 2],
        value=n,
        flag=n % 3 % 2,
    )
    for n in range(24)
]
WIDER: dict[str, Any] = {"features": {"windows_days": [2, 4]}}
OWN = ("features", "features_as_known", "labels", "training")


def request(lake: Lake, candidate: Lake) -> PublishRequest:
    lake, candidate = open_lake(lake.root), open_lake(candidate.root)
    return PublishRequest(lake, chosen_pipeline(lake), candidate, chosen_pipeline(candidate))


def test_a_published_candidate_leaves_the_lake_as_if_it_had_been_built_so(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", DELIVERIES, FIRST)
    backfill(lake, FIRST, LAST)
    old = content(lake, "features")
    with pytest.raises(
        BackfillError, match="labels is made from one of these tables, and another of them reads it"
    ):
        create_candidate(
            lake,
            chosen_pipeline(lake),
            "wider",
            [t for t in OWN if t != "labels"],
            lambda path: (path,),
        )
    candidate = create_candidate(lake, chosen_pipeline(lake), "wider", OWN, lambda path: (path,))
    candidate = configure(candidate.root, FIRST, **WIDER)
    backfill(candidate, FIRST, LAST, OWN)
    assert content(lake, "features") == old, "nothing of the lake moved"
    with pytest.raises(BackfillError, match="code or settings of features are others in the lake"):
        publish_candidate_days(request(lake, candidate), act=True)
    configure(lake.root, FIRST, **WIDER)
    publish_candidate_days(request(lake, candidate), act=True)
    assert content(lake, "features") != old

    right = make_lake(tmp_path / "right", DELIVERIES, FIRST, **WIDER)
    backfill(right, FIRST, LAST)
    assert snapshot(open_lake(lake.root)) == snapshot(right)
    again = backfill(open_lake(lake.root), FIRST, LAST)
    assert {name: done.changed for name, done in again.items()} == dict.fromkeys(again, frozenset())
