"""The small things that all generators share: a seeded chance, and rows as the text of a file.

Lives here: nothing that is about one example. Does not live here: rows, and where files lie (`streams`, `stories`).
"""

import csv
import io
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from backfill_assets.core.days import midnight

Row = dict[str, object]


def chance_of(example: str) -> random.Random:
    """A random source that is the same in every run of this example."""
    return random.Random(example)  # noqa: S311  # made-up rows need no secrets


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """The rows as CSV with a header; None is an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def jsonl_text(rows: Iterable[Mapping[str, object]]) -> str:
    """The rows as JSON, one a line."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def moment(at: datetime) -> str:
    """A time as files tell it: to the second, in UTC."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def times(chance: random.Random, first: date, days: int, per_day: int) -> Iterator[datetime]:
    """`per_day` instants of each of so many days from `first` on, day by day, to the second."""
    for number in range(days):
        for _ in range(per_day):
            yield midnight(first) + timedelta(days=number, seconds=chance.randrange(86_000))


def daily_files(rows: Iterable[Row], at: str) -> dict[str, str]:
    """JSON lines by path: a file per day of the column `at`, whose values `moment` wrote."""
    found = defaultdict[str, list[Row]](list)
    for row in rows:
        found[f"landing/{str(row[at])[:10]}.jsonl"].append(row)
    return {path: jsonl_text(mine) for path, mine in sorted(found.items())}
