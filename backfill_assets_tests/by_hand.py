"""A golden of six deliveries, reasoned by hand: a correction, a late event, a deletion, and a label
that comes later. Here: the deliveries, the rules, and every row of every table, each with its
reason. Not here: anything that computes them (`oracle`, the package): whoever does is compared with
this."""

from datetime import date, datetime
from typing import Any

from backfill_assets_tests.oracle import Row, Rules, delivery, ordered

# Windows of 2 and 3 days, labels over the 2 days after, mature 1 day later: a day's label is mature
# 4 days after its midnight. The frontier is the midnight after the newest arrival.
RULES = Rules(
    date(2024, 3, 1),
    datetime.fromisoformat("2024-03-08"),
    date(2024, 3, 7),
    (2, 3),
    horizon_days=2,
    maturity_days=1,
)
NOTHING: dict[str, Any] = {"event_ts": None, "entity": None, "value": None, "flag": None}
DELIVERIES = [
    delivery(1, "2024-03-01 10:00", key="a", value=5),
    delivery(2, "2024-03-02 10:00", key="b", value=7, flag=1),
    delivery(3, "2024-03-03 09:00", "2024-03-01 10:00", "a", value=6),  # corrects the first
    delivery(4, "2024-03-04 12:00", "2024-03-02 12:00", "c", entity="B"),  # two days late
    delivery(5, "2024-03-05 08:00", key="b", op="delete", **NOTHING),
    delivery(6, "2024-03-07 10:00", "2024-03-05 10:00", "d", value=2),  # two days late
]


def _rows(names: str, told: str) -> list[Row]:
    """One row per line; `-` is NULL, whole numbers are numbers, `3/1` is a day and `3/1_10` an hour
    of it."""
    return ordered(
        dict(zip(names.split(), map(_cell, line.split()), strict=True))
        for line in told.strip().splitlines()
    )


def _cell(text: str) -> Any:
    if "/" in text:
        day, _, hour = text.removeprefix("3/").partition("_")
        return datetime(2024, 3, int(day), int(hour)) if hour else date(2024, 3, int(day))  # noqa: DTZ001
    if text == "-":
        return None
    return int(text) if text.isdigit() else text


_FACTS = (
    "entity feature_date events_short events_long value_short value_long flagged_long "
    "days_since_last"
)
ANSWERS = {
    # The first version of a ends when its correction arrives, b when it is deleted.
    "staging": _rows(
        "event_key event_ts entity value flag version_ts seq known_from known_until event_date",
        """a 3/1_10 A 5 0 3/1_10 1 3/1_10 3/3_9 3/1
           a 3/1_10 A 6 0 3/3_9 3 3/3_9 - 3/1
           b 3/2_10 A 7 1 3/2_10 2 3/2_10 3/5_8 3/2
           c 3/2_12 B 1 0 3/4_12 4 3/4_12 - 3/2
           d 3/5_10 A 2 0 3/7_10 6 3/7_10 - 3/5""",
    ),
    # As of now: a is 6 on the 1st, b never was, c is 1 on the 2nd, d is 2 on the 5th.
    "features": _rows(
        _FACTS,
        """A 3/1 1 1 6 6 0 0
           A 3/2 1 1 6 6 0 1
           A 3/3 0 1 0 6 0 2
           B 3/2 1 1 1 1 0 0
           B 3/3 1 1 1 1 0 1
           B 3/4 0 1 0 1 0 2
           A 3/5 1 1 2 2 0 0
           A 3/6 1 1 2 2 0 1
           A 3/7 0 1 0 2 0 2""",
    ),
    # As known at the midnight after: a is 5 until the 3rd, b is there until the 5th, c from the
    # 4th, d from the 7th.
    "features_as_known": _rows(
        _FACTS,
        """A 3/1 1 1 5 5 0 0
           A 3/2 2 2 12 12 1 0
           A 3/3 1 2 7 13 1 1
           A 3/4 0 1 0 7 1 2
           B 3/4 0 1 0 1 0 2
           A 3/7 0 1 0 2 0 2""",
    ),
    # Does an event follow within two days? d on the 5th does, for the 3rd and the 4th.
    "labels": _rows(
        "entity label_date forward backward label label_state",
        """A 3/1 0 1 0 mature
           A 3/2 0 1 0 mature
           A 3/3 1 0 1 mature
           A 3/4 1 0 1 mature
           B 3/4 0 0 0 mature
           A 3/7 0 0 0 provisional""",
    ),
    "training": _rows(
        f"{_FACTS} label",
        """A 3/1 1 1 5 5 0 0 0
           A 3/2 2 2 12 12 1 0 0
           A 3/3 1 2 7 13 1 1 1
           A 3/4 0 1 0 7 1 2 1
           B 3/4 0 1 0 1 0 2 0""",
    ),
}
