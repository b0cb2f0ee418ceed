"""The contracts of this product's tables, readable aloud: columns, keys, and the days they are made from.

Lives here: what each table promises. Does not live here: how it is computed (`transforms`), and which settings apply
(`tables`).
"""

from backfill_assets.core.column_types import read_type
from backfill_assets.core.contracts import LANDING, Basis, Column, Contract, Input, Rule
from backfill_assets.core.cuts import matures_after
from backfill_assets.core.ledgers import named
from backfill_assets.core.payload import DEFAULT_PAYLOAD, PayloadColumn

RAW, STAGING = "raw", "staging"  # of a source with a name these are lengthened by it
KEY = {"role": "key"}
DAYS = {"unit": "days"}
MEASURE = {"role": "measure"}
SEQUENCE = {"role": "sequence"}  # it grows by itself: no drift
# True by how rows are made: they tell a changed transform that no longer makes them so, before anything is written.
LABEL_RULES = (
    Rule("label_is_0_or_1", "label IN (0, 1)", "a label is the outcome of a yes-or-no question"),
    Rule("state_is_known", "label_state IN ('mature', 'provisional')", "a label is mature or provisional"),
)
WIDE = "; NULL: the sum does not fit 64 bits"


# Of the undeclared payload the meaning is known, of any other column only its type.
IN_RAW = dict(zip(DEFAULT_PAYLOAD, (
    "whom the event belongs to; may be unknown", "its amount, -2^53 through 2^53; NULL on deletes",
    "0 or 1; NULL on deletes",
), strict=True))  # fmt: skip
IN_STAGING = dict(zip(DEFAULT_PAYLOAD, (
    "whom it belongs to; unknown ones stay here and leave features", "its amount, -2^53 through 2^53", "0 or 1",
), strict=True))  # fmt: skip
CARRIED = "carried unchanged from the landed file"
Payload = tuple[PayloadColumn, ...]


def raw(payload: Payload = DEFAULT_PAYLOAD, source: str = "") -> Contract:
    """Every delivery of a source that landed on a day, unchanged. A delete may lack its payload: all may be NULL."""
    return Contract(
        named(RAW, source),
        "Every delivery that landed that day, unchanged. Corrections are new deliveries; nothing is ever edited.",
        (
            Column("seq", "BIGINT", "the delivery's number, unique within its arrival day", tags=KEY),
            Column("arrival_ts", "TIMESTAMP", "when we received it (UTC); decides the day"),
            Column("version_ts", "TIMESTAMP", "which version of the event it is: the greatest is current"),
            Column("event_ts", "TIMESTAMP", "when the event happened (UTC); NULL on deletes", nullable=True),
            Column("event_key", "STRING", "the event that the delivery speaks of"),
            Column("op", "STRING", "upsert or delete"),
            *(
                Column(c.name, c.type, IN_RAW.get(c, f"{CARRIED}; NULL on deletes"), nullable=True, tags=_tags(c))
                for c in payload
            ),
            Column("source_file", "STRING", "sha256 of the landed file; its path is in the ledger `files`"),
            Column("arrival_date", "DATE", "the day of arrival (UTC)"),
        ),
        "arrival_date",
        ("seq",),
        (Input(named(LANDING, source), basis=Basis.FILES),),
    )


def staging(payload: Payload = DEFAULT_PAYLOAD, source: str = "") -> Contract:
    """Every version of an event of a source that was ever current, with its known interval."""
    return Contract(
        named(STAGING, source),
        "Every version of an event that was ever the current one, with the interval in which it was.",
        (
            Column("event_key", "STRING", "the event", tags=KEY),
            Column("event_ts", "TIMESTAMP", "when it happened (UTC); decides the day"),
            *(Column(c.name, c.type, IN_STAGING.get(c, CARRIED), nullable=c.nullable, tags=_tags(c)) for c in payload),
            Column("version_ts", "TIMESTAMP", "which version this is"),
            Column("seq", "BIGINT", "the delivery that brought it", tags=SEQUENCE),
            Column("known_from", "TIMESTAMP", "its arrival: from then on it was the current version", tags=KEY),
            Column("known_until", "TIMESTAMP", "arrival of what replaced it; NULL: still current", nullable=True),
            Column("event_date", "DATE", "the day of the event (UTC)"),
        ),
        "event_date",
        ("event_key", "known_from"),
        (Input(named(RAW, source), basis=Basis.ARRIVALS),),
    )


def _tags(column: PayloadColumn) -> dict[str, str]:
    return MEASURE if read_type(column.type).is_number else {}


def _feature_columns(windows_days: tuple[int, int]) -> tuple[Column, ...]:
    short, long = windows_days
    return (
        Column("entity", "STRING", "whom the features describe", tags=KEY),
        Column("events_short", "BIGINT", f"events in the {short} days up to and including the day", tags=MEASURE),
        Column("events_long", "BIGINT", f"events in the {long} days; at least 1", tags=MEASURE),
        Column("value_short", "BIGINT", f"sum of value over the {short} days{WIDE}", nullable=True, tags=MEASURE),
        Column("value_long", "BIGINT", f"sum of value over the {long} days{WIDE}", nullable=True, tags=MEASURE),
        Column("flagged_long", "BIGINT", f"sum of flag over the {long} days", tags=MEASURE),
        Column("days_since_last", "INT", "days since the newest event in the long window; 0: that day", tags=DAYS),
        Column("feature_date", "DATE", "the day the features describe"),
    )


def _feature_rules(windows_days: tuple[int, int]) -> tuple[Rule, ...]:
    return (
        Rule("has_events", "events_long >= 1", "there is a row only where the long window holds an event"),
        Rule("last_is_in_window", f"days_since_last BETWEEN 0 AND {windows_days[1] - 1}", "the newest event is in it"),
    )


def features(windows_days: tuple[int, int], staging: str = STAGING) -> Contract:
    """Trailing windows as known now."""
    return Contract(
        "features",
        "Trailing windows over staging as known now. Late data restates them: for training use features_as_known.",
        _feature_columns(windows_days),
        "feature_date",
        ("entity",),
        (Input(staging, before=windows_days[1] - 1),),
        rules=_feature_rules(windows_days),
    )


def features_as_known(windows_days: tuple[int, int], staging: str = STAGING) -> Contract:
    """The same windows as known at the cut of the day."""
    return Contract(
        "features_as_known",
        "The same windows as known at the cut: midnight after the day, plus grace. Later arrivals never change them.",
        _feature_columns(windows_days),
        "feature_date",
        ("entity",),
        (Input(staging, before=windows_days[1] - 1, basis=Basis.KNOWN_AT_CUT),),
        waits_for_cut=True,
        rules=_feature_rules(windows_days),
    )


def labels(horizon_days: int, maturity_days: int, staging: str = STAGING) -> Contract:
    """Outcomes over the horizon for the entities of features_as_known."""
    return Contract(
        "labels",
        "The outcome over the horizon (d, d + horizon] as known now, for the entities of features_as_known.",
        (
            Column("entity", "STRING", "whom the label belongs to", tags=KEY),
            Column(
                "forward",
                "BIGINT",
                f"the measure over the {horizon_days} days after the day{WIDE}",
                nullable=True,
                tags=MEASURE,
            ),
            Column(
                "backward",
                "BIGINT",
                f"the measure over the {horizon_days} days up to it{WIDE}",
                nullable=True,
                tags=MEASURE,
            ),
            Column("label", "INT", "0 or 1 by the rule of [labels]"),
            Column(
                "label_state", "STRING", "mature once the horizon and the maturity days have passed, else provisional"
            ),
            Column("label_date", "DATE", "the day the label belongs to"),
        ),
        "label_date",
        ("entity",),
        (Input(staging, before=horizon_days - 1, after=horizon_days), Input("features_as_known")),
        waits_for_cut=True,
        matures_after_days=matures_after(horizon_days, maturity_days),
        rules=LABEL_RULES,
    )


def training(windows_days: tuple[int, int], horizon_days: int, maturity_days: int) -> Contract:
    """Features as known at the cut, joined to mature labels."""
    return Contract(
        "training",
        "What a model may learn from: features as known at the cut, joined to mature labels only.",
        (*_feature_columns(windows_days), Column("label", "INT", "the mature label: 0 or 1")),
        "feature_date",
        ("entity",),
        (Input("features_as_known"), Input("labels")),
        waits_for_cut=True,
        matures_after_days=matures_after(horizon_days, maturity_days),
        rules=(*_feature_rules(windows_days), LABEL_RULES[0]),
    )
