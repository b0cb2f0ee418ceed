/*
description = "How many people went through a gate on a day."
day = "day"
key = ["gate"]
columns = { gate = "STRING", day = "DATE", passages = "BIGINT", people = "BIGINT" }
inputs = { staging = {} }
*/
SELECT gate, event_date AS day, count(*) AS passages, sum(people) AS people
FROM staging WHERE known_until IS NULL GROUP BY gate, event_date
