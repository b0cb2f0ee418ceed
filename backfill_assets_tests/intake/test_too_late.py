"""What came too late: counted while it waits, released once with a note, and never twice.
Not here: which rows a load keeps apart (`end_to_end`)."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.content_store import content_name_by_path
from backfill_assets.intake.ledger import FILES
from backfill_assets.intake.too_late import (
    _kept_back_rows,
    recorded_releases,
    release_rows,
    too_late_contract,
)
from backfill_assets.kernel.core.days import midnight
from backfill_assets.kernel.core.ledgers import TOO_LATE
from backfill_assets.kernel.core.plans import REPLAY
from backfill_assets.kernel.core.view import Release
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.builders import receipt, write_rows
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.intake.test_ledger import _event
from backfill_assets_tests.logs import commits
from backfill_assets_tests.pipeline.built_in import contract

pytestmark = pytest.mark.usefixtures("storages")

ARRIVED, HAPPENED, OTHER = date(2024, 3, 9), date(2024, 3, 1), date(2024, 3, 2)


def kept(seq: int, event: date) -> dict[str, Any]:
    facts = {
        "seq": seq,
        "arrival_ts": midnight(ARRIVED),
        "version_ts": midnight(ARRIVED),
        "event_ts": midnight(event),
        "event_key": f"k{seq}",
        "op": "upsert",
        "entity": "A",
        "value": 1,
        "flag": 0,
        "arrival_date": ARRIVED,
    }
    return {c.name: facts.get(c.name, "file") for c in contract("raw").columns}


def waiting_rows(lake: Lake, first: date, last: date) -> dict[tuple[date, date], int]:
    """Rows kept back per (arrival, event) day, of these event days; each of one content here."""
    return {(arrived, day): rows for arrived, day, _, rows in _kept_back_rows(lake, first, last)}


def late_lake(root: Path) -> Lake:
    lake = bare_lake(root)
    publish_by_hand(
        lake,
        too_late_contract(contract("raw")),
        [kept(1, HAPPENED), kept(2, HAPPENED), kept(3, OTHER)],
    )
    return lake


def test_what_waits_is_counted_by_arrival_and_event_day_within_the_days_asked_for(
    tmp_path: Path,
) -> None:
    lake = late_lake(tmp_path)
    assert waiting_rows(lake, HAPPENED, OTHER) == {(ARRIVED, HAPPENED): 2, (ARRIVED, OTHER): 1}
    assert waiting_rows(lake, OTHER, OTHER) == {(ARRIVED, OTHER): 1}


def test_a_release_is_a_commit_with_its_note_that_names_the_days_and_moves_no_row(
    tmp_path: Path,
) -> None:
    lake = late_lake(tmp_path)
    assert release_rows(LakeSession(lake), HAPPENED, HAPPENED, "the sender was down") == {
        (ARRIVED, HAPPENED): 2
    }
    assert recorded_releases(lake) == (
        Release(frozenset({ARRIVED}), HAPPENED, HAPPENED, frozenset({"file"})),
    )
    said = [c.receipt for c in commits(lake.table_place(TOO_LATE), -1) if c.receipt is not None][-1]
    assert (said.reason, said.note, said.days) == (REPLAY, "the sender was down", {})
    assert waiting_rows(lake, HAPPENED, OTHER)[ARRIVED, HAPPENED] == 2, (
        "rows leave with the load that takes them"
    )


def test_a_release_holds_for_a_file_whose_content_select_names_otherwise_since(
    tmp_path: Path,
) -> None:
    lake, now = late_lake(tmp_path), content_name_by_path("file", "a.csv")
    release_rows(LakeSession(lake), HAPPENED, HAPPENED, "the sender was down")
    rows = [
        _event("a.csv", name, ARRIVED, recorded_at=midnight(d))
        for name, d in (("file", HAPPENED), (now, OTHER))
    ]
    write_rows(lake.table_place(FILES.name).local(), FILES, rows, receipt(FILES.name, {}))
    assert recorded_releases(lake) == (
        Release(frozenset({ARRIVED}), HAPPENED, HAPPENED, frozenset({"file", now})),
    )
