"""What delta-rs would not survive is refused before it reads a log: pipes, links, deep JSON,
endless lines and tables.

Not here: what loops over tables do with the refusal.
"""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.intake.log_bounds import COMMIT_BYTES, LINE_BYTES, log_fault
from backfill_assets.kernel.log.log import commit_versions
from backfill_assets.kernel.place.folder import Folder

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "t", pa.table({"n": [1]}))
    write_deltalake(tmp_path / "t", pa.table({"n": [2]}), mode="append")
    return tmp_path / "t"


def commit(table: Path, *actions: Any) -> None:
    """Write the third commit of a table."""
    (table / "_delta_log" / f"{2:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def fault(table: Path) -> str:
    return log_fault(Folder(str(table)))


def test_a_log_as_writers_leave_it_may_be_read(table: Path) -> None:
    assert fault(table) == ""
    DeltaTable(str(table)).create_checkpoint()
    assert fault(table) == ""


def test_deep_json_in_an_action_or_in_its_texts_is_refused(table: Path) -> None:
    (table / "_delta_log" / f"{2:020d}.json").write_text(f'{{"commitInfo": {DEEP}}}')
    assert fault(table) == f"its commit {2:020d}.json is nested more than 100 levels deep"
    commit(table, {"add": {"path": "x", "stats": DEEP}})
    assert (
        fault(table)
        == f"its commit {2:020d}.json holds a text that is nested more than 100 levels deep"
    )


def test_brackets_in_texts_are_no_depth(table: Path) -> None:
    commit(
        table,
        {"commitInfo": {"note": DEEP}},
        {"add": {"path": "x", "stats": json.dumps({"min": DEEP})}},
    )
    assert fault(table) == ""


def test_columns_beyond_the_bound_of_landed_files_are_refused(table: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"name": f"c{n}", "type": "string", "nullable": True, "metadata": {}} for n in range(2_001)
    ]
    commit(table, {"metaData": {"schemaString": json.dumps({"type": "struct", "fields": fields})}})
    assert (
        fault(table) == f"its commit {2:020d}.json names 2001 columns, more than the limit of 2000"
    )
    commit(
        table, {"metaData": {"schemaString": json.dumps({"type": "struct", "fields": fields[1:]})}}
    )
    assert fault(table) == ""
    fields[1]["metadata"] = {"name": "an old one"}
    commit(
        table, {"metaData": {"schemaString": json.dumps({"type": "struct", "fields": fields[1:]})}}
    )
    assert fault(table) == "", "2001 names, 2000 of them of columns"


def test_endless_lines_and_commits_are_refused(table: Path) -> None:
    last = table / "_delta_log" / f"{2:020d}.json"
    last.touch()
    os.truncate(last, LINE_BYTES + 1)
    assert (
        fault(table)
        == f"its commit {last.name} has a line of more than the limit of {LINE_BYTES} bytes"
    )
    os.truncate(last, COMMIT_BYTES + 1)
    assert (
        fault(table)
        == f"its commit {last.name} has {COMMIT_BYTES + 1} bytes, more than the limit of "
        f"{COMMIT_BYTES}"
    )


def test_a_pipe_and_a_link_are_no_commits(table: Path) -> None:
    last = table / "_delta_log" / f"{2:020d}.json"
    os.mkfifo(last)
    assert fault(table) == f"its log has the file {2:020d}.json, which is no regular file"
    last.unlink()
    last.symlink_to("/dev/zero")
    assert fault(table) == f"its log has the file {2:020d}.json, which lies behind a link"


def test_only_what_is_read_is_looked_at(table: Path) -> None:
    (table / "_delta_log" / f"{2:020d}.json").write_text(f'{{"commitInfo": {DEEP}}}')
    assert log_fault(Folder(str(table)), 1) == ""
    write_deltalake(table.parent / "u", pa.table({"n": [1]}))
    DeltaTable(str(table.parent / "u")).create_checkpoint()
    assert fault(table.parent / "u") == ""


def test_deep_statistics_in_a_checkpoint_are_refused(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    (checkpoint,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(checkpoint).to_pylist()
    for row in (row for row in rows if row["add"]):
        row["add"]["stats"] = DEEP
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(checkpoint)), checkpoint)
    assert "holds a text that is nested more than 100 levels deep" in fault(table)


def test_a_name_of_other_digits_is_no_commit(table: Path) -> None:
    (table / "_delta_log" / "²³.json").write_text("{}")
    assert commit_versions(Folder(str(table))) == [0, 1]
    assert fault(table) == ""


def v2_checkpoint(table: Path, sidecar: str, stats: str = "{}") -> Path:
    """Write a checkpoint in JSON that names a sidecar, and that sidecar; returns its file."""
    log = table / "_delta_log"
    (log / "_sidecars").mkdir()
    action = {"sidecar": {"path": sidecar, "sizeInBytes": 1, "modificationTime": 1}}
    (log / f"{1:020d}.checkpoint.{'z' * 36}.json").write_text(json.dumps(action))
    rows = pa.table({"add": [{"path": "x", "stats": stats}]})
    pq.write_table(rows, log / "_sidecars" / "s.parquet")
    return log / "_sidecars" / "s.parquet"


@pytest.mark.parametrize(
    "named",
    ["../../out.parquet", "%2e%2e%2fout.parquet", "file:///out.parquet", "/o.parquet", ".."],
)
def test_a_sidecar_of_a_checkpoint_has_a_plain_name(table: Path, named: str) -> None:
    v2_checkpoint(table, named)
    assert fault(table).startswith("its checkpoint names the sidecar ")


def test_sidecars_and_checkpoints_in_json_have_the_bounds_of_others(table: Path) -> None:
    sidecar = v2_checkpoint(table, "s.parquet")
    assert fault(table) == ""
    pq.write_table(pa.table({"add": [{"path": "x", "stats": DEEP}]}), sidecar)
    assert "_sidecars/s.parquet holds a text that is nested more than 100 levels" in fault(table)
    sidecar.unlink()
    os.mkfifo(sidecar)
    assert "_sidecars/s.parquet, which is no regular file" in fault(table)
    (checkpoint,) = (table / "_delta_log").glob("*.checkpoint.*.json")
    checkpoint.write_text(f'{{"commitInfo": {DEEP}}}')
    assert fault(table).endswith("is nested more than 100 levels deep")


def test_the_pointer_to_a_checkpoint_is_no_pipe(table: Path) -> None:
    os.mkfifo(table / "_delta_log" / "_last_checkpoint")
    assert fault(table) == "its log has the file _last_checkpoint, which is no regular file"


def test_a_name_that_delta_rs_takes_for_no_checkpoint_hides_no_commit(table: Path) -> None:
    (table / "_delta_log" / f"{9:020d}.checkpoint.0.parquet").touch()
    (table / "_delta_log" / f"{2:020d}.json").write_text(f'{{"commitInfo": {DEEP}}}')
    assert "nested more than 100 levels deep" in fault(table)
