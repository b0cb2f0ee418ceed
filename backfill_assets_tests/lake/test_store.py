"""The port's own words.

Tested here: `lake.store`'s values, and that the one adapter offers all that the port asks. Not tested here: what the
adapter does (`test_delta_store`).
"""

import inspect
from datetime import UTC, datetime

from backfill_assets.lake.delta_store import DeltaStore
from backfill_assets.lake.log import Commit
from backfill_assets.lake.store import TableStore


def test_the_adapter_offers_every_verb_with_the_same_words() -> None:
    wanted = {n: f for n, f in vars(TableStore).items() if inspect.isfunction(f) and not n.startswith("_")}
    assert wanted
    for name, verb in wanted.items():
        offered = inspect.signature(getattr(DeltaStore, name))
        assert list(offered.parameters) == list(inspect.signature(verb).parameters), name


def test_a_commit_tells_when_it_was_made_in_utc() -> None:
    assert Commit(3, None, 1_700_000_000_000, "WRITE").at == datetime.fromtimestamp(1_700_000_000, UTC)
