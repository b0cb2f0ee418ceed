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

import dagster as dg
import sqlalchemy as sa

from backfill_assets.cli.dagster_names import NAMES_A_STORAGE, OUR_EVENT_STORAGE
from backfill_assets.cli.findings import (
    Diagnosis,
    first_names,
    warning_finding,
)
from backfill_assets.dagster.adapter.runs import LAKE_TAG
from backfill_assets.kernel.core.errors import (
    BackfillError,
    SettingsError,
)
from backfill_assets.kernel.core.ownership import foreign_owners
from backfill_assets.kernel.core.process import LAKE_VARIABLE, lake_folder, project_root
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.tables.folder import DAGSTER_FOLDER, close_folder
from backfill_assets.kernel.tables.home import Lake

FILE = "dagster.yaml"
UI_MODULE = "backfill_assets.definitions"
POSTGRES_VARIABLE = "DAGSTER_POSTGRES_URL"
SERVERS = (
    "See that the server runs and takes this user, and that the address begins as "
    "`backfill-assets guide servers` says"
)
OF_A_LAKE = Path(__file__).with_name("templates") / FILE


@contextlib.contextmanager
def silence_dagster() -> Iterator[None]:
    """Keep Dagster's warnings about itself from the screen, and SQLAlchemy's about connections that
    an interrupt closes; errors come back as the run's cause."""
    # A handler of its own: without any, Python prints warnings. `logging.disable` would swallow
    # Dagster's events too.
    loggers, silence = (
        [logging.getLogger(name) for name in ("dagster", "sqlalchemy.pool")],
        logging.NullHandler(),
    )
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
    same names. So they do with one $DAGSTER_HOME (`examine_sharing` says so); without it, a lake
    other than the one `dg dev` shows in the project has an instance of its own, in memory where
    this user may not make one. The project's file names folders relative to itself, so that the
    working folder is there meanwhile.
    """
    named, home = os.environ.get("DAGSTER_HOME"), project or project_root()
    if named:
        with _opened_instance(named, partial(_with_own_event_storage, named)) as instance:
            yield instance
        return
    close_folder(home / DAGSTER_FOLDER, lake.settings.access.umask)
    if _is_of_the_project(lake, home):
        with (
            contextlib.chdir(home),
            _opened_instance(
                str(home), partial(dg.DagsterInstance.from_config, str(home))
            ) as instance,
        ):
            yield instance
    elif not (lake.root / DAGSTER_FOLDER).exists() and not os.access(lake.root, os.W_OK):
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance
    else:
        own = str(_home_in_lake(lake))
        # A lake may be moved: its file names folders by this variable.
        os.environ["DAGSTER_HOME"] = own
        try:
            with _opened_instance(own, partial(_with_own_event_storage, own)) as instance:
                yield instance
        finally:
            del os.environ["DAGSTER_HOME"]


def examine_sharing(lake: Lake) -> Iterator[Diagnosis]:
    """Name the other lakes with runs in the instance that $DAGSTER_HOME names, if it is set and in
    use."""
    home = os.environ.get("DAGSTER_HOME")
    if not home or not any(Path(home).glob("*")):
        return
    with silence_dagster(), instance_of(lake) as instance:
        roots = {Path(root) for _, found in instance.get_run_tags([LAKE_TAG]) for root in found}
    own = lake.shared or lake.root
    if others := sorted(str(r) for r in roots if r.exists() and not r.is_relative_to(own)):
        what = (
            "it holds runs of other lakes, too, and shows days of tables of one name as one: "
            f"{first_names(others)}"
        )
        yield warning_finding(
            f"Dagster's home {home}", what, "Give each lake a DAGSTER_HOME of its own, or set none"
        )


def _is_default_lake(lake: Lake) -> bool:
    """Whether commands without `--lake` take this lake."""
    return lake.root == lake_folder()


def _is_of_the_project(lake: Lake, project: Path) -> bool:
    """Whether the project has an instance that shows this lake. Not one that holds what assets of
    another project return: these run in the folder that the command was started in."""
    is_shown = _is_default_lake(lake) and not lake.settings.assets_only
    return (project / FILE).exists() and is_shown and _is_own_folder(project)


def _is_own_folder(project: Path) -> bool:
    """Whether no other user put files into the folder that this package was started in: they can
    name code to run, and Dagster's processes import modules from there."""
    if project in Path(__file__).parents:
        return True
    return not (
        project.stat().st_mode & stat.S_IWOTH
        or foreign_owners(project) | foreign_owners(project / FILE)
    )


def _home_in_lake(lake: Lake) -> Path:
    """Return the home inside the lake, made with our settings if there is none; what a person wrote
    there stays."""
    home = lake.root / DAGSTER_FOLDER
    home.mkdir(parents=True, exist_ok=True)
    if not (home / FILE).exists():
        part = home / f"{FILE}.{os.getpid()}.part"
        part.write_text(OF_A_LAKE.read_text(encoding="utf-8"), encoding="utf-8")
        part.replace(home / FILE)
    return home


def _with_own_event_storage(home: str) -> dg.DagsterInstance:
    """Return $DAGSTER_HOME's instance. Where its `dagster.yaml` names no storage, its events are in
    Dagster's SQLite files, to which our class writes the same rows: a range of 300 days in 3
    seconds of the processor in place of 60."""
    file = Path(home, FILE)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if NAMES_A_STORAGE.search(text) or not Path(home).is_absolute() or not Path(home).is_dir():
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
        disk = "Set DAGSTER_HOME to a folder that you may write, or see that its disk has space"
        raise SettingsError(*_storage_error_parts(home, error, "Nothing was done", disk)) from error
    try:
        with instance:
            yield instance
    except sa.exc.DBAPIError as error:
        undone = "The run was not finished; what it had committed says so by its receipts"
        disk = "See that its disk has space and may be written, then run again"
        raise BackfillError(*_storage_error_parts(home, error, undone, disk)) from error


def _storage_error_parts(
    home: str, error: Exception, undone: str, disk: str
) -> tuple[str, str, str, str]:
    """The words of an error of Dagster's storage; `disk` is the advice where it lies in the
    home."""
    origin = getattr(error, "orig", None) or error  # SQLAlchemy's error wraps the database's
    lines = str(origin).splitlines()
    cause = scrub_secrets(lines[0]) if lines else type(origin).__name__
    if "psycopg" not in f"{type(origin).__module__} {cause}":
        return f"Dagster's home {home}", cause, undone, disk
    with contextlib.suppress(sa.exc.ArgumentError):
        host = sa.make_url(os.environ.get(POSTGRES_VARIABLE, "")).host
        return f"Dagster's storage (PostgreSQL at {host}) refuses", cause, undone, SERVERS
    return "Dagster's storage (PostgreSQL) refuses", cause, undone, SERVERS


def lake_option_text(lake: Lake) -> str:
    """The option `--lake` for this lake, with a blank after it; empty where commands take this lake
    by default."""
    return "" if _is_default_lake(lake) else f"--lake {quote(lake.address)} "


def ui_place(lake: Lake, project: Path | None = None) -> tuple[Path, dict[str, str], bool]:
    """Return where to start Dagster's UI for this lake: the working folder, additions to the
    environment, and whether that folder's files name the definitions (else `UI_MODULE` does)."""
    home, project = os.environ.get("DAGSTER_HOME"), project or project_root()
    if (home and _is_own_folder(project)) or _is_of_the_project(lake, project):
        return project, {} if _is_default_lake(lake) else {LAKE_VARIABLE: lake.address}, True
    own = Path(home or lake.root / DAGSTER_FOLDER)
    return own, {LAKE_VARIABLE: lake.address, "DAGSTER_HOME": str(own)}, False
