"""staging: every version of an event that was ever the current one, with the interval in which it
was.

Not here: the choice of the deliveries that a day is made from (`kernel.write.derived`, from the
ledger `arrivals`).
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.contracts import Column, Contract, Input, InputKind
from backfill_assets.kernel.core.ledgers import source_table_name
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD, PayloadColumn
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Chunk, Frames, Table
from backfill_assets.pipeline.columns import CARRIED, KEY_TAG, SEQUENCE, TRANSFORMS, payload_tags
from backfill_assets.pipeline.transforms.queries import account_query, lateness_of_versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEANING = dict(
    zip(
        DEFAULT_PAYLOAD,
        (
            "whom it belongs to; unknown ones stay here and leave features",
            "its amount, -2^53 through 2^53",
            "0 or 1",
        ),
        strict=True,
    )
)


EVENT_COLUMNS = (
    Column("event_key", "STRING", "the event", tags=KEY_TAG),
    Column("event_ts", "TIMESTAMP", "when it happened (UTC); decides the day"),
)
VERSION_COLUMNS = (
    Column("version_ts", "TIMESTAMP", "which version this is"),
    Column("seq", "BIGINT", "the delivery that brought it", tags=SEQUENCE),
    Column(
        "known_from",
        "TIMESTAMP",
        "its arrival: from then on it was the current version",
        tags=KEY_TAG,
    ),
    Column(
        "known_until",
        "TIMESTAMP",
        "arrival of what replaced it; NULL: still current",
        nullable=True,
    ),
    Column("event_date", "DATE", "the day of the event (UTC)"),
)


def staging(settings: LakeSettings, source: str = "") -> Table:
    """Every version of an event of a source, one row per interval in which it was current."""
    payload, raw = settings.source.payload_columns, source_table_name("raw", source)
    contract = _staging_contract(payload, source)
    if settings.source.table:
        return _staging_of_table(contract, settings)
    names, doubles = [c.name for c in payload], [c.name for c in payload if c.is_floating]

    def transform(frames: Frames, chunk: Chunk) -> "DataFrame":
        """The versions of events of a chunk's days."""
        from backfill_assets.pipeline.transforms.staging import staging_rows

        return staging_rows(frames[raw], chunk.days, names, chunk.wanted, doubles)

    return Table(
        contract,
        transform,
        sources=(TRANSFORMS + "staging",),
        code_version="staging 2",
        # In version 1 an identical redelivery was a version of its own: no reader saw another row.
        earlier_versions=("staging 1",),
        facts=lateness_of_versions,
        counts_alike=True,
        account=partial(account_query, payload=names),
    )


def _staging_contract(payload: Sequence[PayloadColumn], source: str) -> Contract:
    """The contract of staging of a source with this payload."""
    carried = (
        Column(c.name, c.type, MEANING.get(c, CARRIED), c.nullable, payload_tags(c))
        for c in payload
    )
    return Contract(
        source_table_name("staging", source),
        "Every version of an event that was ever the current one, with the interval in which it "
        "was.",
        columns=(*EVENT_COLUMNS, *carried, *VERSION_COLUMNS),
        day_column="event_date",
        key=("event_key", "known_from"),
        inputs=(Input(source_table_name("raw", source), kind=InputKind.ARRIVALS),),
    )


def _staging_of_table(contract: Contract, settings: LakeSettings) -> Table:
    """staging of a table that others write: of the rows of a key that it holds, the one that
    counts."""
    # a parser, which other lakes need not import to look
    from backfill_assets.intake.select import (
        selected_clocks,
    )

    payload, given = settings.source.payload_columns, selected_clocks(settings.source.select)
    names, doubles = [c.name for c in payload], [c.name for c in payload if c.is_floating]

    def transform(frames: Frames, chunk: Chunk) -> "DataFrame":
        """The versions of events of a chunk's days, by the log of the table."""
        from backfill_assets.pipeline.transforms.table_versions import table_versions

        (rows,) = frames.values()
        return table_versions(rows, chunk.days, names, chunk.wanted, doubles, given)

    return Table(
        contract,
        transform,
        settings={"given": given} if given else {},
        sources=(TRANSFORMS + "staging", TRANSFORMS + "table_versions"),
        code_version="staging of a table 1",
        facts=lateness_of_versions,
        counts_alike=True,
    )
