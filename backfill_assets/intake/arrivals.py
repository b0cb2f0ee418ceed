"""The ledger `arrivals`: which arrival day touches which event day, kept exact whatever the order
of loading.

Not here: its rows as SQL and who computes them from raw's files (`arrival_rows`), reading it
(`intake.ledger`, `kernel.tables.view`) and the digests computed from it (`kernel.core.digests`). To
find the other deliveries of a loaded key DuckDB reads event_key, op and event_ts of all loaded
days, once, an engine on other machines as often as they are wanted; a second time for a load that
moves keys of other days to another event day. Where keys name their event day (`[source] key_day`)
only the days of the load are read.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date

from backfill_assets.intake.arrival_rows import (
    RawDeliveries,
    days_of_moved_keys,
    keys_with_days,
    ledger_rows,
    raw_deliveries,
    rows_of_keys,
)
from backfill_assets.intake.ledger import ARRIVALS, ledger_of_source
from backfill_assets.intake.paths import key_day_text
from backfill_assets.intake.settings import landed_source
from backfill_assets.kernel.core.contracts import Contract, landed_by_versions
from backfill_assets.kernel.core.frontier import Frontiers
from backfill_assets.kernel.core.payload import LANDED
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.readings import (
    Sets,
    days_with_columns_again,
    delivery_sets_read,
    lacking_columns,
)
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.view import LakeView, Source
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged, begin_staging
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.replace import Write, WriteResult, replace_days
from backfill_assets.kernel.write.session import Session

# Above this share of loaded days it is cheaper to compute all rows than to find the touched ones.
WHOLE_SHARE = 0.5
# In the input digest of a day of the ledger that was computed from its own deliveries alone: then
# follows by what keys.
BY_KEY = " by key "


def commit_arrivals(
    lake_session: Session, contracts: Sequence[Contract], view: LakeView, provenance: Provenance
) -> WriteResult:
    """Bring the ledger of the lake's source up to raw's head, and name raw's version in its
    receipt.

    `view` is read after raw's commit; the caller holds the load lock. `contracts`: of all tables;
    each set of columns that they read of a delivery has its own fingerprint. Computed are the days
    whose raw receipt is newer than the version that the ledger names, so that the next load
    completes one that was cut off; the days that have all columns again; all days after another
    program changed the ledger, or when keys begin or cease to name their event days. Raises
    Superseded where another load, which took the lock over, wrote the ledger since `view`.
    """
    name = lake_session.lake.source
    raw = next(c for c in contracts if c.is_landed and c.source == name)
    lake, source = lake_session.lake, view.source(raw.name)
    by_key = _key_day_promise(lake, source, provenance.settings_digest)
    affected, staged = _changed_rows(
        lake_session, raw, source, _read_column_sets(contracts, raw), by_key
    )
    affected |= source.doubted_arrivals()
    try:
        entries = _day_entries(lake, staged, source, affected, by_key)
        digests = {day: entry.input_digest for day, entry in entries.items()}
        head = source.loaded.version
        write = Write(
            ledger_of_source(ARRIVALS, name),
            staged,
            entries,
            source.ledger.version,
            _ledger_provenance(provenance, raw, view, source, head),
            always=source.loaded_version != head,
            force=bool(source.doubted_arrivals()),
            # Its receipt names a version of raw for all days, and the load lock may have been lost.
            alone=True,
        )
        return replace_days(lake, write, lambda days: {d: digests[d] for d in days})
    finally:
        staged.drop()


def _changed_rows(
    lake_session: Session, raw: Contract, source: Source, parts: Sets, by_key: str
) -> tuple[set[date], Staged]:
    """The arrival days whose rows of the ledger may differ since it was written, and their rows of
    today, staged. `parts`: the sets of columns that have a fingerprint of their own; `by_key`: as
    `_key_day_promise` gives it."""
    recorded = source.loaded_version
    moved = {d for d, receipt in source.loaded.latest.items() if receipt.version > recorded}
    moved |= days_with_columns_again(source, raw)
    if by_key:
        return _staged_rows_by_key(lake_session, raw, source, moved, parts, by_key)
    if moved or source.doubted_arrivals() or _days_computed_by_key(source):
        return _staged_rows(lake_session, raw, source, moved, parts)
    return moved, begin_staging(lake_session.lake, ledger_of_source(ARRIVALS, raw.source))


def _day_entries(
    lake: Lake, staged: Staged, source: Source, days: Collection[date], by_key: str
) -> dict[date, DayEntry]:
    """The entries of the ledger's receipt for these days; a day without a row has one, too."""
    latest, entries = source.loaded.latest, dict[date, DayEntry]()
    audited = audit_files(lake, staged.paths, ledger_of_source(ARRIVALS, source.name))
    for day in days:
        profile = audited.get(day, DayProfile())
        loaded = latest[day].entry.fingerprint if day in latest else ""
        entries[day] = DayEntry(profile.rows, profile.fingerprint, loaded + by_key)
    return entries


def _key_day_promise(lake: Lake, source: Source, settings_digest: str) -> str:
    """How keys name event days, as the ledger's digests end with it; "" where they need not:
    without `key_day`, and while a loaded day was judged without this one. Judged with it are days
    loaded under settings of this digest, and days that the ledger says so of and that were not
    loaded since."""
    template = landed_source(lake.settings.source).key_day
    early = lake.settings.lateness.early_tolerance_days
    if template is None:
        return ""
    promise = f"{BY_KEY}{template!r} from {lake.settings.start_date}, early by {early} days"
    known, recorded = _days_computed_by_key(source, promise), source.loaded_version
    for day, receipt in source.loaded.latest.items():
        is_of_these_settings = receipt.settings_digest == settings_digest
        is_in_ledger = day in known and receipt.version <= recorded
        is_judged = is_of_these_settings or is_in_ledger
        if receipt.entry.rows and not is_judged:
            return ""
    return promise


def _day_of_key(lake: Lake) -> str:
    """SQL of the event day that a key names, NULL where no usable upsert can have it."""
    settings = lake.settings
    template = landed_source(settings.source).key_day or ""
    day = f"TRY_CAST({key_day_text(template)} AS DATE)"
    newest = f"arrival_date + {settings.lateness.early_tolerance_days}"
    is_usable = f"{day} BETWEEN DATE '{settings.start_date}' AND {newest}"
    return f"CASE WHEN {is_usable} THEN {day} END"


def _days_computed_by_key(source: Source, how: str = BY_KEY) -> set[date]:
    """The days of the ledger that were computed from their own deliveries alone."""
    return {d for d, r in source.ledger.latest.items() if how in r.entry.input_digest}


def _staged_rows_by_key(
    lake_session: Session,
    raw: Contract,
    source: Source,
    moved: set[date],
    parts: Sets,
    by_key: str,
) -> tuple[set[date], Staged]:
    """Stage the rows of `arrivals` where keys name their event days, and give the arrival days that
    they replace: the `moved` ones, since no load changes rows of another day, and loaded days that
    were computed otherwise before.
    """
    loaded, head = _loaded_days(source), source.loaded.version
    trusted = set[date]() if source.doubted_arrivals() else _days_computed_by_key(source, by_key)
    days = moved | (loaded - trusted)
    read = loaded & days
    lacking = _lacking_days(source, raw, read)
    deliveries = raw_deliveries(
        lake_session, raw, parts, head, read, by_key=_day_of_key(lake_session.lake)
    )

    def narrowed(rows: str) -> str:
        """The ledger's rows, for which no other delivery of a key has to be looked for."""
        return ledger_rows(rows, placed=None, parts=parts, lacking=lacking)

    with deliveries.rows(head, read, narrowed) as rows:
        return days, deliveries.stage(ledger_of_source(ARRIVALS, raw.source), rows)


def _loaded_days(source: Source) -> set[date]:
    """The arrival days of which the landed table has rows."""
    return {day for day, receipt in source.loaded.latest.items() if receipt.entry.rows}


def _lacking_days(source: Source, raw: Contract, days: Collection[date]) -> set[date]:
    """Those of these loaded days whose files lack a column of raw's."""
    latest = source.loaded.latest
    return {day for day in days if lacking_columns(latest[day].entry, raw.columns)}


def _read_column_sets(contracts: Sequence[Contract], raw: Contract) -> Sets:
    """The sets of columns that tables read of the deliveries of this raw, not of other sources."""
    others = {name for name, landed in landed_by_versions(contracts).items() if landed != raw.name}
    read_by = (c for c in contracts if c.name not in others)
    return delivery_sets_read(read_by, (c for c in raw.column_names if c not in LANDED))


def _ledger_provenance(
    provenance: Provenance, raw: Contract, view: LakeView, source: Source, version: int
) -> Provenance:
    """The provenance of the ledger, which names raw's head and the frontier that follows from
    it."""
    inputs = {**source.ledger.inputs, raw.name: version}
    ledger = replace(source.ledger, version=max(source.ledger.version, 0), inputs=inputs)
    frontiers = Frontiers([raw], replace(view, tables={**view.tables, source.ledger_name: ledger}))
    tags = {**provenance.tags, **frontiers.tags_of(raw.name)}
    return replace(
        provenance, inputs={raw.name: version}, frontier=frontiers.of_table(raw.name), tags=tags
    )


def _staged_rows(
    lake_session: Session, raw: Contract, source: Source, moved: set[date], parts: Sets
) -> tuple[set[date], Staged]:
    """The arrival days whose rows a load may change, and their rows, staged: `moved`, and all days
    of keys whose event days changed. Rows of days that were not loaded are the same before and
    after; keys of other days that have other event days now are looked for again. `parts`: the sets
    of columns that have a fingerprint of their own.
    """
    loaded, by_key = _loaded_days(source), _days_computed_by_key(source)
    ledger, head = ledger_of_source(ARRIVALS, raw.source), source.loaded.version
    deliveries = raw_deliveries(lake_session, raw, parts, head, loaded)
    lacking = _lacking_days(source, raw, loaded)
    are_most = len(moved & loaded) > WHOLE_SHARE * len(loaded)
    is_untrusted = not source.is_loaded or by_key or source.doubted_arrivals()
    if are_most or is_untrusted:
        with deliveries.rows(head, loaded) as arrived:
            staged = deliveries.stage(
                ledger, ledger_rows(arrived, placed=None, parts=parts, lacking=lacking)
            )
            return moved | loaded | by_key, staged
    return _staged_touched_rows(deliveries, source, moved, lacking)


def _staged_touched_rows(
    deliveries: RawDeliveries, source: Source, moved: set[date], lacking: Collection[date]
) -> tuple[set[date], Staged]:
    """Stage the rows of `arrivals` after a load of few days, and give the arrival days that they
    replace: the `moved` ones, and those with keys whose event days changed by them, which are
    looked for in all others. `lacking`: the days whose files lack a column of raw's."""
    parts, loaded, head = deliveries.parts, _loaded_days(source), source.loaded.version
    ledger = ledger_of_source(ARRIVALS, deliveries.raw.source)
    # Where the ledger has nothing of these days, no key had an event day because of them.
    known = moved if _has_rows_of(source, moved) else set[date]()
    with (
        deliveries.rows(source.loaded_version, known, keys_with_days, altered=True) as before,
        deliveries.rows(head, moved, keys_with_days) as after,
        deliveries.rows(
            head,
            loaded - moved,
            lambda rows: rows_of_keys(keys_with_days(rows), before, after),
            kept=True,
        ) as near,
    ):
        moved_keys = deliveries.fetched(days_of_moved_keys(before, after, near))
        touched = {day for (day,) in moved_keys} - moved
        if not touched:
            placed = f"SELECT * FROM ({after}) UNION ALL SELECT * FROM ({near})"
            with deliveries.rows(head, moved & loaded) as arrived:
                rows = ledger_rows(arrived, placed, parts, lacking)
                return moved, deliveries.stage(ledger, rows)
    days = moved | touched
    with (
        deliveries.rows(head, days & loaded) as arrived,
        deliveries.rows(
            head, None, lambda rows: rows_of_keys(keys_with_days(rows), arrived)
        ) as placed,
    ):
        return days, deliveries.stage(ledger, ledger_rows(arrived, placed, parts, lacking))


def _has_rows_of(source: Source, arrival_days: Collection[date]) -> bool:
    """Whether the ledger has a row of one of these arrival days."""
    return any(arrived in arrival_days for rows in source.arrivals.values() for arrived, _ in rows)
