"""Publishing: what is compared with the receipts decides which days' rows move.
Not here: the commit (`test_committer`), races of processes (`end_to_end.test_races`) and what a
publish does after newer inputs (`end_to_end.test_fault_conflicts`)."""

import time
from datetime import date
from typing import Any

import pytest

from backfill_assets.intake.forgotten import begin_erasure
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.errors import Superseded
from backfill_assets.kernel.core.profiles import SCHEME
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.write_mode import MERGE, MERGE_KEEPING, OVERWRITE
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.replace import Write, WriteResult, replace_days
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import stage_by_hand
from backfill_assets_tests.lakes import data_files, version

pytestmark = pytest.mark.usefixtures("storages")

DAY = date(2024, 3, 1)
NEXT = DAY + ONE_DAY


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"entity": "A", "value": 1, "event_date": day(n)} for n in numbers]


def published(lake: Lake, *numbers: int, scheme: int = SCHEME) -> WriteResult:
    """The same row on each of these days, told in a receipt of this scheme."""
    staged = stage_by_hand(lake, STAGING, rows(*numbers))
    found = audit_files(lake, staged.paths, STAGING)
    entries = {
        d: DayEntry(p.rows, p.fingerprint, "digest", scheme=scheme)
        for d, p in found.items()
        if d is not None
    }
    return replace_days(
        lake,
        Write(STAGING, staged, entries, -1, Provenance("test")),
        lambda days: dict.fromkeys(days, "digest"),
    )


def test_a_day_whose_receipt_fingerprints_in_another_way_is_written_again_once(lake: Lake) -> None:
    published(lake, 0, scheme=SCHEME - 1)
    assert lake.store.view("staging", "event_date").latest[day(0)].entry.scheme == SCHEME - 1
    assert published(lake, 0, 1).changed == {day(0), day(1)}
    assert not published(lake, 0, 1).write_id


def write(
    lake: Lake, rows: dict[date, int | None], digest: str = "d", now: str = "d", **more: Any
) -> WriteResult:
    """One row of this value per day, none where the value is None; the inputs are now those of the
    digest `now`."""
    told = [{"entity": "A", "value": v, "event_date": d} for d, v in rows.items() if v is not None]
    staged = stage_by_hand(lake, STAGING, told) if told else None
    found = audit_files(lake, staged.paths, STAGING) if staged else {}
    entries = {
        d: DayEntry(found[d].rows, found[d].fingerprint, digest)
        if d in found
        else DayEntry(0, "", digest)
        for d in rows
    }
    by = Provenance("test", inputs=more.pop("inputs", {}))
    wanted = Write(STAGING, staged, entries, more.pop("base", version(lake, "staging")), by, **more)
    return replace_days(lake, wanted, lambda days: dict.fromkeys(days, now))


def test_a_run_from_inputs_of_before_an_erasure_writes_no_day_though_nobody_else_wrote_it(
    lake: Lake,
) -> None:
    """A first build of a day, or a candidate's: the erasure has nothing to do in a table that lacks
    the day."""
    for mode in (OVERWRITE, MERGE, MERGE_KEEPING):
        assert write(lake, {DAY: 1}, now="newer", mode=mode).version, (
            "a day whose inputs moved shows as stale"
        )
    read = version(lake, "staging")
    erasure = begin_erasure(lake, {"entity": "ann"}, "")
    for ends in (False, True):
        if ends:
            erasure.finish(lake)
        for mode in (OVERWRITE, MERGE, MERGE_KEEPING):
            with pytest.raises(Superseded, match="hold what was erased meanwhile"):
                write(lake, {NEXT: 1}, now="newer", mode=mode, inputs={"staging": read})
            assert write(
                lake, {NEXT: int(time.monotonic_ns())}, mode=mode, inputs={"staging": read}
            ).version
    after = {"staging": version(lake, "staging")}
    assert write(lake, {NEXT: 7}, now="newer", inputs=after).changed == {NEXT}, (
        "it read what the erasure left"
    )


def test_equal_rows_from_other_inputs_get_a_new_receipt_and_keep_their_files_unless_forced(
    lake: Lake,
) -> None:
    write(lake, {DAY: 1})
    before = data_files(lake, "staging")
    done = write(lake, {DAY: 1}, "newer", "newer")
    assert (done.changed, done.receipted) == (frozenset(), frozenset({DAY}))
    assert data_files(lake, "staging") == before
    assert write(lake, {DAY: 1}, force=True).changed == {DAY}
    assert not data_files(lake, "staging")[DAY] & before[DAY]


def test_a_write_that_is_to_be_alone_is_refused_after_any_other_commit(lake: Lake) -> None:
    write(lake, {DAY: 1}, alone=True, base=-1)
    read = version(lake, "staging")
    write(lake, {NEXT: 2}, alone=True)
    with pytest.raises(Superseded, match="staging: another run wrote it since this one read it"):
        write(lake, {DAY: 3}, alone=True, base=read)
    assert write(lake, {DAY: 3}, base=read).changed == {DAY}
