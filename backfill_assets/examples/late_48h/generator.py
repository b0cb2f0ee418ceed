"""Files of the example `late-48h`: passages through gates, which arrive on their day or up to two days later.

Not here: writing them to a folder (`operations.example_lakes`). What lies below `later` has not landed yet: the rows
of each of four nights.
"""

from datetime import date, timedelta

from backfill_assets.examples.texts import Row, chance_of, daily_files, moment, times

FIRST = date(2025, 3, 1)
DAYS = 6  # 2025-03-03 is a Monday
PASSAGES_A_DAY = 60
LATE_DAYS = (0, 0, 0, 0, 0, 0, 1, 1, 2)
SENT_AGAIN = 0.1  # share of passages that a gate sends a second time, a day later
LANDED_BEFORE = "landing/2025-03-04"


def files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, rows = chance_of("late-48h"), list[Row]()
    for number, at in enumerate(times(chance, FIRST, DAYS, PASSAGES_A_DAY)):
        late = chance.choice(LATE_DAYS)
        row: Row = {
            "passage_id": f"x{number:04d}", "gate": chance.choice("NESW"), "passed_at": moment(at),
            "sent_at": moment(at + timedelta(days=late)), "people": chance.randint(1, 9),
        }  # fmt: skip
        rows.append(row)
        if chance.random() < SENT_AGAIN and late < max(LATE_DAYS):
            rows.append({**row, "sent_at": moment(at + timedelta(days=late + 1))})
    landed = {path: text for path, text in daily_files(rows, "sent_at").items() if path[-16:] < "2025-03-08"}
    return {path if path < LANDED_BEFORE else path.replace("landing", "later"): text for path, text in landed.items()}
