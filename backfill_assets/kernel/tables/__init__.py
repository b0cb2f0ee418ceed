"""A lake's home and its tables: settings, staging, data files, what a table holds, putting it back,
the versions of a lake that readers see, and DuckDB as it reads the files.

Not here: how rows are computed and judged (`kernel.write`), and any feature that a lake can do
without (the rooms).
"""
