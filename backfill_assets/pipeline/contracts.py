"""Contracts of this product's tables, built-in and declared: columns, keys, rules and the days of their inputs.

Not here: what declared columns compute (`declared`), the transforms (`transforms`) and their settings (`tables`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from backfill_assets.core.column_types import read_type
from backfill_assets.core.contracts import LANDING, Basis, Column, Contract, Input, Rule
from backfill_assets.core.days import matures_after
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
        named("raw", source),
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
        named("staging", source),
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


def read_of_staging(payload: Payload, used: Iterable[str]) -> tuple[str, ...] | None:
    """The columns of staging that a table reads which uses these columns of the payload; None: every column."""
    unread = {c.name for c in payload} - set(used)
    return tuple(c for c in staging(payload).column_names if c not in unread) if unread else None


@dataclass(frozen=True)
class FeatureSet:
    """The columns that features, features_as_known and training share: entity, features and `feature_date`.

    `rules` hold for each row, `longest_days` is the longest window, `kind` the first word of the description, and
    `read` the columns of staging that the features are computed from (None: every column).
    """

    columns: tuple[Column, ...]
    rules: tuple[Rule, ...]
    longest_days: int
    entity: tuple[str, ...] = ("entity",)
    kind: str = "Trailing"
    read: tuple[str, ...] | None = None


def feature_table(made: FeatureSet, source_table: str, *, as_known: bool) -> Contract:
    """The contract of features as known now, or `as_known` at the cut, computed from the versions in `source_table`."""
    now = f"{made.kind} windows over staging as known now. Late data restates them: for training use features_as_known."
    then = "The same windows as known at the cut: midnight after the day, plus grace. Later arrivals never change them."
    basis = Basis.KNOWN_AT_CUT if as_known else Basis.CONTENT
    return Contract(
        "features_as_known" if as_known else "features",
        then if as_known else now,
        made.columns,
        "feature_date",
        made.entity,
        (Input(source_table, before=made.longest_days - 1, basis=basis, columns=made.read),),
        waits_for_cut=as_known,
        rules=made.rules,
    )


def label_table(
    columns: Sequence[Column], entity: tuple[str, ...], times: tuple[int, int], inputs: tuple[Input, Input]
) -> Contract:
    """The contract of labels with these columns before `label_state`; `times` are the days of horizon and maturity.

    `inputs` are staging and features_as_known; the days to read of staging follow from the horizon.
    """
    horizon, maturity = times
    state = "mature once the horizon and the maturity days have passed, else provisional"
    versions, asked = inputs
    return Contract(
        "labels",
        "The outcome over the horizon (d, d + horizon] as known now, for the entities of features_as_known.",
        (
            *columns,
            Column("label_state", "STRING", state),
            Column("label_date", "DATE", "the day the label belongs to"),
        ),
        "label_date",
        entity,
        (replace(versions, before=horizon - 1, after=horizon), asked),
        waits_for_cut=True,
        matures_after_days=matures_after(horizon, maturity),
        rules=LABEL_RULES,
    )


def training_table(
    columns: Sequence[Column], rules: Sequence[Rule], entity: tuple[str, ...], matures_after_days: int
) -> Contract:
    """The contract of training: these columns of features_as_known with their rules, and the mature label last."""
    return Contract(
        "training",
        "What a model may learn from: features as known at the cut, joined to mature labels only.",
        tuple(columns),
        "feature_date",
        entity,
        (Input("features_as_known"), Input("labels")),
        waits_for_cut=True,
        matures_after_days=matures_after_days,
        rules=(*rules, LABEL_RULES[0]),
    )


def built_in_features(windows_days: tuple[int, int], read: tuple[str, ...] | None = None) -> FeatureSet:
    """The built-in features over a short and a long window in days."""
    short, long = windows_days
    columns = (
        Column("entity", "STRING", "whom the features describe", tags=KEY),
        Column("events_short", "BIGINT", f"events in the {short} days up to and including the day", tags=MEASURE),
        Column("events_long", "BIGINT", f"events in the {long} days; at least 1", tags=MEASURE),
        Column("value_short", "BIGINT", f"sum of value over the {short} days{WIDE}", nullable=True, tags=MEASURE),
        Column("value_long", "BIGINT", f"sum of value over the {long} days{WIDE}", nullable=True, tags=MEASURE),
        Column("flagged_long", "BIGINT", f"sum of flag over the {long} days", tags=MEASURE),
        Column("days_since_last", "INT", "days since the newest event in the long window; 0: that day", tags=DAYS),
        Column("feature_date", "DATE", "the day the features describe"),
    )
    rules = (
        Rule("has_events", "events_long >= 1", "there is a row only where the long window holds an event"),
        Rule("last_is_in_window", f"days_since_last BETWEEN 0 AND {long - 1}", "the newest event is in it"),
    )
    return FeatureSet(columns, rules, long, read=read)


def features(windows_days: tuple[int, int], source_table: str = STAGING) -> Contract:
    """The built-in features as known now."""
    return feature_table(built_in_features(windows_days), source_table, as_known=False)


def features_as_known(windows_days: tuple[int, int], source_table: str = STAGING) -> Contract:
    """The built-in features as known at the cut of the day."""
    return feature_table(built_in_features(windows_days), source_table, as_known=True)


def labels(
    horizon_days: int,
    maturity_days: int,
    versions: Input = Input(STAGING),  # noqa: B008  # a value
    asked: Input = Input("features_as_known"),  # noqa: B008
) -> Contract:
    """Labels by measure and rule; `versions` and `asked` are the inputs with the columns to read of them."""
    ahead, behind = f"the {horizon_days} days after the day{WIDE}", f"the {horizon_days} days up to it{WIDE}"
    columns = (
        Column("entity", "STRING", "whom the label belongs to", tags=KEY),
        Column("forward", "BIGINT", f"the measure over {ahead}", nullable=True, tags=MEASURE),
        Column("backward", "BIGINT", f"the measure over {behind}", nullable=True, tags=MEASURE),
        Column("label", "INT", "0 or 1 by the rule of [labels]"),
    )
    return label_table(columns, ("entity",), (horizon_days, maturity_days), (versions, asked))


def training(windows_days: tuple[int, int], horizon_days: int, maturity_days: int) -> Contract:
    """The built-in features as known at the cut, joined to mature labels."""
    made = built_in_features(windows_days)
    columns = (*made.columns, Column("label", "INT", "the mature label: 0 or 1"))
    return training_table(columns, made.rules, made.entity, matures_after(horizon_days, maturity_days))
