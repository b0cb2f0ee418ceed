"""`backfill-assets scan` and `backfill-assets landing accept`: list what landed, and follow what changed there.

Not here: comparing folder and ledger (`load.scan`).
"""

from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import TEXT, json_option, lake_option, lake_root, print_json, say_unusable
from backfill_assets.cli.drawing import number
from backfill_assets.core.texts import plain

if TYPE_CHECKING:
    from backfill_assets.core.scans import ScanReport


@click.command()
@json_option
@lake_option
@click.pass_context
def scan(ctx: click.Context, as_json: bool) -> None:
    """Take stock of the landing folder. Exit code 1 if a file is altered, missing, refused or unreadable."""
    from backfill_assets.lake.home import open_lake
    from backfill_assets.lake.session import LakeSession
    from backfill_assets.load.sources import scan_all

    lake = open_lake(lake_root())
    report = scan_all(LakeSession(lake))
    if as_json:
        print_json(report.to_dict())
    else:
        _draw(report)
    say_unusable(lake)
    if not report.is_clean:
        ctx.exit(1)


def _draw(report: "ScanReport") -> None:
    for name, (rows, bad) in report.new.items():
        click.echo(f"new        {plain(name)}: {number(rows)} rows" + (f", {number(bad)} unusable" if bad else ""))
    told = {
        "copy of": report.copies, "waiting": report.waiting, "refused": report.refused,
        "unreadable": report.unreadable,
    }  # fmt: skip
    for word, files in told.items():
        for name, reason in files.items():
            click.echo(f"{word:10s} {plain(name)}: {plain(reason)}")
    for word, names in {"altered": report.altered, "missing": report.missing}.items():
        for name in names:
            click.echo(f"{word:10s} {plain(name)}")
    for name in report.let_go:
        click.echo(f"let go     {plain(name)}: it changed or vanished, and nothing was ever made of it")
    if report.blocked:
        first = min(report.blocked)
        click.echo(
            f"{len(report.blocked)} day(s) from {first} are not rebuilt until the files are back, or you say "
            '`backfill-assets landing accept --note "why"`'
        )
    click.echo(f"{len(report.new)} new file(s), {report.known} known before")


@click.group()
def landing() -> None:
    """What to do with landed files."""


@landing.command()
@click.option("--note", type=TEXT, required=True, help="Why; it is kept in the ledger.")
@click.argument("paths", nargs=-1)
@json_option
@lake_option
@click.pass_context
def accept(ctx: click.Context, note: str, paths: tuple[str, ...], as_json: bool) -> None:
    """Follow what lies in the landing folder now: altered and missing files (all, or PATHS as `scan` prints them)."""
    from backfill_assets.lake.home import open_lake
    from backfill_assets.lake.session import LakeSession
    from backfill_assets.load.sources import accept_all

    if not note.strip():
        raise click.BadParameter("say why, in a few words", param_hint="--note")
    followed = accept_all(LakeSession(open_lake(lake_root())), note.strip(), paths)
    unknown = sorted(set(paths) - set(followed))
    if as_json:
        print_json({"accepted": followed, "neither altered nor missing": unknown})
    else:
        for path in followed:
            told = "its days are stale now, `backfill-assets status --stale` lists them"
            click.echo(f"accepted   {plain(path)}: {told}")
        for path in unknown:
            click.echo(f"unchanged  {plain(path)} is neither altered nor missing")
        if not followed and not unknown:
            click.echo("Nothing is altered or missing.")
    if unknown:
        ctx.exit(1)
