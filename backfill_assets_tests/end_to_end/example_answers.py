"""The answers of each example, by DuckDB from the files that land: nothing of `lake.toml` is read
for them. Here: per example what its `select` and its declared columns say, written once more in
DuckDB's SQL. Not here: the comparison (`test_example_answers`)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from backfill_assets.kernel.core.days import ONE_DAY, DayRange, inclusive_range
from backfill_assets_tests.pipeline.frames import rows_of
from backfill_assets_tests.pipeline.naive import Asked, answers
from backfill_assets_tests.pipeline.oracle import STAGING

Row = tuple[Any, ...]
Truth = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Delivered:
    """A query that makes deliveries of {files}, those below `folder`, and their payload."""

    query: str
    payload: tuple[str, ...]
    folder: str = "landing"

    def staging(self, files: Iterable[Path]) -> Any:
        """All versions that were ever current, from these files."""
        db = duckdb.connect()
        db.execute("SET timezone = 'UTC'")
        listed = ", ".join(f"'{file}'" for file in files if self.folder in file.parts)
        db.execute(f"CREATE TABLE raw AS {self.query.replace('{files}', f'[{listed}]')}")
        return db.sql(
            STAGING.replace("entity, value, flag", ", ".join(self.payload))
        ).to_arrow_table()


@dataclass(frozen=True)
class Answers:
    """An example said once more: what is delivered, the declared columns, the label's terms with
    what makes a label of them, after how many days it is mature, the days, and the source of the
    labels (None: that of the features)."""

    source: Delivered
    entity: tuple[str, ...]
    features: tuple[Asked, ...]
    terms: tuple[Asked, ...]
    is_label: Truth
    ripens: int
    days: DayRange
    truth: Delivered | None = None

    def features_of(self, staging: Any, *, known: bool) -> list[Row]:
        """The declared columns of all days, as known now or at each day's cut."""
        return rows_of(answers(staging, self.features, self.days, known=known, entity=self.entity))

    def labels_of(self, staging: Any, asked: Iterable[Row]) -> list[Row]:
        """The labels of these rows of features, by entity and day."""
        width = len(self.entity)
        terms = rows_of(answers(staging, self.terms, self.days, known=False, entity=self.entity))
        names = [t.name for t in self.terms]
        found = {(*r[:width], r[-1]): dict(zip(names, r[width:-1], strict=True)) for r in terms}
        return [
            (*who, int(self.is_label(found.get((*who, day), {}))), self._state(day), day)
            for *who, day in ((*r[:width], r[-1]) for r in asked)
        ]

    def _state(self, day: date) -> str:
        return "mature" if day + ONE_DAY * self.ripens <= self.days.end else "provisional"


ORDERS = Answers(
    Delivered(
        """SELECT row_number() OVER (ORDER BY filename, order_id) AS seq,
        d + INTERVAL '86399.999999' SECOND AS arrival_ts, arrival_ts AS version_ts,
        TRY_CAST(ordered_at AS TIMESTAMPTZ) AS event_ts, order_id AS event_key,
        'upsert' AS op, customer_id, country, TRY_CAST(total AS DECIMAL(18,2)) AS total,
        is_return = 'true' AS is_return
    FROM (SELECT *, CAST(regexp_extract(filename, 'dt=([0-9-]+)', 1) AS TIMESTAMPTZ) AS d
          FROM read_csv({files}, all_varchar = true, filename = true, hive_partitioning = false))
    WHERE TRY_CAST(ordered_at AS TIMESTAMPTZ) IS NOT NULL AND TRY_CAST(total AS DECIMAL(18,2)) IS NOT NULL""",
        ("customer_id", "country", "total", "is_return"),
    ),
    ("customer_id",),
    (
        Asked("spent_7d", "sum", "CASE WHEN is_return THEN -total ELSE total END", "", 0, 6),
        Asked("largest_7d", "max", "total", "NOT is_return", 0, 6),
        Asked("orders_de_3d", "count", "", "NOT is_return AND country = 'DE'", 0, 2),
        Asked("days_since_return", "days_since_last", "", "is_return", 0, 6),
    ),
    (Asked("ahead", "sum", "total", "", -3, -1), Asked("behind", "sum", "total", "", 0, 2)),
    lambda t: t.get("ahead", 0) > 2 * t.get("behind", 0),
    5,
    inclusive_range(date(2024, 3, 1), date(2024, 3, 15)),
)
RETRIED = Answers(
    Delivered(
        """SELECT "offset" AS seq, ingested_at AS arrival_ts, ingested_at AS version_ts, clicked_at AS event_ts,
        click_id AS event_key, 'upsert' AS op, user_id, page, seconds
    FROM read_json({files}, columns = {"offset": 'BIGINT', click_id: 'VARCHAR', user_id: 'BIGINT', page: 'VARCHAR',
        clicked_at: 'TIMESTAMPTZ', ingested_at: 'TIMESTAMPTZ', seconds: 'INTEGER'})""",
        ("user_id", "page", "seconds"),
    ),
    ("user_id",),
    (
        Asked("clicks_1d", "count", "", "", 0, 0),
        Asked("pages_3d", "distinct", "page", "", 0, 2),
        Asked("seconds_3d", "sum", "seconds", "", 0, 2),
        Asked("last_page_3d", "last", "page", "", 0, 2),
    ),
    (Asked("ahead", "count", "", "", -2, -1), Asked("behind", "count", "", "", 0, 1)),
    lambda t: t.get("ahead", 0) > t.get("behind", 0),
    4,
    inclusive_range(date(2024, 5, 1), date(2024, 5, 8)),
)
WORKS = "NOT isnan(celsius)"
SENSORS = Answers(
    Delivered(
        """SELECT row_number() OVER (ORDER BY filename, plant, machine, measured_at) AS seq,
        CAST(sent_at AS TIMESTAMPTZ) AS arrival_ts, arrival_ts AS version_ts,
        CAST(measured_at AS TIMESTAMPTZ) AS event_ts, concat_ws('/', plant, machine, measured_at) AS event_key,
        'upsert' AS op, plant, machine, TRY_CAST(celsius AS DOUBLE) AS celsius
    FROM read_csv({files}, all_varchar = true, filename = true)""",
        ("plant", "machine", "celsius"),
    ),
    ("plant", "machine"),
    (
        Asked("coldest_2d", "min", "celsius", WORKS, 0, 1),
        Asked("hottest_2d", "max", "celsius", WORKS, 0, 1),
        Asked("newest", "last", "celsius", WORKS, 0, 1),
        Asked("mean_4d", "avg", "celsius", WORKS, 0, 3),
        Asked("broken_4d", "count", "", "celsius IS NULL OR isnan(celsius)", 0, 3),
    ),
    (Asked("ahead", "count", "CASE WHEN isnan(celsius) THEN 1 END", "", -2, -1),),
    lambda t: t.get("ahead", 0) > 0,
    4,
    inclusive_range(date(2024, 7, 1), date(2024, 7, 9)),
)
LATE = Answers(
    Delivered(
        """SELECT row_number() OVER (ORDER BY payment_id) AS seq, CAST(received_at AS TIMESTAMPTZ) AS arrival_ts,
            arrival_ts AS version_ts, CAST(paid_at AS TIMESTAMPTZ) AS event_ts, payment_id AS event_key,
            'upsert' AS op, card, CAST(amount AS DECIMAL(12,2)) AS amount
        FROM read_csv({files}, all_varchar = true)""",
        ("card", "amount"),
        "payments",
    ),
    ("card",),
    (
        Asked("payments_3d", "count", "", "", 0, 2),
        Asked("spent_3d", "sum", "amount", "", 0, 2),
        Asked("largest_3d", "max", "amount", "", 0, 2),
    ),
    (Asked("ahead", "count", "", "fraud", -2, -1),),
    lambda t: t.get("ahead", 0) > 0,
    15,
    inclusive_range(date(2024, 9, 1), date(2024, 9, 24)),
    Delivered(
        """SELECT row_number() OVER (ORDER BY given_at, payment_id) AS seq, given_at AS arrival_ts,
            given_at AS version_ts, paid_at AS event_ts, payment_id AS event_key, 'upsert' AS op, card, fraud
        FROM read_json({files}, columns = {payment_id: 'VARCHAR', card: 'VARCHAR', paid_at: 'TIMESTAMPTZ',
            given_at: 'TIMESTAMPTZ', fraud: 'BOOLEAN'})""",
        ("card", "fraud"),
        "verdicts",
    ),
)
OF_EXAMPLES = {
    "late-truth": LATE,
    "orders": ORDERS,
    "retried-events": RETRIED,
    "sensor-readings": SENSORS,
}


@dataclass(frozen=True)
class AtTheEnd:
    """What a table holds after the steps of its example: a query over {files}, the landed ones."""

    table: str
    query: str

    def differing(self, lake: Path) -> list[Row]:
        """Rows that the table or the answer has more often than the other, and a word if both are
        empty."""
        db = duckdb.connect()
        db.execute("SET timezone = 'UTC'")
        held = DeltaTable(str(lake / "tables" / self.table)).to_pyarrow_table()
        db.register("held", held)
        query = self.query.replace("{files}", f"'{lake}/landing/**/*.*'")
        db.execute(f"CREATE TABLE answer AS {query}")
        names = ", ".join(str(c[0]) for c in db.sql("FROM answer").description)
        db.execute(f"CREATE VIEW ours AS SELECT {names} FROM held")
        rows = db.sql(
            "(FROM ours EXCEPT ALL FROM answer) UNION ALL (FROM answer EXCEPT ALL FROM ours)"
        ).fetchall()
        return rows if held.num_rows else [("no rows",)]


AT_THE_END = {
    "timezone-bug": AtTheEnd(
        "plays_daily",
        """SELECT user_id, CAST((local_time AT TIME ZONE "zone") AT TIME ZONE 'UTC' AS DATE) AS event_date,
            count(*) AS plays, sum(minutes) AS minutes
        FROM read_json({files}, columns = {user_id: 'VARCHAR', local_time: 'TIMESTAMP', "zone": 'VARCHAR',
            minutes: 'BIGINT'}) GROUP BY ALL""",
    ),
    "training-daily": AtTheEnd(
        "training_daily",
        """WITH visits AS (SELECT DISTINCT * FROM read_json({files}, columns = {visit_id: 'VARCHAR', user_id: 'VARCHAR',
                visited_at: 'DATE', pages: 'BIGINT', bought: 'BOOLEAN'})),
            came AS (SELECT DISTINCT user_id, visited_at AS dt FROM visits)
            SELECT user_id, dt, count(*) FILTER (WHERE visited_at <= dt) AS f1,
                CAST(sum(pages) FILTER (WHERE visited_at <= dt) AS BIGINT) AS f2,
                CAST(coalesce(bool_or(bought) FILTER (WHERE visited_at > dt), false) AS INT) AS label
            FROM came JOIN visits USING (user_id) WHERE visited_at BETWEEN dt - 6 AND dt + 1
                AND dt BETWEEN '2024-01-07' AND '2024-04-05' GROUP BY ALL""",
    ),
    "features-v2": AtTheEnd(
        "customer_features",
        """SELECT customer_id, bought_at AS day, count(*) AS purchases, CAST(sum(cents) AS BIGINT) AS spent
            FROM read_json({files}, columns = {customer_id: 'VARCHAR', bought_at: 'DATE', cents: 'INT'})
            GROUP BY ALL""",
    ),
    "five-days": AtTheEnd(
        "sales",
        """SELECT sale_id, sold_at AS day, shop, arg_max(cents, sent_at) AS cents
            FROM read_json({files}, columns = {sale_id: 'VARCHAR', sold_at: 'DATE', sent_at: 'TIMESTAMP',
                shop: 'VARCHAR', cents: 'INT'}) GROUP BY ALL""",
    ),
    "december": AtTheEnd(
        "staging",
        """SELECT DISTINCT event_key, TRY_CAST(value AS BIGINT) AS value FROM read_json({files},
            columns = {event_key: 'VARCHAR', value: 'VARCHAR'}) WHERE TRY_CAST(value AS BIGINT) IS NOT NULL""",
    ),
    "late-labels": AtTheEnd(
        "labels_daily",
        """SELECT loan_id, taken_at AS day, max(euros) AS euros, CAST(bool_or(repaid) AS INT) AS label
            FROM read_json({files}, columns = {loan_id: 'VARCHAR', taken_at: 'DATE', euros: 'INT', repaid: 'BOOLEAN'})
            GROUP BY ALL""",
    ),
    "late-48h": AtTheEnd(
        "passages_daily",
        """SELECT gate, passed_at AS day, count(DISTINCT passage_id) AS passages,
                CAST(sum(people / copies) AS BIGINT) AS people
            FROM (SELECT *, count(*) OVER (PARTITION BY passage_id) AS copies FROM read_json({files}, columns = {
                passage_id: 'VARCHAR', gate: 'VARCHAR', passed_at: 'DATE', people: 'INT'})) GROUP BY ALL""",
    ),
    "failed-week": AtTheEnd(
        "kilometres",
        """SELECT entity AS car, event_ts AS day, sum(value) AS kilometres FROM read_json({files},
            columns = {entity: 'VARCHAR', event_ts: 'DATE', value: 'INT'})
            WHERE event_ts < '2025-03-08' GROUP BY ALL""",
    ),
    "feature-store": AtTheEnd(
        "user_features",
        """SELECT user_id, played_at AS day, count(*) AS songs, CAST(sum(seconds) AS BIGINT) AS seconds,
                count_if(skipped) AS skipped
            FROM read_json({files}, columns = {user_id: 'VARCHAR', played_at: 'DATE', seconds: 'INT',
                skipped: 'BOOLEAN'}) GROUP BY ALL""",
    ),
    "big-orders": AtTheEnd(
        "orders_daily",
        """SELECT customer_id, CAST(ordered_at AS DATE) AS day, count(*) AS orders, CAST(sum(cents) AS BIGINT) AS cents
            FROM read_parquet({files}) GROUP BY ALL""",
    ),
}
