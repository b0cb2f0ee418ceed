"""Rows of generated files, for the tests of examples: JSON lines, and records of CSV files.
Here: reading texts by path. Not here: what an example needs (each test)."""

import csv
import json
from collections.abc import Mapping
from typing import Any

Rows = list[dict[str, Any]]


def lines(files: Mapping[str, str], part: str = "") -> Rows:
    """The JSON lines of the files whose names hold this part."""
    return [json.loads(line) for name, text in files.items() if part in name for line in text.splitlines()]


def records(files: Mapping[str, str]) -> Rows:
    """The records of CSV files, each with whether it lands later and the day that its file is of."""
    return [
        {**row, "later": name.startswith("later/"), "came": name.partition("dt=")[2][:10]}
        for name, text in files.items()
        for row in csv.DictReader(text.splitlines())
    ]
