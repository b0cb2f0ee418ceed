"""The engines by their names, and which one a setting names.

Not here: what they are (`jvm`, `sail`), and finding, starting and stopping their servers (`server`).
"""

from backfill_assets.core.engines import SPARK, Engine
from backfill_assets.engine.cache import package_version
from backfill_assets.engine.confs import EMBEDDED, SAIL, EngineSettings
from backfill_assets.engine.jvm import Embedded
from backfill_assets.engine.sail import Sail

# Engines of which a lake has a server of its own. A further one has the same methods, a program in
# `supervisor.PROGRAMS`, and a log line that `supervisor._LISTENING` finds.
ServerEngine = Embedded | Sail
SERVERS: dict[str, ServerEngine] = {EMBEDDED: Embedded(), SAIL: Sail()}


def engine_named(name: str) -> Engine:
    """The engine that the setting `engine` names; Spark for addresses and master URLs."""
    return SERVERS.get(name, SPARK)


def server_engine(settings: EngineSettings) -> ServerEngine:
    """The engine of a lake's own server: the embedded Spark is also the driver for a master URL."""
    return SERVERS.get(settings.engine, SERVERS[EMBEDDED])


def engine_name(settings: EngineSettings) -> str:
    """The engine that computes, and its version, in words. Of one elsewhere the version is that of its client here."""
    engine = server_engine(settings)
    return f"{engine.name.lower()} {package_version(engine.packages[0])}"


def version_of(identity: dict[str, str]) -> str:
    """The packages that a running server is made of, in words."""
    packages = (p for engine in SERVERS.values() for p in engine.packages)
    return ", ".join(f"{name} {identity[name]}" for name in packages if name in identity)
