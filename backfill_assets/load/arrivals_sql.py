"""The ledger `arrivals` as SQL of the embedded engine, over queries for rows of raw.

Lives here: two pure functions from SQL to SQL: a day's rows of the ledger, and the days whose rows a load changed. Does
not live here: which files those queries read, and running them (`arrivals`).

Nothing collects per key: keys with several event days are few, and every step can spill. A key of a single delivery
takes a short way: nearly all are such keys, and grouping rows by key costs more than their hashes.
"""

from collections.abc import Sequence

from backfill_assets.core.contracts import Contract
from backfill_assets.core.payload import LANDED
from backfill_assets.core.readings import SAYS, SEPARATOR, Sets
from backfill_assets.lake.fingerprints import PIECES, part_hashes, pieces, row_hash

# The event day (UTC) of an upsert; the event time of a delete is ignored.
EVENT_DATE = "CASE WHEN op = 'upsert' THEN CAST(make_timestamp(epoch_us(event_ts)) AS DATE) END"


def ledger_rows(mine: str, everything: str | None, raw: Contract, parts: Sets | None = None) -> str:
    """The ledger's rows for the arrival days of `mine`; `everything`: all rows of raw (None: the same as `mine`).
    `parts`: sets of columns of a delivery whose fingerprints are told, too (`core.readings.fingerprint_in`)."""
    columns = [c for c in raw.columns if c.name not in LANDED]
    hashes = {"hashed": row_hash(columns), **part_hashes(raw, parts or {})}
    summed = [p for name in hashes for p in pieces(name)]
    sums = [f"sum_{i}" for i in range(len(summed))]
    per_key, per_day = ", ".join(f"sum({p}) AS {s}" for p, s in zip(summed, sums, strict=True)), ", ".join(sums)
    fingerprints = _fingerprints(sums, parts or {})
    others = "mine"
    if everything is not None:
        others = f"(SELECT op, event_key, event_ts FROM ({everything}) SEMI JOIN mine USING (event_key))"
    hashed = ", ".join(f"{text} AS {name}" for name, text in hashes.items())
    return f"""
WITH mine AS ({mine}),
several AS (SELECT event_key FROM {others} GROUP BY 1 HAVING count(*) > 1),
days AS (SELECT event_key, {EVENT_DATE} AS event_date FROM {others} SEMI JOIN several USING (event_key)
         WHERE op = 'upsert'),
spans AS (SELECT event_key, min(event_date) AS first, max(event_date) AS last FROM days GROUP BY 1),
moves AS (SELECT DISTINCT event_key, event_date FROM days
          SEMI JOIN (SELECT event_key FROM spans WHERE first <> last) USING (event_key)),
per_key AS (SELECT arrival_date, event_key, count(*) AS rows, {per_key}
            FROM (SELECT *, {hashed} FROM mine SEMI JOIN several USING (event_key)) GROUP BY 1, 2),
touched AS (SELECT arrival_date, {EVENT_DATE} AS event_date, count(*) AS rows, count(*) AS keys, {per_key}, 0 AS moved
            FROM (SELECT *, {hashed} FROM mine ANTI JOIN several USING (event_key) WHERE op = 'upsert') GROUP BY 1, 2
            UNION ALL
            SELECT arrival_date, first, rows, 1, {per_day}, 0 FROM per_key JOIN spans USING (event_key)
            WHERE first = last
            UNION ALL
            SELECT arrival_date, event_date, rows, 1, {per_day}, 1 FROM per_key JOIN moves USING (event_key)),
late AS (SELECT arrival_date, {EVENT_DATE} AS event_date, max(epoch_us(arrival_ts) - epoch_us(event_ts)) AS most
         FROM mine WHERE op = 'upsert' GROUP BY 1, 2),
counted AS (SELECT arrival_date, event_date, sum(rows) AS deliveries, sum(keys) AS keys, sum(moved) AS moved_keys,
                   {fingerprints} AS fingerprint FROM touched GROUP BY 1, 2)
SELECT arrival_date, event_date, CAST(deliveries AS BIGINT) AS deliveries, CAST(keys AS BIGINT) AS keys,
       CAST(moved_keys AS BIGINT) AS moved_keys,
       CAST(floor(most / 1000000) AS BIGINT) AS greatest_lateness_s, fingerprint,
       strftime(arrival_date, '%Y-%m') AS arrival_month
FROM counted LEFT JOIN late USING (arrival_date, event_date)"""


def _fingerprints(sums: Sequence[str], parts: Sets) -> str:
    """The expression of the text that `core.readings.fingerprint_in` reads, over the names of the sums of each
    fingerprint's pieces."""
    pairs = [sums[i : i + PIECES] for i in range(0, len(sums), PIECES)]
    texts = [f"concat_ws('.', {', '.join(f'sum({s})' for s in pair)})" for pair in pairs]
    named = [f"'{name}{SAYS}' || {text}" for name, text in sorted(zip(parts, texts[1:], strict=True))]
    return f"concat_ws('{SEPARATOR}', {', '.join((texts[0], *named))})"


def placed_keys(rows: str) -> str:
    """What of these rows tells where their keys lie: key, arrival day and event day (NULL of a delete)."""
    return f"SELECT event_key, arrival_date, {EVENT_DATE} AS event_date FROM ({rows})"


def of_keys(rows: str, *others: str) -> str:
    """Of these rows those whose key occurs in one of the other queries."""
    keys = " UNION ALL ".join(f"SELECT event_key FROM ({query})" for query in others)
    return f"SELECT * FROM ({rows}) SEMI JOIN ({keys}) USING (event_key)"


def changed_days(before: str, after: str, others: str) -> str:
    """The arrival days of all keys whose set of event days differs between `before` and `after`.

    `before` and `after` are the rows of the loaded days then and now, as `placed_keys` tells them; `others` those of
    all other days, or of these just those of their keys.
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
