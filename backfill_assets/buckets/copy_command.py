"""`backfill-assets copy-lake`: a lake to another folder or bucket.

Not here: copying and comparing (`copy_lake`).
"""

import click

from backfill_assets.buckets.copy_lake import copy_lake as do
from backfill_assets.cli.common import json_option
from backfill_assets.cli.output import write_answer
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.tables.home import open_lake


@click.command("copy-lake")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@json_option
def copy_lake(source: str, target: str) -> None:
    """Copy the lake FROM to the empty folder or prefix TO (`s3://BUCKET/PREFIX`), and compare every
    byte.

    TO gets its lake.toml last: it is a lake once it holds all. Stopped, the same command goes on. A
    lake that is written meanwhile is copied as of one moment after the last write, or refused. FROM
    stays; landing folders elsewhere stay where they are; Dagster's runs, locks and scratch are not
    copied. No link is followed: one in FROM or in TO is refused by name, as is a TO that others own
    or may write.
    """
    copied = do(open_lake(local_root(source)), local_root(target))
    write_answer(copied, [copied])
