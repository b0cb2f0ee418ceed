"""What an engine is given of a lake's files: links and paths on this machine, addresses in a bucket
elsewhere. Not here: engines that use them (`end_to_end.test_bucket_elsewhere`)."""

import threading
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

from backfill_assets.engines.engine_paths import (
    engine_path,
    linked_folder,
    refuse_blind_engine,
    refuse_lost_files,
)
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import MOST_AT_ONCE
from backfill_assets_tests.end_to_end.test_bucket_lake import machine


def elsewhere(content_of: Any) -> Mock:
    """A session that no lake has opened: its machines read what `content_of` gives for an
    address."""
    session = Mock()
    session.read.schema.return_value.text.side_effect = lambda address: Mock(
        **{"first.return_value": content_of(address)}
    )
    return session


def test_a_session_elsewhere_gets_addresses_of_a_bucket_and_paths_of_a_folder(
    tmp_path: Path,
) -> None:
    session = elsewhere(None)
    bucket = place_at(local_root("s3://bucket/lake")).at("tables/raw")
    assert engine_path(session, bucket, "writes/w") == "s3a://bucket/lake/tables/raw/writes/w"
    assert engine_path(session, bucket) == "s3a://bucket/lake/tables/raw"
    assert engine_path(session, Folder(str(tmp_path)), "a") == f"{tmp_path}/a"
    for theirs in ("az://other/orders/a.parquet", "gs://other/orders/a.parquet"):
        with pytest.raises(
            SettingsError,
            match=f"^{theirs}: .*machines that reach tables in S3 only. Nothing was run",
        ):
            engine_path(session, bucket, theirs)


def test_an_engine_that_does_not_read_what_was_just_written_is_refused_once_by_name(
    bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    place = place_at(local_root(bucket_address))

    def seen(address: str) -> list[str]:
        return [
            place.read(address.removeprefix(bucket_address.replace("s3:", "s3a:") + "/")).decode()
        ]

    def no_client(address: str) -> None:
        raise AnalysisException(
            "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem"
        )

    well = elsewhere(seen)
    for _ in range(2):
        refuse_blind_engine(well, place)
    assert well.read.schema.return_value.text.call_count == 1
    for content_of, why in (
        (no_client, "S3AFileSystem"),
        (lambda _: ["other"], "another file"),
        (lambda _: None, ""),
    ):
        blind = elsewhere(content_of)
        with pytest.raises(
            SettingsError, match=rf"{bucket_address}.*do not read s3a://.*{why}.*hadoop-aws"
        ):
            refuse_blind_engine(blind, place)
    assert place.below() == []


@dataclass(frozen=True)
class AskedTogether(Folder):
    """A folder in the place of a store, which answers once so many ask at once."""

    is_store = True
    met: ClassVar = threading.Barrier(MOST_AT_ONCE)

    def open(self, name: str, *, at_end: bool = False, at_hand: bool = False) -> BufferedReader:
        self.met.wait(60)
        return super().open(name, at_end=at_end, at_hand=at_hand)


def test_the_footers_of_files_that_machines_elsewhere_wrote_are_asked_for_at_once(
    tmp_path: Path,
) -> None:
    names = [f"{n}.parquet" for n in range(MOST_AT_ONCE)]
    for name in names:
        pq.write_table(pa.table({"n": [1, 2]}), tmp_path / name)
    lake, rows = AskedTogether(str(tmp_path)), 2 * MOST_AT_ONCE
    refuse_lost_files(elsewhere(None), lake, lake, names, counted=rows)


def test_every_file_lies_once_below_its_value_even_where_names_are_equal(tmp_path: Path) -> None:
    files = []
    for write in ("one", "two"):
        path = tmp_path / write / "part-0.parquet"
        path.parent.mkdir()
        path.write_text(write)
        files.append(("2024-03-01", path))
    folder = linked_folder(tmp_path, "day", files)
    assert sorted(p.read_text() for p in (folder / "day=2024-03-01").iterdir()) == ["one", "two"]
    assert linked_folder(tmp_path, "day", files) != folder


def test_a_file_that_waits_on_this_machine_is_sent_before_a_session_elsewhere_is_named_it(
    bucket_address: str, tmp_path: Path
) -> None:
    here, there = (machine(bucket_address, tmp_path / name) for name in ("here", "there"))
    place = place_at(here)
    (place.prepared("tables/t/writes") / "a.parquet").write_bytes(b"rows")
    assert not place_at(there).token("tables/t/writes/a.parquet")
    engine_path(elsewhere(None), place.at("tables/t"), "writes/a.parquet")
    assert place_at(there).read("tables/t/writes/a.parquet") == b"rows"
