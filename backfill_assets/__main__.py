"""`python -m backfill_assets`, for places where the console script is not on the path.

Lives here: one call. Does not live here: the commands (`cli.app`).
"""

from backfill_assets.cli.app import main

if __name__ == "__main__":
    main()
