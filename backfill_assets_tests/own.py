"""A user's own pipeline as a file beside `lake.toml`: what tests of doors and of its mistakes write
there. Here: the text, and settings of a lake of two sources. Not here: lakes to put them into
(`files`, `synthetic`, `end_to_end.worlds`)."""

_ONE = 'files = "landing/*.csv"\nformat = "csv"\nselect = "seq"\n'
TWO_SOURCES = f"""start_date = 2024-03-01
[sources.events]
{_ONE}[sources.truth]
{_ONE}[features]
source = "events"
[labels]
source = "truth"
"""
OWN_PIPELINE = '''"""Totals per entity and day, and staging to make them of."""

from backfill_assets import Column, Contract, Input, Table
from backfill_assets import tables as ours

TOTALS = Contract(
    "totals",
    "Events that count today, per entity and day.",
    (Column("entity", "STRING", "whose"), Column("day", "DATE", "when"), Column("events", "BIGINT", "how many")),
    day_column="day",
    key=("entity",),
    inputs=(Input("staging"),),
)


def totals(frames, chunk):
    current = frames["staging"].where("known_until IS NULL AND entity IS NOT NULL")
    return current.groupBy("entity", current.event_date.alias("day")).count().withColumnRenamed("count", "events")


def tables(settings):
    raw, staging, *_ = ours(settings)
    return raw, staging, Table(TOTALS, totals)


def backwards(settings):
    return tables(settings)[::-1]
'''
