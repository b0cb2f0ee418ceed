/*
description = "What a user played on a day."
day = "event_date"
key = ["user_id"]
columns = { user_id = "STRING", event_date = "DATE", plays = "BIGINT", minutes = "BIGINT" }
inputs = { staging = {} }
*/
SELECT user_id, event_date, count(*) AS plays, sum(minutes) AS minutes
FROM staging WHERE known_until IS NULL GROUP BY user_id, event_date
