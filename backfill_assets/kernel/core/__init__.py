"""Words of the kernel: days, contracts, digests, receipts, states, needs, errors. The standard
library only.

Not here: files, logs, engines, Dagster. Nothing in this folder reads or writes a lake.
"""
