"""A store whose answers are lost, late or wrong: each write of the port happens once or not at all,
and says which. Not here: many processes (`test_store_races`), and pauses of processes
(`test_write_states`)."""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from backfill_assets.buckets.bucket import Bucket
from backfill_assets.kernel.core.errors import TransientError
from backfill_assets.kernel.core.receipts import Receipt, parse_receipt
from backfill_assets.kernel.place.port import AlreadyThere, Changed, Place
from backfill_assets.kernel.tables.committer import Conflict, commit_receipt
from backfill_assets_tests.faulty_store import (
    BUSY_409,
    BUSY_503,
    DONE_500,
    LOST,
    faults_met,
    faulty,
)
from backfill_assets_tests.stores import StoreServer

THREADS, WRITES, COMMITS = 3, 12, 4
SCHEMA = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}'


@pytest.fixture
def proxy(moto_server: StoreServer) -> Iterator[str]:
    """The address of the disturbed way to a store."""
    with faulty(moto_server.endpoint) as address:
        yield address


@pytest.fixture
def place(
    moto_server: StoreServer, proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    """A place in a new bucket that is reached by the disturbed way."""
    for name, value in {**moto_server.environment, "AWS_ENDPOINT_URL": proxy}.items():
        monkeypatch.setenv(name, value)
    return Bucket(f"{moto_server.new_bucket()}/lake", str(tmp_path))


def test_a_creation_happens_once_and_who_did_it_knows(place: Place, proxy: str) -> None:
    def created(number: int, name: str) -> str | None:
        try:
            place.write(name, f"{number}".encode(), if_absent=True)
        except (AlreadyThere, TransientError) as error:
            return type(error).__name__
        return "done"

    for n in range(WRITES):
        with ThreadPoolExecutor(THREADS) as pool:
            told = list(pool.map(created, range(THREADS), [f"{n}"] * THREADS))
        kept = int(place.read(f"{n}"))
        assert told.count("done") <= 1
        assert told[kept] != "AlreadyThere", (
            "the one whose content it is was told that it is another's"
        )
        assert all(word != "done" or number == kept for number, word in enumerate(told))
    met = faults_met(proxy)
    assert sum(met[fault] for fault in (LOST, BUSY_503, DONE_500, BUSY_409)) > WRITES


def test_a_replacement_happens_once_or_not_at_all(place: Place) -> None:
    place.write("list", json.dumps({"done": []}).encode())

    def added(number: int) -> list[str]:
        told = []
        for n in range(WRITES):
            mine = f"{number} {n} {uuid.uuid4().hex}"
            while True:
                try:
                    seen, done = place.token("list"), json.loads(place.read("list"))["done"]
                    place.write(
                        "list", json.dumps({"done": [*done, mine]}).encode(), if_unchanged=seen
                    )
                except (Changed, TransientError) as error:
                    if (
                        isinstance(error, Changed)
                        or mine not in json.loads(place.read("list"))["done"]
                    ):
                        continue
                told.append(mine)
                break
        return told

    with ThreadPoolExecutor(THREADS) as pool:
        told = [mine for of_thread in pool.map(added, range(THREADS)) for mine in of_thread]
    assert sorted(json.loads(place.read("list"))["done"]) == sorted(told)


def test_a_commit_happens_once_or_is_refused(
    place: Place, proxy: str, moto_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = place.at("tables/t")
    with monkeypatch.context() as undisturbed:
        undisturbed.setenv("AWS_ENDPOINT_URL", moto_server.endpoint)
        DeltaTable.create(table.uri(), Schema.from_json(SCHEMA))

    def committed(number: int) -> tuple[list[str], list[str]]:
        done, failed = [], []
        for n in range(COMMITS):
            write_id = f"{number}-{n}"
            try:
                commit_receipt(table, Receipt(write_id, "t", "test", {}))
            except (
                Conflict,
                TransientError,
                OSError,
                DeltaError,
            ) as error:  # the last one by an old listing
                failed.append(f"{write_id} {type(error).__name__}")
            else:
                done.append(write_id)
        return done, failed

    with ThreadPoolExecutor(THREADS) as pool:
        told = list(pool.map(committed, range(THREADS)))
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_server.endpoint)
    history = DeltaTable(table.uri()).history()
    kept = Counter(r.write_id for c in history if (r := parse_receipt(c.get("userMetadata"))))
    assert set(kept.values()) <= {1}
    assert {write for done, _ in told for write in done} <= {*kept}
    refused = {
        write.split()[0] for _, failed in told for write in failed if write.endswith("Conflict")
    }
    assert not refused & {*kept}
    assert kept
    assert sum(faults_met(proxy).values()) > COMMITS
