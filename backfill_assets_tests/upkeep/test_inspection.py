"""A look at a table that an engine may no longer open.
Not here: what the doctor says of it (`upkeep.test_doctor`)."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.intake import scan
from backfill_assets.intake.landed_days import append_events, landed_by_day, names_days, stage_rows
from backfill_assets.intake.ledger import (
    ARRIVALS,
    FILES,
    LANDED,
    ledger_of_source,
    read_arrivals,
    read_files,
)
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.log.log import DIGEST_BEFORE, HEAD, LOG
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.upkeep.inspection import REASON, inspect_table, mend_table, mendable_damage
from backfill_assets_tests.builders import RAW, STAGING, day, receipt
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.logs import commit_file
from backfill_assets_tests.synthetic import arrival

pytestmark = pytest.mark.usefixtures("storages")


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"entity": "A", "value": 1, "event_date": day(n)} for n in numbers]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with a table of two days."""
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, STAGING, rows(0, 1))
    return lake


@pytest.fixture
def table(lake: Lake) -> Path:
    """Its folder."""
    return lake.table_place(STAGING.name).local()


def test_a_receipt_that_was_edited_after_the_next_commit_is_named(lake: Lake, table: Path) -> None:
    for n in range(2, 6):
        publish_by_hand(lake, STAGING, rows(n))
    assert inspect_table(lake, STAGING).edited == ()
    receipt = commit_file(table, 3)
    receipt.write_text(receipt.read_text().replace("test", "tset"))
    assert inspect_table(lake, STAGING).edited == (3,)


def test_commits_of_versions_that_named_none_before_them_are_no_finding(
    lake: Lake, table: Path
) -> None:
    publish_by_hand(lake, STAGING, rows(2))
    for commit in (commit_file(table, 1), commit_file(table, 2)):
        assert DIGEST_BEFORE in commit.read_text()
        commit.write_text(commit.read_text().replace(DIGEST_BEFORE, "another"))
    (table / LOG / HEAD).unlink()
    assert inspect_table(lake, STAGING).edited == ()
    publish_by_hand(lake, STAGING, rows(3))
    assert inspect_table(lake, STAGING).edited == ()


SAID = Provenance("", tags={"by": "ann@desk"})


def took_stock(lake: Lake, contract: Contract, path: str) -> None:
    """A commit of the ledger `files`, as a scan makes it."""
    now = datetime(2024, 3, 1, tzinfo=UTC)
    row = (LANDED, path, f"sha-{path}", day(0), 1, 0, 1, 10, 5, now, day(0), now, "digest", None)
    staged = stage_rows(lake, contract, [row])
    lake.store.append(contract, staged, receipt(contract.name, {}, write_id=staged.write_id))


def newest_file(lake: Lake, contract: Contract) -> Path:
    before = set(
        lake.store.data_files(contract, lake.store.view(contract.name, "arrival_date").version - 1)
    )
    (file,) = set(lake.store.data_files(contract)) - before
    return Path(file)


HURT: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:20]),
}


@pytest.mark.parametrize("source", ["", "web"])
def test_lost_files_of_the_stock_are_told_by_name_and_taken_out_and_others_stay(
    tmp_path: Path, source: str
) -> None:
    lake, files = bare_lake(tmp_path), ledger_of_source(FILES, source)
    for path in ("a", "b"):
        took_stock(lake, files, path)
    lost = newest_file(lake, files)
    took_stock(lake, files, "c")
    lost.unlink()
    with pytest.raises(
        BackfillError, match=rf"1 data file\(s\).*gone.*`backfill-assets mend {files.name} --yes`"
    ):
        read_files(lake.store, source)
    found = mend_table(lake, files, SAID)
    assert [str(lake.table_place(files.name).local() / f.path) for f in found.lost] == [str(lost)]
    assert [r.path for r in read_files(lake.store, source)] == ["a", "c"]
    *_, last = lake.store.commits(files.name)
    assert last.receipt is not None
    assert (last.receipt.reason, last.receipt.tags) == (REASON, SAID.tags)
    with pytest.raises(BackfillError, match="nothing is wrong with it"):
        mend_table(lake, files, SAID)


def test_a_withdrawal_of_what_was_lost_is_of_nothing_any_more(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    took_stock(lake, FILES, "a")
    lost = newest_file(lake, FILES)
    withdrawn = scan._withdrawal_events(read_files(lake.store), datetime.now(UTC), "why")
    append_events(lake, withdrawn, "landing accept", "why")
    lost.unlink()
    mend_table(lake, FILES, SAID)
    assert read_files(lake.store) == []
    assert not names_days(lake)
    assert landed_by_day(lake, "") == {}


@pytest.mark.parametrize("hurt", HURT.values(), ids=HURT)
def test_days_that_arrivals_had_lost_are_doubted_so_that_the_next_load_writes_them(
    tmp_path: Path, hurt: Callable[[Path], object]
) -> None:
    lake = bare_lake(tmp_path)
    for n in (0, 1):  # files of one month: the second write holds both days
        publish_by_hand(lake, ARRIVALS, [arrival(day(n), f"F-{n}")])
    version = lake.store.view("arrivals", "arrival_date").version
    hurt(newest_file(lake, ARRIVALS))
    with pytest.raises(BackfillError, match="`backfill-assets mend arrivals --yes`"):
        read_arrivals(lake.store, version)
    mend_table(lake, ARRIVALS, SAID)
    assert read_arrivals(lake.store, version + 1) == {}
    assert read_view(lake, [RAW]).source("raw").ledger.foreign == {day(0), day(1)}


def test_whole_tables_and_lost_files_of_tables_that_are_made_are_refused(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, STAGING, [{"entity": "A", "value": 1, "event_date": day(0)}])
    with pytest.raises(BackfillError, match="nothing is wrong with it that this command mends"):
        mend_table(lake, STAGING, SAID)
    Path(*lake.store.data_files(STAGING)).unlink()
    with pytest.raises(BackfillError, match="nothing is wrong"):
        mendable_damage(lake, STAGING)
    assert len(list(lake.store.commits("staging"))) == 2


def test_a_table_whose_only_commit_was_torn_is_as_if_never_made(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    took_stock(lake, FILES, "a")
    commit_file(lake.table_place("files").local(), 1).unlink()
    commit_file(lake.table_place("files").local(), 0).write_bytes(b"")
    mend_table(lake, FILES, SAID)
    assert read_files(lake.store) == []
    took_stock(lake, FILES, "b")
    assert [r.path for r in read_files(lake.store)] == ["b"]
