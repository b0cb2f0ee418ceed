"""`backfill-assets candidate` and `snapshot`: other versions of a lake's tables, built apart or
kept under a name.

Not here: building a candidate (every command takes it by `--lake`), publishing it
(`candidates.publications`), and keeping a snapshot's files (`candidates.snapshots`).
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

import click

from backfill_assets.candidates.candidates import (
    candidate_names,
    candidate_statuses,
    create_candidate,
    discard_candidate,
    find_candidate,
    folder_of_candidate,
)
from backfill_assets.candidates.publications import (
    Publication,
    PublishRequest,
    publish_candidate_days,
)
from backfill_assets.candidates.snapshots import (
    SnapshotRequest,
    create_snapshot,
    drop_snapshot,
    held_bytes,
)
from backfill_assets.cli.backfill import chosen_tables
from backfill_assets.cli.catch_up import rebuild_until_settled, report_catch_up
from backfill_assets.cli.common import (
    TARGET_KEY,
    TEXT,
    CandidateForm,
    days_options,
    json_and_lake,
    lake_option,
    newest_option,
    opened_lake,
    pipeline_in,
    say_cut_periods,
)
from backfill_assets.cli.drawing import TextTable, number_text
from backfill_assets.cli.output import write_answer
from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.answers import InstantText
from backfill_assets.kernel.core.days import DayRange, ranges_text
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.pipeline.own_files import reached_paths
from backfill_assets.reading.kept_snapshots import (
    Snapshot,
    find_snapshot,
    kept_file_path,
    snapshot_names,
)


class CreateAnswer(TypedDict):
    """A candidate that was made."""

    name: str
    folder: str
    tables: Sequence[str]


class DiscardAnswer(TypedDict):
    """A candidate that was deleted, or would be."""

    name: str
    folder: str
    done: bool


class ListedSnapshot(TypedDict):
    """A snapshot among all of a lake."""

    backfill_assets: int
    name: str
    made_at: InstantText
    by: str
    note: str
    digest: str
    tables: Sequence[str]
    held_bytes: int  # that nothing else holds


class DropAnswer(TypedDict):
    """A snapshot that was dropped, or would be."""

    name: str
    held_bytes: int
    dropped: bool


CandidateListAnswer = list[CandidateForm]
SnapshotListAnswer = list[ListedSnapshot]


@click.group()
@lake_option
def candidate() -> None:
    """Other versions of the lake's tables, with code or settings of their own, until `publish`
    makes them current."""


@candidate.command("create", short_help="Make an empty one.")
@click.argument("name")
@click.option(
    "--tables", "named", required=True, help="The tables that it builds, comma-separated."
)
@click.option("--note", type=TEXT, default="", help="Why; it is kept in the candidate.")
@json_and_lake
def create_candidate_now(name: str, named: str, note: str) -> None:
    """Make the empty candidate NAME: copies of lake.toml and of your pipeline files, to be changed
    there. All tables that it does not build it reads from the lake, as they are.
    """
    created = _make_candidate(name, named, note)
    lines = (
        f"Made {created.address}. Change its lake.toml or pipeline files, then build and look:",
        f"backfill-assets backfill --from FIRST --to LAST --lake {shlex.quote(created.address)}",
        f"backfill-assets candidate publish {name}",
    )
    document: CreateAnswer = {
        "name": name,
        "folder": created.address,
        "tables": sorted(created.own),
    }
    write_answer(document, lines)


def make_target(named: str | None) -> None:
    """Make the candidate that `--target` names, of the tables `named`, if there is none of that
    name. Without `named` none is made, and `opened_lake` refuses the name of none; without the
    option nothing is done."""
    meta = click.get_current_context().meta
    target = meta.pop(TARGET_KEY, None)  # so that `opened_lake` opens the lake beside it
    if target is None:
        return
    if named and target not in candidate_names(opened_lake()[0]):
        _make_candidate(target, named)
    meta[TARGET_KEY] = target


def _make_candidate(name: str, named: str, note: str = "") -> Lake:
    """Make an empty candidate of the named tables."""
    lake, pipeline = opened_lake()
    return create_candidate(
        lake,
        pipeline,
        name,
        chosen_tables(named, [t.name for t in pipeline.tables]),
        reached_paths,
        note,
    )


@candidate.command("list", short_help="All candidates of the lake.")
@json_and_lake
def list_candidates() -> None:
    """Name all candidates of the lake with their folders, tables and built days, and what is
    behind."""
    found = candidate_statuses(opened_lake()[0], pipeline_in)
    lines = (f"{status} in {address_of(status.folder)}" for status in found)
    write_answer(found, lines, "This lake has no candidates.")


@candidate.command("publish", short_help="Make its days current (--yes).")
@click.argument("name")
@days_options(default="all it built")
@click.option("--catch-up", is_flag=True, help="Bring the candidate up to date first.")
@click.option(
    "--no-compare", is_flag=True, help="Do not compare days that no gate of a finished plan passed."
)
@click.option("--yes", is_flag=True, help="Do it; without it nothing is written.")
@click.option("--note", type=TEXT, default="", help="Why; it is kept in the receipts.")
@json_and_lake
def publish_candidate(
    name: str, days: DayRange | None, catch_up: bool, no_compare: bool, yes: bool, note: str
) -> None:
    """Make the days of the candidate NAME current: per table one commit that names its files,
    upstream first. Shows them first.

    Days that a finished plan of the candidate made have passed its gates; the rows of all others
    are compared with the lake's, and the outcome is shown and kept in the receipts. It is refused
    where a day there is not up to date, or the lake's own code is not the candidate's yet.
    """
    lake, pipeline = opened_lake()
    candidate_lake = find_candidate(lake, name)
    if catch_up and yes:
        _catch_up_candidate(candidate_lake, note)
    request = PublishRequest(
        lake=lake,
        pipeline=pipeline,
        candidate=candidate_lake,
        candidate_pipeline=pipeline_in(candidate_lake),
        days=days,
        note=note,
        compares=not no_compare,
    )
    say_cut_periods((t.contract for t in request.candidate_pipeline.tables), days)
    publication = publish_candidate_days(request, act=yes)
    write_answer(publication, _publication_lines(lake, name, publication))


def _catch_up_candidate(candidate_lake: Lake, note: str) -> None:
    """Run what the candidate needs; ends as `report` does if days are left."""
    context = click.get_current_context()
    context.meta[TARGET_KEY] = candidate_lake.root.name
    try:
        outcome = rebuild_until_settled(candidate_lake, note, "catch-up")
    finally:
        del context.meta[TARGET_KEY]
    if not outcome.success:
        report_catch_up(outcome)


def _publication_lines(lake: Lake, name: str, publication: Publication) -> Iterator[str]:
    """Yield what a publication of the candidate does or did, and the next command."""
    yield from map(str, publication.tables)
    if not publication.done:
        yield f"Nothing was done. `backfill-assets candidate publish {name} --yes` does it."
        return
    folder = shlex.quote(lake.address)
    if publication.has_written:
        yield (
            f"Take it back with: backfill-assets rollback --plan {publication.id} --yes --lake "
            f"{folder}"
        )
    else:
        yield "Nothing was written: the lake holds these days so already."
    yield (
        f"The candidate stays until: backfill-assets candidate discard {name} --yes --lake {folder}"
    )


@candidate.command("discard", short_help="Delete it (--yes).")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do it; without it nothing is deleted.")
@json_and_lake
def discard_candidate_now(name: str, yes: bool) -> None:
    """Delete the candidate NAME with all that it built. Days that were published stay current."""
    lake, _ = opened_lake()
    discard_candidate(lake, name, act=yes)
    folder = address_of(folder_of_candidate(lake, name))
    line = f"{folder} {'deleted' if yes else 'would be deleted (--yes deletes it)'}"
    document: DiscardAnswer = {"name": name, "folder": folder, "done": yes}
    write_answer(document, [line])


@click.group()
@lake_option
def snapshot() -> None:
    """Keep versions of tables and days under a name: the same rows for ever, whatever is rebuilt or
    vacuumed."""


@snapshot.command("create", short_help="Keep the newest versions.")
@click.argument("name")
@days_options(default="all")
@click.option("--tables", "named", help="Comma-separated. [default: all]")
@click.option("--note", type=TEXT, default="", help="Why; it is kept in the snapshot.")
@click.option(
    "--unfit",
    type=click.Choice(["refuse", "warn", "take"]),
    default="refuse",
    show_default=True,
    help="What to do about days that are missing, stale, incomplete or pending, or that will "
    "change.",
)
@newest_option
@json_and_lake
def create_snapshot_now(
    name: str, days: DayRange | None, named: str | None, note: str, **options: Any
) -> None:
    """Keep the newest versions of tables under NAME: the days --from through --to, or all that they
    hold.

    The files are copied, and their rows read once and held against the receipts; their SHA-256 are
    proven at reads.
    """
    lake, pipeline = opened_lake()
    tables = chosen_tables(named, [t.name for t in pipeline.tables]) if named else ()
    named_tables = [pipeline.table(n).contract for n in tables] or pipeline.contracts
    say_cut_periods(named_tables, days)
    kept = create_snapshot(lake, pipeline, SnapshotRequest(name, tables, days, note, **options))
    _answer_snapshot(kept)


@snapshot.command("list", short_help="All snapshots of the lake.")
@json_and_lake
def list_snapshots() -> None:
    """All snapshots of the lake, and the bytes that nothing but a snapshot still holds."""
    lake, _ = opened_lake()
    snapshots = [(find_snapshot(lake, n), held_bytes(lake, n)) for n in snapshot_names(lake)]
    document = [
        {**s.to_dict(), "tables": list(s.tables), "held_bytes": held} for s, held in snapshots
    ]
    rows = [
        (s.name, s.made_at, s.by, len(s.tables), s.digest[:12], held, s.note)
        for s, held in snapshots
    ]
    table = TextTable(
        ["snapshot", "made", "by", "tables", "digest", "bytes held by it", "note"], rows
    )
    write_answer(document, [table] if rows else [], "This lake has no snapshot.")


@snapshot.command("show", short_help="What it keeps, proven.")
@click.argument("name")
@json_and_lake
def show_snapshot(name: str) -> None:
    """What a snapshot keeps, proven: every file is read, and compared with its SHA-256."""
    lake, _ = opened_lake()
    shown = find_snapshot(lake, name)
    for table in shown.tables.values():
        for file in table.files:
            kept_file_path(lake, name, table, file)
    _answer_snapshot(shown)


@snapshot.command("drop", short_help="Let go of it.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do it.")
@json_and_lake
def drop_snapshot_now(name: str, yes: bool) -> None:
    """Let go of a snapshot and of the files that only it holds. What names it can no longer be
    read."""
    lake, _ = opened_lake()
    held = held_bytes(lake, name)
    if yes:
        drop_snapshot(lake, name)
    size = f"{number_text(held)} bytes"
    line = f"would drop {name}, and free {size}; do it with --yes"
    if yes:
        line = f"dropped {name}; {size} are free"
    document: DropAnswer = {"name": name, "held_bytes": held, "dropped": yes}
    write_answer(document, [line])


def _answer_snapshot(shown: "Snapshot") -> None:
    """Print what a snapshot keeps, by table, with its digest."""
    note = f": {shown.note}" if shown.note else ""
    made = f"{shown.made_at:%Y-%m-%dT%H:%MZ} by {shown.by}{note}"
    rows = [
        (name, str(t.version), t.rows, len(t.days), len(t.files), ranges_text(t.days))
        for name, t in shown.tables.items()
    ]
    table = TextTable(["table", "version", "rows", "days", "data files", "which days"], rows)
    write_answer(shown, [f"snapshot {shown.name}, made {made}", table, f"digest {shown.digest}"])
