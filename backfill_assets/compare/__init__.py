"""What differs between two versions of a table, by key and column, and proofs that days compute
alike again.

Uses the kernel, `reading` and `engines`. Adds the commands `compare` and `check-engine`. Not here:
comparing with a side that is no table of a lake (`reconcile`). Guide: correcting-the-past.
"""
