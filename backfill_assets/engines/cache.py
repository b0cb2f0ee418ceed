"""Jars of Delta and of Hadoop's S3A: fetched once per user by Spark's Ivy, compared with pinned
digests, then used without any network.

Not here: the digests (`jar_pins`), flags of the engine (`confs`, `jvm`). The jars of a Delta
without pins are used only where the setting `trust_jars` names their digest.
"""

import hashlib
import os
import shlex
import shutil
import stat
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from backfill_assets.engines.jar_pins import PINS, S3A
from backfill_assets.kernel.core.errors import BackfillError, SettingsError, unusable_file_error
from backfill_assets.kernel.core.ownership import foreign_owners, other_writers, user_name

CACHE_VARIABLE = "BACKFILL_ASSETS_CACHE"
SCALA = "2.13"
# The class `confs.NAKED_FILES`; 9 kB.
FILES_COORDINATE = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"
# 13 MB; a slow line needs minutes, a dead one should not hang a run for ever.
_FETCH_TIMEOUT_SECONDS = 600.0
_SHIPPED_WITH_SPARK = (
    "org.apache.*:*",
    "com.fasterxml.*:*",
    "com.github.luben:*",
    "com.google.*:*",
    "commons-*:*",
    "io.airlift:*",
    "javax.*:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
    "org.xerial.*:*",
    "org.locationtech.*:*",
    "org.scala-lang:*",
)  # what Delta names but Spark already has, in newer versions: 75 of 88 MB
# AWS's client by its parts, 12 MB; as one bundle it has 686.
_S3_CLIENT = tuple(
    f"software.amazon.awssdk:{part}:2.35.4"
    for part in ("s3", "sts", "s3-transfer-manager", "apache-client")
)
_NOT_FOR_S3 = (
    "commons-*:*",
    "com.google.*:*",
    "com.github.*:*",
    "io.netty:*",
    "org.apache.commons:*",
    "org.apache.httpcomponents:*",
    "org.checkerframework:*",
    "org.jspecify:*",
    "org.slf4j:*",
    "org.wildfly.openssl:*",
    "software.amazon.awssdk:bundle",
    "software.amazon.awssdk:netty-nio-client",
)  # what Spark has, and what only other clients need


class _JarSet(NamedTuple):
    """What is fetched with the jar of a coordinate."""

    further: tuple[str, ...]  # coordinates
    left_out: tuple[str, ...]  # of what all of them name


_JARS_OF_S3 = _JarSet(
    further=("software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1", *_S3_CLIENT),
    left_out=_NOT_FOR_S3,
)
_JARS_OF_DELTA = _JarSet(further=(FILES_COORDINATE,), left_out=_SHIPPED_WITH_SPARK)
_ERROR_WORDS = ("not found", "refused", "rror")  # in lines of Ivy's output
# Of pip and requests; `ssl` itself reads SSL_CERT_FILE.
BUNDLE_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE")
STORE_PASSWORD = "changeit"  # noqa: S105 - Java's documented default: the store holds public certificates only


def cache_folder() -> Path:
    """The per-user folder for jars: $BACKFILL_ASSETS_CACHE, else under $XDG_CACHE_HOME, else under
    ~/.cache.

    Raises SettingsError where another user could put programs there.
    """
    chosen, base = os.environ.get(CACHE_VARIABLE), os.environ.get("XDG_CACHE_HOME")
    standard = (Path(base) if base else Path.home() / ".cache") / "backfill-assets"
    named = Path(chosen).expanduser() if chosen else standard
    folder = named.resolve()  # the owner of a link may lead it elsewhere
    refuse_shared_cache(folder)
    return folder


def refuse_shared_cache(cache: Path) -> None:
    """Raise SettingsError where somebody else could put programs into the folder `cache`: where it,
    or a folder above, belongs to another user or may be written by others."""
    cache = cache.resolve()
    for folder in (cache, *cache.parents):
        why = _fault_of_folder(folder, is_cache=folder == cache)
        if why:
            raise SettingsError(
                f"the cache {cache}",
                f"{folder} {why}, and what lies there is run as you",
                "Nothing was taken from it and nothing was put there",
                f"Name a folder of your own in ${CACHE_VARIABLE}, or see that it is yours and "
                f"closed to others: chmod go-w {shlex.quote(str(folder))}",
            )


def _fault_of_folder(folder: Path, *, is_cache: bool) -> str:
    """Why others could put files into the cache by this folder, it or one above it; "" if none
    could. In a sticky folder above it (such as /tmp) nobody can replace what is another's."""
    if not folder.exists():
        return ""
    status = folder.stat()
    is_sticky = bool(status.st_mode & stat.S_ISVTX)
    others = other_writers(status) if is_cache or not is_sticky else ""
    if others:
        return f"may be written by {others}"
    for owner in foreign_owners(folder):
        return f"belongs to {user_name(owner)}"
    return ""


@cache
def spark_home() -> Path:
    """The folder of the installed `pyspark`, found without importing it. Raises BackfillError if it
    is missing."""
    package_version("pyspark")
    return Path(str(distribution("pyspark").locate_file("pyspark")))


@cache
def package_version(name: str) -> str:
    """The version of an installed package. Raises BackfillError if it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        raise BackfillError(
            f"the package {name}",
            "it is not installed in this Python environment",
            "Spark was not started",
            "Install it, or name the engine that computes elsewhere in [spark] of lake.toml",
        ) from None


def delta_coordinate() -> str:
    """Delta's Maven coordinate for the installed versions, e.g.
    `io.delta:delta-spark_4.2_2.13:4.4.0`."""
    spark = ".".join(package_version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_{SCALA}:{package_version('delta-spark')}"


def jars_folder(coordinate: str = "") -> Path:
    """Folder of a set's jars ("": Delta's of these versions). It is named by the set's coordinate
    and by what comes with it, because other versions of this package may use the same cache."""
    coordinate = coordinate or delta_coordinate()
    names = (coordinate, *(f.partition(":")[2] for f in _jar_set(coordinate).further))
    return cache_folder() / "jars" / "+".join(names).replace(":", "_")


def _jar_set(coordinate: str) -> _JarSet:
    """The set of a coordinate: S3's of its own, Delta's of any other, which names the versions."""
    return _JARS_OF_S3 if coordinate == S3A else _JARS_OF_DELTA


def present_jars(coordinate: str = "") -> tuple[Path, ...]:
    """A set's jars ("": Delta's) in the cache, sorted; empty if they were not fetched yet. No
    network."""
    return tuple(sorted(jars_folder(coordinate).glob("*.jar")))


def delta_jars(java: Path, options: Sequence[str], trusted: str = "") -> tuple[Path, ...]:
    """Delta's jars, as `_cached_jars` gives them."""
    return _cached_jars(delta_coordinate(), java, options, trusted)


def _cached_jars(
    coordinate: str, java: Path, options: Sequence[str], trusted: str = ""
) -> tuple[Path, ...]:
    """A set's jars, fetched with Spark's Ivy if the cache lacks them; `java` is the program that
    runs it.

    Concurrent callers fetch once. Raises BackfillError with Ivy's reason when the fetch fails, with
    the jar's name where one differs from its pin, and for a version without pins unless `trusted`
    is `jars_digest` its jars.
    """
    folder = jars_folder(coordinate)
    try:
        if not _has_all(coordinate):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_name(f"{folder.name}.lock")):
                if not _has_all(coordinate):
                    _fetch_into(folder, coordinate, java, options)
    except OSError as error:
        raise unusable_file_error(
            error, f"Name a folder that you can write to in ${CACHE_VARIABLE}"
        ) from None
    jars = present_jars(coordinate)
    refuse_unpinned_jars(coordinate, jars, trusted)
    return jars


def s3a_jars(java: Path, options: Sequence[str], home: Path | None = None) -> tuple[Path, ...]:
    """The jars by which a Spark of ours reaches S3, as `_cached_jars` gives them.

    Raises BackfillError where Spark at `home` (None: the installed pyspark) brings another Hadoop
    than they are made for."""
    hadoop = S3A.rpartition(":")[2]
    if not ((home or spark_home()) / "jars" / f"hadoop-client-api-{hadoop}.jar").exists():
        raise BackfillError(
            f"pyspark {package_version('pyspark')}",
            f"it brings another Hadoop than {hadoop}, for which this package "
            "knows the jars that reach S3",
            "Spark was not started",
            "Install pyspark 4.2, or name a Spark Connect server (sc://) that has them",
        )
    return _cached_jars(S3A, java, options)


def _has_all(coordinate: str) -> bool:
    names = {jar.name for jar in present_jars(coordinate)}
    return bool(names) and names >= set(PINS.get(coordinate, ()))


def _fetch_into(folder: Path, coordinate: str, java: Path, options: Sequence[str]) -> None:
    """Fetch the jars. Java gets the certificates that this machine trusts, as pip does: a Java from
    PyPI does not know the certificate with which a company's proxy signs."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        if store := write_trust_store(Path(scratch)):
            options = [*options, f"-Djavax.net.ssl.trustStore={store}"]
        if reason := _run_ivy(coordinate, java, options, Path(scratch)):
            raise BackfillError(
                f"the jars of {coordinate}",
                f"they could not be fetched ({reason})",
                "Spark was not started",
                "Allow the network for this first start (behind a proxy: JAVA_TOOL_OPTIONS), or "
                "copy "
                f"{folder} from a machine that has it",
            )
        # One rename publishes all jars or none: a reader never sees half of them.
        shutil.rmtree(folder, ignore_errors=True)
        (Path(scratch) / "jars").rename(folder)


def _run_ivy(coordinate: str, java: Path, options: Sequence[str], scratch: Path) -> str:
    """Fetch the jars into `scratch/jars`; returns Ivy's reason where they are not there
    afterwards."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    try:
        finished = subprocess.run(
            _ivy_command(coordinate, java, options, scratch),
            cwd=scratch,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_FETCH_TIMEOUT_SECONDS,
            check=False,
        )
        output = finished.stdout + finished.stderr
    except (subprocess.TimeoutExpired, OSError) as error:
        output = f"error: {error}"
    fetched = {jar.name for jar in (scratch / "jars").glob("*.jar")}
    own = f"{coordinate.replace(':', '_', 1).replace(':', '-')}.jar"
    if fetched >= {own, *PINS.get(coordinate, ())}:
        return ""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if any(word in line for word in _ERROR_WORDS)]
    return (errors or lines or ["no output"])[-1][:200]


def _ivy_command(
    coordinate: str, java: Path, options: Sequence[str], scratch: Path
) -> Sequence[str]:
    """The command by which Spark's Ivy fetches a set of jars into `scratch/jars`."""
    further, left_out = _jar_set(coordinate)
    return [
        str(java),
        *options,
        "-cp",
        f"{spark_home()}/jars/*",
        "org.apache.spark.deploy.SparkSubmit",
        "--packages",
        ",".join((coordinate, *further)),
        "--conf",
        f"spark.jars.ivy={scratch}",
        "--conf",
        f"spark.jars.excludes={','.join(left_out)}",
        # Any main class would do, Ivy's own prints its version and ends: only the fetching before
        # it matters.
        "--class",
        "org.apache.ivy.Main",
        "spark-internal",
        "-version",
    ]


def _jar_digest(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def jars_digest(jars: Sequence[Path]) -> str:
    """One digest of all these jars, as `sha256sum *.jar | sha256sum` gives it in their folder."""
    lines = "".join(f"{_jar_digest(jar)}  {jar.name}\n" for jar in sorted(jars))
    return hashlib.sha256(lines.encode()).hexdigest()


def refuse_unpinned_jars(coordinate: str, jars: Sequence[Path], trusted: str = "") -> None:
    """Raise BackfillError, naming the jar, unless each of the jars is as pinned; of a version
    without pins, naming the known versions, unless `trusted` is the digest of its jars."""
    pins = PINS.get(coordinate)
    if pins is None:
        _refuse_untrusted(coordinate, jars_digest(jars), trusted)
        return
    for jar in jars:
        pin, digest = pins.get(jar.name), _jar_digest(jar)
        if pin == digest:
            continue
        if pin is None:
            fault = f"it is none of {coordinate}"
        else:
            fault = f"its sha256 is {digest}, not {pin}"
        raise BackfillError(
            f"the jar {jar}",
            fault,
            "Spark was not started",
            f"Find out who changed it, then remove the folder {jar.parent}: the jars are "
            "fetched again",
        )


def _refuse_untrusted(coordinate: str, digest: str, trusted: str) -> None:
    """Raise BackfillError for jars of a version without pins, unless this is the digest that a
    person trusts."""
    if trusted == digest:
        return
    culprit = "this package knows no checksums of them"
    if trusted:
        culprit += ", and trust_jars names other ones"
    raise BackfillError(
        f"the jars of {coordinate}",
        culprit,
        "Spark was not started",
        f"Install the versions whose jars it knows ({', '.join(PINS)}), or, if you trust the jars "
        f'in {jars_folder()}, write trust_jars = "{digest}" below [spark] in lake.toml',
    )


def write_trust_store(folder: Path) -> Path | None:
    """Write a trust store in Java's own format (JKS) into `folder`: the certificates that OpenSSL
    trusts on this machine. None where it trusts none."""
    import ssl

    context = ssl.create_default_context()
    for name in BUNDLE_VARIABLES:
        bundle = os.environ.get(name, "")
        if bundle and Path(bundle).is_file():
            context.load_verify_locations(bundle)
    certificates = dict.fromkeys(context.get_ca_certs(binary_form=True))
    if not certificates:
        return None
    magic, version = 0xFEEDFEED, 2
    body = struct.pack(">III", magic, version, len(certificates))
    for number, certificate in enumerate(certificates):
        alias, kind = b"machine-%d" % number, b"X.509"
        trusted_tag, created_ms = 2, 0
        body += struct.pack(f">IH{len(alias)}s", trusted_tag, len(alias), alias)
        body += struct.pack(f">qH{len(kind)}s", created_ms, len(kind), kind)
        body += struct.pack(">I", len(certificate)) + certificate
    # JKS ends with a SHA-1 over the password, this salt, which all JKS files share, and the body.
    salt = b"Mighty Aphrodite"
    digest = hashlib.sha1(STORE_PASSWORD.encode("utf-16-be") + salt + body).digest()  # noqa: S324
    store = folder / "cacerts"
    store.write_bytes(body + digest)
    return store
