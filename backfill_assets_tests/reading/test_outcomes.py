"""Controls: whose writes make an outcome old.

Tested here: `reading.outcomes`. Not tested here: judging (`test_reconcile_controls.py`).
"""

from dataclasses import replace

import pytest

from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.tables.folder import RECONCILED
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.outcomes import (
    OUTCOMES,
    judge_declared_controls,
    last_outcomes,
    recorded_mismatches,
    tables_read,
)
from backfill_assets.reading.settings import ControlSettings
from backfill_assets_tests.files import write_json

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("query", "expected", "tables"),
    [
        (
            "SELECT count(*) AS value FROM raw",
            "duckdb:SELECT count(*) AS value FROM staging",
            {"raw", "staging"},
        ),
        ("SELECT count(*) AS value FROM raw", "staging@7", {"raw", "staging"}),
        ("SELECT FROM FROM", "staging", None),
        ("SELECT count(*) AS value FROM raw", "duckdb:SELECT FROM FROM", None),
    ],
)
def test_a_control_reads_the_tables_of_both_sides_or_who_knows_which(
    query: str, expected: str, tables: set[str] | None
) -> None:
    assert tables_read(ControlSettings(query=query, expected=expected)) == tables


def test_a_gate_does_not_pass_over_controls_that_no_room_judges(lake: Lake) -> None:
    assert judge_declared_controls(None, lake) == ()
    control = ControlSettings(query="SELECT 1 AS value", expected="1")
    settings = lake.settings.model_copy(update={"controls": {"total": control}})
    with pytest.raises(SettingsError, match="no room of this installation judges them"):
        judge_declared_controls(None, replace(lake, settings=settings))


def test_a_damaged_file_of_outcomes_or_of_a_comparison_is_named_with_what_to_do(lake: Lake) -> None:
    write_json(lake.root / RECONCILED / OUTCOMES, {"total": {"name": 3}})
    with pytest.raises(BackfillError, match=rf"{OUTCOMES}: .*`backfill-assets controls`"):
        last_outcomes(lake)
    report = "20240301-110000-0123ab.json"
    write_json(lake.root / RECONCILED / report, {"left": "a", "right": "b", "mismatches": 3})
    assert recorded_mismatches(lake) == {"a | b": 3}
    write_json(lake.root / RECONCILED / report, {"left": "a", "right": "b", "mismatches": None})
    with pytest.raises(BackfillError, match=rf"{report}: .*`backfill-assets reconcile`"):
        recorded_mismatches(lake)
