"""`backfill-assets prove`: days are computed again in another order, and compared.

Not here: computing and comparing (`prove`).
"""

from typing import Any

import click

from backfill_assets.cli.common import days_options, opened_lake, split_names
from backfill_assets.cli.output import Output, reporting_command
from backfill_assets.compare.compare_command import recomputation_parts
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.proofs import failed_proofs


@click.command()
@days_options(default="all that were made")
@click.option(
    "--random",
    type=click.IntRange(min=1),
    default=None,
    help="Prove this many days, drawn by --seed.",
)
@click.option("--seed", default="0", help="Which days are drawn. [default: 0]")
@click.option("--tables", help="Which tables, comma-separated. [default: all]")
@click.option(
    "--chunk",
    type=click.IntRange(min=1),
    default=1,
    help="Compute this many days at once. [default: 1]",
)
@click.option(
    "--due",
    is_flag=True,
    help="Prove what `[proof]` of lake.toml asks for today, if it is due; for cron.",
)
@reporting_command()
def prove(tables: str | None, due: bool, **options: Any) -> Output:
    """Compute days again from the inputs that their receipts pin, in another order, and compare
    fingerprints.

    Inputs come in another physical order, rows are grouped in another number of partitions, days
    are computed alone. Nothing is committed. Exit code 1 where a day differs or a table could not
    be computed.
    """
    from backfill_assets.compare.prove import ProofRequest, keep_proof
    from backfill_assets.compare.prove import prove_written_days as prove_days

    lake, pipeline = opened_lake()
    if due:
        return _prove_due(lake, pipeline)
    options["random"] = options["random"] or 0
    proof = prove_days(lake, pipeline, ProofRequest(tables=split_names(tables) or (), **options))
    keep_proof(lake, pipeline, proof)
    return Output(
        proof, recomputation_parts("proof", proof), failed=bool(proof.differing or proof.refused)
    )


def _prove_due(lake: "Lake", pipeline: "Pipeline") -> Output:
    """Prove the days of today, unless none is due. Exit code 1 if the newest proof of any day
    failed, also one that was recorded earlier, and the day was not written since."""
    from backfill_assets.compare.prove import prove_days, why_not_due

    why = why_not_due(lake, pipeline)
    proofs = [] if why else prove_days(lake, pipeline, utc_today())
    lines = [f"No proof is due: {why}"] if why else map(str, proofs)
    return Output(
        {"waits": why, "proofs": proofs}, lines, failed=bool(failed_proofs(lake, pipeline))
    )
