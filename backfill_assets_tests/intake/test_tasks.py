"""Tasks that take in landed files, run in this process: what a probe answers, and the row of a file
that fails.

Lives here: folders in place of buckets, no engine. Does not live here: who starts tasks
(`engines.test_taking`).
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from backfill_assets.intake.dialect import Dialect
from backfill_assets.intake.files import landed_object
from backfill_assets.intake.ingest import ingest
from backfill_assets.intake.tasks import Intake, Probe, Tasks, code_digest
from backfill_assets.kernel.place.choice import place_at

FILE = "one.csv"


def one_batch() -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch({"id": pa.array([0], pa.int64())})])


@pytest.mark.parametrize(
    ("release", "name", "why"), [("other", FILE, "another release"), ("", "no.csv", "not find")]
)
def test_a_probe_says_why_tasks_cannot_run_there(
    tmp_path: Path, release: str, name: str, why: str
) -> None:
    place = place_at(tmp_path)
    place.write(FILE, b"event_key\na\n")
    token = place.token(FILE)
    (batch,) = Probe(release or code_digest(), place, name, token).run(one_batch())
    assert why in batch.to_pylist()[0]["why"]
    (batch,) = Probe(code_digest(), place, FILE, token).run(one_batch())
    assert batch.to_pylist() == [{"why": ""}]


def test_a_task_answers_with_the_description_of_each_file_or_why_there_is_none(
    tmp_path: Path,
) -> None:
    place, store = place_at(tmp_path), place_at(tmp_path / "store")
    files = []
    for name in (FILE, "gone.csv"):
        place.write(name, b"event_key\na\n")
        token = place.token(name)
        assert token is not None
        files.append(landed_object(place, name, token))
    wanted = ingest(files[0], "csv", place_at(tmp_path / "here"))
    place.delete("gone.csv")
    intake = Intake("csv", Dialect(), by_path=False, in_place=False, is_undecoded=False)
    probe = Probe(code_digest(), place, FILE, place.token(FILE))
    (batch,) = Tasks(intake, store, [files], probe).run(one_batch())
    taken, gone = batch.to_pylist()
    assert (taken["name"], taken["sha256"], taken["failed"]) == (FILE, wanted.sha256, None)
    assert json.loads(taken["described"])["rows"] == wanted.rows == 1
    assert (gone["name"], gone["described"]) == ("gone.csv", None)
    assert gone["failed"]


def test_a_task_on_a_machine_of_another_release_or_store_takes_nothing_in(tmp_path: Path) -> None:
    """The machine that was asked at first may be another one."""
    place, store = place_at(tmp_path), place_at(tmp_path / "store")
    token = place.write(FILE, b"event_key\na\n")
    intake = Intake("csv", Dialect(), by_path=False, in_place=False, is_undecoded=False)
    for probe in (
        Probe("other", place, FILE, token),
        Probe(code_digest(), place_at(tmp_path / "elsewhere"), FILE, token),
    ):
        (batch,) = Tasks(intake, store, [[landed_object(place, FILE, token)]], probe).run(
            one_batch()
        )
        (row,) = batch.to_pylist()
        assert row == {"name": FILE, "sha256": None, "described": None, "failed": probe.why_not()}
        assert row["failed"]
    assert not store.below()
