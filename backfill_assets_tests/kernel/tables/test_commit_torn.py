"""A log that a power cut tore: never read, never written over, and mended by the one command that
is told. Not here: what power cuts can leave (`test_commit_steps`), and ledgers that lost data files
(`test_inspection`)."""

from collections.abc import Callable

import pytest

from backfill_assets.cli.findings import Level
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables import committer
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.upkeep.doctor_tables import examine_table
from backfill_assets.upkeep.inspection import mend_table
from backfill_assets_tests.builders import STAGING, day, receipt
from backfill_assets_tests.kernel.tables.test_commit_steps import (
    AFTER,
    BEFORE,
    content,
    log_of,
    mended,
    written,
)

pytestmark = pytest.mark.usefixtures("storages")


TORN: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda whole: b"",
    "zeros": lambda whole: bytes(len(whole)),
    "half a line": lambda whole: whole[:-9],
    "one line less": lambda whole: whole[: whole.rindex(b"\n")],
}


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
def test_a_torn_last_commit_is_never_read_nor_written_over_and_the_command_that_is_told_mends_it(
    lake: Lake, tear: Callable[[bytes], bytes]
) -> None:
    written(lake, 1, 0)
    written(lake, 2, 0, 1)
    newest = max(log_of(lake).glob("*.json"))
    newest.write_bytes(tear(newest.read_bytes()))
    with pytest.raises(BackfillError, match=rf"version 2 of its log is torn \({newest.name}\)"):
        content(lake)
    with pytest.raises(BackfillError, match="version 2 of its log is torn"):
        committer.commit_receipt(lake.table_place("staging"), receipt(write_id="on top"))
    (told,) = examine_table(lake, STAGING, landed="raw")
    assert told.level is Level.ERROR
    mended(lake, told.advice)
    assert content(lake) == BEFORE
    written(lake, 2, 0, 1)
    assert content(lake) == AFTER


@pytest.mark.parametrize("tear", [TORN["nothing"], TORN["half a line"]])
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_torn_commit_goes_with_its_whole_checkpoint_also_where_it_was_taken_away_by_hand(
    lake: Lake, tear: Callable[[bytes], bytes], *, by_hand: bool
) -> None:
    for n in range(committer.CHECKPOINT_EVERY):
        written(lake, n % 2 + 1, 0, 1)
        if list(log_of(lake).glob("*.checkpoint.parquet")):
            break
        before = content(lake)
    newest = max(log_of(lake).glob("*.json"))
    if by_hand:
        newest.rename(f"{newest}.torn")
    else:
        newest.write_bytes(tear(newest.read_bytes()))
    with pytest.raises(BackfillError, match="version 19 of its log is torn") as refused:
        written(lake, 3, 0, 1)
    told = next(examine_table(lake, STAGING, landed="raw"))
    assert told.level is Level.ERROR
    assert "`backfill-assets mend staging --yes`" in told.advice
    mended(lake, refused.value.fix)
    assert content(lake) == before
    written(lake, 3, 0, 1)
    assert content(lake) == [(day(0), 3), (day(1), 3)]
    assert next(examine_table(lake, STAGING, landed="raw")).level is Level.OK
    with pytest.raises(BackfillError, match="nothing is wrong with it that this command mends"):
        mend_table(lake, STAGING, Provenance("test"))


@pytest.mark.parametrize("tear", [TORN["nothing"], TORN["zeros"], TORN["half a line"]])
def test_a_torn_checkpoint_is_told_with_what_mends_it_nothing_lost(
    lake: Lake, tear: Callable[[bytes], bytes]
) -> None:
    for n in range(committer.CHECKPOINT_EVERY):
        written(lake, n, 0)
    (checkpoint,) = log_of(lake).glob("*.checkpoint.parquet")
    checkpoint.write_bytes(tear(checkpoint.read_bytes()))
    with pytest.raises(BackfillError, match="a checkpoint of its log is torn") as refused:
        written(lake, 2, 0, 1)
    told = next(examine_table(lake, STAGING, landed="raw"))
    assert told.level is Level.ERROR
    assert told.advice == refused.value.fix
    mended(lake, told.advice)
    written(lake, 2, 0, 1)
    assert content(lake) == AFTER
