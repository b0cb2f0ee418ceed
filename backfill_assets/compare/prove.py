"""Days computed again from the inputs that their receipts pin, and compared by fingerprint; nothing
is committed.

`prove_written_days` takes another physical order, number of partitions and chunk, `check-engine`
the other engine, on a server of its own; the standing proof takes a few days of tables, drawn by
the date, as often as the load pays for it. Not here: computing again (`compare.recompute`), and
Dagster's schedule, check and alarm (`compare.in_dagster`). What a person proves by command goes
into the history (`standing`), too.
"""

import random
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TypedDict

from backfill_assets.compare.recompute import (
    Recomputation,
    RecomputationForm,
    Recomputed,
    RecomputeVerdict,
    SessionOnOwnServer,
    recompute_days,
)
from backfill_assets.compare.settings import proof_of
from backfill_assets.engines.lake_session import LakeSession, ReorderedSession
from backfill_assets.engines.server import (
    SERVERS,
    engine_named,
    stop_server,
)
from backfill_assets.engines.session import drop_session
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges, inclusive_range
from backfill_assets.kernel.core.errors import BackfillError, never_written_error
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.proofs import (
    DIFFERS,
    EQUAL,
    NOT_COMPUTED,
    PASSED_OVER,
    Proof,
    keep_proofs,
    newest_writes,
    recorded_proofs,
)
from backfill_assets.reading.writes import table_writes

PROOF_REASON = "prove"


@dataclass(frozen=True)
class ProofRequest:
    """Written days to prove."""

    days: DayRange | None = None  # a range of days
    random: int = 0  # so many days, drawn by `seed`
    seed: str = "0"
    tables: Collection[str] = ()  # empty: all
    chunk: int = 1  # days computed at once


def prove_written_days(lake: Lake, pipeline: Pipeline, request: ProofRequest) -> Recomputation:
    """Compute the days again and compare; raises BackfillError for an unknown table, and if no day
    is written."""
    written = _written_days(lake, pipeline, request.tables, request.days)
    chosen = chosen_days(request, {d for days in written.values() for d in days})
    if not chosen:
        raise never_written_error("the proof", "Nothing was computed")
    chunks = {}
    for table, days in written.items():
        chunks[table] = _day_chunks(sorted(chosen & set(days)), request.chunk)
    known, session = KnownStates(lake, pipeline), ReorderedSession(lake)
    return Recomputation(*_recompute_chunks(known, session, chunks, PROOF_REASON))


def _written_days(
    lake: Lake, pipeline: Pipeline, tables: Collection[str], days: DayRange | None
) -> dict[str, list[date]]:
    """Return the days that were written of the tables (none: of all), within `days` (None: all);
    raises BackfillError for an unknown table."""
    names = [pipeline.contract(n, "Nothing was computed").name for n in tables]
    named = [t.contract for t in pipeline.tables if not names or t.name in names]
    found = dict[str, list[date]]()
    for contract in named:
        written = lake.store.view(contract.name, contract.day_column).latest
        wanted = sorted(written) if days is None else contract.keys_in(days)
        found[contract.name] = [day for day in wanted if day in written]
    return found


def _recompute_chunks(
    known: KnownStates, session: LakeSession, chunks: Mapping[str, Sequence[DayRange]], reason: str
) -> tuple[tuple[RecomputeVerdict, ...], tuple[tuple[str, str], ...]]:
    """Return the verdict of every table's chunks, and the tables whose rows were refused, with the
    reason."""
    verdicts, refused = dict[str, RecomputeVerdict](), []
    for name, parts in chunks.items():
        table = known.pipeline.table(name)
        try:
            for chunk in parts:
                rebuild = RebuildRequest(session, known, table, chunk, Provenance(reason))
                unit = table.contract.calendar.unit
                verdict = verdicts.get(name, RecomputeVerdict(name, (), unit=unit))
                verdicts[name] = verdict.plus(recompute_days(rebuild))
        except BackfillError as error:
            refused.append((name, str(error)))
    return tuple(verdicts.values()), tuple(refused)


def chosen_days(request: ProofRequest, written: Collection[date]) -> set[date]:
    """Return the `written` days, or as many random ones of these as asked; the seed decides."""
    within = sorted(written)
    if not request.random:
        return set(within)
    return set(random.Random(request.seed).sample(within, min(request.random, len(within))))  # noqa: S311  # no secret


def _day_chunks(days: list[date], size: int) -> list[DayRange]:
    """Return ranges of at most `size` days that cover the days and no others."""
    chunks = []
    for span in contiguous_ranges(days):
        in_span = [*span]
        for start in range(0, len(in_span), size):
            part = in_span[start : start + size]
            chunks.append(inclusive_range(part[0], part[-1]))
    return chunks


Prover = Callable[[Lake, Pipeline, ProofRequest], Recomputation]


def why_not_due(lake: Lake, pipeline: Pipeline) -> str:
    """Return why no proof is due ("" if one is): proofs are off, or the last took more than its
    share of writes since."""
    settings, last = proof_of(lake.settings), [p for p in recorded_proofs(lake) if p.seconds]
    if not settings.days_per_day:
        return "[proof] days_per_day is 0"
    if not last:
        return ""
    newest = max(p.at for p in last)
    spent = sum(p.seconds for p in last if p.at == newest)
    began = datetime.fromisoformat(newest)
    loaded = sum(w.seconds or 0.0 for w in table_writes(lake, pipeline) if w.at > began)
    if loaded * settings.max_share >= spent:
        return ""
    return (
        f"the last proof took {spent:.1f} s and writes since then {loaded:.1f} s; the next is due "
        "after "
        f"{spent / settings.max_share:.0f} s of them ([proof] max_share = {settings.max_share:g})"
    )


def prove_days(
    lake: Lake, pipeline: Pipeline, today: date, prover: Prover = prove_written_days
) -> list[Proof]:
    """Prove the days of tables drawn by the date, and keep the outcomes. Commits nothing."""
    written = sorted(
        (t.name, day) for t in pipeline.tables for day in newest_writes(lake, pipeline, t.name)
    )
    drawn = random.Random(str(today)).sample(  # noqa: S311
        written, min(proof_of(lake.settings).days_per_day, len(written))
    )
    began, outcomes = time.monotonic(), list[Proof]()
    for table, day in drawn:
        proof = prover(
            lake, pipeline, ProofRequest(days=inclusive_range(day, day), tables=(table,))
        )
        outcomes += _proof_outcomes(lake, pipeline, proof, day)
    seconds = max(round((time.monotonic() - began) / max(len(outcomes), 1), 3), 0.001)
    at = utc_now().isoformat()
    timed = [replace(p, at=at, seconds=seconds) for p in outcomes]
    keep_proofs(lake, timed)
    return timed


def keep_proof(lake: Lake, pipeline: Pipeline, proof: Recomputation) -> None:
    """Keep what a person's proof found, which also ends alarms about days that are equal again."""
    keep_proofs(lake, list(_proof_outcomes(lake, pipeline, proof)))


def _proof_outcomes(
    lake: Lake, pipeline: Pipeline, proof: Recomputation, day: date | None = None
) -> Iterator[Proof]:
    """Yield the outcome of every day; `day`: the only one asked for, which a refused table has no
    verdict of."""
    at = utc_now().isoformat()
    for verdict in proof.verdicts:
        ids = newest_writes(lake, pipeline, verdict.table)
        differing = {difference.day: difference for difference in verdict.differing}
        for proven in verdict.days:
            words = proven.passed_over
            if proven.day in differing:
                words = differing[proven.day].in_words
            write = ids.get(proven.day, "")
            yield Proof(
                table=verdict.table,
                day=str(proven.day),
                at=at,
                outcome=_proof_outcome(proven),
                words=words,
                write_id=write,
            )
    if day is None:
        return
    for table, why in proof.refused:
        write = newest_writes(lake, pipeline, table).get(day, "")
        yield Proof(
            table=table, day=str(day), at=at, outcome=NOT_COMPUTED, words=why, write_id=write
        )


def _proof_outcome(proven: Recomputed) -> str:
    """The word for what came of a day."""
    if proven.passed_over:
        return PASSED_OVER
    return EQUAL if proven.equal else DIFFERS


class DueProofs(TypedDict):
    """The proofs of a day, or why none is due (`waits`)."""

    waits: str
    proofs: Sequence[Proof]


ProveAnswer = Recomputation | DueProofs


CHECK_ENGINE_REASON = "check-engine"


class EngineForm(RecomputationForm):
    """Days computed again on the other engine."""

    engine: str


@dataclass(frozen=True)
class EngineReport(Recomputation):
    """The comparison of days with another engine's; `refused`: tables that it may not compute, with
    the reason."""

    engine: str = ""

    def to_dict(self) -> EngineForm:
        """Return the report as JSON values."""
        return {"engine": self.engine, **super().to_dict()}


def other_engine(lake: Lake) -> str:
    """Return the engine to check a lake with: one without Java for a lake on Spark, else the
    embedded Spark."""
    is_spark = engine_named(lake.settings.spark.engine).needs_java
    return next(name for name, engine in SERVERS.items() if engine.needs_java != is_spark)


def check_engine(
    lake: Lake,
    pipeline: Pipeline,
    days: DayRange | None,
    tables: Collection[str] | None,
    engine: str,
) -> EngineReport:
    """Compute the days (None: all written ones) of the tables (None: all) on `engine`, and compare.
    Raises BackfillError for an unknown table, if none of the days was written, and if the engine
    cannot be used."""
    chunks = {}
    for table, written in _written_days(lake, pipeline, tables or (), days).items():
        if written:
            chunks[table] = [inclusive_range(written[0], written[-1])]
    if not chunks:
        raise never_written_error("the comparison of engines", "Nothing was computed")
    with _open_other_session(lake, engine) as session:
        return EngineReport(
            *_recompute_chunks(KnownStates(lake, pipeline), session, chunks, CHECK_ENGINE_REASON),
            engine,
        )


@contextmanager
def _open_other_session(lake: Lake, engine: str) -> Iterator[SessionOnOwnServer]:
    """Yield a session on a server that stops afterwards."""
    spark = lake.settings.spark.model_copy(update={"engine": engine, "confs": {}})
    other = replace(lake, settings=lake.settings.model_copy(update={"spark": spark}))
    with tempfile.TemporaryDirectory(prefix="check_engine_") as folder:
        home = Path(folder)
        try:
            yield SessionOnOwnServer(other, home)
        finally:
            drop_session(home)
            stop_server(home, force=True)
