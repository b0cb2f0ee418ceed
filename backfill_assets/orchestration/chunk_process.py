"""The process of one chunk, where the job `backfill_range` makes several at once: `python -m` this, JSON on stdin.

Lives here: hearing interrupts, and telling why the chunk failed. Does not live here: finding what is asked for
(`asked_chunk`) and ending with the parent (`operations.plan_children`).
"""

import json
import sys

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.garbage import collect_seldom
from backfill_assets.operations.plan_children import said


def main() -> None:
    """The process."""
    asked = json.load(sys.stdin)
    collect_seldom()
    from backfill_assets.orchestration.asked_chunk import make_chunk
    from backfill_assets.orchestration.interrupts import ends_when_interrupted

    with ends_when_interrupted():
        try:
            cause = make_chunk(asked)
        except BackfillError as error:
            cause = str(error)
    sys.stdout.write(said(cause) + "\n")


if __name__ == "__main__":
    main()
