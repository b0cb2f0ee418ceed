"""What an engine is configured with so that another user of the machine finds nothing, and what of
it may be printed. Not here: what a running server lets others do (`end_to_end.test_two_users`)."""

from pathlib import Path

import pytest

from backfill_assets.engines.confs import (
    EngineSettings,
    S3Address,
    launch_confs,
    s3a_confs,
    size_confs,
)
from backfill_assets.kernel.core.errors import SettingsError


@pytest.mark.parametrize("engine", ["embedded", "local[2]"])
def test_on_one_machine_sparks_own_ports_want_a_secret_and_its_files_are_private(
    tmp_path: Path, engine: str
) -> None:
    confs = launch_confs(EngineSettings(engine, umask=0o027), tmp_path)
    assert confs["spark.authenticate"] == "true"
    assert confs["spark.hadoop.fs.permissions.umask-mode"] == "027"
    ours = {"spark.authenticate": "true", "spark.authenticate.secret": "hunter2"}
    theirs = launch_confs(EngineSettings("spark://h:7077", confs=ours), tmp_path)
    assert theirs.items() >= ours.items(), "on a cluster its administrator decides"
    confs = launch_confs(
        EngineSettings(engine, confs={"spark.sql.extensions": "my.Extension"}), tmp_path
    )
    assert confs["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,my.Extension"
    with pytest.raises(SettingsError, match=r"spark\.authenticate"):
        EngineSettings(engine, confs={"spark.authenticate": "false"})


def test_a_driver_for_a_lake_in_a_bucket_finds_its_store_as_the_environment_says_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {
        "AWS_ENDPOINT_URL": "http://h:9",
        "AWS_REGION": "r",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
    }
    assert {
        k.removeprefix("spark.hadoop.fs.s3a."): v for k, v in s3a_confs(known, "s3://b/l").items()
    } == {
        "endpoint": "http://h:9",
        "endpoint.region": "r",
        "connection.ssl.enabled": "false",
        "path.style.access": "true",
    }
    assert s3a_confs({"AWS_DEFAULT_REGION": "r"}, "s3://b/l").keys() == {
        "spark.hadoop.fs.s3a.endpoint.region"
    }
    by_host = {
        "AWS_ENDPOINT_URL_S3": "https://b.s3.h/",
        **known,
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    }
    assert S3Address.of(by_host, "s3://b/l") == S3Address("https://s3.h", "r", by_path=False)
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    theirs = {"spark.hadoop.fs.s3a.endpoint": "http://theirs"}
    confs = launch_confs(
        EngineSettings("spark://h:7077", confs=theirs, bucket="s3://b/l"), tmp_path
    )
    assert confs.items() >= {**theirs, "spark.hadoop.fs.s3a.endpoint.region": "r"}.items()
    assert not any("s3a" in key for key in launch_confs(EngineSettings("spark://h:7077"), tmp_path))
    assert "hunter2" not in str(confs)


@pytest.mark.parametrize(("rows", "large"), [(0, "false"), (99_999, "false"), (100_000, "true")])
def test_small_inputs_are_neither_compiled_nor_planned_again_after_every_stage(
    rows: int, large: str
) -> None:
    chosen = size_confs(EngineSettings(), rows)
    assert [chosen["spark.sql.codegen.wholeStage"], chosen["spark.sql.adaptive.enabled"]] == [
        large,
        large,
    ]
    assert size_confs(EngineSettings("sc://somewhere"), rows) == {}, (
        "a cluster's administrator decides"
    )


def test_what_the_user_says_of_planning_or_compiling_stands() -> None:
    ours = size_confs(EngineSettings(confs={"spark.sql.adaptive.enabled": "true"}), 5)
    parts = "spark.sql.shuffle.partitions"
    assert set(ours) == {"spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode", parts}
    ours = size_confs(EngineSettings(confs={"spark.sql.codegen.comments": "true"}), 5)
    assert set(ours) == {"spark.sql.adaptive.enabled", parts}


@pytest.mark.parametrize(
    "key", ["spark.sql.session.timeZone", "spark.master", "spark.connect.grpc.binding.address"]
)
def test_what_the_promises_rest_on_cannot_be_configured_away(key: str) -> None:
    with pytest.raises(SettingsError, match=key):
        EngineSettings(confs={key: "x"})
