"""The contracts of this product's tables, readable aloud: columns, keys, and the days they are made from.

Lives here: what each table promises. Does not live here: how it is computed (`transforms`), and which settings apply
(`tables`).
"""

from backfill_assets.core.contracts import Basis, Column, Contract, Input
from backfill_assets.core.cuts import matures_after

KEY = {"role": "key"}
DAYS = {"unit": "days"}
MEASURE = {"role": "measure"}
SEQUENCE = {"role": "sequence"}  # it grows by itself: no drift
WIDE = "; NULL: the sum does not fit 64 bits"


def raw() -> Contract:
    """Every delivery that landed on a day, unchanged."""
    return Contract(
        "raw",
        "Every delivery that landed that day, unchanged. Corrections are new deliveries; nothing is ever edited.",
        (
            Column("seq", "BIGINT", "the delivery's number, unique within its arrival day", tags=KEY),
            Column("arrival_ts", "TIMESTAMP", "when we received it (UTC); decides the day"),
            Column("version_ts", "TIMESTAMP", "which version of the event it is: the greatest is current"),
            Column("event_ts", "TIMESTAMP", "when the event happened (UTC); NULL on deletes", nullable=True),
            Column("event_key", "STRING", "the event that the delivery speaks of"),
            Column("op", "STRING", "upsert or delete"),
            Column("entity", "STRING", "whom the event belongs to; may be unknown", nullable=True),
            Column("value", "BIGINT", "its amount, -2^53 through 2^53; NULL on deletes", nullable=True, tags=MEASURE),
            Column("flag", "INT", "0 or 1; NULL on deletes", nullable=True, tags=MEASURE),
            Column("source_file", "STRING", "sha256 of the landed file; its path is in the ledger `files`"),
            Column("arrival_date", "DATE", "the day of arrival (UTC)"),
        ),
        "arrival_date",
        ("seq",),
        (Input("landing", basis=Basis.FILES),),
    )


def staging() -> Contract:
    """Every version of an event that was ever current, with its known interval."""
    return Contract(
        "staging",
        "Every version of an event that was ever the current one, with the interval in which it was.",
        (
            Column("event_key", "STRING", "the event", tags=KEY),
            Column("event_ts", "TIMESTAMP", "when it happened (UTC); decides the day"),
            Column("entity", "STRING", "whom it belongs to; unknown ones stay here and leave features", nullable=True),
            Column("value", "BIGINT", "its amount, -2^53 through 2^53", tags=MEASURE),
            Column("flag", "INT", "0 or 1", tags=MEASURE),
            Column("version_ts", "TIMESTAMP", "which version this is"),
            Column("seq", "BIGINT", "the delivery that brought it", tags=SEQUENCE),
            Column("known_from", "TIMESTAMP", "its arrival: from then on it was the current version", tags=KEY),
            Column("known_until", "TIMESTAMP", "arrival of what replaced it; NULL: still current", nullable=True),
            Column("event_date", "DATE", "the day of the event (UTC)"),
        ),
        "event_date",
        ("event_key", "known_from"),
        (Input("raw", basis=Basis.ARRIVALS),),
    )


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


def features(windows_days: tuple[int, int]) -> Contract:
    """Trailing windows as known now."""
    return Contract(
        "features",
        "Trailing windows over staging as known now. Late data restates them: for training use features_as_known.",
        _feature_columns(windows_days),
        "feature_date",
        ("entity",),
        (Input("staging", before=windows_days[1] - 1),),
    )


def features_as_known(windows_days: tuple[int, int]) -> Contract:
    """The same windows as known at the cut of the day."""
    return Contract(
        "features_as_known",
        "The same windows as known at the cut: midnight after the day, plus grace. Later arrivals never change them.",
        _feature_columns(windows_days),
        "feature_date",
        ("entity",),
        (Input("staging", before=windows_days[1] - 1, basis=Basis.KNOWN_AT_CUT),),
        waits_for_cut=True,
    )


def labels(horizon_days: int, maturity_days: int) -> Contract:
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
        (Input("staging", before=horizon_days - 1, after=horizon_days), Input("features_as_known")),
        waits_for_cut=True,
        matures_after_days=matures_after(horizon_days, maturity_days),
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
    )
