"""Which names in a log are files of its table: relative, plain, below the table's folder, regular
files, no link.

Whoever may write a table of others decides what its log names. Every reader of such a log asks here
before it opens a file: sources, external tables, adoption, copies and exports. Not here: what a
commit may hold (`log_bounds`), and whether a file has the bytes that the log says (`data_files`).
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

from backfill_assets.kernel.core.addresses import ADDRESS
from backfill_assets.kernel.core.texts import printable_text, shortened_text
from backfill_assets.kernel.log.adopted import ADOPTION_MARK, LOG
from backfill_assets.kernel.place.port import Place

# Begins the link, in a table's folder of a lake, to the folder of a table that others write.
OTHERS = "others-"
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
GLOB_SIGN = re.compile(r"[*?\[]")  # an engine would take the name for all files that fit it
SHOWN_CHARS = 200  # characters of a name in an error


def unquoted_file_name(named: str) -> str:
    """The name of a file below its table's folder, as a log writes it (quoted once). Raises
    ValueError, saying why, for one that no file of the table has."""
    name = unquote(named)
    fault = name_fault(name)
    if fault:
        raise ValueError(f"names the file {printable_name(named)}, {fault}")
    return name


def name_fault(name: str) -> str:
    """Why no file of a table has this name, which is not quoted; "" if one may have it."""
    parts = name.split("/")
    if name.startswith("/") or ":/" in name:
        return "which lies elsewhere"
    if not {"", ".", ".."}.isdisjoint(parts):
        return "which leads out of its folder, or has a part without a name"
    if CONTROL.search(name):
        return "whose name has control signs"
    if GLOB_SIGN.search(name):
        return "whose name is a pattern for others"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "whose name is not UTF-8"
    if parts[0] == LOG:
        return "which lies in its log"
    return ""


def file_fault(table: Place, names: Iterable[str], *, is_lakes: bool = False) -> str:
    """Say which of these files of a table, by their names in it, is none of its own, and why; "" if
    all are, or are gone. Follows no link. `is_lakes`: the log is the lake's, which may lead to
    files of others by what it wrote itself: an address in a bucket, or a link that begins a name;
    not in a table that was adopted."""
    for name in names:
        fault = _fault_of_lakes_file(table, name) if is_lakes else _fault_in(table, name)
        if fault:
            return f"names the file {printable_name(name)}, {fault}"
    return ""


def _fault_of_lakes_file(table: Place, name: str) -> str:
    """Why a file that a log of the lake names is none; "" if it is one, or is gone."""
    address = ADDRESS.fullmatch(name)
    link, _, below = name.partition("/")
    is_behind_link = link.startswith(OTHERS) and bool(below)
    leads_away = address is not None or is_behind_link
    if not leads_away or is_adopted_there(table):
        return _fault_in(table, name)
    if address:
        return name_fault(address[2].partition("/")[2])
    return _fault_in(table.at(link), below)


def _fault_in(place: Place, name: str) -> str:
    return name_fault(name) or place.file_fault(name)


def is_adopted_there(table: Place) -> bool:
    """Whether others made the table's own folder: then no name in its log is one that the lake
    wrote to lead away."""
    if not table.may_be_of_others:
        return False
    if table.is_store:
        return _is_listed_once(table)
    return _has_adoption_mark(table)


def _has_adoption_mark(table: Place) -> bool:
    return any(name.startswith(ADOPTION_MARK) for name in table.names(LOG))


# Of a store, whose listing has its price: it is asked once.
_is_listed_once = lru_cache(maxsize=256)(_has_adoption_mark)


def printable_name(name: str) -> str:
    """A name from elsewhere, fit to print."""
    return shortened_text(printable_text(name), SHOWN_CHARS)
