"""Files of the example `five-days`: sales of three shops, of which those of five days came with the wrong unit.

Not here: writing them to a folder (`operations.example_lakes`). What lies below `later` has not landed yet: the same
sales once more, as they should have been.
"""

from datetime import date

from backfill_assets.examples.texts import Row, chance_of, daily_files, jsonl_text, moment, times

FIRST = date(2024, 12, 16)
DAYS = 36  # to 2025-01-20: four weeks to compare the wrong days with, and some days after them
SALES_A_DAY = 60
WRONG = ("2025-01-10", "2025-01-14")  # cents were taken for euros, and multiplied by 100
RESENT = "2025-01-21T07:00:00Z"


def files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, rows, resent = chance_of("five-days"), list[Row](), list[Row]()
    for number, at in enumerate(times(chance, FIRST, DAYS, SALES_A_DAY)):
        row: Row = {
            "sale_id": f"s{number:05d}", "shop": chance.choice(("north", "south", "west")), "sold_at": moment(at),
            "sent_at": moment(at), "cents": (cents := chance.randrange(300, 6_000)),
        }  # fmt: skip
        is_wrong = WRONG[0] <= moment(at)[:10] <= WRONG[1]
        rows.append({**row, "cents": cents * 100} if is_wrong else row)
        resent += [{**row, "sent_at": RESENT}] if is_wrong else []
    return daily_files(rows, "sent_at") | {f"later/{RESENT[:10]}.jsonl": jsonl_text(resent)}
