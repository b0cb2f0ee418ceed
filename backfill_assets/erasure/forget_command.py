"""`backfill-assets forget`: erases an entity from the lake, its landing folder and Dagster, and
keeps it out.

Not here: the steps (`erasure.forget`, `erasure.landed_files`, `intake.forgotten`); here is their
order.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from backfill_assets.cli.backfill import run_work
from backfill_assets.cli.catch_up import rebuild_until_settled, report_catch_up
from backfill_assets.cli.common import (
    TEXT,
    json_and_lake,
    opened_lake,
    statuses_of_candidates,
    wants_json,
)
from backfill_assets.cli.drawing import remark
from backfill_assets.cli.landing_command import scan_as_needed
from backfill_assets.cli.output import write_answer
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.erasure import forget as steps
from backfill_assets.erasure.erasing import vacuum_databases
from backfill_assets.erasure.forget import path_or_address
from backfill_assets.erasure.traces import Trace
from backfill_assets.intake.forgotten import (
    begin_erasure,
    erasure_doubts,
    keeps_versions,
    rename_column,
)
from backfill_assets.intake.landings import searched_root
from backfill_assets.intake.ledger import read_files
from backfill_assets.kernel.core.addresses import bucket_address
from backfill_assets.kernel.core.days import contiguous_ranges, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.process import project_root
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.port import table_lock
from backfill_assets.kernel.tables.folder import DAGSTER_FOLDER, FORGOTTEN, TABLES
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.known import KnownStates

if TYPE_CHECKING:
    import dagster as dg

# Keys of a certificate: fingerprints of the rows of others before, and days on which they changed.
OTHERS, DIFFERING = "others", "differing"
KINDS = {folder.strip("."): folder for folder in steps.DROPS}


class FoundAnswer(TypedDict):
    """The files that hold an entity, or mention it, by their place; what stands in the way."""

    holding: Mapping[str, int]
    mentions: Mapping[str, int]
    not_searched: Mapping[str, int]
    obstacles: Sequence[str]
    done: bool


class RenamedAnswer(TypedDict):
    """Earlier erasures in which a column has a new name."""

    erasures: Sequence[str]
    old: str
    new: str


ForgetAnswer = FoundAnswer | RenamedAnswer


@click.command()
@click.argument("entity", nargs=-1, type=TEXT)
@click.option(
    "--note",
    type=TEXT,
    required=True,
    help="Why, without the entity's name; it is kept in the receipts.",
)
@click.option(
    "--drop",
    "drops",
    multiple=True,
    type=click.Choice([*KINDS]),
    help="Delete those that hold it, whole.",
)
@click.option(
    "--despite-differences",
    is_flag=True,
    help="Erase old versions though rows of others changed, too.",
)
@click.option(
    "--renamed",
    metavar="OLD=NEW",
    type=TEXT,
    help="No entity: columns of earlier erasures have a new name.",
)
@click.option("--yes", is_flag=True, help="Do it; without it nothing is written.")
@json_and_lake
def forget(
    entity: tuple[str, ...],
    note: str,
    drops: tuple[str, ...],
    renamed: str | None,
    yes: bool,
    **flags: bool,
) -> None:
    """Show what holds ENTITY (one value per column of [features] entity); with --yes erase it for
    good.

    Its rows leave the landed files, and every day is rebuilt without them. Old versions, logs,
    copies and runs of Dagster that hold it go; what lands of it later stays out. No rollback leads
    behind that. Killed at any moment, the same command goes on. Exit code 1 if something still
    holds it, or could not be searched.
    """
    lake, pipeline = opened_lake()
    if renamed is not None or not entity:
        _record_renaming(lake, entity, renamed or "", note)
        return
    trace = steps.entity_trace(lake, entity)
    kinds = [KINDS[name] for name in drops]
    request = steps.ForgetRequest(
        lake, pipeline, trace, note, homes=(_dagster_home(),), drops=kinds
    )
    found = request.look()
    obstacles = list(steps.erasure_obstacles(request, found.held))
    if yes and obstacles:
        raise obstacles[0]
    if yes:
        with table_lock(lake.place, FORGOTTEN):
            found = _erase_in_order(request, **flags)
    _answer_found(request, found, obstacles, yes)
    if yes and (found.held or found.unread):
        _show_advice(request, found)
        click.get_current_context().exit(1)


def _dagster_home() -> Path:
    """The folder of Dagster's instance."""
    home = os.environ.get("DAGSTER_HOME")
    return Path(home) if home else project_root() / DAGSTER_FOLDER


def _answer_found(
    request: steps.ForgetRequest,
    found: steps.FoundFiles,
    obstacles: Sequence[BackfillError],
    done: bool,
) -> None:
    """Show how many files hold the entity per place, and what stands in the way of erasing it;
    where it was `done`, which copies nobody here can delete."""
    lake = request.lake
    holding, mentions, unread = map(request.places, (found.held, found.mentions, found.unread))
    document: FoundAnswer = {
        "holding": holding,
        "mentions": mentions,
        "not_searched": unread,
        "obstacles": list(map(str, obstacles)),
        "done": done,
    }
    outcome = "Nothing was done. --yes erases it for good."
    if done:
        outcome = f"The certificate lies in {lake.place.uri(FORGOTTEN)}."
    write_answer(document, [*_found_lines(holding, mentions, found.unread, done), outcome])
    if done and bucket_address(lake.root):
        remark(
            "Other machines keep copies of the lake's files: delete them in each one's "
            "$BACKFILL_ASSETS_STATE."
        )
    if done and keeps_versions(lake):
        remark(
            "The bucket keeps versions: its owner deletes those from before now, which nothing "
            "here can."
        )
    if not wants_json():
        for obstacle in obstacles:
            remark(f"Error: {obstacle}")


def _found_lines(
    holding: Mapping[str, int], mentions: Mapping[str, int], unread: Sequence[Path], done: bool
) -> list[str]:
    """A line for each place with files that hold the entity or mention it, and for each file that
    was not searched."""
    verb = "still hold it" if done else "hold it"
    lines = [f"{place}: {count} file(s) {verb}" for place, count in holding.items()]
    within = "hold it only within longer values of others, which stay"
    lines += [f"{place}: {count} file(s) {within}" for place, count in mentions.items()]
    lines += [
        f"{printable_text(path_or_address(path))}: not searched, because nothing here decodes it"
        for path in unread
    ]
    nothing = "No file holds it any more." if done else "No file holds it."
    return lines or [nothing]


def _record_renaming(lake: Lake, entity: Sequence[str], renamed: str, note: str) -> None:
    """Record what a column of earlier erasures is called now; raises UsageError unless OLD=NEW
    stands alone."""
    old, sign, new = (part.strip() for part in renamed.partition("="))
    if entity or not old or not sign:
        raise click.UsageError("Name either an ENTITY, or --renamed OLD=NEW.")
    with table_lock(lake.place, FORGOTTEN):
        changed = rename_column(lake, old, new, note)
    text = f"{len(changed)} erasure(s) name {new or 'no column'} in place of {old} now."
    document: RenamedAnswer = {"erasures": [e.name for e in changed], "old": old, "new": new}
    write_answer(document, [text, *erasure_doubts(lake)])


def _show_advice(request: steps.ForgetRequest, found: steps.FoundFiles) -> None:
    """Say what a person has to do before the certificate can be finished."""
    for command in steps.rebuild_commands(request, found.held):
        remark(f"Error: `{command}` rebuilds days of a live table that hold it.")
    for table, days in steps.days_left_out(request, found.held).items():
        remark(
            f"Error: {ranges_text(days)} of {table} hold it, and its definition leaves them out by "
            "now. Let it have them again, and make them without the entity."
        )
    for table, count in steps.old_logs(request, found.held).items():
        remark(
            f"Error: {count} file(s) of the log of {table} hold it, in notes or as bounds that "
            "another program wrote, and no commit is changed. "
            f"Move {request.lake.place.uri(TABLES)}/{table} away, then "
            "`backfill-assets catch-up` makes it again from what landed; delete what you moved."
        )
    for path, why in _refused_files(request.lake).items():
        if path in found.held:
            remark(
                f"Error: {printable_text(path_or_address(path))} was refused whole "
                f"({printable_text(why)}), and no row was "
                "taken out of it. Take "
                "its rows out of the file, or delete the file: copies of it in the lake then go "
                "with the next `forget`."
            )
    if found.unread:
        remark(
            "Error: look into the files that were not searched yourself, then move them out of "
            "the folder."
        )
    remark("Error: delete or correct what else holds it yourself, then run the same command again.")


def _refused_files(lake: Lake) -> dict[Path, str]:
    """The landed files that were refused whole, with the reasons."""
    refused = dict[Path, str]()
    for scoped in lake.by_source():
        root = searched_root(scoped.settings.source, scoped.root)
        for record in read_files(scoped.store, scoped.source):
            if record.refused is not None and not record.withdrawn:
                refused[root / record.path] = record.refused
    return refused


def _erase_in_order(request: steps.ForgetRequest, despite_differences: bool) -> steps.FoundFiles:
    """Run every step in order; return what the last search found. An erasure that was interrupted
    goes on: the fingerprints of the first attempt are kept in its record."""
    from backfill_assets.erasure.landed_files import erase_landed_rows

    lake = request.lake
    erasure = begin_erasure(lake, request.trace.values, request.note)
    if OTHERS not in erasure.done:
        scan_as_needed(lake)
        rebuild_after_forgetting(request)
        erasure.done[OTHERS] = steps.fingerprints_of_others(request)
        erasure.keep()
    erase_landed_rows(LakeSession(lake), request.trace, erasure)
    request = replace(request, trace=replace(request.trace, spellings=erasure.spellings()))
    rebuild_after_forgetting(request)
    now = steps.fingerprints_of_others(request)
    erasure.done[DIFFERING] = steps.differing_days_of_others(erasure.done[OTHERS], now)
    if not despite_differences:
        _refuse_differing(erasure.done[DIFFERING])
    statuses = statuses_of_candidates(lake)
    steps.erase_everywhere(request, erasure, [s.name for s in statuses if s.behind or s.error])
    erasure.done["deleted"]["runs"] = _forget_runs(request)
    homes = (lake.root / DAGSTER_FOLDER, *request.homes)
    vacuum_databases([path for home in homes for path in home.rglob("*.db")])
    found = steps.write_certificate(request, erasure)
    if found.held or found.unread:
        # What lands from now on is compared with the rows of the next attempt.
        del erasure.done[OTHERS]
        erasure.keep()
    return found


def _refuse_differing(differing: Mapping[str, Sequence[str]]) -> None:
    """Raise BackfillError where rows of others changed, naming the days per table."""
    if not differing:
        return
    days = "; ".join(f"{table} {', '.join(changed)}" for table, changed in differing.items())
    raise BackfillError(
        "the entity",
        f"rows of others changed, too: {days}",
        steps.LOGS_STAY,
        "Look with `backfill-assets compare`; the same command with --despite-differences goes on",
    )


def rebuild_after_forgetting(request: steps.ForgetRequest) -> None:
    """Rebuild every day that needs it, and `days_of_lost_tables`; exits as `catch-up` does where
    one cannot be rebuilt."""
    done = rebuild_until_settled(request.lake, request.note, "forget")
    unknown = steps.days_of_lost_tables(request) if done.success else {}
    for table, days in unknown.items():
        for span in contiguous_ranges(days):
            asked = Work(span, (table,), note=request.note, reason="forget")
            done.runs.append((asked, run_work(KnownStates(request.lake, request.pipeline), asked)))
    if unknown and done.success:
        done = rebuild_until_settled(request.lake, request.note, "forget")
    if not done.success:
        report_catch_up(done)


def _forget_runs(request: steps.ForgetRequest) -> int:
    """Delete Dagster's runs that hold the entity, with their logs; return how many. The next run
    reports their days again, from the receipts."""
    from backfill_assets.cli.dagster_home import instance_of, silence_dagster

    deleted = 0
    with silence_dagster(), instance_of(request.lake) as instance:
        for run in instance.get_runs():
            if _holds_entity(instance, run, request.trace):
                instance.compute_log_manager.delete_logs(prefix=[run.run_id])
                instance.delete_run(run.run_id)
                deleted += 1
    return deleted


def _holds_entity(instance: "dg.DagsterInstance", run: "dg.DagsterRun", trace: Trace) -> bool:
    """Whether a run of Dagster, or an event of it, holds the entity."""
    from dagster import serialize_value

    texts = [repr(run), *map(serialize_value, instance.all_logs(run.run_id))]
    return any(trace.is_in(text.encode()) for text in texts)
