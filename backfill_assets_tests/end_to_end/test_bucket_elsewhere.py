"""A lake in a bucket whose engine computes elsewhere: it reads and writes the bucket itself, by S3A.

Lives here: a Spark Connect server that is none of the lake's own, on moto, which the lake gives addresses only.
Does not live here: engines of this machine (`test_bucket_lake`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.core.addresses import local_root
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.states import State
from backfill_assets.engine import foreign
from backfill_assets.engine.cache import present_jars, s3a_jars
from backfill_assets.engine.confs import s3a_confs
from backfill_assets.engine.jvm import find_java, launch_options
from backfill_assets.lake.audit import audit
from backfill_assets.lake.given_rows import GivenRows
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.restore import RestoreRequest, release_partitions, restore_partitions
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.settings import FILE_NAME
from backfill_assets.lake.staging import writing
from backfill_assets.lake.writing import WHOLE
from backfill_assets.operations.doctor import VerifyRequest, verify
from backfill_assets.places.choice import MACHINE, place_at
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.end_to_end.test_bucket_lake import EARLY, LATE, BucketWorld, bare_bucket
from backfill_assets_tests.end_to_end.test_invariance import RULES, assert_same, made
from backfill_assets_tests.end_to_end.worlds import land
from backfill_assets_tests.lake.test_session_theirs import spark_server
from backfill_assets_tests.processes import PIPES, start, until
from backfill_assets_tests.stores import KEY, SECRET, StoreServer

pytestmark = pytest.mark.on_spark("its engine is a server of Spark that is not the lake's own")

QUICK = {  # for few rows
    "spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}  # fmt: skip
DAYS = DayRange(RULES.start, RULES.start + 3 * ONE_DAY)
WRITES_AGAIN = """
import sys
from pathlib import Path
from backfill_assets.places import leases
from backfill_assets_tests.end_to_end.test_bucket_elsewhere import DAYS, BucketWorld
leases.LOCK_LEASE_SECONDS = leases.WRITE_LEASE_SECONDS = 0.5  # what it holds is another's soon after its death
BucketWorld(Path(sys.argv[1])).backfill(DAYS, "staging", force=True)
"""


@pytest.fixture(scope="module")
def elsewhere(moto_server: StoreServer) -> Iterator[str]:
    """The address of the server; skips where the jars of S3A are neither cached nor to be fetched."""
    try:
        jars = (*present_jars(), *s3a_jars(find_java().executable, launch_options()))
    except BackfillError as error:
        pytest.skip(str(error))
    keys = {"spark.hadoop.fs.s3a.access.key": KEY, "spark.hadoop.fs.s3a.secret.key": SECRET}
    store = s3a_confs(moto_server.environment, "")
    with spark_server(**QUICK, **keys, **store, **{"spark.jars": ",".join(map(str, jars))}) as port:
        yield f"sc://127.0.0.1:{port}"


@pytest.mark.slow
def test_a_server_elsewhere_makes_a_lake_in_a_bucket_what_it_is_in_a_folder(
    spark: object, elsewhere: str, bucket_address: str, tmp_path: Path
) -> None:
    folder, one = made(tmp_path / "folder", [EARLY]), BucketWorld(local_root(bucket_address))
    text = (folder.root / FILE_NAME).read_text().replace('"landing/**"', f'"{folder.landing}/**"')
    place, days = place_at(one.root), DAYS
    text = text.replace("[spark]", f'[spark]\nengine = "{elsewhere}"')
    place.write(FILE_NAME, f"{text}\n[audit]\nengine_from_mib = 0\n".encode())
    for world in (folder, one):
        world.backfill(days)
    assert_same(one, folder)
    copies = {path.parts[-5] for path in (one.root / MACHINE).glob("copies/tables/*/writes/*/*/*")}
    assert copies == {"arrivals", "raw", "staging"}, "no byte of the others came to this process"
    place.write(FILE_NAME, text.encode())  # few rows are counted sooner by DuckDB

    land(folder, "late.jsonl", LATE)
    for world in (folder, one):
        world.backfill(days)
    assert_same(one, folder)
    assert one.states() == folder.states()

    killed = start("-c", WRITES_AGAIN, one.root, **PIPES)
    until(lambda: "_temporary" in str(place.below("tables/staging/writes")), tmp_path, 120)
    killed.kill()
    killed.communicate()
    until(lambda: "_temporary" not in str(place.below("tables/staging/writes")), tmp_path, 60)
    until(lambda: not writing(place), tmp_path, 60)
    one.backfill(days, "staging", force=True)
    assert_same(one, folder)

    lake, pipeline = one.open()
    contract, first = pipeline.contract("features", ""), RULES.start
    seen = one.look().view.table("features").latest[first].version
    restore_partitions(lake.lake, RestoreRequest(contract, {first: 1}, {first: seen}), Provenance("test"))
    assert one.look().of("features", first) is State.HELD
    release_partitions(lake.lake, contract, [first], Provenance("test"))
    one.backfill(days, "features")
    assert_same(one, folder)
    checked = [*verify(lake.lake, pipeline.contracts, VerifyRequest(rows=True, deep=True))]
    assert [d for d in checked if d.level.name != "OK"] == []


def test_a_frame_of_an_asset_whose_machines_do_not_see_this_one_comes_by_the_bucket(
    spark: object, elsewhere: str, bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "why_unseen", lambda *_: "they are other machines")
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", elsewhere)
    lake = bare_bucket(bucket_address, tmp_path)
    rows = LakeSession(lake).spark().range(3).selectExpr("'A' entity", "id value", f"DATE'{day(0)}' event_date")
    staged = GivenRows.of(rows).stage(lake, STAGING)
    assert audit(lake, staged.paths, STAGING)[day(0)].rows == 3
    assert not any(WHOLE in name for name in lake.table_place("staging").below())
    staged.drop()
    assert lake.table_place("staging").below() == []
