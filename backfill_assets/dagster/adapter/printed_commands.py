"""Commands in texts that Dagster shows: each names the lake, so that it can be run as it is
printed, wherever one stands.

Not here: the words of such a command (`kernel.core.commands`), and running one (`cli`).
"""

import re
import shlex
from pathlib import Path

from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.process import LAKE_OPTION, lake_folder

# in backquotes, and about a lake: the other commands have no such option
PRINTED = re.compile(r"`(backfill-assets (?!(?:guide|settings|copy-lake)\b)[^`]+)`")


def commands_with_lake(text: str, root: Path) -> str:
    """A text in which every command in backquotes names the lake in the folder `root`; where
    commands find that lake by themselves, the text as it is."""
    return PRINTED.sub(lambda found: f"`{command_with_lake(found[1], root)}`", text)


def command_with_lake(command: str, root: Path) -> str:
    """A command that names the lake in the folder `root`, as `commands_with_lake` does."""
    if LAKE_OPTION in command or lake_folder() == root:
        return command
    return f"{command} {LAKE_OPTION} {shlex.quote(address_of(root))}"
