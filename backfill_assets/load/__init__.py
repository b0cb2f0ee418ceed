"""The load path: from a request for days of a table to the commit, the same for every caller.

`rebuild` holds its order; every phase has its file. Does not live here: any particular table
(`pipeline`), the commit itself (`lake.committer`), and requests (`orchestration`, `cli`).
"""
