"""The tables of this product for the settings of a lake, upstream first.

Not here: the tables themselves, a file each (`daily`), and which tables a lake has (`chosen`).
"""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

from pydantic import BaseModel

from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Table
from backfill_assets.pipeline.daily.features import declared_windows, features
from backfill_assets.pipeline.daily.features_as_known import features_as_known
from backfill_assets.pipeline.daily.labels import labels
from backfill_assets.pipeline.daily.raw import raw
from backfill_assets.pipeline.daily.staging import staging
from backfill_assets.pipeline.daily.training import training


def tables(settings: LakeSettings) -> tuple[Table, ...]:
    """raw, staging, features, features_as_known, labels, training: each reads only tables before
    it.

    Where sources have names there is a raw and a staging of each, and `[features]` and `[labels]`
    choose theirs. Raises SettingsError where they do not, where the payload lacks a column of the
    built-in features, and for a faulty expression.
    """
    settings = plain_settings(settings)
    windows = declared_windows(settings)
    now = features(windows)
    known = features_as_known(windows, now)
    outcomes = labels(settings, known.contract)
    return (
        *delivered(settings),
        now,
        known,
        outcomes,
        training(windows, known.contract, outcomes.contract),
    )


def delivered(settings: LakeSettings) -> tuple[Table, ...]:
    """raw and staging of each source, whatever the payload: the inputs of tables of one's own."""
    settings = plain_settings(settings)
    made = list[Table]()
    for name in settings.delivered:
        of_source = settings.of_source(name)
        made += [raw(of_source, name), staging(of_source, name)]
    return tuple(made)


ALL = "*"  # of a section whose values were handed on as a whole


class _View:
    """A section of settings that records which of its values are read."""

    __slots__ = ("__weakref__", "_noted", "_path", "_section", "_views")

    def __init__(
        self,
        section: BaseModel,
        path: str,
        noted: dict[str, Any],
        views: "list[weakref.ref[_View]]",
    ) -> None:
        self._section, self._path, self._noted, self._views = section, path, noted, views
        views.append(weakref.ref(self))

    @property  # type: ignore[misc]  # only ever read
    def __class__(self) -> Any:
        """The class of the settings, so that `isinstance` holds for the view, too."""
        return type(self._section)

    def __getattr__(self, name: str) -> Any:
        """The value of a key, which is noted; of a section a view; of anything else, such as a
        method, which may read any key, the whole section is noted."""
        found = getattr(self._section, name)
        if name not in type(self._section).model_fields:
            self.note_all()
        elif isinstance(found, BaseModel):
            return _View(found, f"{self._path}{name}.", self._noted, self._views)
        else:
            values = self._section.model_dump(mode="json", include={name})
            self._noted[self._path + name] = values[name]
        return found

    def __iter__(self) -> Iterator[Any]:
        self.note_all()
        return iter(self._section)

    def __eq__(self, other: object) -> bool:
        self.note_all()
        return bool(self._section == plain_settings(other))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        self.note_all()
        return repr(self._section)

    def note_all(self) -> None:
        """Record the whole section as read, without the values that equal their defaults."""
        self._noted[self._path + ALL] = self._section.model_dump(mode="json", exclude_defaults=True)


def recorded_tables(
    tables: Callable[[LakeSettings], Any], settings: LakeSettings
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call `tables(settings)`; return its tables and the values that it read, by their names in
    `lake.toml`. A section that something still holds afterwards, such as a transform, counts as
    read as a whole."""
    noted: dict[str, Any] = {}
    views: list[weakref.ref[_View]] = []
    given = tuple(tables(cast(LakeSettings, _View(settings, "", noted, views))))
    if any(view() is not None for view in views):
        gc.collect()  # a view in a circle of objects that nothing holds is no more read
    for reference in views:
        view = reference()
        if view is not None:
            view.note_all()
    return given, noted


def plain_settings(settings: Any) -> Any:
    """The settings without the view: this package's own tables name the settings that reach their
    content."""
    return settings._section if type(settings) is _View else settings
