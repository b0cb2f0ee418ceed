"""Whether a plan may run, and how: the preflight's checks, its pins, where it waits for a person,
chunks at once.

Elsewhere: requests refused before there is a plan (`plan`), the gate after each chunk (`gate`),
marks (`plans.files`). Pinned are code, settings and packages; table versions are pinned for the
record only: late data that lands while a plan runs belongs in it.
"""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta

from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.days import DayRange, parse_day, ranges_text
from backfill_assets.kernel.core.digests import input_days_of, is_required
from backfill_assets.kernel.core.engines import OWN_SERVERS
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.kernel.write.code import LIBRARIES, installed_versions
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import past_resumptions, set_mark
from backfill_assets.plans.model import (
    ChunkKind,
    Pins,
    Plan,
    PlanChunk,
    PreflightTick,
    TableImpact,
)
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.progress import writes_of_plan
from backfill_assets.plans.restore import can_restore, files_of_held_days
from backfill_assets.plans.settings import plan_settings
from backfill_assets.reading.queries import failed_reads

PACKAGES = ("backfill-assets", "dagster", *LIBRARIES)


def preflight_ticks(
    lake: Lake, pipeline: Pipeline, states: States, plan: Plan
) -> tuple[PreflightTick, ...]:
    """All checks, in a fixed order."""
    first = (
        _check_inputs(states, plan),
        _check_left_alone(states, plan),
        _check_rollback(lake, states, plan),
    )
    return (
        *first,
        _check_rerun(pipeline, states, plan),
        _check_keys(lake, states, plan),
        *_check_skew(plan),
        *_check_reads(lake, pipeline),
    )


def _check_reads(lake: Lake, pipeline: Pipeline) -> Iterator[PreflightTick]:
    """Check that every query of `[gates] reads` answers today: while one fails, each write of the
    plan would be refused."""
    if reads := lake.settings.gates.reads:
        failed = failed_reads(lake, (*pipeline.contracts, *pipeline.followers), reads)
        yield _preflight_tick(
            "reads of consumers answer",
            failed,
            "",
            f"{len(reads)} of [gates] reads, tried before each write",
        )


def _preflight_tick(name: str, wrong: Sequence[str], fix: str, well: str) -> PreflightTick:
    """A check that passed if nothing is `wrong`, and then says `well`; else it says what is wrong,
    and behind it how to `fix` it."""
    if wrong:
        return PreflightTick(name, passed=False, told=f"{'; '.join(wrong)}{fix}")
    return PreflightTick(name, passed=True, told=well)


def _check_inputs(states: States, plan: Plan) -> PreflightTick:
    """Check that the day itself (of a month: each day of it that has come) exists in every input
    table, or that the plan makes it before. Other days of an input's window may be absent: a window
    at the lake's first day has none."""
    lacking = list[str]()
    for impact in plan.impacts:
        for wanted in states.contracts[impact.table].inputs:
            if not wanted.reads_days:
                continue
            absent = _own_days(states, impact, wanted)
            absent -= states.view.table(wanted.table).latest.keys()
            if wanted.table in plan.tables:
                absent.difference_update(plan.keys_of(wanted.table))
            if absent:
                lacking.append(f"never made: {wanted.table} {ranges_text(absent)}")
            elif _comes_too_late(states, plan, impact.table, wanted):
                lacking.append(
                    f"never made: {wanted.table}, and its first partition comes in a later chunk "
                    f"than days of {impact.table} that read it"
                )
    return _preflight_tick(
        "inputs present",
        [*dict.fromkeys(lacking)],
        "; name these tables too, or build them first",
        "every input has the days to be written, or gets them by the plan",
    )


def _own_days(states: States, impact: TableImpact, wanted: Input) -> set[date]:
    """The days of an input that cover a day of a partition that is written, and must exist for
    it."""
    found, frontier = set[date](), states.frontier(impact.table)
    for key in impact.days():
        read = input_days_of(wanted, key, states.view)
        for day in wanted.calendar.keys_in(wanted.made_in.span(key)):
            if day in read and is_required(day, key, frontier):
                found.add(day)
    return found


def _comes_too_late(states: States, plan: Plan, table: str, wanted: Input) -> bool:
    """Whether an input with months has no table yet, and the plan makes days that read it before
    the first of its months."""
    if wanted.is_daily or states.view.table(wanted.table).exists:
        return False
    for chunk in plan.chunks:
        if wanted.table in plan.tables and plan.keys(chunk, wanted.table):
            return False
        if any(input_days_of(wanted, key, states.view) for key in plan.keys(chunk, table)):
            return True
    return False


def _check_left_alone(states: States, plan: Plan) -> PreflightTick:
    """Check that a rollback holds none of the days to write, and that none is closed."""
    held, closed = list[str](), list[str]()
    for impact in plan.impacts:
        closure = states.view.table(impact.table).closure
        if not impact.held:
            continue
        if closure is not None and closure.holds(impact.held[0].start):
            closed.append(f"{impact.table} up to {closure.until}")
        else:
            held.append(f"{impact.table} {', '.join(map(str, impact.held[:3]))}")
    wrong = []
    if held:
        wrong.append(f"put back by a rollback and held: {'; '.join(held)}")
    if closed:
        wrong.append(f"closed: {'; '.join(closed)}")
    first = "`backfill-assets release` them" if held else "`backfill-assets reopen` them"
    return _preflight_tick(
        "no day is held",
        wrong,
        f"; {first} first",
        "none was put back by a rollback",
    )


def _check_rollback(lake: Lake, states: States, plan: Plan) -> PreflightTick:
    """Check that the files of the days to write exist as the log names them: a rollback needs them.
    Raw has none."""
    gone = list[str]()  # files, each with its table
    held = list[str]()  # numbers of files by table
    never = ""  # tables that have no rollback
    for impact in plan.impacts:
        contract, days = states.contracts[impact.table], impact.days()
        if not days or not states.view.table(impact.table).exists:
            continue
        if not can_restore(contract):
            never += f"; {impact.table} is never put back"
            continue
        files, lost = files_of_held_days(lake, contract, days)
        gone += [f"{impact.table} {f.path}" for f in lost]
        if files:
            held.append(f"{len(files)} of {impact.table}")
    wrong = []
    if gone:
        wrong = [f"{len(gone)} file(s) that these days hold are gone or altered, first {gone[0]}"]
    until = plan.created.date() + timedelta(days=plan.retention_days or 0)
    well = (
        f"the files that these days hold now ({', '.join(held) or 'none'}) are there, and are "
        f"kept until {until}"
    )
    fix = "; make these days first, by `backfill-assets backfill --force`"
    return _preflight_tick("rollback possible", wrong, fix, well + never)


def _check_rerun(pipeline: Pipeline, states: States, plan: Plan) -> PreflightTick:
    """Check that no day to write is irreproducible by today's code: the same inputs gave other rows
    before."""
    wrong = []
    for impact in plan.impacts:
        code = pipeline.codes[impact.table].code_digest
        latest = states.view.table(impact.table).latest
        days = []
        for day in impact.days() & latest.keys():
            if latest[day].irreproducible and latest[day].code_digest == code:
                days.append(day)
        if days:
            wrong.append(
                f"{impact.table} {ranges_text(days)} got other rows from the same inputs and code"
            )
    fix = (
        "; correct the transform, or, if the cause is gone, make these days again: "
        "`backfill-assets backfill --force`"
    )
    return _preflight_tick(
        "last rerun equal",
        wrong,
        fix,
        "no day's last rerun gave other rows from the same inputs and code",
    )


def _check_keys(lake: Lake, states: States, plan: Plan) -> PreflightTick:
    """Check that no key occurs twice in the days to write as they are now: by receipts, and by
    reading files that another program wrote."""
    wrong, read = [], 0
    for impact in plan.impacts:
        days = impact.days() & states.view.table(impact.table).foreign
        if not days:
            continue
        read += len(days)
        profiles = audit_table(lake, states.contracts[impact.table], days=days, altered=True)
        twice = {day: p.duplicates for day, p in profiles.items() if day and p.duplicates}
        if twice:
            wrong.append(
                f"{impact.table} {ranges_text(twice)}: {sum(twice.values())} row(s) repeat a key"
            )
    fix = (
        "; another program wrote them: make these days first, by `backfill-assets backfill`, and "
        "see who writes there"
    )
    well = f"audited before each commit; {read} day(s) that another program wrote were read"
    return _preflight_tick("keys unique", wrong, fix, well)


def _check_skew(plan: Plan) -> Iterator[PreflightTick]:
    """Check that no day to be read has a key beyond the bound that the lake sets, if it sets
    one."""
    bounded, wrong = list[str](), list[str]()
    for share in plan.shares:
        if share.bound is None:
            continue
        bounded.append(str(share))
        if share.beyond:
            wrong.append(f"{share}; max_key_share = {share.bound:g} on {ranges_text(share.beyond)}")
    fix = (
        "; choose [features] by_day_first (of an input of your own: salt, isolate_nulls), or "
        "raise the bound"
    )
    if bounded:
        yield _preflight_tick("keys within max_key_share", wrong, fix, "; ".join(bounded))


def take_pins(lake: Lake, pipeline: Pipeline, states: States) -> Pins:
    """Pin today's code, settings, packages, engine, table versions and `as_of`."""
    return Pins(
        codes={name: c.code_digest for name, c in pipeline.codes.items()},
        settings={name: c.settings_digest for name, c in pipeline.codes.items()},
        packages={
            "engine": scrub_secrets(lake.settings.spark.engine),
            "python": platform.python_version(),
            **installed_versions(PACKAGES),
        },
        versions={name: table.version for name, table in states.view.tables.items()},
        as_of=states.view.as_of,
    )


def refuse_moved_pins(plan: Plan, lake: Lake, pipeline: Pipeline, states: States) -> None:
    """Raise if code, settings, packages, engine or `as_of` differ from the plan's pins."""
    now = take_pins(lake, pipeline, states)
    moved = moved_pins(_with_first_writes(plan, lake, pipeline, now), now, plan.tables)
    if moved:
        more = f"; {len(moved) - 3} more" if len(moved) > 3 else ""
        raise plan.error(
            f"its pins hold no longer: {'; '.join(moved[:3])}{more}",
            "No further chunk was run; what is written stays",
            f"Put back what moved and run it again, or `backfill-assets plan cancel {plan.id}` "
            "and plan the rest again",
        )


def _with_first_writes(plan: Plan, lake: Lake, pipeline: Pipeline, now: Pins) -> Pins:
    """The plan's pins, with a table that assets of a project return pinned to the code of the
    plan's first write of it: only writes tell the lake which code an asset has."""
    codes, settings = dict(plan.pins.codes), dict(plan.pins.settings)
    made_by_assets = [c.name for c in pipeline.contracts if c.made_by and c.name in plan.tables]
    for name in made_by_assets:
        receipts = dict[int, Receipt]()
        for chunk in writes_of_plan(lake, plan, name).chunks.values():
            receipts |= chunk.receipts
        if receipts:
            first = receipts[min(receipts)]
            codes[name], settings[name] = first.code_digest, first.settings_digest
        else:
            codes[name], settings[name] = now.codes[name], now.settings[name]
    return replace(plan.pins, codes=codes, settings=settings)


def moved_pins(pinned: Pins, now: Pins, tables: Sequence[str]) -> list[str]:
    """A text per pin that moved, with the pinned value and today's."""

    def values(pins: Pins) -> Mapping[str, str]:
        """The pinned values that must not move, each by its name."""
        codes = {f"the code of {name}": pins.codes.get(name, "none") for name in tables}
        settings = {f"the settings of {name}": pins.settings.get(name, "none") for name in tables}
        packages = {
            name: scrub_secrets(pins.packages.get(name, "none")) for name in pinned.packages
        }
        return {**codes, **settings, **packages, "as_of": str(pins.as_of)}

    today, found = values(now), []
    for what, was in values(pinned).items():
        if was != today[what]:
            found.append(f"{what} was {was}, is {today[what]}")
    return found


AFTER_CANARY, AFTER_EACH = "canary", "chunk"
CORES_OF_A_CHUNK = 2  # its Python process plans and commits while the engine computes for another
MEGABYTES_OF_A_CHUNK = 1024  # of the engine's memory: half of what one chunk alone has by default


def refuse_stop(days: DayRange, policy: Policy) -> None:
    """Raise BackfillError if `stop_after` names no point of a plan of these days."""
    if why := _no_stop_reason(days, policy):
        raise BackfillError(
            "--stop-after", why, "Nothing was planned", f"Say canary, chunk, or a day of {days}"
        )


def _no_stop_reason(days: DayRange, policy: Policy) -> str:
    """Why `stop_after` names no point of a plan of these days; "" where it names one, or none is
    wanted."""
    text = policy.stop_after
    if text in ("", AFTER_EACH):
        return ""
    if text == AFTER_CANARY:
        return "" if policy.canary else "the plan has no canary (--canary 0)"
    try:
        is_within = parse_day(text) in days
    except BackfillError:
        return f"{text[:20]!r} is no point of a plan"
    return "" if is_within else f"{text} is none of the days {days}"


def stops_after(plan: Plan, wave: Sequence[PlanChunk]) -> bool:
    """Whether the plan is to wait for a person after these chunks; never after the last ones."""
    text = plan.policy.stop_after
    if not text or tuple(wave) == plan.waves()[-1]:
        return False
    if text in (AFTER_CANARY, AFTER_EACH):
        return text == AFTER_EACH or wave[0].kind is ChunkKind.CANARY
    return any(parse_day(text) in c.days for c in wave if c.kind is not ChunkKind.BOUNDARY)


def stop_if_requested(lake: Lake, plan: Plan, wave: Sequence[PlanChunk]) -> None:
    """Set the mark `waiting` if the plan stops after these chunks, and nobody has resumed it
    since."""
    last = wave[-1]
    if stops_after(plan, wave) and last.number not in {
        r.chunk for r in past_resumptions(lake, plan)
    }:
        text = (
            f"chunk {last.number} ({last.days}) is made and its gate passed, --stop-after "
            f"{plan.policy.stop_after}"
        )
        set_mark(lake, plan.id, "waiting", text, chunk=last.number)


def usual_parallel(settings: LakeSettings) -> tuple[int, str]:
    """How many chunks may run at once if nobody says, by cores and memory of the lake's engine; and
    why."""
    spark = settings.spark
    if spark.engine not in OWN_SERVERS:
        return 1, f"1: cores and memory of {spark.engine.partition(':')[0]} are not known here"
    cores = spark.cores or os.cpu_count() or 1
    memory = int(spark.memory[:-1]) * (1024 if spark.memory[-1] in "gG" else 1)
    limits = [max(1, cores // CORES_OF_A_CHUNK), max(1, memory // MEGABYTES_OF_A_CHUNK)]
    why = f"{cores} core(s) allow {limits[0]}, {spark.memory} of the engine's memory {limits[1]}"
    if (rate := plan_settings(settings).runs_per_hour) is not None:
        limits.append(rate)
        why += f", runs_per_hour {rate}"
    return min(limits), f"{min(limits)}: {why}"
