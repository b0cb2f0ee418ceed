"""`backfill-assets mend`: a table that a power cut or a lost file has damaged, made readable and writable again.

Lives here: the command. Does not live here: what is damage and how it is mended (`lake.inspection`), and finding it
(`doctor`). No JVM.
"""

import click

from backfill_assets.cli.common import json_option, lake_option, opened, print_json
from backfill_assets.cli.rollback import said
from backfill_assets.lake import inspection


@click.command()
@click.argument("table")
@click.option("--yes", is_flag=True, help="Do it. Without it, what would be done is shown.")
@json_option
@lake_option
def mend(table: str, yes: bool, as_json: bool) -> None:
    """Mend the log of TABLE: a torn newest commit or checkpoint is set aside, and data files that a ledger (files,
    arrivals) has lost are taken out. `doctor` says where it is needed; `catch-up` makes again what is lacking then.

    Exit code 1 where nothing is wrong that it mends; then nothing is done.
    """
    from backfill_assets.lake.ledger import FILES, of_source
    from backfill_assets.operations.aside import contracts_beside

    lake, pipeline = opened()
    landed = [c for c in pipeline.contracts if c.is_landed]
    ledgers = {c.name: c for raw in landed for c in (of_source(FILES, raw.source), *contracts_beside(raw))}
    contract = ledgers.get(table) or pipeline.contract(table, "Nothing was done")
    found = inspection.mend(lake, contract, said()) if yes else inspection.damage(lake, contract)
    if as_json:
        print_json({"done": yes, "table": table, "aside": found.aside, "lost": [f.path for f in found.lost]})
        return
    click.echo(f"{table}: {found.told}")
    click.echo("Next: backfill-assets catch-up" if yes else "Nothing was done. Add --yes to do it.")
