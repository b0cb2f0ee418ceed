"""The fingerprint of rows computed once more, byte by byte, in Python: shared with the product are
its words alone. Here: a cell's canonical text for every type a column can have, and the sums over
rows. Not here: reading tables, and what receipts say (`test_independent_reader`,
`test_independent_types`)."""

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

EPOCH = date(1970, 1, 1)
NAN = 0x7FF8000000000000


def text_of(value: Any, kind: str) -> str:
    """A cell as the fingerprint of a day sees it; `kind` as Spark's SQL writes it."""
    if value is None:
        return "-"
    if kind.startswith("ARRAY<"):
        return f"[{','.join(text_of(v, kind[len('ARRAY<') : -1]) for v in value)}]"
    if kind.startswith("DECIMAL"):
        plain = f"{value:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return _TEXTS.get(kind, str)(value)


def _instant(value: datetime) -> str:
    since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - datetime.fromtimestamp(0, UTC)
    return str(since // timedelta(microseconds=1))


def _double(value: float) -> str:
    if math.isnan(value):
        return str(NAN)
    return str(struct.unpack("<q", struct.pack("<d", value))[0]) if value else "0"


_TEXTS: dict[str, Callable[[Any], str]] = {
    "STRING": lambda v: f"{len(v.encode())}:{v}",
    "TIMESTAMP": _instant,
    "DATE": lambda v: str((v - EPOCH).days),
    "BOOLEAN": lambda v: "true" if v else "false",
    "DOUBLE": _double,
    "BINARY": lambda v: v.hex().upper(),
}


def sums(rows: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> list[int]:
    """The two sums that stand for rows, in any order."""
    texts = ["|".join(text_of(r[n], types[n]) for n in sorted(types)) for r in rows]
    hashes = [hashlib.md5(t.encode(), usedforsecurity=False).hexdigest() for t in texts]
    return [sum(int(h[i : i + 15], 16) for h in hashes) for i in (0, 15)]


def fingerprint(rows: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> str:
    found = sums(rows, types)
    return ".".join(f"{s:X}" for s in found) if any(found) else "0"
