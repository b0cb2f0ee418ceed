"""A lake's home and its tables: settings, staging, data files, what a table holds, the versions of
a lake that readers see, and DuckDB as it reads the files.

Not here: how rows are computed and judged (`kernel.write`), putting days back (`plans.restore`),
and any other feature that a lake can do without (the rooms).
"""
