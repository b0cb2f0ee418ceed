"""The files of a lake by the forms of their names, and the keys of what is JSON in them.

Here: reading a lake's folder as any program can. Not here: which forms and keys there must be
(`test_json_keys.py`), and what the values mean. What a lake names itself (days, digests, its tables
and columns) is a word in capitals or `*`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# In this order: what is longer first.
FORMS = (
    (r"[^/]+\.parquet$", "DATA.parquet"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"\d{8}-\d{6}-[0-9a-f]{4}", "PLAN"),
    (r"\d{20}", "VERSION"),
    (r"[0-9a-f]{32,64}", "DIGEST"),
    (r"\d{4}-\d{2}-\d{2}", "DAY"),
    (r"\d{4}-\d{2}", "MONTH"),
    (r"\d+", "N"),
)
# Of the engine that the tests have, of this machine, or of the user: what lies there is no one's to
# find again.
NOT_THE_LAKES = (".server", ".dagster", "landing", "home")
# Below these keys every key is a name of the lake's own: a table, a column, a day.
KEYS_OF_THE_LAKE = frozenset(
    {
        "tables",
        "days",
        "columns",
        "columns_of",
        "counts",
        "inputs",
        "types",
        "kinds.json",
        "reads",
        "versions",
        "schemes",
    }
)
NAMES_OF_TABLES = re.compile(
    r"\b\d|^(raw|staging|features|features_as_known|labels|training|files|arrivals|quarantine)$"
)


def form_of(name: str) -> str:
    """The form of a file's name: `tables/raw/_delta_log/VERSION.json`."""
    for pattern, word in FORMS:
        name = re.sub(pattern, word, name)
    return name


def files_of(root: Path) -> Iterator[tuple[str, Path]]:
    """Each file of the lake by its form."""
    for path in root.rglob("*"):
        place = path.relative_to(root)
        if path.is_file() and place.parts[0] not in NOT_THE_LAKES:
            yield form_of(place.as_posix()), path


def keys_in(document: Any, place: str, above: str = "") -> Iterator[str]:
    """Every path of keys in a document below a place."""
    if isinstance(document, list):
        for item in document:
            yield from keys_in(item, f"{place}[]", above)
    elif isinstance(document, dict):
        for key, value in document.items():
            is_the_lakes = above in KEYS_OF_THE_LAKE or NAMES_OF_TABLES.search(key)
            name = "*" if is_the_lakes else key
            yield f"{place}.{name}"
            yield from keys_in(value, f"{place}.{name}", name)


def keys_of_commit(path: Path) -> Iterator[str]:
    """What the package adds to a commit of Delta: keys of `commitInfo`, and the receipt, which is
    text in it."""
    for line in path.read_text(encoding="utf-8").splitlines():
        info = json.loads(line).get("commitInfo", {})
        yield from (f"commit: .{key}" for key in info if key.startswith("backfill_assets"))
        if receipt := info.get("userMetadata"):
            yield from keys_in(json.loads(receipt), "receipt: ")


def lines_of(root: Path) -> set[str]:
    """Lines of a pin: the forms of a lake's files, and the keys in them."""
    found = set[str]()
    for form, path in files_of(root):
        found.add(f"file: {form}")
        if "/_delta_log/VERSION.json" in form:
            found |= {*keys_of_commit(path)}
        elif (
            form.endswith((".json", ".started", ".ended", ".head", ".demo")) and path.stat().st_size
        ):
            content = json.loads(path.read_text(encoding="utf-8"))
            found |= {*keys_in(content, f"keys: {form} ", Path(form).name)}
    return found
