"""A lake session: a lake together with the engine that works on it, which starts at the first
`spark()`.

Not here: how an engine is found or started (`engines.session`, `engines.server`).
"""

import contextlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from backfill_assets.engines.auditor import chosen_auditor, is_for_engine
from backfill_assets.engines.confs import EngineSettings, size_confs
from backfill_assets.engines.engine_paths import (
    reads_bucket_itself,
    refuse_blind_engine,
    refuse_blind_machines,
)
from backfill_assets.engines.foreign import is_ended_by_task, refuse_unfit, session_maker
from backfill_assets.engines.frame_files import conformed_frame, stage_frame
from backfill_assets.engines.loss import is_engine_loss
from backfill_assets.engines.machine_audit import profiles_of_version, whole_answer
from backfill_assets.engines.machines import answers_there
from backfill_assets.engines.server import (
    begin_server,
    engine_name,
    engine_named,
    server_engine,
)
from backfill_assets.engines.session import (
    explained_error,
    is_of_this_machine,
    open_session,
    opening_seconds,
    set_confs,
)
from backfill_assets.engines.steadiness import (
    differing_expressions,
    refuse_changed_settings,
    refuse_expressions,
    transformed_frame,
)
from backfill_assets.engines.supervisor import ServerFolder
from backfill_assets.engines.table_frames import read_frame
from backfill_assets.kernel.core.addresses import bucket_address
from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.engines import OWN_SERVERS, PROJECT_SESSION
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.rooms import installed_rooms, resolve_reference
from backfill_assets.kernel.place.processes import Process
from backfill_assets.kernel.tables.columns import arrow_type
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged, StagedFile
from backfill_assets.kernel.write.model import Chunk, Table
from backfill_assets.kernel.write.session import Auditor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Of reordered sessions: neither the one partition of small queries nor a number of cores.
PARTITIONS = "5"


def small_frame(session: "SparkSession", rows: Sequence[Sequence[Any]], schema: str) -> "DataFrame":
    """Frame of a few given rows; `schema` is `name type, …`. Timestamps are aware."""
    import pyarrow as pa

    fields = [part.split() for part in schema.split(", ")]
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    named = zip(fields, columns, strict=True)
    table = pa.table(
        {name: pa.array(list(cells), arrow_type(read_type(kind))) for (name, kind), cells in named}
    )
    frame: DataFrame = session.createDataFrame(table)
    return frame


@contextlib.contextmanager
def explaining_losses() -> Iterator[None]:
    """Turn errors of a dead engine or a full disk into one line. Also a decorator.

    It ends an engine that lives but can no longer be used (`engines.session.explained_error`).
    """
    try:
        yield
    except Exception as error:
        explanation = explained_error(error)
        if explanation is None or explanation is error:
            raise
        raise explanation from error


def unpersist_frame(frame: "DataFrame") -> None:
    """Let Spark forget a frame that it keeps; a dead engine is not called again."""
    error = sys.exception()
    if error is not None and is_engine_loss(error):
        return
    try:
        frame.unpersist()
    except Exception as lost:
        if not is_engine_loss(lost):
            raise


class CpuMeter:
    """Meter of processor seconds and of waiting for an engine, from its creation on."""

    def __init__(self, lake: Path, engine: EngineSettings) -> None:
        self.lake, self.engine = lake, engine
        self._before, self._opening = self._cpu_seconds(), opening_seconds(lake)

    def waited(self) -> float:
        """Seconds in which this process waited for an engine to be opened, to the millisecond: some
        10 if it had to be started, 1 or 2 if it was up, none if this process had it open."""
        return round(opening_seconds(self.lake) - self._opening, 3)

    def spent(self) -> float | None:
        """Processor seconds, to the millisecond; None where the engine computes on other
        machines."""
        if self._before is None or (now := self._cpu_seconds()) is None:
            return None
        return round(sum(used - self._before.get(process, 0.0) for process, used in now.items()), 3)

    def _cpu_seconds(self) -> dict[Process, float] | None:
        if not self.engine.computes_here:
            return None
        record = ServerFolder.of(self.lake).record()
        processes = [Process.this(), *([record.process] if record else [])]
        return {p: used for p in processes if (used := p.cpu_seconds()) is not None}


# From so many rows on, the optimising compiler of a server's Java pays (`jvm`): with 610,000 it
# gave nothing, with 1.8 million a sixth of the CPU time.
MANY_ROWS = 1_500_000


@dataclass(frozen=True)
class LakeSession:
    """A lake and the session that reads and writes it. Cheap to make; the engine starts at the
    first `spark()`.

    `project_session` is a session of the project's own, classic or Connect, a function that returns
    one, or a resource with a `spark_session`; it then takes the place of the lake's engine: nothing
    of it is started, stopped or set.
    """

    lake: Lake
    project_session: Any = field(default=None, repr=False, compare=False, kw_only=True)
    first_rows: int = field(default=0, repr=False, compare=False, kw_only=True)  # see `begin`

    def of_source(self, name: str) -> Self:
        """The session of the lake narrowed to one of its sources."""
        return replace(self, lake=self.lake.of_source(name))

    @property
    def engine(self) -> EngineSettings:
        """The engine's settings, from the lake's."""
        spark, umask = self.lake.settings.spark, self.lake.settings.access.umask
        bucket = bucket_address(self.lake.root)
        if self.project_session is not None or spark.session:
            project_session = (
                session_maker(str(spark.session))
                if self.project_session is None
                else self.project_session
            )
            return EngineSettings(
                PROJECT_SESSION, umask=umask, project_session=project_session, bucket=bucket
            )
        size = spark.memory, spark.cores, spark.idle_minutes
        found = EngineSettings(
            spark.engine,
            *size,
            spark.confs,
            umask,
            spark.open_port,
            spark.trust_jars,
            optimises=self.first_rows >= MANY_ROWS,
        )
        return found if found.computes_here else replace(found, bucket=bucket)

    @property
    def made_by(self) -> str:
        """The engine in words, as receipts name it; starts nothing."""
        return engine_name(self.engine)

    @property
    def computes_here(self) -> bool:
        """Whether the engine computes on this machine; starts nothing."""
        return self.engine.computes_here

    @property
    def own_server(self) -> str:
        """The name of the engine, if it computes in a server of the lake's own; else empty."""
        return self.engine.engine if self.engine.engine in OWN_SERVERS else ""

    def reordered(self) -> "LakeSession":
        """The same engine, reading rows in an order of their own."""
        return ReorderedSession(self.lake, self)

    def auditor(
        self, contract: Contract, files: Sequence[StagedFile], *, is_duckdbs: bool = False
    ) -> Auditor:
        """Who counts these files of a table, as `[audit]` says (`auditor.chosen_auditor`)."""
        return chosen_auditor(self, contract, files, is_duckdbs=is_duckdbs)

    def profiles_of_version(
        self,
        contract: Contract,
        version: int | None,
        days: Collection[date],
        *,
        altered: bool = False,
    ) -> dict[date, DayProfile]:
        """The figures of days, counted anew from files (`machine_audit.profiles_of_version`)."""
        return profiles_of_version(self, contract, version, days, altered=altered)

    def whole_answer(
        self, contract: Contract, version: int, days: Collection[date], query: Callable[[str], str]
    ) -> list[tuple[Any, ...]]:
        """The rows of a query over days of a table together (`machine_audit.whole_answer`)."""
        return whole_answer(self, contract, version, days, query)

    def answers_there(
        self, work: Callable[[Any, str], Any], items: Sequence[Any], what: str, size: int
    ) -> list[Any] | None:
        """The results of `work` on items, from tasks of an engine elsewhere (`machines`), or
        None."""
        if not is_for_engine(self, size) or not self.is_at_bucket():
            return None
        return answers_there(self.spark(), self.lake.place, work, items, what)

    def explaining_losses(self) -> contextlib.AbstractContextManager[None]:
        """Turn errors of a dead engine or a full disk within the block into one line."""
        return explaining_losses()

    def meter(self) -> CpuMeter:
        """A meter of the processor seconds of work on this lake from now on."""
        return CpuMeter(self.lake.root, self.engine)

    def spark(self) -> "SparkSession":
        """A live session on this lake's engine, started or replaced if need be; raises EngineLost.
        Raises SettingsError for a project's own session whose configuration would give our tables
        other rows, where a name in a catalog leads elsewhere than the lake reads, and where a
        machine of the engine does not see the lake."""
        session = self.for_reading()
        if not is_of_this_machine(session):
            refuse_blind_machines(session, self.lake.place)
        if self.engine.engine not in OWN_SERVERS:
            _refuse_session_by_rooms(session, self.lake.root)
        if self.engine.engine == PROJECT_SESSION:
            refuse_unfit(session)
        return session

    def for_reading(self) -> "SparkSession":
        """A live session on this lake's engine, for callers that only read rows of tables: a
        project's own one needs only to see the lake's folder, or to reach its bucket. Raises
        EngineLost."""
        session = open_session(self.lake.root, self.engine)
        if reads_bucket_itself(session, self.lake.place):
            refuse_blind_engine(session, self.lake.place)
        return session

    def is_at_bucket(self) -> bool:
        """Whether the engine reads and writes the bucket of the lake itself; a project's own
        session is opened to be asked."""
        if self.engine.engine != PROJECT_SESSION:
            return bool(self.engine.bucket)
        return reads_bucket_itself(self.for_reading(), self.lake.place)

    def reads_undecoded(self) -> bool:
        """Whether Parquet pages that nobody decoded may reach the engine: it reads them itself, and
        what they end is an executor, or a server that we start again. A project's own session, or
        that at an address, is opened to be asked."""
        if self.engine.has_server:
            return server_engine(self.engine).has_row_metadata
        return not is_ended_by_task(self.for_reading())

    def transformed_frame(
        self,
        table: Table,
        frames: Mapping[str, "DataFrame"],
        chunk: Chunk,
        contracts: Mapping[str, Contract],
    ) -> "DataFrame":
        """The rows that the table's transform plans (`steadiness.transformed_frame`)."""
        return transformed_frame(self.spark(), table, frames, chunk, contracts)

    def refuse_changed_settings(self, named: str) -> None:
        """Raise ContractBroken about `named` if a user's code changed the settings of the session,
        and restore them."""
        refuse_changed_settings(self.spark(), named)

    def differing_expressions(self, tables: Iterable[Table]) -> dict[str, dict[str, str]]:
        """The names in the tables' expressions that are known to differ on the lake's engine, each
        with what to write instead ("": nothing); by the expression's place in `lake.toml`. Starts
        nothing."""
        return differing_expressions(tables, engine_named(self.lake.settings.spark.engine))

    def refuse_expressions(self, tables: Iterable[Table]) -> None:
        """Raise SettingsError if an expression of `lake.toml`, by which one of these tables is
        computed, differs on the lake's engine from Spark. Starts nothing."""
        refuse_expressions(self.lake.settings, tables)

    def begin(self, rows: int = 0) -> None:
        """Start an embedded engine in the background, for work on about so many rows at first;
        returns at once."""
        begin_server(self.lake.root, self._expecting(rows).engine)

    def expect(self, rows: int) -> None:
        """Prepare the session for queries over about so many rows."""
        set_confs(self._expecting(rows).spark(), size_confs(self.engine, rows))

    def _expecting(self, rows: int) -> Self:
        """This session, whose server begins with about so many rows if it is not there yet."""
        return replace(self, first_rows=rows)

    def read(
        self, table: str, version: int, day_column: str, days: Iterable[date] | None = None
    ) -> "DataFrame":
        """The rows of some days (all if None) of a table, pinned at a version. A project's own
        session only needs to see the lake's folder."""
        wanted = None if days is None else sorted(set(days))
        return read_frame(self.for_reading(), self.lake, table, version, day_column, wanted)

    def write(self, contract: Contract, frame: "DataFrame", days: int) -> Staged:
        """Compute a frame of at most so many `days` once, conformed to the contract, to a staging,
        which the caller owns. Raises ContractBroken for other columns or types."""
        return stage_frame(self.lake, contract, conformed_frame(frame, contract), days)


@dataclass(frozen=True)
class ReorderedSession(LakeSession):
    """A lake's session that reads inputs in an order of their own and groups rows in another number
    of partitions, on the engine of `base` (None: of the lake)."""

    base: LakeSession | None = None

    def spark(self) -> "SparkSession":
        """The live session of `base`."""
        return self.base.spark() if self.base is not None else super().spark()

    def for_reading(self) -> "SparkSession":
        """The live session of `base`, whatever it computes."""
        return self.base.for_reading() if self.base is not None else super().for_reading()

    def read(
        self, table: str, version: int, day_column: str, days: Iterable[date] | None = None
    ) -> "DataFrame":
        """The rows of some days, sorted by a hash of all columns, descending.

        The condition, which every row meets, keeps Spark from leaving out a sort below another one,
        or below a join.
        """
        from pyspark.sql import functions as F

        frame = super().read(table, version, day_column, days)
        return frame.orderBy(F.xxhash64(*(F.col(f"`{c}`") for c in frame.columns)).desc()).where(
            F.rand(0) + 1 > 0
        )

    def expect(self, rows: int) -> None:
        """Prepare the session for queries over about so many rows, in another number of
        partitions."""
        confs = size_confs(self.engine, rows)
        set_confs(
            self.spark(),
            {**confs, **{k: PARTITIONS for k in confs if k.endswith("shuffle.partitions")}},
        )


def _refuse_session_by_rooms(session: "SparkSession", root: Path) -> None:
    """Let each room look at a session that is not the lake's own; raises what it refuses."""
    for room in installed_rooms():
        for refuse in room.sessions:
            resolve_reference(refuse)(session, root)
