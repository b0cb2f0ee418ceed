"""An exception raised at any step of a commit: the log alone decides, and no file that it names is
deleted. Not here: kills and power cuts (`test_commit_steps`)."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.intake.landed_days import append_events
from backfill_assets.intake.ledger import ARRIVALS, FILES, LANDED
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.log import log
from backfill_assets.kernel.place import folder
from backfill_assets.kernel.tables import committer, store
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged, marker_folder
from backfill_assets.kernel.write import audit, replace
from backfill_assets.kernel.write.replace import Write
from backfill_assets.upkeep.inspection import inspect_table
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.faults import ERRORS, RAISED, raising_around
from backfill_assets_tests.files import stage_by_hand

pytestmark = pytest.mark.usefixtures("storages")

Row = dict[str, Any]
# Where an exception comes: the function, and whether behind its work (else in front of it).
STEPS: dict[str, tuple[Callable[..., Any], bool]] = {
    "the files are staged": (committer.commit_files, False),
    "the table is opened": (committer.open_table, True),
    "the data is synced": (folder.Folder.sync_new, True),
    "the commit is tried": (committer._commit_actions, False),
    "the commit landed": (log.find_write, False),
    "the commit was looked up": (log.find_write, True),
    "the commit is synced": (log.sync_log, True),
    "the staging is tidied up": (Staged.keep, False),
    "the staging was tidied up": (Staged.keep, True),
    "the table has its new version": (store.TableStore._commit_changes, True),
}


def by_day(lake: Lake, contract: Contract, *rows: Row) -> None:
    """Rows published by the product's writer; the caller drops its staging in any case, as all of
    them do."""
    staged = stage_by_hand(lake, contract, rows)
    try:
        found = audit.audit_files(lake, staged.paths, contract)
        entries = {
            d: DayEntry(p.rows, p.fingerprint, "digest") for d, p in found.items() if d is not None
        }
        write = Write(contract, staged, entries, -1, Provenance("test"), always=True)
        replace.replace_days(lake, write, lambda days: dict.fromkeys(days, "digest"))
    finally:
        staged.drop()


def files_row(path: str) -> tuple[object, ...]:
    now = datetime(2024, 3, 1, tzinfo=UTC)
    return LANDED, path, f"sha-{path}", day(0), 1, 0, 1, 10, 5, now, day(0), now, "digest", None


def arrivals_row(number: int, keys: int) -> Row:
    return {
        "arrival_date": day(number),
        "event_date": day(number),
        "deliveries": 1,
        "keys": keys,
        "moved_keys": 0,
        "greatest_lateness_s": 60,
        "fingerprint": "F",
        "arrival_month": f"{day(number):%Y-%m}",
    }


def values(lake: Lake, value: int, *numbers: int) -> None:
    by_day(lake, STAGING, *({"entity": "A", "value": value, "event_date": day(n)} for n in numbers))


# Of every way to a commit: a contract, and a write whose content follows from a number. Raw and
# quarantine are written as a derived table is.
TABLES: dict[str, tuple[Contract, Callable[[Lake, int], None]]] = {
    "a derived table": (STAGING, lambda lake, n: values(lake, n, 0, 1)),
    "arrivals": (
        ARRIVALS,
        lambda lake, n: by_day(lake, ARRIVALS, arrivals_row(0, n), arrivals_row(4, 1)),
    ),
    "files": (
        FILES,
        lambda lake, n: append_events(lake, [files_row(f"{n}.jsonl")], "scan", ""),
    ),
    "a receipt alone": (STAGING, lambda lake, _: values(lake, 1, 0)),
}


def gone(lake: Lake, contract: Contract) -> list[str]:
    """The data files that the newest version names and that are not there."""
    return [f for f in lake.store.data_files(contract) if not Path(f).is_file()]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("step", STEPS)
def test_an_exception_at_any_step_of_a_commit_deletes_no_file_of_the_log(
    lake: Lake, step: str, table: str
) -> None:
    contract, write = TABLES[table]
    write(lake, 1)
    for number, error in enumerate(ERRORS.values(), 2):
        with suppress(*RAISED), raising_around(*STEPS[step], error) as met:
            write(lake, number)
        assert met.error
        assert gone(lake, contract) == []
        assert lake.store.rows(contract.name), "it can be read"
    last = len(ERRORS) + 2
    write(lake, last)
    write(lake, last + 1)
    assert gone(lake, contract) == []
    assert inspect_table(lake, contract).lost == 0, "the next sweep removed what no version names"
    assert not list((lake.root / marker_folder(contract.name)).iterdir())
