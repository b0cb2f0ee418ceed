"""raw: every delivery that landed on a day, unchanged.

Not here: loading it from landed files (`intake.raw`).
"""

from backfill_assets.kernel.core.contracts import LANDING, LATER, Column, Contract, Input, InputKind
from backfill_assets.kernel.core.ledgers import named
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD, log_columns, words
from backfill_assets.kernel.tables.sections import SourceSettings
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import LOADER_VERSION, Table
from backfill_assets.pipeline.columns import CARRIED, KEY, tags_of
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
    "away; "
    "NULL: "
    "an earlier "
    "release loaded it",
    "log_commit_ts": "when the row's commit was made (UTC)",
}
# Beside `LOADER_VERSION`: raised when the log can give other rows of raw.
OF_TABLE = "raw of a table 1"
OWN = "{} of the row itself, also where the commit took it away"


def _of_log(source: SourceSettings) -> tuple[Column, ...]:
    """What raw keeps of the log of a table that others write."""
    if not source.table:
        return ()
    from backfill_assets.intake.select import (
        clocks_of,
    )  # a parser, which other lakes need not import to look

    return tuple(
        Column(
            name, kind, LOG_MEANING.get(name) or OWN.format(name.removeprefix("row_")), True, LATER
        )
        for name, kind in log_columns(clocks_of(source.select)).items()
    )


def raw(settings: LakeSettings, source: str = "") -> Table:
    """Every delivery of a source that landed on a day. A delete may lack its payload: all of it may
    be NULL."""
    is_table = settings.source.table is not None
    return Table(
        _contract(settings, source),
        settings=_reaching(settings),
        facts=lateness_of_deliveries,
        counts_alike=True,
        code_version=OF_TABLE if is_table else "",
        earlier_versions=(LOADER_VERSION,)
        if is_table
        else (),  # what was loaded without the order of the log stays
    )


def _contract(settings: LakeSettings, source: str) -> Contract:
    payload = settings.source.payload_columns
    return Contract(
        named("raw", source),
        "Every delivery that landed that day, unchanged. Corrections are new deliveries; nothing "
        "is ever edited.",
        columns=(
            Column(
                "seq", "BIGINT", "the delivery's number, unique within its arrival day", tags=KEY
            ),
            Column("arrival_ts", "TIMESTAMP", "when we received it (UTC); decides the day"),
            Column(
                "version_ts",
                "TIMESTAMP",
                "which version of the event it is: the greatest is current",
            ),
            Column(
                "event_ts",
                "TIMESTAMP",
                "when the event happened (UTC); NULL on deletes",
                nullable=True,
            ),
            Column("event_key", "STRING", "the event that the delivery speaks of", tags=KEY),
            Column("op", "STRING", "upsert or delete"),
            *(
                Column(
                    c.name,
                    c.type,
                    MEANING.get(c, f"{CARRIED}; NULL on deletes"),
                    nullable=True,
                    tags=tags_of(c),
                )
                for c in payload
            ),
            *_of_log(settings.source),
            Column(
                "source_file",
                "STRING",
                "sha256 of the landed file; its path is in the ledger `files`",
                tags=KEY,
            ),
            Column("arrival_date", "DATE", "the day of arrival (UTC)"),
        ),
        day_column="arrival_date",
        key=("seq",),
        inputs=(Input(named(LANDING, source), kind=InputKind.FILES),),
    )


def _reaching(settings: LakeSettings) -> dict[str, object]:
    """The settings that reach the rows of raw."""
    payload, lateness = settings.source.payload_columns, settings.lateness
    return {
        "start_date": str(settings.start_date),
        "format": settings.source.format,
        "select": settings.source.select,
        **({"kind": settings.source.kind} if settings.source.kind != "changes" else {}),
        **({"key_day": settings.source.key_day} if settings.source.key_day is not None else {}),
        **({"dialect": declared} if (declared := settings.source.dialect.declared) else {}),
        "early_tolerance_days": lateness.early_tolerance_days,
        **({"window_days": lateness.window_days} if lateness.window_days is not None else {}),
        **({"payload": words(payload)} if settings.source.payload is not None else {}),
    }
