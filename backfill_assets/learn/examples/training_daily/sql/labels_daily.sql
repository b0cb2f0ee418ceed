/*
description = "Whether a user who came on a day buys on the next."
day = "dt"
key = ["user_id"]
columns = { user_id = "STRING", dt = "DATE", label = "INT" }
inputs = { staging = { after = 1 } }
*/
WITH days AS (
    SELECT user_id, event_date, max(if(bought, 1, 0)) AS bought
    FROM staging WHERE known_until IS NULL GROUP BY user_id, event_date
)
SELECT came.user_id, came.event_date AS dt, coalesce(after.bought, 0) AS label
FROM days AS came
LEFT JOIN days AS after ON after.user_id = came.user_id AND after.event_date = date_add(came.event_date, 1)
