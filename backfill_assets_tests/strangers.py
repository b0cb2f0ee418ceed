"""Files of another user, for tests: really another's where the tests run as root, else by what this
process takes for its own user.
Here: making them. Not here: what becomes of them (`kernel.core.test_ownership`,
`engines.test_cache`)."""

import os
from pathlib import Path

import pytest

STRANGER = 4242  # no name on any machine that we know


def give_away(path: Path, patch: pytest.MonkeyPatch) -> None:
    """From now on `path` belongs to another user than the one that this process works as."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1, follow_symlinks=False)
    else:
        patch.setattr(os, "geteuid", lambda: STRANGER)
