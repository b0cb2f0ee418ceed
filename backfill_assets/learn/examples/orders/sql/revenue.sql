/*
description = "What a country's customers paid, and sent back, on a day, as known now."
day = "day"
key = ["country"]
inputs = { staging = {} }

[columns]
country = "STRING -- where the customer lives"
day = "DATE -- of the order"
orders = "BIGINT -- orders that count today"
paid = "DECIMAL(28,2) -- their totals"
returned = "DECIMAL(28,2) -- totals of what was sent back on that day"
*/
SELECT country, event_date AS day, count_if(NOT is_return) AS orders,
    coalesce(sum(total) FILTER (WHERE NOT is_return), 0) AS paid,
    coalesce(sum(total) FILTER (WHERE is_return), 0) AS returned
FROM staging
WHERE known_until IS NULL AND country IS NOT NULL
GROUP BY country, event_date
