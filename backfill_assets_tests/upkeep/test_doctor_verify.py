"""Every way in which a lake is hurt behind our back is named with the way back: one by one, and all
at once. Not here: the command (`upkeep.test_doctor_command`), and single findings about inspections
(`test_doctor_tables`)."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from backfill_assets.buckets.copy_lake import copy_lake
from backfill_assets.cli.findings import Diagnosis, Level
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.data_files import files_of_version
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.upkeep.doctor import VerifyRequest, verify_tables
from backfill_assets.upkeep.inspection import mend_table
from backfill_assets_tests.builders import day
from backfill_assets_tests.copies import keep
from backfill_assets_tests.logs import checkpoint_file, commit_file, state_file, versions
from backfill_assets_tests.planned import DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")
WRITES = 21  # a checkpoint comes with every twentieth commit
EVERYTHING = VerifyRequest(deep=True)


def _make(root: Path) -> None:
    """A healthy lake whose table `staging` has a checkpoint."""
    made = Planned(root)
    for n in range(WRITES):
        made.write("staging", {n % DAYS: n + 2})


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    keep(_make).lay_out(tmp_path)
    return Planned.reopened(tmp_path)


def wrong(made: Planned, asked: VerifyRequest = EVERYTHING) -> list[Diagnosis]:
    return [
        d
        for d in verify_tables(made.lake, made.pipeline.contracts, asked)
        if d.level is not Level.OK
    ]


def folder(made: Planned, table: str) -> Path:
    return made.lake.table_place(table).local()


def newest(made: Planned, table: str) -> Path:
    return commit_file(folder(made, table), versions(folder(made, table))[-1])


def data_file(made: Planned, table: str, n: int) -> Path:
    return Path(made.lake.store.data_files(made.contract(table), None, [day(n)], altered=True)[0])


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def edit(commit: Path) -> None:
    commit.write_text(commit.read_text().replace('reason\\":\\"test', 'reason\\":\\"TEST', 1))


def write_as_others(made: Planned, n: int, rows: int, **how: str) -> None:
    """As any program with delta-rs does, with so many rows of a day."""
    found = pq.ParquetFile(data_file(made, "features", n)).read()
    days = pa.array([day(n)] * found.num_rows, pa.date32())
    table = found.append_column(made.contract("features").partition_column, days).slice(0, rows)
    write_deltalake(str(folder(made, "features")), table, **how)  # type: ignore[call-overload]


HURTS: dict[str, tuple[Callable[[Planned], object], str, str, str]] = {
    "a file is deleted": (
        lambda m: data_file(m, "features", 0).unlink(),
        "features",
        "data file(s) of its newest version are gone",
        f"--force --from {day(0)} --to",
    ),
    "a byte of data": (
        lambda m: flip(data_file(m, "staging", 1), 30),
        "staging",
        "hold other bytes than were written",
        f"--force --from {day(1)} --to",
    ),
    "a byte that holds no row": (
        lambda m: flip(data_file(m, "staging", 2), -20),
        "staging",
        "hold other bytes than were written",
        "--force --from",
    ),
    "a byte of a checkpoint": (
        lambda m: flip(checkpoint_file(folder(m, "staging"), 19), 200),
        "staging",
        "a checkpoint of its log",
        "mend staging --yes",
    ),
    "a receipt is edited": (
        lambda m: edit(commit_file(folder(m, "staging"), 3)),
        "staging",
        "of its log were edited",
        "from a backup",
    ),
    "the newest receipt is edited": (
        lambda m: edit(newest(m, "staging")),
        "staging",
        "of its log were edited",
        "from a backup",
    ),
    "the newest commit is cut": (
        lambda m: newest(m, "raw").write_bytes(newest(m, "raw").read_bytes()[:-40]),
        "raw",
        "is torn (the newest",
        "mend raw --yes",
    ),
    "rows are appended": (
        lambda m: write_as_others(m, 5, 9, mode="append"),
        "features",
        f"changed data and are not ours ({day(5)}",
        f"--from {day(5)} --to",
    ),
    "a day is emptied": (
        lambda m: write_as_others(
            m, 7, 0, mode="overwrite", predicate=f"feature_date = '{day(7)}'"
        ),
        "features",
        f"{day(7)})",
        f"--to {day(7)}",
    ),
}


def names(found: list[Diagnosis], table: str, told: str, advice: str) -> bool:
    return any(
        f"the table {table}" == d.object and told in d.what and advice in d.advice for d in found
    )


@pytest.mark.parametrize("name", HURTS)
def test_each_harm_is_named_with_the_way_back(made: Planned, name: str) -> None:
    assert wrong(made) == []
    hurt, *told = HURTS[name]
    hurt(made)
    assert names(wrong(made), *told), wrong(made)


def test_a_data_file_that_a_bucket_lost_is_named_and_hides_no_other_day(
    made: Planned,
    bucket_address: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path_factory.mktemp("state")))
    root = local_root(bucket_address)
    copy_lake(made.lake, root)
    lake, features = open_lake(root), made.contract("features")
    lost = next(f for f in files_of_version(lake, features) if f.partition == str(day(0)))
    lake.table_place("features").delete(lost.path)
    found = [
        d
        for d in verify_tables(lake, made.pipeline.contracts, EVERYTHING)
        if d.level is not Level.OK
    ]
    assert names(
        found,
        "features",
        "data file(s) of its newest version are gone",
        f"--force --from {day(0)} --to",
    )
    assert [d.what for d in found if d.object == "the contents of features"] == [
        f"1 day(s) cannot be read: {day(0)}"
    ]


def test_all_harms_at_once_are_named_each(made: Planned) -> None:
    for hurt, *_ in HURTS.values():
        hurt(made)
    found = wrong(made)
    assert [name for name, (_, *told) in HURTS.items() if not names(found, *told)] == []


def test_a_kept_state_that_is_not_what_the_commits_say_is_named_until_it_is_deleted(
    made: Planned,
) -> None:
    kept = state_file(folder(made, "staging"), 19)
    text = gzip.decompress(kept.read_bytes()).decode()
    kept.write_bytes(
        gzip.compress(text.replace('"foreign":[]', f'"foreign":["{day(1)}"]').encode())
    )
    found = wrong(made)
    assert names(
        found, "staging", "1 kept state(s) of its log are not what its commits say", "rm /"
    ), found
    [command] = re.findall(r"`rm (\S+)`", "".join(d.advice for d in found))
    Path(command).unlink()
    assert wrong(made) == []


def test_a_newest_commit_that_is_gone_is_named_and_its_number_is_never_given_to_other_rows(
    made: Planned,
) -> None:
    newest(made, "raw").unlink()
    before = versions(made.lake.table_place("raw"))[-1]
    assert names(
        wrong(made),
        "raw",
        f"version(s) {before + 1}, the newest of its log, are gone",
        "mend raw --yes",
    )
    mend_table(made.lake, made.contract("raw"), Provenance("test"))
    [mended] = made.lake.store.commits("raw", before)
    assert mended.receipt is not None
    assert (mended.version, mended.receipt.reason, dict(mended.receipt.days)) == (
        before + 1,
        "mend",
        {},
    )


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


def test_files_of_earlier_versions_are_read_when_asked(made: Planned) -> None:
    store, contract = made.lake.store, made.contract("staging")
    live = {*store.data_files(contract)}
    flip(next(Path(f) for f in store.data_files(contract, 1) if f not in live), 30)
    assert wrong(made, VerifyRequest()) == []
    assert names(wrong(made), "staging", "of earlier versions hold other bytes", "rollback")


def test_rows_of_a_table_without_digests_are_still_held_against_their_receipts(
    made: Planned,
) -> None:
    """As earlier releases wrote it: commits that name no digests, and no note beside the log."""
    table = folder(made, "features")
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
    for asked, told in (
        (VerifyRequest(("nothing",)), "no such table"),
        (VerifyRequest(days={day(400)}), "none of these days was written"),
    ):
        with pytest.raises(BackfillError, match=told):
            verify_tables(made.lake, made.pipeline.contracts, asked)
