"""`backfill-assets candidate`: other versions of a lake's tables, built apart and then made current at once.

Not here: building them (every command takes the candidate by `--lake`), and publishing (`operations.publications`).
"""

import shlex
from collections.abc import Iterator

import click

from backfill_assets.cli.backfill import chosen
from backfill_assets.cli.catch_up import report, until_settled
from backfill_assets.cli.common import TARGET_KEY, TEXT, answer, days_options, json_and_lake, lake_option, opened
from backfill_assets.core.days import DayRange
from backfill_assets.lake.home import Lake
from backfill_assets.operations.candidates import (
    candidate_names,
    candidate_statuses,
    create_candidate,
    discard_candidate,
    find_candidate,
)
from backfill_assets.operations.publications import Publication, PublishRequest, publish


@click.group()
@lake_option
def candidate() -> None:
    """Other versions of the lake's tables, with code or settings of their own, until `publish` makes them current."""


@candidate.command("create", short_help="Make an empty one.")
@click.argument("name")
@click.option("--tables", "named", required=True, help="The tables that it builds, comma-separated.")
@click.option("--note", type=TEXT, default="", help="Why; it is kept in the candidate.")
@json_and_lake
def create(name: str, named: str, note: str, as_json: bool) -> None:
    """Make the empty candidate NAME: copies of lake.toml and of your pipeline files, to be changed there. All tables
    that it does not build it reads from the lake, as they are.
    """
    created = _make(name, named, note)
    lines = (
        f"Made {created.address}. Change its lake.toml or pipeline files, then build and look:",
        f"backfill-assets backfill --from FIRST --to LAST --lake {shlex.quote(created.address)}",
        f"backfill-assets candidate publish {name}",
    )
    answer({"name": name, "folder": created.address, "tables": sorted(created.own)}, as_json, lines)


def make_target(named: str | None) -> None:
    """Make the candidate that `--target` names, of the named tables, if there is none of that name."""
    meta = click.get_current_context().meta
    target = meta.pop(TARGET_KEY, None)
    if target is None:
        return
    if named and target not in candidate_names(opened()[0]):
        _make(target, named)
    meta[TARGET_KEY] = target


def _make(name: str, named: str, note: str = "") -> Lake:
    """Make an empty candidate of the named tables."""
    from backfill_assets.pipeline.own_files import reached

    lake, pipeline = opened()
    return create_candidate(lake, pipeline, name, chosen(named, [t.name for t in pipeline.tables]), reached, note)


@candidate.command("list", short_help="All candidates of the lake.")
@json_and_lake
def list_candidates(as_json: bool) -> None:
    """Name all candidates of the lake with their folders, tables and built days, and what is behind."""
    from backfill_assets.pipeline.chosen import chosen_pipeline

    found = candidate_statuses(opened()[0], chosen_pipeline)
    answer(found, as_json, (f"{status} in {status.folder}" for status in found), "This lake has no candidates.")


@candidate.command("publish", short_help="Make its days current (--yes).")
@click.argument("name")
@days_options(default="all it built")
@click.option("--catch-up", is_flag=True, help="Bring the candidate up to date first.")
@click.option("--no-compare", is_flag=True, help="Do not compare days that no gate of a finished plan passed.")
@click.option("--yes", is_flag=True, help="Do it; without it nothing is written.")
@click.option("--note", type=TEXT, default="", help="Why; it is kept in the receipts.")
@json_and_lake
def publish_candidate(  # noqa: PLR0913 - the options of a command are its arguments
    name: str, days: DayRange | None, catch_up: bool, no_compare: bool, yes: bool, note: str, as_json: bool
) -> None:
    """Make the days of the candidate NAME current: per table one commit that names its files, upstream first. Shows
    them first.

    Days that a finished plan of the candidate made have passed its gates; the rows of all others are compared with
    the lake's, and the outcome is shown and kept in the receipts. It is refused where a day there is not up to date, or
    the lake's own code is not the candidate's yet.
    """
    from backfill_assets.pipeline.chosen import chosen_pipeline

    lake, pipeline = opened()
    candidate_lake = find_candidate(lake, name)
    if catch_up and yes:
        _bring_up(candidate_lake, note, as_json)
    request = PublishRequest(
        lake, pipeline, candidate_lake, chosen_pipeline(candidate_lake), days, note, not no_compare
    )
    publication = publish(request, act=yes)
    answer(publication, as_json, _publication_lines(lake, name, publication))


def _bring_up(candidate_lake: Lake, note: str, as_json: bool) -> None:
    """Run what the candidate needs; ends as `report` does if days are left."""
    context = click.get_current_context()
    context.meta[TARGET_KEY] = candidate_lake.root.name
    try:
        outcome = until_settled(candidate_lake, note, "catch-up")
    finally:
        del context.meta[TARGET_KEY]
    if not outcome.success:
        report(outcome, as_json)


def _publication_lines(lake: Lake, name: str, publication: Publication) -> Iterator[str]:
    yield from map(str, publication.tables)
    if not publication.done:
        yield f"Nothing was done. `backfill-assets candidate publish {name} --yes` does it."
        return
    folder = shlex.quote(lake.address)
    yield f"Take it back with: backfill-assets rollback --plan {publication.id} --yes --lake {folder}"
    yield f"The candidate stays until: backfill-assets candidate discard {name} --yes --lake {folder}"


@candidate.command("discard", short_help="Delete it (--yes).")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do it; without it nothing is deleted.")
@json_and_lake
def discard(name: str, yes: bool, as_json: bool) -> None:
    """Delete the candidate NAME with all that it built. Days that were published stay current."""
    lake, _ = opened()
    candidate_lake = find_candidate(lake, name)
    if yes:
        discard_candidate(lake, name)
    line = f"{candidate_lake.address} {'deleted' if yes else 'would be deleted (--yes deletes it)'}"
    answer({"name": name, "folder": candidate_lake.address, "done": yes}, as_json, [line])
