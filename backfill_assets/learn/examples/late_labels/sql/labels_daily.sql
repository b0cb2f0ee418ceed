/*
description = "What became of the loans of a day: NULL as long as nobody has told."
day = "day"
key = ["loan_id"]
columns = { loan_id = "STRING", day = "DATE", euros = "INT", label = "INT NULL -- 1: repaid" }
inputs = { staging_loans = {}, staging_outcomes = {} }
*/
SELECT loans.event_key AS loan_id, loans.event_date AS day, loans.euros,
    if(outcomes.event_key IS NULL, NULL, if(outcomes.repaid, 1, 0)) AS label
FROM staging_loans AS loans
LEFT JOIN staging_outcomes AS outcomes
    ON outcomes.event_key = loans.event_key AND outcomes.event_date = loans.event_date AND outcomes.known_until IS NULL
WHERE loans.known_until IS NULL
