"""`backfill-assets scan`, `landing accept` and `adopt`: what landed, what changed there, tables of
others.

Not here: comparing folder and ledger (`intake.scan`), and what is adopted or refused
(`foreign.adopting`, `foreign.adoptable`).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, TypedDict

import click

from backfill_assets.cli.common import (
    TEXT,
    ObservationForm,
    json_and_lake,
    named_lake,
    opened_lake,
    pipeline_in,
    say_unusable,
)
from backfill_assets.cli.drawing import number_text, remark
from backfill_assets.cli.output import write_answer
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.landed_changes import (
    Comparison,
    ScanForm,
    ScanReport,
    compare_each_source,
    joined_comparisons,
)
from backfill_assets.intake.ledger import path_with_source, read_files
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError, raise_first_error
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.readable import observe_others

WHY_NOT_ACCEPTED = (
    "neither altered nor missing, and no scan found that it contradicts its declared totals"
)
# Of a narrow Parquet file; those of text are longer, and this decides no more than how the engine
# is started.
BYTES_A_ROW = 16


class ScanAnswer(ScanForm):
    """A scan of the landing folder, and of tables that others write, by their names."""

    external: Mapping[str, ObservationForm]


@click.command()
@json_and_lake
@click.pass_context
def scan(ctx: click.Context) -> None:
    """Take stock of the landing folder, and of tables that others write. Exit code 1 if a file is
    altered, missing, refused or unreadable, or not one row of a source is usable. A source that
    cannot be scanned holds up no other."""
    from backfill_assets.intake.scan import scan_each

    lake = named_lake()
    report, failed = scan_each(LakeSession(lake))
    observed, unread = observe_others(lake, _table_contracts(lake))
    document = {**report.to_dict(), "external": {o.table: o.to_dict() for o in observed}}
    write_answer(document, [*_scan_lines(report), *observed])
    raise_first_error([*failed, *unread])
    if say_unusable(lake).fruitless or not report.is_clean:
        ctx.exit(1)


def _table_contracts(lake: Lake) -> Sequence[Contract]:
    """Contracts of the lake's tables; none, and a remark, where the pipeline cannot be opened:
    files are scanned all the same."""
    try:
        return pipeline_in(lake).contracts
    except BackfillError as error:
        remark(f"Tables that others write were not looked at. {error}")
        return ()


def _scan_lines(report: ScanReport) -> Iterator[str]:
    """Yield a line per new, copied, waiting or dropped file, those of `finding_lines`, and the
    totals."""
    for name, (rows, bad_rows) in report.new.items():
        unusable = f", {number_text(bad_rows)} unusable" if bad_rows else ""
        yield f"new        {printable_text(name)}: {number_text(rows)} rows{unusable}"
    gone = dict.fromkeys(report.lapsed, "it changed or vanished, and nothing was ever made of it")
    yield from _file_lines("copy of", report.copies)
    yield from _file_lines("waiting", report.waiting)
    yield from _file_lines("dropped", gone)
    if report.vanished:
        yield (
            f"vanished   {len(report.vanished)} content(s), whose rows vacuum took: their days "
            "stay as loaded"
        )
    yield from finding_lines(report)
    if report.example:
        yield f"unusable because e.g. {printable_text(report.example)}"
    yield f"{len(report.new)} new file(s), {report.known} known before"


def finding_lines(report: ScanReport) -> Iterator[str]:
    """Yield lines about files that hold days back, and files that are not read."""
    yield from _file_lines("refused", report.refused)
    yield from _file_lines("unusable", report.unreadable)
    yield from _file_lines("disagrees", report.contradicted)
    yield from _file_lines("clock", report.ahead)
    for word, names in (("altered", report.altered), ("missing", report.missing)):
        for name in names:
            yield f"{word:10s} {printable_text(name)}"
    if report.blocked:
        yield (
            f"{len(report.blocked)} day(s) from {min(report.blocked)} are not rebuilt until the "
            'files are back, or you say `backfill-assets landing accept --note "why"`'
        )


def _file_lines(word: str, reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield a line per file: a word for what it is, its name, and why (`reasons`, by the name)."""
    for name, why in reasons.items():
        yield f"{word:10s} {printable_text(name)}: {printable_text(why)}"


def scan_as_needed(lake: Lake) -> frozenset[date]:
    """Scan what landed since the last scan, if anything did; return the days whose files are
    altered or missing. Raises, at the end, the error of a source that cannot be scanned."""
    blocked, failed = scan_each_source(lake)
    raise_first_error(failed)
    return blocked


def scan_each_source(lake: Lake) -> tuple[frozenset[date], list[BackfillError]]:
    """Scan as `scan_as_needed` does; return the days whose files are altered or missing, and the
    errors of sources and tables that cannot be scanned."""
    session = LakeSession(lake)
    observed, unread = observe_others(lake, pipeline_in(lake).contracts)
    _say_changes(observed)
    comparisons, unlisted = compare_each_source(session)
    comparison = joined_comparisons(comparisons.values())
    if comparison.is_scanned:
        if comparison.refused:
            first, count = comparison.refused[0], len(comparison.refused)
            why = f"{printable_text(first.name)}: {printable_text(first.reason)}"
            remark(
                f"{count} landed file(s) are not read, such as {why}; `backfill-assets scan` "
                "lists them"
            )
        return frozenset(), [*unlisted, *unread]
    if comparison.counts_rows:
        session.begin(rough_rows(comparison))  # while files are read and parsed
    from backfill_assets.intake.scan import scan_each

    report, failed = scan_each(session)
    for line in finding_lines(report):
        remark(line)
    return report.blocked, [*failed, *unread]


def rough_rows(comparison: Comparison) -> int:
    """About how many rows files that are new hold, by their sizes alone."""
    return sum(file.size for file in comparison.fresh) // BYTES_A_ROW


def observed_lake() -> tuple[Lake, Pipeline]:
    """Open the chosen lake and its pipeline after a look at the tables that others write; say on
    stderr what changed there, and which cannot be read: their days stay as the lake last saw
    them."""
    lake, pipeline = opened_lake()
    observed, failed = observe_others(lake, pipeline.contracts)
    _say_changes(observed)
    for error in failed:
        remark(f"Error: {error}")
    return opened_lake() if observed or failed else (lake, pipeline)


def _say_changes(observed: Sequence[Any]) -> None:
    for found in observed:
        if found.days:
            remark(str(found))


# Paths; of those that stay as they were, why.
AcceptAnswer = TypedDict(
    "AcceptAnswer",
    {
        "accepted": Sequence[str],
        "unchanged": Mapping[str, str],
        "neither altered nor missing": Sequence[str],
    },
)


@click.group()
def landing() -> None:
    """What to do with landed files."""


@landing.command(short_help="Follow what lies there now.")
@click.option("--note", type=TEXT, required=True, help="Why; it is kept in the ledger.")
@click.argument("paths", nargs=-1)
@json_and_lake
@click.pass_context
def accept(ctx: click.Context, note: str, paths: tuple[str, ...]) -> None:
    """Follow what lies in the landing folder now: files that are altered, missing, or disagree with
    their manifests (all, or PATHS as `scan` prints them)."""
    from backfill_assets.intake.scan import accept_all

    if not note.strip():
        raise click.BadParameter("say why, in a few words", param_hint="--note")
    lake = named_lake()
    followed = accept_all(LakeSession(lake), note.strip(), paths)
    refused = _refused_for_totals(lake)
    unknown = {
        path: refused.get(path, WHY_NOT_ACCEPTED) for path in sorted(set(paths) - set(followed))
    }
    as_they_are = [path for path in unknown if path not in refused]
    document: AcceptAnswer = {
        "accepted": followed,
        "unchanged": unknown,
        "neither altered nor missing": as_they_are,
    }
    stale = "its days are stale now, `backfill-assets status --stale` lists them"
    lines = [f"accepted   {path}: {stale}" for path in followed]
    lines += [f"unchanged  {path}: {why}" for path, why in unknown.items()]
    write_answer(
        document, lines, "Nothing is altered or missing, or loaded against its declared totals."
    )
    if unknown:
        ctx.exit(1)


def _refused_for_totals(lake: Lake) -> dict[str, str]:
    """Return the files of which nothing was loaded because of what their manifests declare, with
    the reason and the fix."""
    fix = "it is in quarantine; correct the file or its manifest, and the next run loads it"
    refused = {}
    for each in lake.by_source():
        for record in read_files(each.store, each.source):
            if record.is_refused_for_totals and not record.withdrawn:
                path = path_with_source(record.path, each.source)
                refused[path] = f"{record.refused}: {fix}"
    return refused
