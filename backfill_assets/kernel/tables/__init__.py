"""The lake: tables and their log, receipts' readers, ledgers, locks, staging, audit, and the one
committer.

Lives here: everything that touches a table's folder. Does not live here: computing rows (`load`),
who requests them (`orchestration`), and any particular table (`pipeline`). Knows no Dagster.
"""
