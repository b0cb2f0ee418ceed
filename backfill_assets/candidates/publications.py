"""Publications: days of a candidate's tables made current in the lake beside it, all at once.

Not here: making and discarding candidates (`candidates.candidates`), readers during a publication
(`kernel.tables.versions`).
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.candidates.candidates import FIT_STATES, candidate_error, publication_text
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges, ranges_text
from backfill_assets.kernel.core.engines import ENGINE
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ownership import BY, whoami
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG, PUBLISH
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import DayReceipt, TableView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import stage_links
from backfill_assets.kernel.tables.versions import (
    UnfinishedSwitch,
    switch_tables,
    unfinished_switches,
)
from backfill_assets.kernel.tables.view import read_view, writes_of
from backfill_assets.kernel.write.candidate import LIBRARIES_TAG, state_tags
from backfill_assets.kernel.write.computing import version_read
from backfill_assets.kernel.write.model import Pipeline, Table
from backfill_assets.kernel.write.replace import Write, refuse_left_alone, replace_days_locked
from backfill_assets.reading.claims import ActivePlan, finished_plans, holding_plans, new_plan_id
from backfill_assets.reading.moments import Moment
from backfill_assets.reading.queries import failed_reads

NOT_PUBLISHED = "Nothing was published"
# Rows added, removed and changed on days of a table, between two moments.
CountChanges = Callable[[Pipeline, str, Iterable[DayRange], Moment, Moment], tuple[int, int, int]]
GROUNDS = "grounds"  # tag of a receipt: what was looked at before its days were published


@dataclass(frozen=True)
class TablePublication:
    """Days of a candidate's table to make current, or made current."""

    table: str
    days: tuple[date, ...]
    rows_now: int  # of the lake's table on these days
    rows_then: int  # after the publication
    same: int  # days that hold these rows already
    grounds: str = ""  # what was compared
    # That made them current; None: not yet, or the lake held them so already.
    version: int | None = None
    unit: str = "day"  # what each of these days is, e.g. `month`

    def __str__(self) -> str:
        """The publication as one line."""
        text = (
            f"{self.table}: {ranges_text(self.days) or 'no day'}, {self.rows_now} row(s) now, "
            f"{self.rows_then} then, {self.same} {self.unit}(s) the same"
        )
        if self.version is not None:
            text += f", by version {self.version}"
        return f"{text}; {self.grounds}" if self.grounds else text


@dataclass(frozen=True)
class Publication:
    """What `publish_candidate_days` does or did."""

    id: str  # by which `rollback --plan` takes it back
    tables: tuple[TablePublication, ...]  # upstream first
    done: bool = False

    @property
    def has_written(self) -> bool:
        """Whether a receipt bears its id, by which `rollback` finds it."""
        return any(t.version is not None for t in self.tables)


def publish_candidate_days(request: "PublishRequest", act: bool) -> Publication:
    """Make the candidate's days current: per table one commit that names its files, upstream first;
    without `act` only say what it would change.

    Everything that can refuse a table is looked at before the first commit, under the locks of all
    of them. Readers see the days of all tables before or after it (`kernel.tables.versions`).
    Stopped in between, done again, it goes on. Raises BackfillError if a day is not up to date,
    code or settings are others in the lake, days are held, a plan stopped, or a read of consumers
    would fail.
    """
    _refuse_stopped(request)
    chosen = _days_to_publish(request)
    _refuse_unanswered(request)
    _refuse_unfit(request, chosen)
    lake = request.lake
    names = [table.name for table, _ in chosen]
    previews = [_preview_table(request, table, built) for table, built in chosen]
    # One that was stopped goes on under its id, which its receipts name.
    stopped = [work.id for work in unfinished_switches(lake) if work.what == request.what]
    plan = stopped[0] if stopped else new_plan_id(utc_now())
    if not act:
        return Publication(plan, tuple(previews))
    grounds = {preview.table: preview.grounds for preview in previews}
    with ExitStack() as locks:
        for name in names:
            locks.enter_context(lake.store.lock(name))
        _refuse_unfit(request, chosen)
        with switch_tables(lake, request.pipeline.contracts, names, request.unfinished(plan)):
            versions = list(_publish_tables(request, chosen, plan, grounds))
    published = tuple(replace(p, version=v) for p, v in zip(previews, versions, strict=True))
    return Publication(plan, published, done=True)


@dataclass(frozen=True)
class PublishRequest:
    """Days of a candidate to publish in the lake beside it."""

    lake: Lake
    pipeline: Pipeline  # of the lake
    candidate: Lake
    candidate_pipeline: Pipeline
    days: DayRange | None = None  # None: all that the candidate built
    note: str = ""  # why
    compares: bool = True  # rows of days that no gate of a plan passed with the lake's

    @property
    def name(self) -> str:
        """The candidate's name."""
        return self.candidate.root.name

    @property
    def what(self) -> str:
        """The publication in words, by which a stopped one is found again."""
        return f"{publication_text(self.name)}{f' of {self.days}' if self.days is not None else ''}"

    @property
    def again(self) -> str:
        """The command that does it."""
        days = f" --days {self.days.start}..{self.days.last}" if self.days is not None else ""
        return f"backfill-assets candidate publish {self.name}{days} --yes"

    def unfinished(self, plan: str) -> UnfinishedSwitch:
        """The publication while it runs, for the lake's log."""
        fix = (
            f"Finish it with `{self.again}`, or take it back with `backfill-assets rollback "
            f"--plan {plan} --yes`"
        )
        return UnfinishedSwitch(plan, self.what, fix)

    def states(self) -> States:
        """The states of the lake's days now."""
        return self.pipeline.states(read_view(self.lake, self.pipeline.contracts))


def _days_to_publish(request: PublishRequest) -> list[tuple[Table, TableView]]:
    """The candidate's own tables, upstream first, each with the newest receipts of its days."""
    pipeline, chosen = request.candidate_pipeline, list[tuple[Table, TableView]]()
    states = pipeline.states(read_view(request.candidate, pipeline.contracts))
    for table in pipeline.tables:
        name = table.name
        if not request.candidate.writes(name):
            continue
        _refuse_other_code(request, name)
        view = states.view.table(name)
        latest = dict(sorted(view.latest.items()))
        if request.days is not None:
            keys = {*table.contract.keys_in(request.days)}
            latest = {day: receipt for day, receipt in latest.items() if day in keys}
        if unfit := [d for d in latest if states.of(name, d) not in FIT_STATES]:
            unfit_states = ", ".join(sorted({states.of(name, d).value for d in unfit}))
            reason = f"{ranges_text(unfit)} of {name} are {unfit_states} there"
            raise candidate_error(
                request.name,
                reason,
                NOT_PUBLISHED,
                f"`{_candidate_command(request, 'catch-up')}`, or publish other days",
            )
        if latest:
            chosen.append((table, replace(view, latest=latest)))
    if not chosen:
        fix = f"Build some: `{_candidate_command(request, 'backfill --from FIRST --to LAST')}`"
        raise candidate_error(request.name, "it holds no such day", NOT_PUBLISHED, fix)
    return chosen


def _refuse_stopped(request: PublishRequest) -> None:
    """Raise if a plan with some of the days waits for a person: its gate may have found what
    readers must not see."""
    for held in holding_plans(request.candidate):
        if request.days is None or _has_days(request, held.plan):
            raise candidate_error(
                request.name,
                held.line,
                NOT_PUBLISHED,
                f"Say --target {request.name} with these commands",
            )


def _has_days(request: PublishRequest, plan: ActivePlan) -> bool:
    """Whether a plan has some of the days that are to be published."""
    for contract in request.candidate_pipeline.contracts:
        keys = {*contract.keys_in(request.days or ())}
        if contract.name in plan.tables and not keys.isdisjoint(plan.keys_of(contract.name)):
            return True
    return False


def _refuse_unanswered(request: PublishRequest) -> None:
    """Raise if one of `[gates] reads` fails over the lake as it would be with all days of the
    candidate."""
    reads = request.lake.settings.gates.reads
    if failed := failed_reads(request.candidate, request.pipeline.contracts, reads):
        fix = "Correct the read in lake.toml, or the candidate's code and build again"
        raise candidate_error(request.name, "; ".join(failed), NOT_PUBLISHED, fix)


def _refuse_other_code(request: PublishRequest, name: str) -> None:
    """Raise BackfillError where the lake lacks the table `name`, or makes it by other code or
    settings than the candidate."""
    ours = request.pipeline.codes.get(name)
    theirs = request.candidate_pipeline.codes[name]
    if ours is None:
        why = f"the lake beside it has no table {name}"
    elif (ours.code_digest, ours.settings_digest) != (theirs.code_digest, theirs.settings_digest):
        why = (
            f"code or settings of {name} are others in the lake, so that the days would show as "
            "outdated at once"
        )
    else:
        return
    fix = (
        f"Bring lake.toml and the pipeline's files from {request.candidate.address} to "
        f"{request.lake.address} first"
    )
    raise candidate_error(request.name, why, NOT_PUBLISHED, fix)


def _preview_table(request: PublishRequest, table: Table, built: TableView) -> TablePublication:
    """What a publication of the days `built` of a table would change in the lake."""
    latest = built.latest
    rows_now, differing = 0, list[date]()
    current = request.lake.store.view(table.name, table.contract.day_column).latest
    for day, receipt in latest.items():
        before = current[day].entry if day in current else None
        rows_now += before.rows if before is not None else 0
        if before is None or before.content != receipt.entry.content:
            differing.append(day)
    return TablePublication(
        table.name,
        tuple(latest),
        rows_now=rows_now,
        rows_then=sum(receipt.entry.rows for receipt in latest.values()),
        same=len(latest) - len(differing),
        grounds=_publication_grounds(request, table, built, differing),
        unit=table.contract.calendar.unit,
    )


def _publication_grounds(
    request: PublishRequest, table: Table, built: TableView, days: Sequence[date]
) -> str:
    """The grounds for publishing these days: the gates of the candidate's finished plans that made
    them, else a comparison of their rows with the lake's, made now unless the request leaves it
    out."""
    if not days:
        return ""
    candidate = request.candidate
    plans = set[str]()  # that made these days; "": none did
    for receipt, _ in writes_of(candidate.store, table.name, {d: built.latest[d] for d in days}):
        plans.add("" if receipt is None else receipt.tags.get(PLAN_TAG, ""))
    if plans == finished_plans(candidate, plans):
        return f"the gates of plan {', '.join(sorted(plans))} passed"
    count: CountChanges | None = offered_function("count_changes")
    is_new = not request.lake.store.exists(table.name)
    if is_new or not request.compares or count is None:
        return "not compared"
    sides = Moment(request.lake), Moment(candidate, built.version)
    added, removed, changed = count(request.pipeline, table.name, contiguous_ranges(days), *sides)
    return f"compared: {added} row(s) added, {removed} removed, {changed} changed"


def _refuse_unfit(request: PublishRequest, chosen: Sequence[tuple[Table, TableView]]) -> None:
    """Raise if the lake holds days of any of the tables, or inputs of any day moved since it was
    built: where a table reads another published table, its inputs count as they are after that
    publication."""
    view = read_view(request.lake, request.pipeline.contracts)
    for table, built in chosen:
        current = view.table(table.name)
        refuse_left_alone(table.contract, current, built.latest)
        merged = replace(
            current,
            latest={**current.latest, **built.latest},
            foreign=current.foreign - {*built.latest},
        )
        view = replace(view, tables={**view.tables, table.name: merged})
    digests = request.pipeline.states(view).digests
    for table, built in chosen:
        changed = []
        for day, receipt in built.latest.items():
            if digests.of(table.name, day) != receipt.entry.input_digest:
                changed.append(day)
        if changed:
            why = f"inputs of {table.name} {ranges_text(changed)} moved since they were built"
            raise candidate_error(
                request.name,
                why,
                NOT_PUBLISHED,
                f"`{_candidate_command(request, 'catch-up')}`, again",
            )


def _publish_tables(
    request: PublishRequest,
    chosen: Sequence[tuple[Table, TableView]],
    plan: str,
    grounds: Mapping[str, str],
) -> Iterator[int | None]:
    """Commit the days of each table; gives the versions. An error says what is published and how to
    go on."""
    done: list[str] = []
    for table, built in chosen:
        try:
            yield _publish_table(
                request, table, built, {PLAN_TAG: plan, GROUNDS: grounds[table.name]}
            )
        except (BackfillError, OSError) as error:
            outcome, fix = NOT_PUBLISHED, "Do it again"
            if done:
                outcome = f"{', '.join(done)} published, and readers see all tables as before"
                fix = request.unfinished(plan).fix
            cause = error.culprit if isinstance(error, BackfillError) else str(error)
            raise candidate_error(request.name, f"{table.name}: {cause}", outcome, fix) from error
        done.append(f"{table.name} {ranges_text(built.latest)}")


def _publish_table(
    request: PublishRequest, table: Table, built: TableView, tags: Mapping[str, str]
) -> int | None:
    """Commit the days of one table, whose lock is held, as the candidate held them then; the
    version by which this publication made them current, None where nothing was to be written.
    `tags` are the receipt's."""
    contract, latest = table.contract, built.latest
    states = request.states()
    staged = stage_links(request.lake, contract, request.candidate, latest, built.version)
    base = states.view.table(table.name).version
    entries = {d: r.entry for d, r in latest.items()}
    write = Write(
        contract,
        staged,
        entries,
        base,
        _publication_provenance(request, table, states, latest, tags),
    )

    def digests_now(days: Iterable[date]) -> Mapping[date, str]:
        """The input digests by the lake's heads as they are when it is called."""
        digests = request.states().digests
        return {d: digests.of(table.name, d) for d in days}

    try:
        version = replace_days_locked(request.lake, write, digests_now).version
        newest = request.lake.store.receipt(table.name, version)
        # Without a commit of its own, the newest one may be that of an earlier try.
        plan = "" if newest is None else newest.tags.get(PLAN_TAG)
        return version if plan == tags[PLAN_TAG] else None
    finally:
        staged.drop()


def _publication_provenance(
    request: PublishRequest,
    table: Table,
    states: States,
    latest: Mapping[date, DayReceipt],
    tags: Mapping[str, str],
) -> Provenance:
    """Who published, and what computed the days: the engine of the candidate's newest write of
    them."""
    codes, view = request.pipeline.codes[table.name], states.view
    engine_tags = dict[str, str]()
    for receipt, _ in writes_of(request.candidate.store, table.name, latest):
        if receipt is not None:
            engine_tags = {k: v for k, v in receipt.tags.items() if k in (ENGINE, LIBRARIES_TAG)}
    tags = {**engine_tags, **state_tags(table.contract, states), **tags}
    tags |= {BY: whoami(), CHUNK_TAG: "1", "candidate": request.name}
    return Provenance(
        PUBLISH,
        note=request.note,
        code_digest=codes.code_digest,
        settings_digest=codes.settings_digest,
        frontier=states.frontier(table.name),
        inputs={i.table: version_read(view, i) for i in table.contract.inputs},
        tags=tags,
    )


def _candidate_command(request: PublishRequest, words: str) -> str:
    return f"backfill-assets {words} --lake {shlex.quote(request.candidate.address)}"
