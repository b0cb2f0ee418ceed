/*
description = "A tiny feature store: one row per user and day."
day = "day"
key = ["user_id"]
columns = { user_id = "STRING", day = "DATE", songs = "BIGINT", seconds = "BIGINT", skipped = "BIGINT" }
inputs = { staging = {} }
*/
SELECT user_id, event_date AS day, count(*) AS songs, sum(seconds) AS seconds, count_if(skipped) AS skipped
FROM staging WHERE known_until IS NULL GROUP BY user_id, event_date
