"""Which days are fit to be used, by today's states and by the receipts of a version; and what is
done about others. Not here: the reader that asks (`test_reader`)."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.core.view import DayReceipt, TableView
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.reading.fitness import (
    UnfitDays,
    differing_days,
    settle_unfit_days,
    unfit_days_now,
    unfit_days_then,
    unfit_text,
)
from backfill_assets_tests.builders import FEATURES, day
from backfill_assets_tests.readable_lake import TABLE, readable_lake
from backfill_assets_tests.synthetic import build, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
DAYS = (date(2024, 2, 26), date(2024, 2, 27), date(2024, 2, 28), date(2024, 2, 29))


def test_fresh_days_are_fit_and_stale_and_missing_ones_are_named(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 4)

    def unfit(*days: date) -> str:
        return unfit_text(
            unfit_days_now(pipeline.states(read_view(lake, pipeline.contracts)), "features", days)
        )

    assert unfit(*DAYS) == ""
    build(lake, pipeline, "staging", {DAYS[3]: 5})
    assert unfit(*DAYS) == "stale 2024-02-29"
    assert unfit(*DAYS, date(2024, 3, 1)) == "missing 2024-03-01; stale 2024-02-29"


def test_a_version_is_judged_by_what_its_receipts_say() -> None:
    def receipt(built: Built) -> DayReceipt:
        return DayReceipt(DayEntry(1, "f", "d", built), 1, "w", "", "", "")

    latest = {
        day(n): receipt(b)
        for n, b in enumerate((Built.COMPLETE, Built.PENDING, Built.INCOMPLETE, Built.HELD))
    }
    older = receipt(Built.COMPLETE)
    older = replace(
        older, entry=replace(older.entry, columns={"entity": "STRING", "feature_date": "DATE"})
    )
    view = TableView(
        1, {**latest, day(5): receipt(Built.COMPLETE), day(6): older}, foreign=frozenset({day(5)})
    )
    assert unfit_days_then(view, FEATURES, [day(n) for n in range(7)]) == {
        day(1): "pending",
        day(2): "incomplete",
        day(4): "missing",
        day(5): "stale",
        day(6): "made without value",
    }


def test_no_command_is_named_for_days_before_a_first_day_that_was_moved_later() -> None:
    made_later = replace(FEATURES, first_day=day(2))
    with pytest.raises(
        UnfitDays,
        match=rf"Nothing makes days before {day(2)}, its first: move that back and run `.*`",
    ):
        settle_unfit_days(made_later, {day(0): "made without value"}, "refuse")
    with pytest.raises(UnfitDays, match=r"Run `backfill-assets backfill --from .*`, see"):
        settle_unfit_days(made_later, {day(2): "made without value"}, "refuse")


def test_only_days_whose_rows_are_not_those_of_their_receipts_differ(tmp_path: Path) -> None:
    reader = readable_lake(tmp_path / "lake")
    contract = reader.pipeline.contract(TABLE, "")
    entries = {
        d: r.entry for d, r in reader.lake.store.view(TABLE, contract.day_column).latest.items()
    }
    found = dict(audit_table(reader.lake, contract))
    assert differing_days(reader.lake, contract, entries, found) == []
    without = {d: e for d, e in entries.items() if d != date(2024, 3, 1)}
    assert differing_days(reader.lake, contract, without, found) == [date(2024, 3, 1)]


def test_a_day_is_read_again_by_the_columns_of_its_files_before_it_differs(tmp_path: Path) -> None:
    """It may have been made under a contract of other columns."""
    reader = readable_lake(tmp_path / "lake")
    contract = reader.pipeline.contract(TABLE, "")
    entries = {
        d: r.entry for d, r in reader.lake.store.view(TABLE, contract.day_column).latest.items()
    }
    assert (
        differing_days(reader.lake, contract, entries, dict.fromkeys(entries, DayProfile())) == []
    )
