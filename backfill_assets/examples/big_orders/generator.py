"""Files of the example `big-orders`: none to begin with, because a step of its own writes as many rows as one asks for.

Not here: that step, which is DuckDB's SQL, and the table; both are files beside `lake.toml`.
"""


def files() -> dict[str, str]:
    """Return text by path in the lake: nothing has landed."""
    return {}
