/*
description = "What a customer ordered on a day."
day = "day"
key = ["customer_id"]
columns = { customer_id = "INT", day = "DATE", orders = "BIGINT", cents = "BIGINT" }
inputs = { staging = {} }
*/
SELECT customer_id, event_date AS day, count(*) AS orders, sum(cents) AS cents
FROM staging WHERE known_until IS NULL GROUP BY customer_id, event_date
