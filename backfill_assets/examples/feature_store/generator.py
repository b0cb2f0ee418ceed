"""Files of the example `feature-store`: what twenty users listened to, on three days.

Not here: writing them to a folder (`operations.example_lakes`). What lies below `later` has not landed yet: a row of
a phone that was offline.
"""

from datetime import date, timedelta

from backfill_assets.examples.texts import Row, chance_of, daily_files, jsonl_text, moment, times

FIRST = date(2025, 6, 1)
DAYS = 3
SONGS_A_DAY = 80
USERS = 20
OFFLINE = "user07"


def files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, rows = chance_of("feature-store"), list[Row]()
    for number, at in enumerate(times(chance, FIRST, DAYS, SONGS_A_DAY)):
        user = f"user{chance.randrange(USERS):02d}"
        rows.append({
            "play_id": f"s{number:03d}", "user_id": user, "played_at": moment(at), "sent_at": moment(at),
            "seconds": chance.randint(20, 400), "skipped": chance.random() < 0.3,
        })  # fmt: skip
    then = FIRST + timedelta(days=DAYS)
    late: Row = {"play_id": "s999", "user_id": OFFLINE, "played_at": "2025-06-02T21:00:00Z", "skipped": False}
    landed = daily_files(rows, "sent_at")
    return landed | {f"later/{then}.jsonl": jsonl_text([{**late, "sent_at": f"{then}T09:00:00Z", "seconds": 300}])}
