/*
description = "What a model learns from: two features of the last seven days, and the label of labels_daily."
day = "dt"
key = ["user_id"]
inputs = { staging = { before = 6 }, labels_daily = {} }

[columns]
user_id = "STRING"
dt = "DATE"
f1 = "BIGINT -- visits in seven days, dt included"
f2 = "BIGINT -- pages seen in them"
label = "INT -- 1: buys on the day after dt"

[rules]
came = "f1 >= 1 -- who has a label on a day has come on it"
*/
SELECT labels_daily.user_id, labels_daily.dt, count(*) AS f1, sum(staging.pages) AS f2, labels_daily.label
FROM labels_daily
JOIN staging ON staging.user_id = labels_daily.user_id AND staging.known_until IS NULL
    AND staging.event_date BETWEEN date_sub(labels_daily.dt, 6) AND labels_daily.dt
GROUP BY labels_daily.user_id, labels_daily.dt, labels_daily.label
