"""Pure transforms, one per file: DataFrames and days in, a DataFrame out, over a whole range at once.

Lives here: what the tables mean. Does not live here: reading, writing, settings, Dagster, the clock.
"""
