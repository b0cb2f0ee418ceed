"""What names say by themselves: the path of a landed file its day of arrival and its number, a key
its event's day.

Not here: listing files (`listing`), judging rows by their keys (`intake.deliveries`), and the
arrival of a row, which `[source] select` decides where it gives one (`select`). A number in a path
is taken for a part of a day only where nothing else can be meant: otherwise `select` has to name
`arrival_ts`, because rows that count as arrived too early are known before they came. Keys name the
day of their event where `[source] key_day` says so, such as ord-YYYYMMDD.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Annotated

from pydantic import AfterValidator

_WHOLE = re.compile(r"(?<![0-9])([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?![0-9])")
_KEY = re.compile(r"(\w+)=[^=]*$")  # of the value that follows
_PART = re.compile(r"(?:(\w+)=)?([0-9]{4}|[0-9]{1,2})")
_PART_KEYS = (
    frozenset({"year", "yyyy", "y"}),
    frozenset({"month", "mm", "m"}),
    frozenset({"day", "dd", "d"}),
)
_DAY_KEYS = frozenset(
    {
        "d",
        "day",
        "date",
        "dt",
        "ds",
        "at",
        "on",
        "ts",
        "time",
        "hour",
        "arrival",
        "arrived",
        "batch",
        "delivered",
        "delivery",
        "export",
        "exported",
        "ingest",
        "ingested",
        "ingestion",
        "landed",
        "load",
        "loaded",
        "received",
        "run",
        "snapshot",
    }
)
# The last run of digits in the file's own name, if it is a whole number that leaves room for a
# row's: no part of a longer one and no fraction. Without look-around, which not every engine's
# regular expressions have.
NUMBER = r"(?:^|[^0-9.,]|[^0-9][.,])([0-9]{1,9})[^0-9/]*$"
BY_NUMBER = (
    f"CAST(concat(nullif(regexp_extract(_file, '{NUMBER}', 1), ''), lpad(CAST(_row AS string), 9, "
    "'0')) AS bigint) "
    "AS seq"
)


def day_of_path(path: str) -> date | None:
    """The one day that the folders of a path name, else the one that the file's name does; None
    without any, or with several.

    Forms: `2024-03-01` (behind `KEY=` only where KEY names a day, a time or an arrival), and the
    whole names `2024/03/01` or `year=2024/month=3/day=1` of three folders, or of two folders and
    the file.
    """
    *folders, name = path.split("/")
    found = {*_whole_days(folders), *_days_in_parts(folders)}
    if not found:
        in_parts = _days_in_parts([*folders[-2:], name.partition(".")[0]])
        found = {*_whole_days([name]), *in_parts}
    return found.pop() if len(found) == 1 else None


def are_paths_numbered(paths: Iterable[str]) -> bool:
    """Whether some files are of one day, and the paths of each day differ in NUMBER only, which
    then orders them."""
    by_day = defaultdict[date, list[str]](list)
    for path in paths:
        day = day_of_path(path)
        if day:
            by_day[day].append(path)
    several = [of_day for of_day in by_day.values() if len(of_day) > 1]
    return bool(several) and all(_differ_in_number_only(of_day) for of_day in several)


def _differ_in_number_only(paths: Sequence[str]) -> bool:
    """Whether each path has another NUMBER, and all are equal without it."""
    numbers, rests = set[int](), set[str]()
    for path in paths:
        found = re.search(NUMBER, path)
        if found is None:
            return False
        numbers.add(int(found[1]))
        rests.add(path[: found.start(1)] + path[found.end(1) :])
    return len(numbers) == len(paths) and len(rests) == 1


def _whole_days(names: Iterable[str]) -> Iterable[date]:
    """The days `2024-03-01` in names; not those behind a key that is no day, such as `id=`."""
    for name in names:
        for found in _WHOLE.finditer(name):
            key = _KEY.search(name[: found.start()])
            is_of_another_thing = key is not None and not _names_a_day(key[1])
            day = _valid_day(*found.groups())
            if day and not is_of_another_thing:
                yield day


def _names_a_day(key: str) -> bool:
    """Whether `key` of `key=2024-03-01` is a word for a day, a time or an arrival."""
    last_word = re.split(r"[^a-z]+", key.lower())[-1]
    return last_word in _DAY_KEYS or key.lower().endswith("date")


def _days_in_parts(names: Sequence[str]) -> Iterable[date]:
    """The days that three names in turn give: `2024`, `03`, `01`, or each behind its key
    (`year=2024`)."""
    for at in range(len(names) - 2):
        parts = [_PART.fullmatch(name) for name in names[at : at + 3]]
        found = [part for part in parts if part is not None]
        if [len(part[2]) == 4 for part in found] != [True, False, False]:
            continue
        keys = [(part[1] or "").lower() for part in found]
        are_named = all(key in known for key, known in zip(keys, _PART_KEYS, strict=True))
        day = _valid_day(found[0][2], found[1][2], found[2][2])
        if day and (are_named or not any(keys)):
            yield day


def _valid_day(year: str, month: str, day: str) -> date | None:
    """The day of these digits; None for one that the calendar lacks."""
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


PARTS = ("YYYY", "MM", "DD")


def _checked_template(template: str) -> str:
    """The template, which has each part of a day once; raises ValueError for another."""
    if any(template.count(part) != 1 for part in PARTS):
        raise ValueError(
            "it shows where keys have their day, with each of YYYY, MM and DD once: ord-YYYYMMDD"
        )
    return template


KeyDay = Annotated[str, AfterValidator(_checked_template)]


def key_day_text(template: str) -> str:
    """SQL, for Spark and DuckDB alike, of the ISO text of the day that `event_key` has where the
    template has its letters; all other letters of the template stand for any one. It need not be
    the text of a day."""
    found = (f"substring(event_key, {template.index(part) + 1}, {len(part)})" for part in PARTS)
    return "concat(" + ", '-', ".join(found) + ")"
