"""Which server a lake of its own gets: Spark in a JVM, or Sail. The one place that chooses between them.

Lives here: identity, request and environment of either, behind one shape. Does not live here: what they are (`jvm`,
`sail`), and finding, starting and stopping them (`server`), which is the same for both. Nothing here looks for Java
where the engine is Sail.
"""

from collections.abc import Callable
from dataclasses import dataclass

from backfill_assets.engine.cache import package_version
from backfill_assets.engine.confs import SAIL, EngineSettings
from backfill_assets.engine.java import find_java
from backfill_assets.engine.jvm import prepare, server_environ, server_identity
from backfill_assets.engine.sail import PACKAGE, prepare_sail, sail_environ, sail_identity
from backfill_assets.engine.server_state import ServerFolder, ServerRequest


@dataclass(frozen=True)
class Launch:
    """How a server is started: what must be equal for it to be shared, what its supervisor needs, its environment."""

    identity: dict[str, str]
    prepare: Callable[[ServerFolder], ServerRequest]
    environ: Callable[[ServerFolder], dict[str, str]]


def launch_of(settings: EngineSettings) -> Launch:
    """The launch of the settings' engine; raises where Java, or Sail, is missing."""
    if settings.engine == SAIL:
        return Launch(sail_identity(settings), lambda s: prepare_sail(s, settings), lambda s: sail_environ(s, settings))
    java = find_java()
    return Launch(server_identity(settings, java), lambda s: prepare(s, settings, java), server_environ)


def engine_name(settings: EngineSettings) -> str:
    """The engine that computes, and its version, in words. Of one elsewhere the version is that of its client here."""
    kind, package = ("sail", PACKAGE) if settings.engine == SAIL else ("spark", "pyspark")
    return f"{kind} {package_version(package)}"


def version_of(identity: dict[str, str]) -> str:
    """The packages that a running server is made of, in words."""
    return ", ".join(f"{name} {identity[name]}" for name in ("pyspark", "delta-spark", "pysail") if name in identity)
