"""A lake in a bucket whose engine computes elsewhere: it reads and writes the bucket itself, by
S3A.

Lives here: a Spark Connect server that is none of the lake's own, on moto, which the lake gives
addresses only. Does not live here: engines of this machine (`test_bucket_lake`).
"""

import gzip
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from backfill_assets.assets.given_rows import GivenRows
from backfill_assets.cli.app import app
from backfill_assets.engines import foreign
from backfill_assets.engines.cache import present_jars, s3a_jars
from backfill_assets.engines.confs import s3a_confs
from backfill_assets.engines.frame_files import WHOLE
from backfill_assets.engines.jvm import find_java, launch_options
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.session import drop_session
from backfill_assets.intake.arrivals import commit_arrivals
from backfill_assets.intake.ledger import read_files
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.place.choice import MACHINE, place_at
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.staging import tables_being_written
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.plans.restore import (
    RestoreRequest,
    release_partitions,
    restore_partitions,
)
from backfill_assets.upkeep.doctor import VerifyRequest, verify_tables
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.end_to_end import test_external_tables as orders
from backfill_assets_tests.end_to_end.test_bucket_lake import EARLY, LATE, bare_bucket, machine
from backfill_assets_tests.end_to_end.test_external_tables import D1, D2, D3
from backfill_assets_tests.end_to_end.test_invariance import RULES, assert_same
from backfill_assets_tests.end_to_end.worlds import (
    World,
    encoded,
    in_place,
    land,
    land_bytes,
    make_world,
)
from backfill_assets_tests.engines.test_session_theirs import spark_server
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.intake.test_arrival_rows import with_audit
from backfill_assets_tests.intake.test_arrivals import (
    CONTRACTS,
    START,
    kept_in,
    keyed,
    load,
    on,
    promised,
    with_key_day,
)
from backfill_assets_tests.intake.test_arrivals import DAYS as LEDGER_DAYS
from backfill_assets_tests.oracle import Row, unruly
from backfill_assets_tests.processes import PIPES, start, until
from backfill_assets_tests.stores import KEY, SECRET, StoreServer

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.in_turn("elsewhere"),
    pytest.mark.on_spark("its engine is a server of Spark that is not the lake's own"),
]

QUICK = {  # for few rows
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
LOADED = ("raw", "quarantine", "arrivals")
THEIR_SERVER = "THEIR_SERVER"
MOST_STARTS = 5
DAYS = DayRange(RULES.start, RULES.start + 3 * ONE_DAY)
WRITES_AGAIN = """
import sys
from pathlib import Path
from backfill_assets.buckets import leases
from backfill_assets_tests.end_to_end.test_bucket_elsewhere import DAYS
from backfill_assets_tests.end_to_end.worlds import World
leases.LOCK_LEASE_SECONDS = leases.WRITE_LEASE_SECONDS = 0.5  # what it holds is another's soon after its death
World(Path(sys.argv[1])).backfill(DAYS, "staging", force=True)
"""


@pytest.fixture(scope="module")
def elsewhere(moto_server: StoreServer) -> Iterator[str]:
    """The address of the server; skips where the jars of S3A are neither cached nor to be
    fetched."""
    try:
        jars = (*present_jars(), *s3a_jars(find_java().executable, launch_options()))
    except BackfillError as error:
        pytest.skip(str(error))
    keys = {"spark.hadoop.fs.s3a.access.key": KEY, "spark.hadoop.fs.s3a.secret.key": SECRET}
    store = s3a_confs(moto_server.environment, "")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as started:
        for name, value in moto_server.environment.items():
            patch.setenv(name, value)  # the Python of its workers reaches the store as well
        port = started.enter_context(
            spark_server(**QUICK, **keys, **store, **{"spark.jars": ",".join(map(str, jars))})
        )
        yield f"sc://127.0.0.1:{port}"
        if their_session.cache_info().currsize:
            their_session().stop()


@cache
def their_session() -> Any:
    """A session as a project makes it."""
    from pyspark.sql import SparkSession

    made = SparkSession.builder.remote(os.environ[THEIR_SERVER])
    for name, (values, _) in foreign.NEEDED_CONFS.items():
        made = made.config(name, values[0])
    return made.create()


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server, which is on this machine, for one that sees no folder of it."""
    monkeypatch.setattr(foreign, "unseen_folder_reason", lambda *_: "they are other machines")


def landed(folder: World, place: Place, name: str, rows: Sequence[Row]) -> None:
    """Land a file for the lake in a folder and for the one in a bucket."""
    place.write(f"landing/{name}", land(folder, name, rows).read_bytes())


def copies(root: Path) -> set[str]:
    """The tables of which this machine has a copy of a data file, or made one."""
    return {path.parts[-5] for path in (root / MACHINE).glob("copies/tables/*/writes/*/*/*")}


def killed_within(one: World, place: Place) -> bool:
    """Kill a process that writes staging; whether that was within the engine's write, which may be
    over in between two looks."""
    process, pause = start("-c", WRITES_AGAIN, one.root, **PIPES), threading.Event()
    while (is_alive := process.poll() is None) and "_temporary" not in str(
        place.below("tables/staging/writes")
    ):
        pause.wait(0.02)
    process.kill()
    _, told = process.communicate()
    assert is_alive or process.returncode == 0, told
    return is_alive


def killed(one: World, folder: Path) -> None:
    """Kill a process within the engine's write of staging; wait until the engine ended it and its
    lease is over."""
    place = place_at(one.root)
    assert any(killed_within(one, place) for _ in range(MOST_STARTS))
    until(lambda: "_temporary" not in str(place.below("tables/staging/writes")), folder, 60)
    until(lambda: not tables_being_written(place), folder, 60)


@pytest.mark.slow
@pytest.mark.usefixtures("spark", "unseen")
def test_a_server_elsewhere_makes_a_lake_in_a_bucket_what_it_is_in_a_folder(
    elsewhere: str, bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parquet in the bucket is read in place: by the server's address, and at last by a project's
    own session on it."""
    folder, one = (
        in_place(make_world(tmp_path / "folder", RULES, "parquet")),
        World(local_root(bucket_address)),
    )
    place, days, bare = place_at(one.root), DAYS, (folder.root / FILE_NAME).read_text()
    text = bare.replace("[spark]", f'[spark]\nengine = "{elsewhere}"')
    landed(folder, place, "early.parquet", EARLY)
    place.write(FILE_NAME, f"{text}\n[audit]\nengine_from_mib = 0\n".encode())
    for world in (folder, one):
        world.backfill(days)
    assert_same(one, folder)
    landed(folder, place, "late.parquet", LATE)
    for world in (folder, one):
        world.backfill(days)
    assert_same(one, folder)
    assert one.states() == folder.states()
    assert copies(one.root) == {"arrivals"}, "no byte of the others came here, by neither load"
    place.write(FILE_NAME, text.encode())  # few rows are counted sooner by DuckDB

    killed(one, tmp_path)
    theirs = f'[spark]\nengine = "session"\nsession = "{__name__}:their_session"'
    place.write(FILE_NAME, bare.replace("[spark]", theirs).encode())
    monkeypatch.setenv(THEIR_SERVER, elsewhere)
    one.backfill(days, "staging", force=True)
    assert_same(one, folder)

    lake, pipeline = one.open()
    contract, first = pipeline.contract("features", ""), RULES.start
    seen = one.look().view.table("features").latest[first].version
    restore_partitions(
        lake.lake, RestoreRequest(contract, {first: 1}, {first: seen}), Provenance("test")
    )
    assert one.look().of("features", first) is State.HELD
    release_partitions(lake.lake, contract, [first], Provenance("test"))
    one.backfill(days, "features")
    assert_same(one, folder)
    checked = [*verify_tables(lake.lake, pipeline.contracts, VerifyRequest(rows=True, deep=True))]
    assert [d for d in checked if d.level.name != "OK"] == []


@pytest.mark.slow
@pytest.mark.usefixtures("spark", "unseen")
@pytest.mark.parametrize(
    "is_far", [True, False], ids=["the lake in a bucket", "the lake in a folder"]
)
def test_daily_tables_of_others_in_another_bucket_are_read_there(
    elsewhere: str, bucket_address: str, moto_server: StoreServer, tmp_path: Path, is_far: bool
) -> None:
    table = f"{moto_server.new_bucket()}/warehouse/orders"
    write_deltalake(table, orders.FIRST, partition_by="order_date" if is_far else None)
    root = machine(bucket_address, tmp_path / "state") if is_far else tmp_path / "lake"
    place_at(root).write("pipeline.py", orders.TRAILING.encode())
    sections = f'[spark]\nengine = "{elsewhere}"\n[pipeline]\ntables = "pipeline.py:tables"\n'
    others = f'[tables.orders]\nexternal = "{table}"\nday = "order_date"\n'
    place_at(root).write(
        FILE_NAME, f"start_date = {D1}\nassets_only = true\n{sections}{others}".encode()
    )
    commanded(root, "catch-up")
    DeltaTable(table).update(
        updates={"amount": "5"}, predicate="customer = 'ada' AND order_date = '2024-03-02'"
    )
    DeltaTable(table).optimize.compact()
    assert "spent 2024-03-02..2024-03-03: 2 days, 2 changed" in commanded(root, "catch-up")
    found = [orders.spent(read_lake(root), d) for d in (D1, D2, D3)]
    assert found == [{"ada": 1, "ben": 2}, {"ada": 6, "ben": 2}, {"ada": 5, "ben": 8}]
    assert "all is well" in commanded(root, "verify", "--deep")
    drop_session(root)  # before the server ends, which it would ask again and again


def commanded(root: Path, *words: str) -> str:
    """What a command says of the lake, which must succeed."""
    done = CliRunner().invoke(app, ["--lake", str(root), *words])
    assert done.exit_code == 0, done.output
    return done.output


IN_PYTHON = (
    f'engine = "{{}}"\n[spark.confs]\n"spark.sql.execution.pyspark.python" = "{sys.executable}"'
)
SEMICOLONS = '[source.dialect]\nseparator = ";"\n[features]'


def of_ledger(world: World) -> set[tuple[object, ...]]:
    records = read_files(world.open()[0].lake.store, "")
    return {
        (r.path, r.sha256, r.size, str(r.days), r.home_day, r.refused, r.withdrawn) for r in records
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "parquet in place"])
@pytest.mark.usefixtures("spark", "unseen")
def test_an_engine_elsewhere_takes_in_what_this_process_would_and_no_byte_passes_it(
    elsewhere: str, bucket_address: str, tmp_path: Path, passing: list[str], kind: str
) -> None:
    format, ending = kind.split()[0], ".gz" if kind in ("csv", "jsonl") else ""
    folder, one = make_world(tmp_path / "folder", RULES, format), World(local_root(bucket_address))
    text = (
        (in_place(folder).root if "place" in kind else folder.root).joinpath(FILE_NAME).read_text()
    )
    text = text.replace("[features]", SEMICOLONS) if kind == "csv" else text
    (folder.root / FILE_NAME).write_text(text)
    place = place_at(one.root)
    place.write(
        FILE_NAME, text.replace("[spark]", f"[spark]\n{IN_PYTHON.format(elsewhere)}").encode()
    )

    def land_both(name: str, content: bytes) -> None:
        land_bytes(folder, name, content)
        place.write(f"landing/{name}", content)

    def sent(rows: Sequence[Row]) -> bytes:
        return encoded(format, rows).replace(b",", b";" if kind == "csv" else b",")

    land_both(f"early.{format}", sent(EARLY))
    land_both(f"again.{format}", sent(EARLY))
    land_both(f"bad.{format}", b"no file of its kind\x00")
    for world in (folder, one):
        world.backfill(DAYS, "raw")
    land_both(f"late.{format}{ending}", gzip.compress(sent(LATE)) if ending else sent(LATE))
    land_both(f"redelivered.{format}", sent(EARLY))
    for world in (folder, one):
        world.backfill(DAYS, "raw")
    assert of_ledger(one) == of_ledger(folder)
    assert {name: one.content(name) for name in LOADED} == {
        name: folder.content(name) for name in LOADED
    }
    assert one.fingerprints()["raw"] == folder.fingerprints()["raw"]
    landed_ones = (key for key in passing if key.startswith(("lake/landing/", "lake/.stock/")))
    assert {key for key in landed_ones if not key.endswith((".json", ".hashes"))} == set()


@pytest.mark.usefixtures("unseen")
def test_a_projects_session_without_a_client_of_the_store_is_refused(
    spark: object, bucket_address: str, tmp_path: Path
) -> None:
    lake = bare_bucket(bucket_address, tmp_path)
    with pytest.raises(SettingsError, match=r"its machines do not read s3a://.*hadoop-aws"):
        LakeSession(lake, project_session=spark).for_reading()


@pytest.mark.usefixtures("unseen")
def test_a_frame_of_an_asset_whose_machines_do_not_see_this_one_comes_by_the_bucket(
    spark: object,
    elsewhere: str,
    bucket_address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", elsewhere)
    monkeypatch.setenv("BACKFILL_ASSETS__AUDIT__ENGINE_FROM_MIB", "0")
    lake_session = LakeSession(bare_bucket(bucket_address, tmp_path))
    lake = lake_session.lake
    for event_date in (
        f"DATE'{day(0)}'",
        f"'{day(0)}'",
    ):  # rows with a text for a day are converted here
        rows = (
            lake_session.spark()
            .range(3)
            .selectExpr("'A' entity", "id value", f"{event_date} event_date")
        )
        staged = GivenRows.of(rows).stage(lake, STAGING)
        auditor = lake_session.auditor(STAGING, staged.files)
        assert auditor.profiles(STAGING, staged, {})[day(0)].rows == 3
        assert copies(lake.root) == set() or "DATE" not in event_date
        assert not any(WHOLE in name for name in lake.table_place("staging").below())
        staged.drop()


@pytest.mark.usefixtures("unseen")
def test_the_rows_of_the_ledger_are_computed_where_the_files_of_raw_lie(
    spark: object,
    elsewhere: str,
    bucket_address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a first load, of one that moves keys of other days, and where keys name days; without a
    copy of raw."""
    folder = with_audit(bare_lake(tmp_path / "folder"), engine="duckdb")
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", elsewhere)
    lake = with_audit(bare_bucket(bucket_address, tmp_path), engine_from_mib=0)
    histories = [keyed(unruly(seed, START, days=6, rows=60, keys=12)) for seed in range(2)]
    copies = lake.root / MACHINE / "copies/tables/raw"
    for days, which, name in (
        (LEDGER_DAYS[:5], 0, ""),
        (LEDGER_DAYS[2:3], 1, ""),
        (LEDGER_DAYS, 0, "a"),
    ):
        rows = on(histories[which], {*days})
        rows = promised(rows) if name else rows
        load(with_key_day(folder) if name else folder, rows, {*days}, name)
        there = with_key_day(lake) if name else lake
        load(there, rows, {*days}, name, dies=True)
        shutil.rmtree(copies)
        commit_arrivals(
            LakeSession(there),
            CONTRACTS,
            read_view(lake, CONTRACTS),
            Provenance("test", settings_digest=name),
        )
        assert not [*copies.glob("**/*.parquet")]
        assert kept_in(lake) == kept_in(folder)
