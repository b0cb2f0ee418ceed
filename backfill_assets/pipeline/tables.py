"""The tables of this product for the settings of a lake, upstream first.

Not here: the tables themselves, a file each (`daily`), and which tables a lake has (`chosen`).
"""

from backfill_assets.lake.model import Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline.daily.features import features, windows_of
from backfill_assets.pipeline.daily.features_as_known import features_as_known
from backfill_assets.pipeline.daily.labels import labels
from backfill_assets.pipeline.daily.raw import raw
from backfill_assets.pipeline.daily.staging import staging
from backfill_assets.pipeline.daily.training import training
from backfill_assets.pipeline.recording import unrecorded


def tables(settings: LakeSettings) -> tuple[Table, ...]:
    """raw, staging, features, features_as_known, labels, training: each reads only tables before it.

    Where sources have names there is a raw and a staging of each, and `[features]` and `[labels]` choose theirs.
    Raises SettingsError where they do not, where the payload lacks a column of the built-in features, and for a faulty
    expression.
    """
    settings = unrecorded(settings)
    windows = windows_of(settings)
    now = features(windows)
    known = features_as_known(windows, now)
    outcomes = labels(settings, known.contract)
    return *delivered(settings), now, known, outcomes, training(windows, known.contract, outcomes.contract)


def delivered(settings: LakeSettings) -> tuple[Table, ...]:
    """raw and staging of each source, whatever the payload: the inputs of tables of one's own."""
    settings = unrecorded(settings)
    of_each = {name: settings.of_source(name) for name in settings.delivered}
    return tuple(table(one, name) for name, one in of_each.items() for table in (raw, staging))
