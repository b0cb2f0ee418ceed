"""Pins: what programs and people of others rely on, word by word, in text files beside the tests
that find it. Here: comparing what was found with such a file, and writing the file anew with
`BACKFILL_ASSETS_PIN=1` in the environment. Not here: what is pinned (`grep hold_pin`). Where a line
is new, the file gets it, and the changelog one of its own; a line that goes breaks somebody's
program."""

import os
from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path


def hold_pin(file: Path, found: Iterable[str]) -> None:
    """Fail unless the lines of `file` are those that were found, in this order; or write them,
    where that is asked."""
    lines = [*found]
    if os.environ.get("BACKFILL_ASSETS_PIN"):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    pinned = file.read_text(encoding="utf-8").splitlines()
    told = "\n".join(unified_diff(pinned, lines, "pinned", "found", n=0, lineterm=""))
    assert lines == pinned, (
        f"not what {file.parent.name}/{file.name} says. Where it is meant: run this test with "
        f"BACKFILL_ASSETS_PIN=1, which writes the file anew, and tell users in CHANGELOG.md\n{told}"
    )
