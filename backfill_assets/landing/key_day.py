"""Where a source's keys name the day of their event: `[source] key_day`, such as ord-YYYYMMDD.

Not here: judging rows by it (`load.deliveries`), and the ledger that then needs no other day (`load.arrivals`).
"""

from typing import Annotated

from pydantic import AfterValidator

PARTS = ("YYYY", "MM", "DD")


def _with_each_part(template: str) -> str:
    if any(template.count(part) != 1 for part in PARTS):
        raise ValueError("it shows where keys have their day, with each of YYYY, MM and DD once: ord-YYYYMMDD")
    return template


KeyDay = Annotated[str, AfterValidator(_with_each_part)]


def day_text(template: str) -> str:
    """SQL, for Spark and DuckDB alike, of the ISO text of the day that `event_key` has where the template has its
    letters; all other letters of the template stand for any one. It need not be the text of a day."""
    found = (f"substring(event_key, {template.index(part) + 1}, {len(part)})" for part in PARTS)
    return "concat(" + ", '-', ".join(found) + ")"
