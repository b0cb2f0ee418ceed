"""The engine of a lake: its Java, its server process, sessions on it, and the errors of losing it.

Not here: what is computed and judged (`kernel.write`). Guide: your-spark.
"""

from backfill_assets.kernel.core.rooms import Room

ROOM = Room(
    name="engines",
    settings="engines.settings:EnginesSettings",
    offers={"session_of": "engines.lake_session:LakeSession"},
)
