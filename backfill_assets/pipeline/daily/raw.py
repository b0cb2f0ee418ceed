"""raw: every delivery that landed on a day, unchanged.

Not here: loading it from landed files (`intake.raw`).
"""

from backfill_assets.intake.settings import landed_source, payload_values
from backfill_assets.kernel.core.contracts import LANDING, LATER, Column, Contract, Input, InputKind
from backfill_assets.kernel.core.ledgers import source_table_name
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD, PayloadColumn, log_columns
from backfill_assets.kernel.tables.sections import SourceSettings
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import LOADER_VERSION, Table
from backfill_assets.pipeline.columns import CARRIED, KEY_TAG, payload_tags
from backfill_assets.pipeline.transforms.queries import lateness_of_deliveries

# Of the undeclared payload the meaning is known, of any other column only its type.
MEANING = dict(
    zip(
        DEFAULT_PAYLOAD,
        (
            "whom the event belongs to; may be unknown",
            "its amount, -2^53 through 2^53; NULL on deletes",
            "0 or 1; NULL on deletes",
        ),
        strict=True,
    )
)


LOG_MEANING = {
    "log_change": "insert or delete: whether the commit put the row into the table or took it "
    "away; NULL: an earlier release loaded it",
    "log_commit_ts": "when the row's commit was made (UTC)",
}
DELIVERY_COLUMNS = (
    Column("seq", "BIGINT", "the delivery's number, unique within its arrival day", tags=KEY_TAG),
    Column("arrival_ts", "TIMESTAMP", "when we received it (UTC); decides the day"),
    Column("version_ts", "TIMESTAMP", "which version of the event it is: the greatest is current"),
    Column(
        "event_ts", "TIMESTAMP", "when the event happened (UTC); NULL on deletes", nullable=True
    ),
    Column("event_key", "STRING", "the event that the delivery speaks of", tags=KEY_TAG),
    Column("op", "STRING", "upsert or delete"),
)
LANDED_COLUMNS = (
    Column(
        "source_file",
        "STRING",
        "sha256 of the landed file; its path is in the ledger `files`",
        tags=KEY_TAG,
    ),
    Column("arrival_date", "DATE", "the day of arrival (UTC)"),
)
# Beside `LOADER_VERSION`: raised when the log can give other rows of raw.
OF_TABLE = "raw of a table 1"
OWN_MEANING = "{} of the row itself, also where the commit took it away"


def _log_columns(source: SourceSettings) -> tuple[Column, ...]:
    """What raw keeps of the log of a table that others write."""
    if not source.table:
        return ()
    # a parser, which other lakes need not import to look
    from backfill_assets.intake.select import (
        selected_clocks,
    )

    columns = list[Column]()
    for name, kind in log_columns(selected_clocks(source.select)).items():
        meaning = LOG_MEANING.get(name) or OWN_MEANING.format(name.removeprefix("row_"))
        columns.append(Column(name, kind, meaning, nullable=True, tags=LATER))
    return tuple(columns)


def raw(settings: LakeSettings, source: str = "") -> Table:
    """Every delivery of a source that landed on a day. A delete may lack its payload: all of it may
    be NULL."""
    is_table = settings.source.table is not None
    return Table(
        _raw_contract(settings, source),
        settings=_reaching_settings(settings),
        facts=lateness_of_deliveries,
        counts_alike=True,
        code_version=OF_TABLE if is_table else "",
        # What was loaded without the order of the log stays.
        earlier_versions=(LOADER_VERSION,) if is_table else (),
    )


def _raw_contract(settings: LakeSettings, source: str) -> Contract:
    """The contract of raw of a source."""
    return Contract(
        source_table_name("raw", source),
        "Every delivery that landed that day, unchanged. Corrections are new deliveries; nothing "
        "is ever edited.",
        columns=(
            *DELIVERY_COLUMNS,
            *(_payload_column(column) for column in settings.source.payload_columns),
            *_log_columns(settings.source),
            *LANDED_COLUMNS,
        ),
        day_column="arrival_date",
        key=("seq",),
        inputs=(Input(source_table_name(LANDING, source), kind=InputKind.FILES),),
    )


def _payload_column(column: PayloadColumn) -> Column:
    """A column of the payload in raw, where a delete may lack it."""
    meaning = MEANING.get(column, f"{CARRIED}; NULL on deletes")
    return Column(column.name, column.type, meaning, nullable=True, tags=payload_tags(column))


def _reaching_settings(settings: LakeSettings) -> dict[str, object]:
    """The settings that reach the rows of raw."""
    source, lateness = landed_source(settings.source), settings.lateness
    reaching: dict[str, object] = {
        "start_date": str(settings.start_date),
        "format": source.format,
        "select": source.select,
        "early_tolerance_days": lateness.early_tolerance_days,
    }
    if source.kind != "changes":
        reaching["kind"] = source.kind
    if source.key_day is not None:
        reaching["key_day"] = source.key_day
    if source.dialect.declared:
        reaching["dialect"] = source.dialect.declared
    if lateness.window_days is not None:
        reaching["window_days"] = lateness.window_days
    if source.payload is not None:
        reaching["payload"] = payload_values(source.payload_columns)
    return reaching
