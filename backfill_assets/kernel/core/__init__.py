"""Terms and rules on the standard library only: contracts, days, digests, receipts, states and
errors.

Does not live here: anything that opens a table, starts an engine or knows Dagster.
"""
