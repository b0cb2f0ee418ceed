/*
description = "Sales as they count today."
day = "day"
key = ["sale_id"]
columns = { sale_id = "STRING", day = "DATE", shop = "STRING", cents = "INT" }
inputs = { staging = {} }
*/
SELECT event_key AS sale_id, event_date AS day, shop, cents FROM staging WHERE known_until IS NULL
