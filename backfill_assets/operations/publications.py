"""Publications: days of a candidate's tables made current in the lake beside it, all at once.

Not here: making and discarding candidates (`operations.candidates`), readers during a publication (`lake.switch`).
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import DayRange, ranges
from backfill_assets.core.engines import ENGINE
from backfill_assets.core.ownership import BY, whoami
from backfill_assets.core.plans import CHUNK_TAG, PLAN_TAG, PUBLISH
from backfill_assets.core.states import States
from backfill_assets.core.view import Stamp, TableView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table
from backfill_assets.lake.queries import unanswered
from backfill_assets.lake.replace import Provenance, Write, replace_days
from backfill_assets.lake.staging import stage_links
from backfill_assets.lake.switch import switching
from backfill_assets.lake.view import read_view, writes_of
from backfill_assets.load.candidate import VERSIONS, made_with
from backfill_assets.load.making import version_read
from backfill_assets.operations.candidates import FIT, refused, switch_name
from backfill_assets.operations.widening import Widening, widen_tables
from backfill_assets.plans.files import find_plan, held_back, new_id

NOTHING = "Nothing was published"


@dataclass(frozen=True)
class TablePublication:
    """Days of a candidate's table to make current (or made current by `version`): rows that the lake's table holds for
    them now, and rows that it then holds; `same` days hold these rows already."""

    table: str
    days: tuple[date, ...]
    rows_now: int
    rows_then: int
    same: int
    version: int | None = None

    def __str__(self) -> str:
        """The publication as one line."""
        done = f", by version {self.version}" if self.version is not None else ""
        return (
            f"{self.table}: {ranges(self.days) or 'no day'}, {self.rows_now} row(s) now, {self.rows_then} then, "
            f"{self.same} day(s) the same{done}"
        )


@dataclass(frozen=True)
class Publication:
    """What `publish` does or did: the id by which `rollback --plan` takes it back, its tables, upstream first, and
    those whose columns get `wider` types before it."""

    id: str
    tables: tuple[TablePublication, ...]
    wider: tuple[Widening, ...] = ()
    done: bool = False


def publish(request: "PublishRequest", act: bool) -> Publication:
    """Make the candidate's days current: per table one commit that names its files, upstream first; without `act` only
    say what it would change.

    Readers see the days of all tables before or after it (`lake.switch`). Stopped in between, done again, it goes on.
    Where the lake's code, as the candidate's, has wider types than a table, all its files are cast first, once.
    Raises BackfillError if a day is not up to date, code or settings are others in the lake, days are held, a plan
    stopped, or a read of consumers would fail.
    """
    _refuse_stopped(request)
    chosen = _chosen(request)
    _refuse_unanswered(request)
    names = [t.name for t, _ in chosen]
    previews, plan = [_preview(request, t, v.stamps) for t, v in chosen], new_id(utc_now())
    if not act:
        return Publication(plan, tuple(previews), tuple(widen_tables(request.lake, request.pipeline, names)))
    with switching(request.lake, switch_name(request.name), [t.contract for t, _ in chosen]):
        wider = widen_tables(request.lake, request.pipeline, names, act=True)
        versions = [_publish_table(request, t, v, plan) for t, v in chosen]
    published = tuple(replace(p, version=v) for p, v in zip(previews, versions, strict=True))
    return Publication(plan, published, tuple(wider), done=True)


@dataclass(frozen=True)
class PublishRequest:
    """A lake and a candidate of it, each with its pipeline, the days to publish (None: all that the candidate built),
    and why."""

    lake: Lake
    pipeline: Pipeline
    candidate: Lake
    candidate_pipeline: Pipeline
    days: DayRange | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """The candidate's name."""
        return self.candidate.root.name

    def states(self) -> States:
        """The states of the lake's days now."""
        return self.pipeline.states(read_view(self.lake, self.pipeline.contracts))


def _chosen(request: PublishRequest) -> list[tuple[Table, TableView]]:
    """The candidate's own tables, upstream first, each with the newest receipts of its days."""
    pipeline, chosen = request.candidate_pipeline, list[tuple[Table, TableView]]()
    states = pipeline.states(read_view(request.candidate, pipeline.contracts))
    for table in pipeline.tables:
        name = table.name
        if not request.candidate.writes(name):
            continue
        _refuse_other_code(request, name)
        view = states.view.table(name)
        stamps = {d: s for d, s in sorted(view.stamps.items()) if request.days is None or d in request.days}
        if unfit := [d for d in stamps if states.of(name, d) not in FIT]:
            unfit_states = ", ".join(sorted({states.of(name, d).value for d in unfit}))
            reason = f"{ranges(unfit)} of {name} are {unfit_states} there"
            raise refused(request.name, reason, NOTHING, f"`{_command(request, 'catch-up')}`, or publish other days")
        if stamps:
            chosen.append((table, replace(view, stamps=stamps)))
    if not chosen:
        fix = f"Build some: `{_command(request, 'backfill --from FIRST --to LAST')}`"
        raise refused(request.name, "it holds no such day", NOTHING, fix)
    return chosen


def _refuse_stopped(request: PublishRequest) -> None:
    """Raise if a plan with some of the days waits for a person: its gate may have found what readers must not see."""
    for plan_id, reason in held_back(request.candidate).items():
        if request.days is None or {*find_plan(request.candidate, plan_id).days} & {*request.days}:
            raise refused(request.name, reason, NOTHING, f"Say --target {request.name} with these commands")


def _refuse_unanswered(request: PublishRequest) -> None:
    """Raise if one of `[gates] reads` fails over the lake as it would be with all days of the candidate."""
    reads = request.lake.settings.gates.reads
    if failed := unanswered(request.candidate, request.pipeline.contracts, reads):
        fix = "Correct the read in lake.toml, or the candidate's code and build again"
        raise refused(request.name, "; ".join(failed), NOTHING, fix)


def _refuse_other_code(request: PublishRequest, name: str) -> None:
    ours, theirs = request.pipeline.codes.get(name), request.candidate_pipeline.codes[name]
    if ours is None:
        why = f"the lake beside it has no table {name}"
    elif (ours.code_digest, ours.settings_digest) != (theirs.code_digest, theirs.settings_digest):
        why = f"code or settings of {name} are others in the lake, so that the days would show as outdated at once"
    else:
        return
    fix = f"Bring lake.toml and the pipeline's files from {request.candidate.root} to {request.lake.root} first"
    raise refused(request.name, why, NOTHING, fix)


def _preview(request: PublishRequest, table: Table, stamps: Mapping[date, Stamp]) -> TablePublication:
    current = request.lake.store.view(table.name, table.contract.day_column).stamps
    replaced = [current[d].entry for d in stamps if d in current]
    same = sum(d in current and current[d].entry.content == s.entry.content for d, s in stamps.items())
    rows = sum(e.rows for e in replaced), sum(s.entry.rows for s in stamps.values())
    return TablePublication(table.name, tuple(stamps), *rows, same)


def _publish_table(request: PublishRequest, table: Table, built: TableView, plan: str) -> int:
    """Commit the days of one table as the candidate held them then; the version of the lake's table afterwards."""
    contract, states, stamps = table.contract, request.states(), built.stamps
    changed = [d for d, s in stamps.items() if states.digests.of(table.name, d) != s.entry.input_digest]
    if changed:
        why = f"inputs of {table.name} {ranges(changed)} moved since they were built"
        raise refused(request.name, why, "Tables before it are published", f"`{_command(request, 'catch-up')}`, again")
    staged = stage_links(request.lake, contract, request.candidate, stamps, built.version)
    base = states.view.table(table.name).version
    entries = {d: s.entry for d, s in stamps.items()}
    write = Write(contract, staged, entries, base, _provenance(request, table, states, stamps, plan))

    def digests_now(days: Iterable[date]) -> Mapping[date, str]:
        """The input digests by the lake's heads as they are when it is called."""
        digests = request.states().digests
        return {d: digests.of(table.name, d) for d in days}

    try:
        return replace_days(request.lake, write, digests_now).version
    finally:
        staged.drop()


def _provenance(
    request: PublishRequest, table: Table, states: States, stamps: Mapping[date, Stamp], plan: str
) -> Provenance:
    """Who published, and what computed the days: the engine of the candidate's newest write of them."""
    codes, view = request.pipeline.codes[table.name], states.view
    receipts = [r for r, _ in writes_of(request.candidate.store, table.name, stamps) if r is not None]
    engine_tags = {k: v for k, v in receipts[-1].tags.items() if k in (ENGINE, VERSIONS)} if receipts else {}
    tags = {**engine_tags, **made_with(table.contract, states)}
    tags |= {BY: whoami(), PLAN_TAG: plan, CHUNK_TAG: "1", "candidate": request.name}
    return Provenance(
        PUBLISH, note=request.note, code_digest=codes.code_digest, settings_digest=codes.settings_digest,
        frontier=states.frontier(table.name), inputs={i.table: version_read(view, i) for i in table.contract.inputs},
        tags=tags,
    )  # fmt: skip


def _command(request: PublishRequest, words: str) -> str:
    return f"backfill-assets {words} --lake {shlex.quote(str(request.candidate.root))}"
