"""What landed becomes rows of raw: files and tables of others are listed, read, mapped, counted,
recorded.

Uses the kernel, `engines` and `buckets`. Adds the commands `scan`, `landing` and `adopt`. Not here:
the tables that are computed from raw (`pipeline`). Guides: own-files, several-sources.
"""
