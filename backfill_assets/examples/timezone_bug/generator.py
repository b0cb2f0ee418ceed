"""Files of the example `timezone-bug`: plays as phones report them, with the local time and its zone, one file a day.

Not here: writing them to a folder (`operations.example_lakes`). Phones in New York and in Tokyo are in another day than
UTC for some hours, so plays lie on the wrong side of midnight at both ends of a day.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from zoneinfo import ZoneInfo

from backfill_assets.core.days import ONE_DAY
from backfill_assets.examples.texts import Row, chance_of, jsonl_text, moment

FIRST = date(2024, 4, 1)
DAYS = 61  # on the clocks of phones: to 2024-05-31
NEW_YORK, TOKYO = "America/New_York", "Asia/Tokyo"
USERS = {"ann": NEW_YORK, "bob": NEW_YORK, "cid": NEW_YORK, "dot": NEW_YORK, "eri": TOKYO, "goro": TOKYO}
TIMES = ((8, 50), (12, 50), (21, 150))  # hour, and the minutes after it within which a play begins
OWL, OWL_SLEEPS = "olga", 3  # plays in New York late in the evening only, and not on every third day


def files() -> dict[str, str]:
    """Return text by path in the lake."""
    arrived = defaultdict[date, list[Row]](list)
    for number, row in enumerate(_plays(chance_of("timezone-bug"))):
        day = date.fromisoformat(str(row["received_at"])[:10])
        arrived[day].append({"play_id": f"p{number:04d}", **row})
    return {f"landing/plays-{day}.jsonl": jsonl_text(rows) for day, rows in sorted(arrived.items())}


def _plays(chance: Random) -> Iterator[Row]:
    for number in range(DAYS):
        day = FIRST + ONE_DAY * number
        yield from (_play(chance, user, zone, day, *at) for user, zone in USERS.items() for at in TIMES)
        if (number + 1) % OWL_SLEEPS:
            yield _play(chance, OWL, NEW_YORK, day, *TIMES[-1])


def _play(chance: Random, user: str, zone: str, day: date, hour: int, within: int) -> Row:
    at = datetime.combine(day, time(hour), ZoneInfo(zone)) + timedelta(minutes=chance.randrange(within))
    return {
        "user_id": user, "local_time": f"{at:%Y-%m-%d %H:%M:%S}", "zone": zone,
        "received_at": moment((at + timedelta(minutes=2)).astimezone(UTC)), "minutes": chance.randint(1, 60),
    }  # fmt: skip
