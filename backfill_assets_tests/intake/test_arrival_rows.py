"""The ledger by the lake's engine against the same by DuckDB: equal rows after equal loads, on the
tests' engine. Not here: what they should be (`test_arrivals`), and whose bytes pass whom
(`end_to_end.test_bucket_elsewhere`)."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from backfill_assets.engines.settings import AuditSettings
from backfill_assets.intake import arrival_rows
from backfill_assets.intake.arrival_rows import materialized_rows
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.engine_choice import wants_spark
from backfill_assets_tests.engines.test_auditor import KINDS, values
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.intake import test_arrivals
from backfill_assets_tests.intake.test_arrivals import (
    DAYS,
    RAW,
    START,
    keyed,
    on,
    promised,
    with_key_day,
)
from backfill_assets_tests.oracle import Row, unruly
from backfill_assets_tests.strategies import examples

pytestmark = pytest.mark.usefixtures("spark")
NEW = tuple(
    Column(f"c {i}", kind, "c", nullable=True)
    for i, kind in enumerate([*KINDS, *(f"ARRAY<{kind}>" for kind in KINDS)])
)
WIDE = replace(RAW, columns=(*RAW.columns, *NEW))
cells = st.fixed_dictionaries({c.name: values(c.kind) for c in NEW})
NOTHING: Row = dict.fromkeys(c.name for c in NEW)
EVERY_DAY = dict.fromkeys(DAYS, 3)


def not_fetched(lake: Lake, files: Sequence[str], *more: Any) -> AbstractContextManager[str]:
    """In place of `materialized_rows`, of the engine's lake."""
    assert not files, "rows of raw were fetched"
    return materialized_rows(lake, files, *more)


def with_audit(lake: Lake, **audit: Any) -> Lake:
    """The lake with other settings of who counts."""
    return replace(
        lake, settings=lake.settings.model_copy(update={"audit": AuditSettings(**audit)})
    )


class Pair:
    """A lake whose ledger DuckDB computes, and one whose ledger the engine computes."""

    def __init__(self, folder: Path) -> None:
        self.by_duckdb = bare_lake(folder / "duckdb")
        self.by_engine = with_audit(bare_lake(folder / "engine"), engine="engine")

    def load(
        self, rows: Sequence[Row], days: set[date], name: str = "", raw: Contract = RAW
    ) -> list[tuple[Any, ...]]:
        """Load both; the ledger, which is the same."""
        for lake in (self.by_duckdb, self.by_engine):
            with pytest.MonkeyPatch.context() as patch:
                if lake is self.by_engine:
                    patch.setattr(arrival_rows, "materialized_rows", not_fetched)
                test_arrivals.load(with_key_day(lake) if name else lake, rows, days, name, raw=raw)
        kept, by_engine = map(test_arrivals.kept_in, (self.by_duckdb, self.by_engine))
        assert by_engine == kept
        return kept


@settings(max_examples=2 if wants_spark() else examples(2), phases=[Phase.explicit, Phase.generate])
@given(
    test_arrivals.keyed_loads.map(lambda steps: steps[:3]), st.lists(cells, min_size=1, max_size=9)
)
@example([(EVERY_DAY, ""), ({DAYS[2]: 2}, ""), ({DAYS[5]: 0}, ""), ({DAYS[2]: 3}, "")], [{}])
@example([(EVERY_DAY, "a"), ({DAYS[0]: 1}, ""), ({DAYS[0]: 4}, "b"), ({DAYS[0]: 4}, "a")], [{}])
def test_after_every_load_the_ledger_by_the_engine_is_that_by_duckdb(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[dict[date, int], str]],
    more: list[Row],
) -> None:
    """First, late and repeated loads; keys that move, vanish and are deleted; days whose files lack
    columns."""
    pair = Pair(tmp_path_factory.mktemp("pair"))
    histories = [[], *(keyed(unruly(seed, START, days=6, rows=40, keys=12)) for seed in range(4))]
    for number, (step, name) in enumerate(steps):
        found = [row for d, which in step.items() for row in on(histories[which], {d})]
        found = promised(found) if name else found
        rows = (
            [NOTHING | row | more[i % len(more)] for i, row in enumerate(found)]
            if number
            else found
        )
        pair.load(rows, {*step}, name, WIDE if number else RAW)
