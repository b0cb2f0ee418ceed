"""Pure transforms: DataFrames and days in, a DataFrame out, over a whole range of days at once.

Not here: reading, writing, settings, Dagster, the clock.
"""
