"""A trust store for a Java that knows fewer certificates than the machine it runs on.

Lives here: Java's own store plus the machine's certificates that it lacks. Does not live here: fetching anything
(`cache`). Why: a Java from PyPI brings its own certificates; behind a proxy that signs with a certificate of the
house, pip trusts the machine's and works, and Java would refuse every connection.
"""

import hashlib
import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path

BUNDLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE")  # what pip and requests are told; SSL_CERT_FILE is read by ssl itself
PASSWORD = "changeit"  # noqa: S105 - Java's documented default: the store holds public certificates only
MOST_ADDED = 60  # each costs a start of keytool, a third of a second
_FINGERPRINT = re.compile(r"SHA-?256\)?: ([0-9A-F:]+)")


def trust_store(java: Path, folder: Path) -> Path | None:
    """A store in `folder` for the program `java`; None where the machine has nothing to add or keytool is absent."""
    keytool, own = java.with_name("keytool"), java.parent.parent / "lib" / "security" / "cacerts"
    if not keytool.exists() or not own.exists():
        return None
    known = set(_FINGERPRINT.findall(_run(keytool, "-list", own)))
    lacking = [der for der in _machine_certificates() if _fingerprint(der) not in known][:MOST_ADDED]
    if not lacking:
        return None
    store = folder / "cacerts"
    shutil.copyfile(own, store)
    for number, der in enumerate(lacking):
        file = folder / f"{number}.der"
        file.write_bytes(der)
        _run(keytool, "-importcert", store, "-noprompt", "-alias", f"machine-{number}", "-file", str(file))
    return store


def _machine_certificates() -> list[bytes]:
    """The certificates (DER) that OpenSSL trusts here, each once."""
    context = ssl.create_default_context()
    for name in BUNDLES:
        bundle = os.environ.get(name, "")
        if bundle and Path(bundle).is_file():
            context.load_verify_locations(bundle)
    return list(dict.fromkeys(context.get_ca_certs(binary_form=True)))


def _fingerprint(der: bytes) -> str:
    digest = hashlib.sha256(der).hexdigest().upper()
    return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))


def _run(keytool: Path, command: str, store: Path, *more: str) -> str:
    done = subprocess.run(
        [str(keytool), command, "-keystore", str(store), "-storepass", PASSWORD, *more],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.stdout
