"""Forgotten entities: the record by which later deliveries of one stay out of every table.

Not here: searching and deleting what held one (the room `erasure`). The record
is `LAKE/.forgotten`: `key`, readable for the lake's owner alone, and a JSON file per erasure, which
becomes its certificate. Neither holds a value of an entity; until the erasure is finished, a third
file that only the owner reads keeps other spellings of it. Commits are never changed: they hold no
values, except notes of people and bounds by other programs (`erasure.traces` finds them).
"""

import contextlib
import hmac
import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.log.log import LOG, commit_versions
from backfill_assets.kernel.place.port import (
    AlreadyThere,
    Place,
)
from backfill_assets.kernel.tables.folder import (
    FORGOTTEN,
    TABLES,
    LakeFolder,
)
from backfill_assets.kernel.tables.sections import SourceSettings

KEY_FILE = f"{FORGOTTEN}/key"
FORGOTTEN_REASON = "[forgotten]"  # of a row in quarantine, which keeps nothing else of it
BETWEEN = "\x1f"  # the values of one entity
BLOCK_BYTES, INNER, OUTER = 64, 0x36, 0x5C  # of HMAC-SHA256 (RFC 2104)
KEY_BYTES = 32  # as many as the digest has; a longer key is not safer


@dataclass(frozen=True)
class Erasure:
    """One erasure: its file, and what was done so far; `finished_at` is in it once nothing held the
    entity."""

    lake: Place
    name: str
    done: dict[str, Any]

    def keep(self) -> None:
        """Write what was done so far."""
        self.lake.write_json(f"{FORGOTTEN}/{self.name}", self.done)

    @property
    def namings(self) -> list[list[str]]:
        """The columns of the entity, and their names of today as a person gave them."""
        return [self.done["columns"], *(r["columns"] for r in self.done.get("renamed", ()))]

    @property
    def _spellings_file(self) -> str:
        return f"{FORGOTTEN}/{self.name.removesuffix('.json')}.spellings"

    def spellings(self) -> dict[str, list[str]]:
        """Per column the landed texts that `select` makes its value of; known until the erasure is
        finished."""
        return self.lake.read_json(self._spellings_file)

    def add_spellings(self, found: Mapping[str, Collection[str]]) -> None:
        """Keep more spellings, for the search of this command and of the next one."""
        known = self.spellings()
        every = {c: sorted({*known.get(c, ()), *found.get(c, ())}) for c in {*known, *found}}
        if every != known:
            self.lake.write(self._spellings_file, json.dumps(every).encode(), is_private=True)
            self.lake.sync(self._spellings_file, FORGOTTEN)

    def finish(self, lake: LakeFolder) -> None:
        """Note the end, and the newest versions: rows that were read up to these may be of the
        entity. Also whether the bucket keeps versions of objects, which nothing here searches or
        deletes."""
        more = {"versions_kept": keeps_versions(lake)} if lake.place.is_store else {}
        self.done.update(
            {"finished_at": utc_now().isoformat(), "ended_versions": _newest_versions(lake), **more}
        )
        self.keep()
        self.lake.delete(self._spellings_file)


def forgotten_condition(lake: LakeFolder) -> str:
    """Spark SQL that says whether a delivery of the lake's source is of a forgotten entity; empty
    if none can be. It is HMAC in the engine's own words: no value of an entity stands in a plan or
    a log.

    Raises SettingsError where nothing says which column names an entity now (`erasure_doubts`)."""
    why = next(erasure_doubts(lake), "")
    if why:
        raise SettingsError(
            "a forgotten entity",
            why,
            "Nothing was loaded, because its rows might be",
            'Say which column it is now: `backfill-assets forget --renamed OLD=NEW --note "why"` '
            "(`OLD=OLD` where only "
            "its expression changed; then forget the entity in its new spelling, too; `OLD=`: "
            "none is any more)",
        )
    found, payload = set[str](), {c.name for c in lake.settings.source.payload_columns}
    for erasure in all_erasures(lake):
        for columns in erasure.namings:
            if columns and {*columns} <= payload:
                key = lake.shared_place.read(KEY_FILE).ljust(BLOCK_BYTES, b"\0")
                found.add(_has_hash(key, columns, erasure.done["hash"]))
    return " OR ".join(sorted(found))


def _has_hash(key: bytes, columns: Sequence[str], wanted: str) -> str:
    """Spark SQL that says whether the HMAC of a row's columns is the `wanted` one."""
    inner, outer = (bytes(k ^ byte for k in key).hex() for byte in (INNER, OUTER))
    texts = f", '{BETWEEN}', ".join(f"CAST({c} AS STRING)" for c in columns)  # NULL of a NULL
    once = f"unhex(sha2(concat(X'{inner}', encode(concat({texts}), 'UTF-8')), 256))"
    return f"coalesce(sha2(concat(X'{outer}', {once}), 256) = '{wanted}', false)"


def erasure_doubts(lake: LakeFolder) -> Iterator[str]:
    """Say of each erasure why nothing recognizes a delivery of its entity any more: no source has
    its column (by any of the names that a person gave it), or a source makes the column by another
    expression or as another type than when the entity was forgotten."""
    sources = (lake.whole or lake.settings).delivered
    for erasure in all_erasures(lake):
        began, is_known = str(erasure.done["began_at"])[:10], False
        for name, source in sources.items():
            made_from = erasure.done.get("made_from", {}).get(name)
            for columns in erasure.namings:
                if not {*columns} <= _payload_types(source).keys():
                    continue
                is_known, now = True, _column_expressions(source, columns)
                # No columns: a person said that none names it now. A source without a note is new.
                if made_from and columns and now not in made_from:
                    yield (
                        f"since the erasure of {began} {', '.join(columns)} is made another way: "
                        f"now by `{now}`"
                    )
        if not is_known:
            named = ", ".join(erasure.namings[-1])
            yield f"the erasure of {began} names {named}, which no source has"


def _payload_types(source: SourceSettings) -> dict[str, str]:
    """The types of a source's payload by column."""
    return {c.name: c.type for c in source.payload_columns}


def _column_expressions(source: SourceSettings, columns: Iterable[str]) -> str:
    """The expressions that give the columns, with their types."""
    import sqlglot

    from backfill_assets.intake.select import select_expressions, selected_names

    named = zip(selected_names(source.select), select_expressions(source.select), strict=True)
    makers = {name: sqlglot.parse_one(e, read="spark").unalias().sql("spark") for name, e in named}
    types = _payload_types(source)
    return ", ".join(f"{makers.get(c.lower(), c)} {types[c]}" for c in columns)


def rename_column(lake: LakeFolder, old: str, new: str, note: str) -> list[Erasure]:
    """Record that the column `old` of earlier erasures is `new` now ("": none is), as the sources
    make it today; returns these erasures."""
    changed = []
    for erasure in all_erasures(lake):
        named = next((n for n in reversed(erasure.namings) if old in n), None)
        if named is None:
            continue
        columns = [new if c == old else c for c in named] if new else []
        renaming = {"columns": columns, "by": whoami(), "at": utc_now().isoformat(), "note": note}
        erasure.done["renamed"] = [*erasure.done.get("renamed", ()), renaming]
        made = erasure.done.setdefault("made_from", {})
        for name, text in _expressions_by_source(lake, columns).items():
            made[name] = sorted({*made.get(name, ()), text})
        erasure.keep()
        changed.append(erasure)
    return changed


def _expressions_by_source(lake: LakeFolder, columns: Collection[str]) -> dict[str, str]:
    """By source that has all these columns the expressions that give them; no source without
    columns."""
    sources, makers = (lake.whole or lake.settings).delivered, dict[str, str]()
    for name, source in sources.items():
        if columns and {*columns} <= _payload_types(source).keys():
            makers[name] = _column_expressions(source, columns)
    return makers


def all_erasures(lake: LakeFolder) -> list[Erasure]:
    """Every erasure of the lake, oldest first; raises OSError or ValueError if one cannot be
    read."""
    place = lake.shared_place
    names = sorted(n for n in place.names(FORGOTTEN) if n.endswith(".json"))
    return [Erasure(place, name, json.loads(place.read(f"{FORGOTTEN}/{name}"))) for name in names]


def is_erasing(lake: LakeFolder) -> bool:
    """Whether an erasure is not finished: rows of files that were counted as usable may be
    forgotten ones."""
    return any("finished_at" not in e.done for e in all_erasures(lake))


def may_hold_erased(lake: LakeFolder, inputs: Mapping[str, int]) -> bool:
    """Whether rows made from these versions of tables may be of an entity that is forgotten: an
    erasure is not finished, or one of the versions was there when one ended."""
    for erasure in all_erasures(lake):
        if "finished_at" not in erasure.done:
            return True
        ends = erasure.done.get("ended_versions", {})
        if any(version <= ends.get(table, -1) for table, version in inputs.items()):
            return True
    return False


def erased_meanwhile(lake: LakeFolder, inputs: Mapping[str, int]) -> str:
    """The fence of each commit (`kernel.write.replace.Fence`): days made from such versions are
    held against the newest inputs, which lack what is forgotten."""
    return "hold what was erased meanwhile" if may_hold_erased(lake, inputs) else ""


def begin_erasure(lake: LakeFolder, values: Mapping[str, str], note: str) -> Erasure:
    """Record the entity (its value per column) as forgotten, or find the erasure of it that was not
    finished: one of the same values that names these columns. From now on no load takes a row whose
    columns of the record have these values."""
    place = lake.shared_place
    with contextlib.suppress(AlreadyThere):  # one key for all erasures of the lake
        place.write(KEY_FILE, secrets.token_bytes(KEY_BYTES), if_absent=True, is_private=True)
    hashed = hmac.new(
        place.read(KEY_FILE), BETWEEN.join(values.values()).encode(), "sha256"
    ).hexdigest()
    known = all_erasures(lake)
    for erasure in known:
        # The same value of another column is another entity.
        is_of_entity = erasure.done["hash"] == hashed and list(values) in erasure.namings
        if is_of_entity and "finished_at" not in erasure.done:
            return erasure
    # Per source the ways in which its columns are made; `rename_column` adds others.
    makers = {name: [text] for name, text in _expressions_by_source(lake, values).items()}
    record = {
        "hash": hashed,
        "columns": list(values),
        "by": whoami(),
        "note": note,
        "began_at": utc_now().isoformat(),
        "made_from": makers,
        # Files that later commits replace may hold the entity without its name.
        "began_versions": _newest_versions(lake),
        "landed": [],  # an entry per landed file that was rewritten
        "deleted": {},  # how many files were deleted, by their table or folder
    }
    made = Erasure(place, f"{len(known) + 1:05d}.json", record)
    made.keep()
    return made


def keeps_versions(lake: LakeFolder) -> bool:
    """Whether the lake's bucket keeps what its objects held before (Google names versions, kept or
    not), by the newest record of an erasure: it may keep them since a while only."""
    records = lake.place.tokens(FORGOTTEN)
    token = lake.place.token(
        max(records, key=lambda name: records[name].changed_at, default=KEY_FILE)
    )
    return token is not None and token.version not in ("", "null")


def table_places(lake: LakeFolder) -> list[Place]:
    """The places of all tables of a lake that have a log, adopted ones too."""
    adopted = set[str]()
    if lake.shared is None:
        adopted = {name for name in lake.settings.tables if lake.address_of_adopted(name)}
    places = (lake.table_place(name) for name in sorted({*lake.place.names(TABLES), *adopted}))
    return [place for place in places if place.names(LOG)]


def _newest_versions(lake: LakeFolder) -> dict[str, int]:
    """The newest version of every table that has a log."""
    return {table.name: max(commit_versions(table), default=-1) for table in table_places(lake)}
