"""The settings of an engine, and the Spark configuration that follows from them, each entry with
its reason.

Not here: sessions (`session`), the server's process (`server`), and the user's text in `lake.toml`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backfill_assets.kernel.core.engines import EMBEDDED, OWN_SERVERS, PROJECT_SESSION
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.texts import scrub_secrets

# Set by Delta as it opens a table; no row depends on them.
NOT_FOR_ROWS = frozenset(f"spark.sql.parquet.fieldId.{what}.enabled" for what in ("read", "write"))
LOOPBACK = "127.0.0.1"
_LOCAL_MASTER = re.compile(r"local(-cluster)?(\[|$)")
# What the package's promises rest on; a user's value would break them silently.
_OURS = (
    "spark.master",
    "spark.remote",
    "spark.api.mode",
    "spark.connect.",
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.driver.memory",
    "spark.local.dir",
    "spark.sql.warehouse.dir",
    "spark.sql.variable.substitute",
)
# Among them, what only says where a cluster's master shows its workers (`standalone`).
_THEIRS = ("spark.master.ui.port",)
# Another user of this machine reaches Spark's own ports; on a cluster its administrator decides how
# they are guarded.
_OURS_ON_ONE_MACHINE = (
    "spark.authenticate",
    "spark.network.crypto.",
    "spark.hadoop.fs.permissions.umask-mode",
)
COMPILED_FROM_ROWS = 100_000
IN_TASKS_FROM_ROWS = 20_000
TRUE_WORDS = ("true", "1", "yes", "on", "y")  # as delta-rs reads the environment
# Local files without a `chmod` program for each file and folder, as Hadoop's own class starts: a
# twentieth of the CPU of a long range. The server's umask gives the kernel the same rights. Its jar
# is fetched with Delta's (`cache`).
NAKED_FILES = "com.globalmentor.apache.hadoop.fs.NakedLocalFileSystem"
DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


_UNITS = {"m": 1 << 20, "g": 1 << 30}


def memory_bytes(memory: str) -> int:
    """Return how many bytes the setting `memory` names, e.g. 2g; lake.toml takes no other form."""
    return int(memory[:-1]) * _UNITS[memory[-1].lower()]


@dataclass(frozen=True)
class EngineSettings:
    """The engine and its size: `embedded`, `sail`, `session`, an `sc://` address or a master URL.

    Its repr shows no token and no configuration value. Raises SettingsError for a configuration
    that the package fixes.
    """

    engine: str = EMBEDDED
    memory: str = "2g"  # the heap of the driver or server
    cores: int = 0  # of a server of the lake's own; 0: all
    idle_minutes: float = 10  # how long the server outlives its last client
    confs: Mapping[str, str] = field(default_factory=dict)  # further Spark configuration
    umask: int = 0o077  # permission bits that its files do not get
    # Whether a server without a token may listen where other users of the machine reach it.
    open_port: bool = False
    trust_jars: str = ""  # the digest of jars without known checksums (`engines.cache`)
    # The address of a lake in a bucket, where the engine's machines must reach it themselves.
    bucket: str = ""
    # Whether the Java of a server that is started now optimises its code (`jvm`).
    optimises: bool = field(default=False, compare=False)
    project_session: Any = field(
        default=None, compare=False
    )  # what gives the session of the engine `session`

    def __post_init__(self) -> None:
        object.__setattr__(self, "confs", {str(k): str(v) for k, v in self.confs.items()})
        fixed = _OURS + _OURS_ON_ONE_MACHINE if self.is_local else _OURS
        ours = sorted(k for k in self.confs.keys() - {*_THEIRS} if k.startswith(fixed))
        if ours:
            raise SettingsError(
                f"spark.confs: {', '.join(ours)}",
                "the package sets this itself",
                "Spark was not started",
                "Remove it (`engine`, `memory` and `cores` have settings of their own)",
            )

    def __repr__(self) -> str:
        return (
            f"EngineSettings(engine={scrub_secrets(self.engine)!r}, memory={self.memory!r}, "
            f"cores={self.cores}, "
            f"idle_minutes={self.idle_minutes}, confs={sorted(self.confs)})"
        )

    @property
    def has_server(self) -> bool:
        """True where a server of the lake's own, run by us, has the sessions: not `sc://`, not
        `session`."""
        return not self.engine.startswith("sc://") and self.engine != PROJECT_SESSION

    @property
    def is_local(self) -> bool:
        """True where Spark's driver and executors run on this machine: the embedded server and
        `local…` masters."""
        return self.engine == EMBEDDED or _LOCAL_MASTER.match(self.engine) is not None

    @property
    def computes_here(self) -> bool:
        """True where the queries run on this machine, in a server of the lake's own that sees its
        folders."""
        return self.is_local or self.engine in OWN_SERVERS


def session_confs(settings: EngineSettings) -> dict[str, str]:
    """Configuration for a running session of Spark: entries that the meaning of the data rests on,
    then the user's."""
    fixed = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.files.ignoreCorruptFiles": "false",
        # Else `${env:HOME}` and `${system:user.name}` in any text of SQL are the server's.
        "spark.sql.variable.substitute": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        # Above this many folders Spark lists with one task per folder: slower than the driver for
        # our day folders.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    }
    if settings.is_local:
        fixed["spark.sql.shuffle.partitions"] = str(local_cores(settings))
        # Delta's default of 50 makes a small commit cost 10 CPU seconds instead of 1 to 2.
        fixed["spark.databricks.delta.snapshotPartitions"] = "1"
    of_session = ("spark.sql.", "spark.databricks.delta.")
    users = {k: v for k, v in settings.confs.items() if k.startswith(of_session)}
    return size_confs(settings, rows=0) | fixed | users


def size_confs(settings: EngineSettings, rows: int) -> dict[str, str]:
    """How a local engine runs queries, given how many rows their input has. Nothing is set that the
    user's own settings name.

    Whether Spark compiles a Java class per query: that costs more than it saves on a day's rows
    (16.5 against 11.3 s, 21 against 16 CPU s, for one day of six tables on a warm server; 48
    against 37 s on a cold one). Whether it plans again after every stage, each of which is then a
    job of its own: ten jobs instead of one or two for a table. Whether it shuffles rows into
    several tasks: few rows are done before a second task has begun.
    """
    if not settings.is_local:
        return {}
    large = rows >= COMPILED_FROM_ROWS
    partitions = local_cores(settings) if rows >= IN_TASKS_FROM_ROWS else 1
    confs = {
        "spark.sql.codegen.wholeStage": str(large).lower(),
        "spark.sql.codegen.factoryMode": "FALLBACK" if large else "NO_CODEGEN",
        "spark.sql.adaptive.enabled": str(large).lower(),
        "spark.sql.shuffle.partitions": str(partitions),
    }
    users = {_conf_group(key) for key in settings.confs}
    return {key: value for key, value in confs.items() if _conf_group(key) not in users}


def _conf_group(key: str) -> str:
    """The first three parts of a configuration's name, such as `spark.sql.adaptive`."""
    return ".".join(key.split(".")[:3])


def launch_confs(settings: EngineSettings, folder: Path) -> dict[str, str]:
    """All configuration of a driver that we start; its warehouse and temporary files go below
    `folder`."""
    confs = session_confs(settings) | dict(settings.confs)
    extensions = [DELTA_EXTENSION, confs.get("spark.sql.extensions", "")]
    confs |= {
        "spark.sql.extensions": ",".join(dict.fromkeys(e for e in extensions if e)),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.driver.memory": settings.memory,
        "spark.master": settings.engine,
    }
    confs.setdefault("spark.ui.enabled", "false")
    confs.setdefault("spark.app.name", "backfill-assets")
    # Hadoop's files do not follow the process: it sets their permissions itself.
    confs.setdefault("spark.hadoop.fs.permissions.umask-mode", f"{settings.umask:03o}")
    # Port 0: the system picks a free one, which no other program can take before the server's
    # start.
    confs |= {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
    }
    if settings.is_local:
        confs |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.ui.enabled": "false",
        }
        confs.setdefault("spark.hadoop.fs.file.impl", NAKED_FILES)
        # Spark makes a secret of its own for this, known in its one process only.
        confs["spark.authenticate"] = "true"
    if settings.engine == EMBEDDED:
        confs["spark.master"] = f"local[{settings.cores or '*'}]"
    return (s3a_confs(os.environ, settings.bucket) | confs) if settings.bucket else confs


@dataclass(frozen=True)
class S3Address:
    """Where an S3 store lies, as delta-rs and obstore find it by the environment; keys are not
    among it."""

    endpoint: str  # "": of AWS
    region: str  # "": not named
    by_path: bool  # whether a bucket's name is in the path of its address, not in the host

    @classmethod
    def of(cls, environ: Mapping[str, str], address: str) -> "S3Address":
        """The store of a lake's address that the environment names. With the bucket in the host,
        the endpoint there has it, too; here, as for Hadoop and DuckDB, it has not."""
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
        by_host = environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() in TRUE_WORDS
        if by_host:
            bucket = address.partition("://")[2].partition("/")[0]
            endpoint = endpoint.replace(f"://{bucket}.", "://", 1)
        return cls(endpoint.rstrip("/"), region, bool(endpoint) and not by_host)


def s3a_confs(environ: Mapping[str, str], address: str) -> dict[str, str]:
    """Where Hadoop finds the store of a lake's address that the environment names. Keys are not
    among it: S3A's own chain of providers finds them, in the environment or by a machine's role."""
    store = S3Address.of(environ, address)
    confs = {
        "endpoint": store.endpoint,
        "endpoint.region": store.region,
        "connection.ssl.enabled": "false" if store.endpoint.startswith("http://") else "",
        "path.style.access": "true" if store.by_path else "",
    }
    return {f"spark.hadoop.fs.s3a.{key}": value for key, value in confs.items() if value}


def local_cores(settings: EngineSettings) -> int:
    """The cores of an engine on this machine."""
    listed = re.match(r"local\[(\d+)", settings.engine)
    if listed:
        return int(listed[1])
    if settings.engine == "local":
        return 1
    return settings.cores or os.cpu_count() or 1


_ESCAPES = str.maketrans(
    {"\n": "\\n", "\r": "\\r", "\t": "\\t"} | {sign: f"\\{sign}" for sign in "\\ :=#!"}
)


def properties_text(confs: Mapping[str, str]) -> str:
    """`confs` as a Java properties file, escaped so that any value survives."""
    return "".join(
        f"{_escaped_property(key)}={_escaped_property(value)}\n"
        for key, value in sorted(confs.items())
    )


def _escaped_property(text: str) -> str:
    return text.translate(_ESCAPES)
