"""`backfill-assets prove`: days computed again in another order, without a commit.

Not here: computing (`operations.prove`) and drawing what differs (`compare`).
"""

from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.common import SPAN, json_and_lake, opened, print_json
from backfill_assets.cli.compare import draw, names_of
from backfill_assets.cli.drawing import say

if TYPE_CHECKING:
    from backfill_assets.lake.home import Lake
    from backfill_assets.lake.model import Pipeline


@click.command()
@click.option("--days", type=SPAN, help="Which days: A..B, both included, or one. [default: all that were made]")
@click.option("--random", type=click.IntRange(min=1), default=None, help="Prove this many days, drawn by --seed.")
@click.option("--seed", default="0", help="Which days are drawn. [default: 0]")
@click.option("--tables", help="Which tables, comma-separated. [default: all]")
@click.option("--chunk", type=click.IntRange(min=1), default=1, help="Compute this many days at once. [default: 1]")
@click.option("--due", is_flag=True, help="Prove what `[proof]` of lake.toml asks for today, if it is due; for cron.")
@json_and_lake
def prove(as_json: bool, tables: str | None, due: bool, **asked: Any) -> None:
    """Compute days again from the inputs that their receipts pin, in another order, and compare fingerprints.

    Inputs come in another physical order, rows are grouped in another number of partitions, days are computed alone.
    Nothing is committed. Exit code 1 where a day differs or a table could not be computed.
    """
    from backfill_assets.operations.prove import ProofRequest
    from backfill_assets.operations.prove import prove as prove_days
    from backfill_assets.operations.standing_proof import keep_proof

    lake, pipeline = opened()
    if due:
        _prove_due(lake, pipeline, as_json)
        return
    asked["random"] = asked["random"] or 0
    proof = prove_days(lake, pipeline, ProofRequest(tables=names_of(tables) or (), **asked))
    keep_proof(lake, pipeline, proof)
    if as_json:
        print_json(proof)
    else:
        draw("proof", proof)
    if proof.differing or proof.refused:
        click.get_current_context().exit(1)


def _prove_due(lake: "Lake", pipeline: "Pipeline", as_json: bool) -> None:
    """Prove the days of today, unless none is due; exit code 1 where one fails."""
    from backfill_assets.core.clock import utc_today
    from backfill_assets.operations.standing_proof import prove_days, unproven, waits

    why = waits(lake, pipeline)
    found = [] if why else prove_days(lake, pipeline, utc_today())
    if as_json:
        print_json({"waits": why, "proofs": found})
    for line in () if as_json else map(str, found) if not why else [f"No proof is due: {why}"]:
        say(line)
    if unproven(lake, pipeline):
        click.get_current_context().exit(1)
