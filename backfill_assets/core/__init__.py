"""Words and rules, standard library only. Contracts, days, digests, receipts, states and errors live here.

Does not live here: anything that opens a table, starts an engine or knows Dagster.
"""
