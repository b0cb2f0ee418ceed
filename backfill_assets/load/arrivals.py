"""The ledger `arrivals`: which arrival day touches which event day, kept exact whatever the order of loading.

Not here: reading it (`lake.ledger`, `lake.view`) and the digests computed from it (`core.digests`). DuckDB computes it
from raw's files. To find the other deliveries of a loaded key it reads event_key, op and event_ts of all loaded days,
once; a second time only for a load that moves keys of other days to another event day. Where keys name their event day
(`[source] key_day`) it reads the days of the load alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date

from backfill_assets.core.contracts import Contract, versions_of
from backfill_assets.core.frontier import Frontiers
from backfill_assets.core.payload import LANDED
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.readings import (
    LACKING,
    NAME_END,
    SEPARATOR,
    Sets,
    columns_again,
    deliveries_read,
    lacking_columns,
)
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.view import LakeView, Source
from backfill_assets.lake.audit import audit
from backfill_assets.lake.embedded import connection, materialized
from backfill_assets.lake.fingerprints import PIECES, part_hashes, pieces, row_hash
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, of_source
from backfill_assets.lake.replace import Provenance, Published, Write, replace_days
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import Staged, begin
from backfill_assets.lake.writing import stage_query
from backfill_assets.landing.paths import day_text

WHOLE_SHARE = 0.5  # above this share of loaded days it is cheaper to compute all rows than to find the touched ones
# The event day (UTC) of an upsert; the event time of a delete is ignored.
EVENT_DATE = "CASE WHEN op = 'upsert' THEN CAST(make_timestamp(epoch_us(event_ts)) AS DATE) END"
# In the input digest of a day of the ledger that was computed from its own deliveries alone: then follows by what keys.
BY_KEY = " by key "


def commit_arrivals(
    lake_session: LakeSession, contracts: Sequence[Contract], view: LakeView, provenance: Provenance
) -> Published:
    """Bring the ledger of the lake's source up to raw's head, and name raw's version in its receipt.

    `view` is read after raw's commit; the caller holds the load lock. `contracts`: of all tables; each set of columns
    that they read of a delivery has its own fingerprint. Computed are the days whose raw receipt is newer than the
    version that the ledger names, so that the next load completes one that was cut off; the days that have all columns
    again; all days after another program changed the ledger, or when keys begin or cease to name their event days.
    """
    name = lake_session.lake.source
    raw = next(c for c in contracts if c.is_landed and c.source == name)
    source, ledger = view.source(raw.name), of_source(ARRIVALS, name)
    head, recorded_version = source.loaded, source.loaded_version
    moved = {d for d, r in head.latest.items() if r.version > recorded_version} | columns_again(source, raw)
    lake, doubted_days = lake_session.lake, source.doubted_arrivals()
    by_key = _by_key(lake, source, provenance.settings_digest)
    if by_key:
        affected, staged = _staged_by_key(lake, raw, source, moved, _parts(contracts, raw), by_key)
    elif moved or doubted_days or _days_by_key(source):
        affected, staged = _staged(lake, raw, source, moved, _parts(contracts, raw))
    else:
        affected, staged = moved, begin(lake, ledger)
    affected |= doubted_days
    try:
        audited, none = audit(lake, staged.paths, ledger), DayProfile()
        digests = {d: (head.latest[d].entry.fingerprint if d in head.latest else "") + by_key for d in affected}
        profiles = {d: audited.get(d, none) for d in affected}
        entries = {d: DayEntry(p.rows, p.fingerprint, digests[d]) for d, p in profiles.items()}
        signed = _signed(provenance, raw, view, source, head.version)
        base, always = source.ledger.version, recorded_version != head.version
        write = Write(ledger, staged, entries, base, signed, always=always, force=bool(doubted_days))
        return replace_days(lake, write, lambda days: {d: digests[d] for d in days})
    finally:
        staged.drop()


def _by_key(lake: Lake, source: Source, settings_digest: str) -> str:
    """How keys name event days, as the ledger's digests end with it; "" where they need not: without `key_day`, and
    while a loaded day was judged without this one. Judged with it are days loaded under settings of this digest, and
    days that the ledger says so of and that were not loaded since."""
    template, early = lake.settings.source.key_day, lake.settings.lateness.early_tolerance_days
    if template is None:
        return ""
    promise = f"{BY_KEY}{template!r} from {lake.settings.start_date}, early by {early} days"
    known, recorded = _days_by_key(source, promise), source.loaded_version
    for day, receipt in source.loaded.latest.items():
        is_judged = receipt.settings_digest == settings_digest or (day in known and receipt.version <= recorded)
        if receipt.entry.rows and not is_judged:
            return ""
    return promise


def _day_of_key(lake: Lake) -> str:
    """SQL of the event day that a key names, NULL where no usable upsert can have it."""
    day, early = day_text(lake.settings.source.key_day or ""), lake.settings.lateness.early_tolerance_days
    day = f"TRY_CAST({day} AS DATE)"
    return f"CASE WHEN {day} BETWEEN DATE '{lake.settings.start_date}' AND arrival_date + {early} THEN {day} END"


def _days_by_key(source: Source, how: str = BY_KEY) -> set[date]:
    """The days of the ledger that were computed from their own deliveries alone."""
    return {d for d, r in source.ledger.latest.items() if how in r.entry.input_digest}


def _staged_by_key(
    lake: Lake, raw: Contract, source: Source, moved: set[date], parts: Sets, by_key: str
) -> tuple[set[date], Staged]:
    """As `_staged`, where keys name their event days: no load changes rows of another day. Loaded days that were
    computed otherwise before are computed again.
    """
    loaded = {d for d, r in source.loaded.latest.items() if r.entry.rows}
    days = moved | (loaded if source.doubted_arrivals() else loaded - _days_by_key(source, by_key))
    lacking = {d for d in loaded & days if lacking_columns(source.loaded.latest[d].entry, raw.columns)}
    files = lake.store.data_files(raw, source.loaded.version, loaded & days)
    event_date = f"coalesce({EVENT_DATE}, {_day_of_key(lake)})"
    with materialized(lake, files, raw, lambda rows: ledger_rows(rows, None, raw, parts, lacking, event_date)) as rows:
        return days, stage_query(lake, of_source(ARRIVALS, raw.source), rows)


def _parts(contracts: Sequence[Contract], raw: Contract) -> Sets:
    """The sets of columns that tables read of the deliveries of this raw, not of other sources."""
    others = {name for name, landed in versions_of(contracts).items() if landed != raw.name}
    read_by = (c for c in contracts if c.name not in others)
    return deliveries_read(read_by, (c for c in raw.column_names if c not in LANDED))


def _signed(provenance: Provenance, raw: Contract, view: LakeView, source: Source, version: int) -> Provenance:
    """The provenance of the ledger, which names raw's head and the frontier that follows from it."""
    inputs = {**source.ledger.inputs, raw.name: version}
    ledger = replace(source.ledger, version=max(source.ledger.version, 0), inputs=inputs)
    frontiers = Frontiers([raw], replace(view, tables={**view.tables, source.ledger_name: ledger}))
    tags = {**(provenance.tags or {}), **frontiers.tags_of(raw.name)}
    return replace(provenance, inputs={raw.name: version}, frontier=frontiers.of_table(raw.name), tags=tags)


def _staged(lake: Lake, raw: Contract, source: Source, moved: set[date], parts: Sets) -> tuple[set[date], Staged]:
    """The arrival days whose rows a load may change, and their rows, staged: `moved`, and all days of keys whose event
    days changed. Rows of days that were not loaded are the same before and after; they are read once, unless keys of
    other days have other event days now: then the keys of these days are looked for as well.
    """
    loaded, otherwise = {d for d, r in source.loaded.latest.items() if r.entry.rows}, _days_by_key(source)
    ledger, files, head = of_source(ARRIVALS, raw.source), lake.store.data_files, source.loaded.version
    lacking = {d for d in loaded if lacking_columns(source.loaded.latest[d].entry, raw.columns)}
    whole = source.loaded_version < 0 or len(moved & loaded) > WHOLE_SHARE * len(loaded)
    if whole or otherwise or source.doubted_arrivals():
        with materialized(lake, files(raw, head, loaded), raw) as arrived:
            rows = ledger_rows(arrived, None, raw, parts, lacking)
            return moved | loaded | otherwise, stage_query(lake, ledger, rows)
    # Where the ledger has nothing of these days, no key had an event day because of them.
    known = moved if any(a in moved for rows in source.arrivals.values() for a, _ in rows) else set[date]()
    others = files(raw, head, loaded - moved)
    with (
        materialized(lake, files(raw, source.loaded_version, known, altered=True), raw, placed_keys) as before,
        materialized(lake, files(raw, head, moved), raw, placed_keys) as after,
        materialized(lake, others, raw, lambda rows: of_keys(placed_keys(rows), before, after), kept=True) as near,
    ):
        with connection(lake) as engine:
            touched = {day for (day,) in engine.execute(changed_days(before, after, near)).fetchall()} - moved
        if not touched:
            placed = f"FROM ({after}) UNION ALL FROM ({near})"
            with materialized(lake, files(raw, head, moved & loaded), raw) as arrived:
                return moved, stage_query(lake, ledger, ledger_rows(arrived, placed, raw, parts, lacking))
    days = moved | touched
    with (
        materialized(lake, files(raw, head, days & loaded), raw) as arrived,
        materialized(lake, files(raw, head, None), raw, lambda rows: of_keys(placed_keys(rows), arrived)) as placed,
    ):
        return days, stage_query(lake, ledger, ledger_rows(arrived, placed, raw, parts, lacking))


def ledger_rows(
    arrived: str,
    placed: str | None,
    raw: Contract,
    parts: Sets | None = None,
    lacking: Collection[date] = (),
    event_date: str = EVENT_DATE,
) -> str:
    """SQL selecting the ledger's rows for the arrival days of `arrived`.

    `placed` selects, as `placed_keys` does, from all rows with the keys of `arrived`, or more (None: of `arrived`, by
    `event_date`).
    `parts`: sets of columns with a fingerprint of their own (`core.readings.fingerprint_in`). `lacking`: the arrival
    days whose files lack a column of raw's, which reads as NULL: their fingerprints say so (`LACKING`).
    """
    columns = [c for c in raw.columns if c.name not in LANDED]
    hashes = {"hashed": row_hash(columns), **part_hashes(raw, parts or {})}
    summed = [p for name in hashes for p in pieces(name)]
    sums = [f"sum_{i}" for i in range(len(summed))]
    hashed = ", ".join(f"{text} AS {name}" for name, text in hashes.items())
    per_key = ", ".join(f"sum({p}) AS {s}" for p, s in zip(summed, sums, strict=True))
    near = f"FROM ({placed}) SEMI JOIN arrived USING (event_key)"
    near = placed_keys("FROM arrived", event_date) if placed is None else near
    return f"""
WITH arrived AS ({arrived}),
days AS (SELECT DISTINCT event_key, event_date FROM ({near}) WHERE event_date IS NOT NULL),
several AS (SELECT event_key FROM days GROUP BY 1 HAVING count(*) > 1),
per_key AS (SELECT arrival_date, event_key, count(*) AS rows, {per_key}
            FROM (SELECT *, {hashed} FROM arrived) GROUP BY 1, 2),
counted AS (SELECT arrival_date, event_date, sum(rows) AS deliveries, count(*) AS keys,
                   count(several.event_key) AS moved_keys, {_fingerprints(sums, parts or {}, lacking)} AS fingerprint
            FROM per_key JOIN days USING (event_key) LEFT JOIN several ON several.event_key = days.event_key
            GROUP BY 1, 2),
late AS (SELECT arrival_date, {EVENT_DATE} AS event_date, max(epoch_us(arrival_ts) - epoch_us(event_ts)) AS most
         FROM arrived WHERE op = 'upsert' GROUP BY 1, 2)
SELECT arrival_date, event_date, CAST(deliveries AS BIGINT) AS deliveries, keys, moved_keys,
       CAST(floor(most / 1000000) AS BIGINT) AS greatest_lateness_s, fingerprint,
       strftime(arrival_date, '%Y-%m') AS arrival_month
FROM counted LEFT JOIN late USING (arrival_date, event_date)"""


def _fingerprints(sums: Sequence[str], parts: Sets, lacking: Collection[date]) -> str:
    """The expression of the text that `core.readings.fingerprint_in` reads, over the sums of each fingerprint."""
    pairs = [sums[i : i + PIECES] for i in range(0, len(sums), PIECES)]
    texts = [f"concat_ws('.', {', '.join(f'sum({s})' for s in pair)})" for pair in pairs]
    named = [f"'{name}{NAME_END}' || {text}" for name, text in sorted(zip(parts, texts[1:], strict=True))]
    usual = f"concat_ws('{SEPARATOR}', {', '.join((texts[0], *named))})"
    if not lacking:
        return usual
    days = ", ".join(f"DATE '{d}'" for d in sorted(lacking))
    return f"CASE WHEN arrival_date IN ({days}) THEN {usual} || '{LACKING}' ELSE {usual} END"


def placed_keys(rows: str, event_date: str = EVENT_DATE) -> str:
    """SQL selecting event_key, arrival_date and event_date (by default NULL for deletes) from `rows`."""
    return f"SELECT event_key, arrival_date, {event_date} AS event_date FROM ({rows})"


def of_keys(rows: str, *others: str) -> str:
    """SQL selecting the `rows` whose key occurs in one of the other queries."""
    keys = " UNION ALL ".join(f"SELECT event_key FROM ({query})" for query in others)
    return f"SELECT * FROM ({rows}) SEMI JOIN ({keys}) USING (event_key)"


def changed_days(before: str, after: str, others: str) -> str:
    """SQL selecting the arrival days of all keys whose set of event days differs between `before` and `after`.

    `before` and `after` select from the loaded days then and now, as `placed_keys` does; `others` from all other days.
    """
    return f"""
WITH old AS ({before}), new AS ({after}),
keys AS (SELECT event_key FROM old UNION SELECT event_key FROM new),
near AS (SELECT * FROM ({others}) SEMI JOIN keys USING (event_key)),
then_days AS (SELECT event_key, event_date FROM old UNION SELECT event_key, event_date FROM near),
now_days AS (SELECT event_key, event_date FROM new UNION SELECT event_key, event_date FROM near),
changed AS (SELECT event_key FROM (FROM (SELECT * FROM then_days WHERE event_date IS NOT NULL) EXCEPT FROM now_days)
            UNION
            SELECT event_key FROM (FROM (SELECT * FROM now_days WHERE event_date IS NOT NULL) EXCEPT FROM then_days))
SELECT DISTINCT arrival_date FROM (FROM new UNION ALL FROM near) SEMI JOIN changed USING (event_key)"""
