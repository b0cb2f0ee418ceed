"""Folders of links to files, laid out so that an engine reads off them what it cannot know of a file otherwise.

Lives here: one folder per list of files, each under `COLUMN=VALUE`. Does not live here: which files (`plain`,
`load.numbered`), and engines on other machines, which know their files' names (Spark's `_metadata`).

Spark takes a column from a folder once per file, from the name of a row's file once per row. Sail knows no `_metadata`,
takes the values of folders for columns only where it is given the folder they lie in, and gives NULL without a word
where it is given the files.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path


def linked(scratch: Path, column: str, files: Iterable[tuple[str, Path]]) -> Path:
    """A folder below `scratch` in which each file lies below its value of `column`; it goes when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="links-", dir=scratch))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for number, (value, path) in enumerate(files):
        place = folder / f"{column}={value}"
        place.mkdir(exist_ok=True)
        (place / f"{number}.parquet").symlink_to(path)
    return folder
