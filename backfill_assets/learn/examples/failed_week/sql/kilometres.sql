/*
description = "How far a car went on a day."
day = "day"
key = ["car"]
columns = { car = "STRING", day = "DATE", kilometres = "DECIMAL(30,0)" }
inputs = { staging = {} }
*/
SELECT entity AS car, event_date AS day, sum(cast(value AS DECIMAL(20,0))) AS kilometres
FROM staging WHERE known_until IS NULL AND entity IS NOT NULL GROUP BY entity, event_date
