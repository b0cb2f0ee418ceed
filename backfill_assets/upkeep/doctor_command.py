"""`backfill-assets doctor`, `verify`, `checklist`, `mend`, `maintain`, `copy-lake`: checks and
upkeep of a lake.

Not here: the checks (`upkeep.doctor`, `upkeep.doctor_tables`, `reports.checklist`), the
damage (`upkeep.inspection`) and the files that can be deleted (`upkeep.maintain`).
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypedDict

import click

from backfill_assets.cli.common import (
    command_provenance,
    days_options,
    json_and_lake,
    lake_root,
    opened_lake,
    split_names,
)
from backfill_assets.cli.drawing import STYLES, say
from backfill_assets.cli.findings import Diagnosis
from backfill_assets.cli.output import Output, reporting_command, write_answer
from backfill_assets.intake.too_late import too_late_contract
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.pipeline.chosen import tables_at
from backfill_assets.reading.rejected import ledgers_of
from backfill_assets.upkeep import inspection

if TYPE_CHECKING:
    from backfill_assets.cli.findings import Diagnosis

HANG = 6  # characters: the level and a space


class FindingsAnswer(TypedDict):
    """What was found in a lake."""

    lake: str
    findings: Sequence[Diagnosis]


class MendAnswer(TypedDict):
    """The files of the log that were set aside, and the data files that a ledger lost; or which
    would be."""

    done: bool
    table: str
    aside: Sequence[str]
    lost: Sequence[str]


@click.command()
@click.option(
    "--deep", is_flag=True, help="Also all that `verify --deep` reads: every row and byte."
)
@reporting_command()
def doctor(deep: bool) -> Output:
    """Look at Java, server, settings, landing, logs, files and receipts. Changes nothing. Exit code
    1 if one is odd."""
    from backfill_assets.cli.dagster_site import examine_home
    from backfill_assets.upkeep.doctor import examine_everything as examine

    root = lake_root()
    findings = examine(root, tables_at(root), deep, examine_home)
    odd = any(d.level.value != "ok" for d in findings)
    found: FindingsAnswer = {"lake": str(root), "findings": findings}
    return Output(found, [partial(_draw_findings, findings)], odd)


@click.command()
@days_options(default="the rows of all")
@click.option("--tables", help="These tables only, comma-separated; else all, with the ledgers.")
@click.option(
    "--deep", is_flag=True, help="Also the bytes of files that only a rollback or a snapshot needs."
)
@reporting_command()
def verify(days: DayRange | None, tables: str | None, deep: bool) -> Output:
    """Hold every log, file and row against the receipts, by a second reader; shows only what is
    wrong, with the way back. Changes nothing and needs no JVM. Exit code 1 if anything is wrong.
    """
    from backfill_assets.upkeep.doctor import VerifyRequest
    from backfill_assets.upkeep.doctor import verify_tables as examine

    lake, pipeline = opened_lake()
    request = VerifyRequest(
        split_names(tables) or (), None if days is None else frozenset(days), deep=deep
    )
    findings = examine(lake, pipeline.contracts, request)
    wrong = [d for d in findings if d.level.value != "ok"]
    outcome = f"{len(wrong)} found something" if wrong else "all is well"
    counted = f"{len(findings)} checks, {outcome}"
    found: FindingsAnswer = {"lake": lake.address, "findings": findings}
    return Output(found, [partial(_draw_findings, wrong), counted], bool(wrong))


def _draw_findings(findings: "Sequence[Diagnosis]") -> None:
    for diagnosis in findings:
        click.echo(
            click.style(f"{diagnosis.level.value:5s}", **STYLES[diagnosis.level.value]), nl=False
        )
        say(f" {diagnosis.object}: {diagnosis.what}", HANG, first=HANG - 1)
        if diagnosis.advice:  # on one line: it holds commands to copy
            click.echo(f"{' ' * HANG}{printable_text(diagnosis.advice)}")


@click.command()
@click.argument("table", default="")
@click.option("--yes", is_flag=True, help="Do it. Without it, what would be done is shown.")
@reporting_command()
def mend(table: str, yes: bool) -> Output:
    """Mend the log of TABLE: a torn newest commit or checkpoint is set aside, and data files that a
    ledger (files, arrivals) has lost are taken out. `doctor` says where it is needed; `catch-up`
    makes again what is lacking then.

    Exit code 1 where nothing is wrong that it mends; then nothing is done.
    """
    lake, pipeline = opened_lake()
    late = (too_late_contract(c) for c in pipeline.contracts if c.is_landed)
    ledgers = {c.name: c for c in (*ledgers_of(pipeline.contracts), *late)}
    if not table:
        damaged = [c.name for c in (*pipeline.contracts, *ledgers.values()) if _is_damaged(lake, c)]
        raise click.UsageError(
            f"name the table; {', '.join(damaged) or 'none'} of this lake's needs it."
        )
    contract = ledgers.get(table) or pipeline.contract(table, "Nothing was done")
    if yes:
        damage = inspection.mend_table(lake, contract, command_provenance())
    else:
        damage = inspection.mendable_damage(lake, contract)
    document: MendAnswer = {
        "done": yes,
        "table": table,
        "aside": damage.torn,
        "lost": [f.path for f in damage.lost],
    }
    then = "Next: backfill-assets catch-up" if yes else "Nothing was done. Add --yes to do it."
    return Output(document, [f"{table}: {damage.steps}", then])


def _is_damaged(lake: "Lake", contract: "Contract") -> bool:
    try:
        inspection.mendable_damage(lake, contract)
    except BackfillError:
        return False
    return True


@click.command()
@click.option(
    "--tables", "named", default="", help="Tables and ledgers, comma-separated. [default: all]"
)
@click.option("--yes", is_flag=True, help="Do it; without it nothing is written.")
@json_and_lake
def maintain(named: str, yes: bool) -> None:
    """Show what can go: data files replaced so long ago that no rollback is promised, files that no
    version names, old checkpoints; and ledgers and days in many small files, or in too large
    ones. With --yes it is done.

    No row of any table changes, snapshots keep their files, and an unfinished plan keeps what it
    needs.
    """
    from backfill_assets.upkeep.maintain import maintain_tables as do

    lake, pipeline = opened_lake()
    tables = split_names(named) or []
    found = do(lake, pipeline, tables, act=yes)
    lines = found.lines() or ["Nothing can go."]
    lines.append(f"Every version since {found.since:%Y-%m-%d %H:%M} UTC keeps its files.")
    if found.lines() and not yes:
        lines.append("Nothing was done. `backfill-assets maintain --yes` does it.")
    write_answer(found, lines)
