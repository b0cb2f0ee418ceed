"""Every way in which a lake is hurt behind our back is named with the way back: one by one, and all at once.
Not here: the command (`cli.test_doctor`), and single findings about inspections (`test_doctor_tables`)."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.inspection import mend
from backfill_assets.lake.replace import Provenance
from backfill_assets.operations.doctor import VerifyRequest, verify
from backfill_assets.operations.doctor_tables import Diagnosis, Level
from backfill_assets_tests.builders import day
from backfill_assets_tests.copies import keep
from backfill_assets_tests.logs import checkpoint_file, commit_file, state_file, versions
from backfill_assets_tests.operations.planned import DAYS, Planned

WRITES = 21  # a checkpoint comes with every twentieth commit
EVERYTHING = VerifyRequest(deep=True)
Hurt = Callable[[Planned], None]


def _make(root: Path) -> None:
    """A healthy lake whose table `staging` has a checkpoint."""
    made = Planned(root)
    for n in range(WRITES):
        made.write("staging", {n % DAYS: n + 2})


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    keep(_make).lay_out(tmp_path)
    return reopened(tmp_path)


def reopened(root: Path) -> Planned:
    made = Planned.__new__(Planned)
    made.root = root
    made._open()
    return made


def wrong(made: Planned, asked: VerifyRequest = EVERYTHING) -> list[Diagnosis]:
    return [d for d in verify(made.lake, made.pipeline.contracts, asked) if d.level is not Level.OK]


def data_file(made: Planned, table: str, n: int) -> Path:
    return Path(made.lake.store.data_files(made.contract(table), None, [day(n)], altered=True)[0])


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def delete_a_file(made: Planned) -> None:
    data_file(made, "features", 0).unlink()


def flip_a_byte_of_data(made: Planned) -> None:
    flip(data_file(made, "staging", 1), 30)


def flip_a_byte_that_holds_no_row(made: Planned) -> None:
    flip(data_file(made, "staging", 2), -20)  # in the footer


def flip_a_byte_of_a_checkpoint(made: Planned) -> None:
    flip(checkpoint_file(made.lake.table_place("staging").local(), 19), 200)


def edit_a_receipt(made: Planned) -> None:
    commit = commit_file(made.lake.table_place("staging").local(), 3)
    commit.write_text(commit.read_text().replace('reason\\":\\"test', 'reason\\":\\"TEST', 1))


def edit_the_newest_receipt(made: Planned) -> None:
    table = made.lake.table_place("staging").local()
    commit = commit_file(table, versions(table)[-1])
    commit.write_text(commit.read_text().replace('reason\\":\\"test', 'reason\\":\\"TEST', 1))


def truncate_the_newest_commit(made: Planned) -> None:
    table = made.lake.table_place("raw").local()
    commit = commit_file(table, versions(table)[-1])
    commit.write_bytes(commit.read_bytes()[:-40])


def delete_the_newest_commit(made: Planned) -> None:
    table = made.lake.table_place("raw").local()
    commit_file(table, versions(table)[-1]).unlink()


def append_rows(made: Planned) -> None:
    """As any program with delta-rs does."""
    rows = pq.ParquetFile(data_file(made, "features", 5)).read()
    days = pa.array([day(5)] * rows.num_rows, pa.date32())
    column = made.contract("features").partition_column
    write_deltalake(str(made.lake.table_place("features").local()), rows.append_column(column, days), mode="append")


def rewrite_a_day(made: Planned) -> None:
    rows = pq.ParquetFile(data_file(made, "features", 7)).read()
    days = pa.array([day(7)] * rows.num_rows, pa.date32())
    column = made.contract("features").partition_column
    where = f"{column} = '{day(7)}'"
    table = rows.append_column(column, days).slice(0, 0)
    write_deltalake(str(made.lake.table_place("features").local()), table, mode="overwrite", predicate=where)


def forge_a_state(made: Planned) -> None:
    kept = state_file(made.lake.table_place("staging").local(), 19)
    text = gzip.decompress(kept.read_bytes()).decode()
    kept.write_bytes(gzip.compress(text.replace('"foreign":[]', f'"foreign":["{day(1)}"]').encode()))


def test_a_kept_state_that_is_not_what_the_commits_say_is_named_until_it_is_deleted(made: Planned) -> None:
    forge_a_state(made)
    found = wrong(made)
    assert names(found, "staging", "1 kept state(s) of its log are not what its commits say", "rm /"), found
    [command] = re.findall(r"`rm (\S+)`", "".join(d.advice for d in found))
    Path(command).unlink()
    assert wrong(made) == []


HURTS = [
    (delete_a_file, "features", "data file(s) of its newest version are gone", f"--force --from {day(0)} --to"),
    (flip_a_byte_of_data, "staging", "hold other bytes than were written", f"--force --from {day(1)} --to"),
    (flip_a_byte_that_holds_no_row, "staging", "hold other bytes than were written", "--force --from"),
    (flip_a_byte_of_a_checkpoint, "staging", "a checkpoint of its log", "mend staging --yes"),
    (edit_a_receipt, "staging", "of its log were edited", "from a backup"),
    (edit_the_newest_receipt, "staging", "of its log were edited", "from a backup"),
    (truncate_the_newest_commit, "raw", "is torn (the newest", "mend raw --yes"),
    (append_rows, "features", f"changed data and are not ours ({day(5)}", f"--from {day(5)} --to"),
    (rewrite_a_day, "features", f"{day(7)})", f"--to {day(7)}"),
]  # fmt: skip


def names(found: list[Diagnosis], table: str, told: str, advice: str) -> bool:
    return any(f"the table {table}" == d.object and told in d.what and advice in d.advice for d in found)


def test_a_healthy_lake_shows_nothing(made: Planned) -> None:
    assert wrong(made) == []


@pytest.mark.usefixtures("storages")
@pytest.mark.parametrize(("hurt", "table", "told", "advice"), HURTS)
def test_each_harm_is_named_with_the_way_back(made: Planned, hurt: Hurt, table: str, told: str, advice: str) -> None:
    hurt(made)
    assert names(wrong(made), table, told, advice), wrong(made)


@pytest.mark.usefixtures("storages")
def test_all_harms_at_once_are_named_each(made: Planned) -> None:
    for hurt, *_ in HURTS:
        hurt(made)
    found = wrong(made)
    assert [hurt.__name__ for hurt, *told in HURTS if not names(found, *told)] == []


@pytest.mark.usefixtures("storages")
def test_a_newest_commit_that_is_gone_is_named_and_its_number_is_never_given_to_other_rows(made: Planned) -> None:
    delete_the_newest_commit(made)
    before = versions(made.lake.table_place("raw"))[-1]
    assert names(wrong(made), "raw", f"version(s) {before + 1}, the newest of its log, are gone", "mend raw --yes")
    mend(made.lake, made.contract("raw"), Provenance("test"))
    [newest] = made.lake.store.commits("raw", before)
    assert newest.receipt is not None
    assert (newest.version, newest.receipt.reason, dict(newest.receipt.days)) == (before + 1, "mend", {})


@pytest.mark.usefixtures("storages")
def test_any_byte_of_a_data_file_is_found(made: Planned) -> None:
    file = data_file(made, "staging", 3)
    whole = file.read_bytes()
    missed = []
    for at in range(0, len(whole), max(len(whole) // 12, 1)):
        flip(file, at)
        if not wrong(made, VerifyRequest(("staging",), days=[day(3)])):
            missed.append(at)
        file.write_bytes(whole)
    assert missed == []


@pytest.mark.usefixtures("storages")
def test_files_of_earlier_versions_are_read_when_asked(made: Planned) -> None:
    store, contract = made.lake.store, made.contract("staging")
    live = {*store.data_files(contract)}
    earlier = next(Path(f) for f in store.data_files(contract, 1) if f not in live)
    flip(earlier, 30)
    assert wrong(made, VerifyRequest()) == []
    assert names(wrong(made), "staging", "of earlier versions hold other bytes", "rollback")


@pytest.mark.usefixtures("storages")
def test_rows_of_a_table_without_digests_are_still_held_against_their_receipts(made: Planned) -> None:
    """As earlier releases wrote it: commits that name no digests, and no note beside the log."""
    table = made.lake.table_place("features").local()
    for version in versions(table):
        commit = commit_file(table, version)
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            for key in ("backfill_assets.files", "backfill_assets.before"):
                action.get("commitInfo", {}).pop(key, None)
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    (table / "_delta_log" / ".head").unlink()
    assert wrong(made) == []
    file = data_file(made, "features", 4)
    rows, size = pq.ParquetFile(file).read(), file.stat().st_size
    others = pa.array([v.as_py() + 1 for v in rows["value"]], rows.schema.field("value").type)
    pq.write_table(rows.set_column(rows.schema.get_field_index("value"), "value", others), file)
    assert file.stat().st_size == size, "only the rows tell"
    [only] = wrong(made)
    assert (only.object, str(day(4)) in only.what) == ("the contents of features", True), only


def test_a_table_that_is_not_there_is_refused_by_name(made: Planned) -> None:
    with pytest.raises(BackfillError, match="no such table"):
        verify(made.lake, made.pipeline.contracts, VerifyRequest(("nothing",)))
    with pytest.raises(BackfillError, match="none of these days was written"):
        verify(made.lake, made.pipeline.contracts, VerifyRequest(days={day(400)}))
