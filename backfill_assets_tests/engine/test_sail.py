"""What starts a Sail server: its size, its identity, and the refusals. Does not test here: its life (`test_launch`)."""

from pathlib import Path

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.engine import sail
from backfill_assets.engine.confs import SAIL, EngineSettings
from backfill_assets.engine.sail_process import OPEN_PORT
from backfill_assets.engine.server_state import ServerFolder

SETTINGS = EngineSettings(SAIL, memory="1g", cores=3, idle_minutes=2)


def test_memory_and_cores_of_the_lake_are_those_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAIL_MODE", "kubernetes-cluster")
    environ = sail.sail_environ(ServerFolder.of(tmp_path), SETTINGS)
    assert environ["SAIL_MODE"] == "local"
    assert int(environ["SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE"]) <= 1 << 30
    assert environ["SAIL_EXECUTION__DEFAULT_PARALLELISM"] == environ["TOKIO_WORKER_THREADS"] == "3"


def test_a_machine_without_private_networks_gets_no_open_server_unless_it_is_allowed(
    tmp_path: Path,
) -> None:
    state = ServerFolder.of(tmp_path)
    with pytest.raises(SettingsError, match=r"Operation not permitted.*every user of the machine.*open_port = true"):
        sail.prepare_sail(state, SETTINGS, lambda: "Operation not permitted")
    allowed = EngineSettings(SAIL, open_port=True)
    assert OPEN_PORT in sail.prepare_sail(state, allowed, lambda: "Operation not permitted").command


def test_what_is_not_installed_is_named_with_the_way_to_install_it() -> None:
    with pytest.raises(SettingsError, match=r"not installed.*pip install 'backfill-assets\[sail\]'"):
        sail.refuse_absent("pysail_of_no_machine")


def test_sparks_configuration_is_refused_and_not_ignored() -> None:
    with pytest.raises(SettingsError, match=r"spark\.sql\.shuffle\.partitions.*does not heed"):
        EngineSettings(SAIL, confs={"spark.sql.shuffle.partitions": "3"})
