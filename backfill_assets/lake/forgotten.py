"""The record of forgotten entities: a keyed hash of each, by which later deliveries of it stay out of every table.

Not here: erasing what the lake holds of one (`traces`). The record is `LAKE/.forgotten`: `key`, readable for the
lake's owner alone, and a JSON file per erasure, which becomes its certificate. Neither holds a value of an entity.
"""

import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfill_assets.core.clock import utc_now
from backfill_assets.core.ownership import whoami
from backfill_assets.lake.files import exists, make_folder, names, publish, write_json
from backfill_assets.lake.folder import FORGOTTEN, LakeFolder

REASON = "[forgotten]"  # of a row in quarantine, which keeps nothing else of it
BETWEEN = "\x1f"  # the values of one entity
BLOCK_BYTES, INNER, OUTER = 64, 0x36, 0x5C  # of HMAC-SHA256 (RFC 2104)


@dataclass(frozen=True)
class Erasure:
    """One erasure: its file, and what was done so far; `finished_at` stands in it once nothing was left."""

    path: Path
    done: dict[str, Any]

    def keep(self) -> None:
        """Write what was done so far."""
        write_json(self.path, self.done)


def is_forgotten(lake: LakeFolder) -> str:
    """Spark SQL that says whether a delivery of the lake's source is of a forgotten entity; empty if none can be. It is
    HMAC in the engine's own words: no value of an entity stands in a plan or a log."""
    found, payload = set[str](), {c.name for c in lake.settings.source.payload_columns}
    for erasure in erasures(lake):
        columns = erasure.done["columns"]
        if {*columns} <= payload:
            key = _key(lake).read_bytes().ljust(BLOCK_BYTES, b"\0")
            inner, outer = (bytes(k ^ byte for k in key).hex() for byte in (INNER, OUTER))
            text = f", '{BETWEEN}', ".join(f"CAST({c} AS STRING)" for c in columns)  # NULL of a NULL
            once = f"unhex(sha2(concat(X'{inner}', encode(concat({text}), 'UTF-8')), 256))"
            found.add(f"coalesce(sha2(concat(X'{outer}', {once}), 256) = '{erasure.done['hash']}', false)")
    return " OR ".join(sorted(found))


def erasures(lake: LakeFolder) -> list[Erasure]:
    """Every erasure of the lake, oldest first; raises OSError or ValueError if one cannot be read."""
    paths = sorted(_folder(lake) / n for n in names(_folder(lake)) if n.endswith(".json"))
    return [Erasure(path, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def rewritten_commits(lake: LakeFolder, table: str) -> dict[int, str]:
    """The commits of a table that erasures rewrote: by version the digest of what stands there now."""
    return {int(v): d for e in erasures(lake) for v, d in e.done["commits"].get(table, {}).items()}


def begin_erasure(lake: LakeFolder, values: Mapping[str, str], note: str) -> Erasure:
    """Record the entity (its value per column) as forgotten, or find the erasure of it that was not finished. From now
    on no load takes a row of it."""
    key, folder = _key(lake), _folder(lake)
    make_folder(folder)
    if not exists(key):
        part = folder / f"key.{os.getpid()}"
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as sink:  # noqa: PTH123
            sink.write(secrets.token_bytes(BLOCK_BYTES // 2))
        publish(part, key)
    hashed = hmac.new(key.read_bytes(), BETWEEN.join(values.values()).encode(), "sha256").hexdigest()
    known = erasures(lake)
    if unfinished := [e for e in known if e.done["hash"] == hashed and "finished_at" not in e.done]:
        return unfinished[0]
    body = {"hash": hashed, "columns": list(values), "by": whoami(), "note": note, "began_at": utc_now().isoformat()}
    made = Erasure(folder / f"{len(known) + 1:05d}.json", {**body, "landed": [], "commits": {}, "deleted": {}})
    made.keep()
    return made


def _folder(lake: LakeFolder) -> Path:
    return (lake.shared or lake.root) / FORGOTTEN


def _key(lake: LakeFolder) -> Path:
    return _folder(lake) / "key"
