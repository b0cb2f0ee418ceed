"""The files of a server's site: units that systemd takes, whatever signs are in their paths, and a
compose file.

Here: texts read back by their own readers. Not here: the processes that they start
(`end_to_end.test_processes_apart`), and the command (`test_production`).
"""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.cli.dagster_names import KEEPS_BACKFILLS
from backfill_assets.cli.site_files import SECRETS_FILE, Site, container_files, site_of, unit_files
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.units import unit_of

SITE = Site("/data/lake", Path("/data/home"), "lake", Path("/data/venv/bin"))
ODD_NAMES = st.text("ab %$\"'\\-_é", min_size=1, max_size=12).filter(
    lambda name: name == name.strip()
)


@given(ODD_NAMES)
def test_systemd_reads_back_every_sign_of_a_path(name: str) -> None:
    site = Site(f"/data/{name}", Path("/data", name), "lake", Path("/opt", name))
    for file, text in unit_files(site).items():
        if file.endswith(".service"):
            unit = unit_of(text)
            assert unit.environment["BACKFILL_ASSETS_LAKE"] == site.lake
            assert unit.environment["DAGSTER_HOME"] == str(site.home)
            assert Path(unit.command[0]).parent == site.programs


def test_only_the_daemon_keeps_backfills_while_the_code_server_is_away() -> None:
    keeping = {
        file
        for file, text in unit_files(SITE).items()
        if file.endswith(".service") and KEEPS_BACKFILLS in unit_of(text).environment
    }
    assert keeping == {"lake-daemon.service"}
    services = yaml.safe_load(container_files(SITE)["compose.yaml"])["services"]
    assert {n for n, s in services.items() if KEEPS_BACKFILLS in s["environment"]} == {"daemon"}


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("dagster", "dagster-webserver", "dagster-daemon"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    units = unit_files(Site(str(tmp_path), tmp_path, "root", programs))
    files = [tmp_path / name for name in units if name.endswith(".service")]
    for file in files:
        file.write_text(units[file.name])
    found = subprocess.run(
        ["systemd-analyze", "verify", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_containers_see_folders_at_the_paths_of_the_host_and_publish_the_pages_on_the_loopback() -> (
    None
):
    services = yaml.safe_load(container_files(SITE)["compose.yaml"])["services"]
    for service in services.values():
        assert service["volumes"] == ["/data/home:/data/home", "/data/lake:/data/lake"]
        assert service["env_file"] == [{"path": f"/data/home/{SECRETS_FILE}", "required": False}]
    assert services["web"]["ports"] == ["127.0.0.1:3000:3000"]
    assert "ports" not in services["code"]
    workspace = yaml.safe_load(container_files(SITE)["workspace.yaml"])
    assert workspace["load_from"][0]["grpc_server"]["host"] == "code"


def test_a_lake_in_a_bucket_is_no_volume_and_a_sign_of_variables_is_escaped() -> None:
    site = Site("s3://bucket/la$ke", Path("/data/home"), "lake", Path("/data/venv/bin"))
    service = yaml.safe_load(container_files(site)["compose.yaml"])["services"]["code"]
    assert service["volumes"] == ["/data/home:/data/home"]
    assert service["environment"]["BACKFILL_ASSETS_LAKE"] == "s3://bucket/la$$ke"


@pytest.mark.parametrize("home", ["", "relative/home"])
def test_a_site_without_an_absolute_home_is_refused_by_the_variable(
    monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", home)
    with pytest.raises(SettingsError, match="DAGSTER_HOME"):
        site_of("/data/lake", 0o077, has_postgres=False)
