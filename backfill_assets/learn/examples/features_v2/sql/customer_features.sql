/*
description = "What a customer bought on a day."
day = "day"
key = ["customer_id"]
columns = { customer_id = "STRING", day = "DATE", purchases = "BIGINT", spent = "BIGINT -- cents" }
inputs = { staging = {} }
*/
SELECT customer_id, event_date AS day, count(*) AS purchases, sum(cents) AS spent
FROM staging WHERE known_until IS NULL GROUP BY customer_id, event_date
