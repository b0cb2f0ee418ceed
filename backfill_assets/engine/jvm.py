"""The engine in a JVM: the command that starts a lake's Spark Connect server, and the files it reads.

Not here: its start (`supervisor`) and when to start (`server`).
"""

import hashlib
import os
import secrets
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from backfill_assets.core.engines import Engine
from backfill_assets.engine.cache import delta_jars, package_version, spark_home
from backfill_assets.engine.confs import LOOPBACK, EngineSettings, launch_confs, properties_text
from backfill_assets.engine.java import Java, find_java, launch_options
from backfill_assets.engine.server_state import ServerFolder, ServerRequest

_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
_TOKEN_BYTES = 32
_STACK = "4m"  # wide plans recurse deeply in Catalyst; the default of 1m overflows on some
# The optimising compiler ten times later than by default: on two cores it took a quarter of the CPU time of a load of
# 1.8 M rows (99 against 75 CPU s) and a seventh of a small lake's, and paid for itself only in what runs that hot.
_LATER = 10
_COMPILER = (
    f"-XX:Tier4InvocationThreshold={5_000 * _LATER}",
    f"-XX:Tier4MinInvocationThreshold={600 * _LATER}",
    f"-XX:Tier4CompileThreshold={15_000 * _LATER}",
    f"-XX:Tier4BackEdgeThreshold={40_000 * _LATER}",
)
# What a driver of a cluster takes from its environment may be the administrator's; these name another driver or folder.
REDIRECTS = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS")
# WARN, because INFO writes thousands of lines an hour; the server's own class at INFO, because it logs its port.
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
    """Spark Connect in a JVM of the lake's own, which computes by itself or is the driver for a master URL.

    `java_of` and `jars_of` find its programs.
    """

    packages = ("pyspark", "delta-spark")

    def __init__(
        self, java_of: Callable[[], Java] = find_java, jars_of: Callable[..., Sequence[Path]] = delta_jars
    ) -> None:
        self.java_of, self.jars_of = java_of, jars_of

    def identity(self, settings: EngineSettings) -> dict[str, str]:
        """Return what must be equal for a server to be shared; values of `confs` only as digests."""
        java = self.java_of()
        confs = {f"the configuration {k}": _digest(v) for k, v in settings.confs.items()}
        own = launch_confs(replace(settings, confs={}), ServerFolder.of(java.home).folder)
        return confs | {
            **{package: package_version(package) for package in self.packages},
            "engine": settings.engine,
            "Java": f"{java.version} at {java.home}",
            "memory": settings.memory.lower(),
            "cores": str(settings.cores or "all"),
            "the flags of this package": _digest(repr((sorted(own.items()), _flags(settings), _LOGGING))),
        }

    def request(self, state: ServerFolder, settings: EngineSettings) -> ServerRequest:
        """Write the server's files below `state` and return the request for its supervisor; fetches missing jars.

        The token stands in the properties file (mode 0600), not on the command line.
        """
        java = self.java_of().executable
        jars, token = self.jars_of(java, launch_options()), secrets.token_urlsafe(_TOKEN_BYTES)
        confs = launch_confs(settings, state.folder) | {"spark.connect.authenticate.token": token}
        extra_options = confs.pop("spark.driver.extraJavaOptions", "")
        extra_path = [confs.pop("spark.driver.extraClassPath", "")]
        # Spark splits both values at commas, which a path may contain.
        if settings.is_local:
            confs["spark.local.dir"] = state.scratch.name  # relative to the JVM's folder
        else:
            theirs = [confs.get("spark.jars", "")]
            confs["spark.jars"] = ",".join([*(j.as_uri().replace(",", "%2C") for j in jars), *filter(None, theirs)])
            extra_path += (os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"))
        # A file of its own: an earlier JVM that is still starting must not read this token for its own.
        properties = state.folder / f"server-{_digest(token)}.properties"
        state.write_private(properties, properties_text(confs))
        state.write_private(state.folder / "log4j2.properties", _LOGGING)
        class_path = [*filter(None, extra_path), f"{spark_home()}/jars/*", *map(str, jars)]
        command = [
            str(java), *_flags(settings), f"-Djava.io.tmpdir={state.scratch}", f"-Dderby.system.home={state.scratch}",
            # The name only: it is found on the class path, whatever the folder's path contains.
            "-Dlog4j2.configurationFile=log4j2.properties", *shlex.split(extra_options), "-cp", ":".join(class_path),
            "org.apache.spark.deploy.SparkSubmit", "--class", _MAIN, "--properties-file", properties.name,
            "spark-internal",
        ]  # fmt: skip
        return ServerRequest(command, self.identity(settings), settings.idle_minutes * 60, properties.name, token)

    def environ(self, state: ServerFolder, settings: EngineSettings) -> dict[str, str]:
        """Return this process's environment without what would redirect Spark, and with a locale for any file name."""
        redirects = ("SPARK_", "PYSPARK_") if settings.is_local else REDIRECTS
        kept = {k: v for k, v in os.environ.items() if not k.startswith(redirects) and k != "MASTER"}
        kept |= {"LC_ALL": "C.UTF-8", "TMPDIR": str(state.scratch), "SPARK_HOME": str(spark_home())}
        return kept | ({"SPARK_LOCAL_IP": LOOPBACK} if settings.is_local else {})

    def session_confs(self, settings: EngineSettings) -> dict[str, str]:
        """Return nothing: the server is started with all of it."""
        return {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _flags(settings: EngineSettings) -> list[str]:
    return [
        *launch_options(),
        f"-Xmx{settings.memory.lower()}",
        f"-Xss{_STACK}",
        # Small heaps on few cores: measured less CPU than G1's, and it gives memory back when idle.
        "-XX:+UseSerialGC",
        *_COMPILER,
        # A server that ran out of memory answers no call; a dead one is replaced at the next.
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        "-Dfile.encoding=UTF-8",
    ]
