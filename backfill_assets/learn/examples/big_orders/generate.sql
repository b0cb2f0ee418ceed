-- Orders of 30 days, the same for the same number of rows: a Parquet file per day below {lake}/landing.
COPY (
    SELECT i AS order_id, TIMESTAMPTZ '2024-09-01T00:00:00Z' + to_seconds(i * 7919 % (30 * 86400)) AS ordered_at,
        (i * 31 % 1000)::INT AS customer_id, (i * 104729 % 20000)::INT AS cents,
        (ordered_at AT TIME ZONE 'UTC')::DATE AS day
    FROM range({rows}) AS numbers (i)
) TO '{lake}/landing' (FORMAT parquet, PARTITION_BY (day), OVERWRITE)
