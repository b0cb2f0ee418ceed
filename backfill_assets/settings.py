"""`LakeSettings` as users of the package import it: the model of all of `lake.toml`, with the
sections of every room of this installation.

Not here: sections and the reading of the file (`kernel.tables.settings`), and what a room adds,
which its `__init__` names.
"""

from typing import TYPE_CHECKING

from backfill_assets.kernel.tables.settings import lake_model

if TYPE_CHECKING:
    from backfill_assets.kernel.tables.settings import LakeSettings as LakeSettings
else:
    LakeSettings = lake_model()
