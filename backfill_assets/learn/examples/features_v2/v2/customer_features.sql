/*
description = "What a customer bought on a day; version 2: refunds are no purchases, and the web is told apart."
day = "day"
key = ["customer_id"]
inputs = { staging = {} }

[columns]
customer_id = "STRING"
day = "DATE"
purchases = "BIGINT -- without refunds"
spent = "BIGINT -- cents, refunds taken off"
largest_web = "INT NULL -- the greatest amount on the web in cents; NULL without one"

[rules]
purchases_count = "purchases >= 0"
*/
SELECT customer_id, event_date AS day, count_if(cents > 0) AS purchases, sum(cents) AS spent,
    max(if(channel = 'web' AND cents > 0, cents, NULL)) AS largest_web
FROM staging WHERE known_until IS NULL GROUP BY customer_id, event_date
