"""The Dagster instance of the commands, whose runs `dg dev` shows, opened quietly.

Not here: its use (`runner`, `report`, `server`).
"""

import contextlib
import logging
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import dagster as dg
import sqlalchemy as sa

from backfill_assets.cli.dagster_names import (
    HOME_VARIABLE,
    NAMES_A_STORAGE,
    OUR_EVENT_STORAGE,
    SETTINGS_OF_A_LAKE,
)
from backfill_assets.kernel.core.errors import (
    BackfillError,
    SettingsError,
)
from backfill_assets.kernel.core.ownership import foreign_owners
from backfill_assets.kernel.core.process import LAKE_VARIABLE, lake_folder, project_root
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.tables.folder import DAGSTER_FOLDER, close_folder
from backfill_assets.kernel.tables.home import Lake

DAGSTER_FILE = "dagster.yaml"
POSTGRES_VARIABLE = "DAGSTER_POSTGRES_URL"
SERVER_ADVICE = (
    "See that the server runs and takes this user, and that the address begins as "
    "`backfill-assets guide servers` says"
)


@contextlib.contextmanager
def silence_dagster() -> Iterator[None]:
    """Keep Dagster's warnings about itself from the screen, and SQLAlchemy's about connections that
    an interrupt closes; errors come back as the run's cause."""
    # A handler of its own: without any, Python prints warnings. `logging.disable` would swallow
    # Dagster's events too.
    silence = logging.NullHandler()
    loggers = [logging.getLogger(name) for name in ("dagster", "sqlalchemy.pool")]
    for logger in loggers:
        logger.addHandler(silence)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeHandler(silence)


@contextlib.contextmanager
def instance_of(lake: Lake, project: Path | None = None) -> Iterator[dg.DagsterInstance]:
    """Open the instance of $DAGSTER_HOME, else of the project's dagster.yaml (in the folder
    `project`), else one inside the lake.

    Lakes that share an instance see each other's days on its pages, since their tables have the
    same names. So they do with one $DAGSTER_HOME (`cli.dagster_site.other_lakes` says so);
    without it, a lake other than the one `dg dev` shows in the project has an instance of its
    own, in memory where this user may not make one. The project's file names folders relative
    to itself, so that the working folder is there meanwhile.
    """
    project = project or project_root()
    if home := os.environ.get(HOME_VARIABLE):
        with _opened_instance(home, partial(_with_own_event_storage, home)) as instance:
            yield instance
        return
    close_folder(project / DAGSTER_FOLDER, lake.settings.access.umask)
    if _is_of_the_project(lake, project):
        open_it = partial(dg.DagsterInstance.from_config, str(project))
        with contextlib.chdir(project), _opened_instance(str(project), open_it) as instance:
            yield instance
        return
    has_home = (lake.root / DAGSTER_FOLDER).exists()
    if not has_home and not os.access(lake.root, os.W_OK):
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance
        return
    with _opened_home_of_lake(lake) as instance:
        yield instance


@contextlib.contextmanager
def _opened_home_of_lake(lake: Lake) -> Iterator[dg.DagsterInstance]:
    """Open the instance inside the lake. $DAGSTER_HOME names it meanwhile: a lake may be moved, so
    that its file names folders by this variable."""
    home = str(_home_in_lake(lake))
    os.environ[HOME_VARIABLE] = home
    try:
        with _opened_instance(home, partial(_with_own_event_storage, home)) as instance:
            yield instance
    finally:
        del os.environ[HOME_VARIABLE]


def _is_default_lake(lake: Lake) -> bool:
    """Whether commands without `--lake` take this lake."""
    return lake.root == lake_folder()


def _is_of_the_project(lake: Lake, project: Path) -> bool:
    """Whether the project has an instance that shows this lake. Not one that holds what assets of
    another project return: these run in the folder that the command was started in."""
    is_shown = _is_default_lake(lake) and not lake.settings.assets_only
    return (project / DAGSTER_FILE).exists() and is_shown and _is_own_folder(project)


def _is_own_folder(project: Path) -> bool:
    """Whether no other user can have put files into the folder that this package was started in:
    they can name code to run, and Dagster's processes import modules from there."""
    holds_this_package = project in Path(__file__).parents
    if holds_this_package:
        return True
    all_may_write = project.stat().st_mode & stat.S_IWOTH
    other_owners = foreign_owners(project) | foreign_owners(project / DAGSTER_FILE)
    return not all_may_write and not other_owners


def _home_in_lake(lake: Lake) -> Path:
    """Return the home inside the lake, made with our settings if there is none; what a person wrote
    there stays."""
    home = lake.root / DAGSTER_FOLDER
    home.mkdir(parents=True, exist_ok=True)
    if not (home / DAGSTER_FILE).exists():
        part = home / f"{DAGSTER_FILE}.{os.getpid()}.part"
        part.write_text(SETTINGS_OF_A_LAKE.read_text(encoding="utf-8"), encoding="utf-8")
        part.replace(home / DAGSTER_FILE)
    return home


def _with_own_event_storage(home: str) -> dg.DagsterInstance:
    """Return $DAGSTER_HOME's instance. Where its `dagster.yaml` names no storage, its events are in
    Dagster's SQLite files, to which our class writes the same rows: a range of 300 days in 3
    seconds of the processor in place of 60."""
    file = Path(home, DAGSTER_FILE)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    is_usable = Path(home).is_absolute() and Path(home).is_dir()
    if NAMES_A_STORAGE.search(text) or not is_usable:  # where it is not, Dagster says so itself
        return dg.DagsterInstance.get()
    return dg.DagsterInstance.local_temp(home, overrides={"event_log_storage": OUR_EVENT_STORAGE})


@contextlib.contextmanager
def _opened_instance(
    home: str, open_it: Callable[[], dg.DagsterInstance]
) -> Iterator[dg.DagsterInstance]:
    """Open the instance; raises SettingsError where its folder cannot be used, whatever its storage
    says of that, and BackfillError in one line for a failure of the storage meanwhile, a full disk
    above all."""
    try:
        instance = open_it()
    except Exception as error:
        failure = _storage_failure(home, error)
        disk = "Set DAGSTER_HOME to a folder that you may write, or see that its disk has space"
        raise SettingsError(
            failure.storage,
            failure.cause,
            "Nothing was done",
            SERVER_ADVICE if failure.is_on_a_server else disk,
        ) from error
    try:
        with instance:
            yield instance
    except sa.exc.DBAPIError as error:
        failure = _storage_failure(home, error)
        disk = "See that its disk has space and may be written, then run again"
        raise BackfillError(
            failure.storage,
            failure.cause,
            "The run was not finished; what it had committed says so by its receipts",
            SERVER_ADVICE if failure.is_on_a_server else disk,
        ) from error


class _StorageFailure(NamedTuple):
    """What failed of Dagster's storage, in words."""

    storage: str  # which, e.g. `Dagster's home FOLDER`
    cause: str  # one line, without secrets
    is_on_a_server: bool  # PostgreSQL; else it is files in the home


def _storage_failure(home: str, error: Exception) -> _StorageFailure:
    """Return what failed: PostgreSQL if the error is of its driver psycopg, else files in
    `home`."""
    origin = getattr(error, "orig", None) or error  # SQLAlchemy's error wraps the database's
    lines = str(origin).splitlines()
    cause = scrub_secrets(lines[0]) if lines else type(origin).__name__
    if "psycopg" not in f"{type(origin).__module__} {cause}":
        return _StorageFailure(f"Dagster's home {home}", cause, is_on_a_server=False)
    server = "PostgreSQL"
    with contextlib.suppress(sa.exc.ArgumentError):  # the variable holds no address
        host = sa.make_url(os.environ.get(POSTGRES_VARIABLE, "")).host
        server = f"PostgreSQL at {host}"
    return _StorageFailure(f"Dagster's storage ({server}) refuses", cause, is_on_a_server=True)


def lake_option_text(lake: Lake) -> str:
    """The option `--lake` for this lake, with a blank after it; empty where commands take this lake
    by default."""
    return "" if _is_default_lake(lake) else f"--lake {quote(lake.address)} "


class UiPlace(NamedTuple):
    """Where Dagster's UI is started."""

    folder: Path  # the working folder
    variables: dict[str, str]  # additions to the environment
    # Whether the folder's files name the definitions; else `DEFINITIONS_MODULE` does.
    is_project: bool


def ui_place(lake: Lake, project: Path | None = None) -> UiPlace:
    """Return where to start Dagster's UI for this lake: in the project (None: the one that commands
    are started in) if it shows the lake, else in $DAGSTER_HOME or the home inside the lake."""
    home, project = os.environ.get(HOME_VARIABLE), project or project_root()
    if (home and _is_own_folder(project)) or _is_of_the_project(lake, project):
        variables = {} if _is_default_lake(lake) else {LAKE_VARIABLE: lake.address}
        return UiPlace(project, variables, is_project=True)
    own = Path(home or lake.root / DAGSTER_FOLDER)
    variables = {LAKE_VARIABLE: lake.address, HOME_VARIABLE: str(own)}
    return UiPlace(own, variables, is_project=False)
