"""`backfill-assets prove`: days computed again in another order, without a commit.

Not here: computing (`operations.prove`) and drawing what differs (`compare`).
"""

from typing import Any

import click

from backfill_assets.cli.common import SPAN, json_and_lake, opened, print_json
from backfill_assets.cli.compare import draw, names_of


@click.command()
@click.option("--days", type=SPAN, help="Which days: A..B, both included, or one. [default: all that were made]")
@click.option("--random", type=click.IntRange(min=1), default=None, help="Prove this many days, drawn by --seed.")
@click.option("--seed", default="0", help="Which days are drawn. [default: 0]")
@click.option("--tables", help="Which tables, comma-separated. [default: all]")
@click.option("--chunk", type=click.IntRange(min=1), default=1, help="Compute this many days at once. [default: 1]")
@json_and_lake
def prove(as_json: bool, tables: str | None, **asked: Any) -> None:
    """Compute days again from the inputs that their receipts pin, in another order, and compare fingerprints.

    Inputs come in another physical order, rows are grouped in another number of partitions, days are computed alone.
    Nothing is committed. Exit code 1 where a day differs or a table could not be computed.
    """
    from backfill_assets.operations.prove import ProofRequest
    from backfill_assets.operations.prove import prove as prove_days

    lake, pipeline = opened()
    asked["random"] = asked["random"] or 0
    proof = prove_days(lake, pipeline, ProofRequest(tables=names_of(tables) or (), **asked))
    if as_json:
        print_json(proof)
    else:
        draw("proof", proof)
    if proof.differing or proof.refused:
        click.get_current_context().exit(1)
