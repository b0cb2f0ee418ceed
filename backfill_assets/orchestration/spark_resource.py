"""The Spark resource: what an op or asset of a user's own asks for as `pyspark` is the lake's own session.

Lives here: dagster-pyspark's resource over the lake's engine. Does not live here: engines (`engine`), and the tables of
the lake, whose steps open their sessions themselves.
"""

from pathlib import Path
from typing import Any

import dagster as dg
from dagster_pyspark import PySparkResource
from pydantic import Field

from backfill_assets.lake.home import open_lake
from backfill_assets.lake.session import LakeSession

PYSPARK = "pyspark"  # the name that Dagster's own examples ask for


class LakePySparkResource(PySparkResource):
    """A `PySparkResource` whose session is that of the lake in `folder`: the same engine, settings and jars.

    The engine starts when `spark_session` is first asked for, never before; a session that is lost is replaced when it
    is asked for again. `spark_config` is not used: `[spark]` in `lake.toml` says how the engine is.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    folder: str

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Start nothing."""

    @property
    def spark_session(self) -> Any:
        """A live session on the lake's engine; raises SettingsError where there is no lake, EngineLost without one."""
        return LakeSession(open_lake(Path(self.folder))).spark()
