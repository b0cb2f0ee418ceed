"""The files that keep Dagster's three processes of a lake running on a server: units for systemd,
and an image with a compose file for containers.

Each is made for one site: its user, folders, programs. Not here: Dagster's own settings
(`templates/dagster.yaml`), the command that prints all of them (`production`), and secrets, which
no file printed here holds.
"""

import getpass
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from backfill_assets.cli.dagster_names import (
    DEFINITIONS_MODULE,
    HOME_VARIABLE,
    KEEPS_BACKFILLS,
    LOOPBACK,
)
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.process import LAKE_VARIABLE

EVERY_INTERFACE = "0.0.0.0"  # noqa: S104 - of a container, which compose publishes on the loopback
SECRETS_FILE = "secrets.env"  # in the home: NAME=value lines
STOP_SECONDS = 60  # what a run gets to end its write
# How often a process that ends at once is started again.
RESTART_SECONDS = 5


@dataclass(frozen=True)
class Site:
    """Where the three processes run, and as whom."""

    lake: str  # its absolute folder, or its address in a bucket
    home: Path  # absolute; what DAGSTER_HOME names
    user: str
    programs: Path  # the folder of `dagster`, `dagster-webserver`, `dagster-daemon`
    umask: int = 0o077
    has_postgres: bool = False  # whether Dagster's records are in PostgreSQL
    code_port: int = 4000
    web_port: int = 3000

    @cached_property
    def environment(self) -> dict[str, str]:
        """The variables that all three processes need and that are no secret."""
        named = {HOME_VARIABLE: str(self.home), LAKE_VARIABLE: self.lake}
        if self.has_postgres:
            named["DAGSTER_EVENT_BATCH_SIZE"] = "500"
        return named

    @property
    def is_in_folder(self) -> bool:
        """Whether the lake is a folder, which containers must see at the same path."""
        return "://" not in self.lake


def site_of(lake: str, umask: int, has_postgres: bool) -> Site:
    """The site of the user and the Python that run this. Raises SettingsError where DAGSTER_HOME
    names no absolute folder."""
    home = os.environ.get(HOME_VARIABLE, "")
    if not Path(home).is_absolute():
        culprit = f"it is {home!r}, no absolute folder" if home else "it is not set"
        raise SettingsError(
            f"the variable {HOME_VARIABLE}",
            culprit,
            "No file was made",
            "Set it to the folder that holds dagster.yaml for all three processes",
        )
    programs = Path(sysconfig.get_path("scripts"))
    return Site(
        lake=lake,
        home=Path(home),
        user=getpass.getuser(),
        programs=programs,
        umask=umask,
        has_postgres=has_postgres,
    )


@dataclass(frozen=True)
class Program:
    """One of the three processes."""

    name: str  # of its unit and its service: `lake-NAME.service`, NAME
    meaning: str
    words: Sequence[str]  # its command, the program's name first
    variables: Mapping[str, str]  # which it alone needs


def programs_of(site: Site, host: str) -> tuple[Program, Program, Program]:
    """The code server, the web server and the daemon; the first two listen on `host`."""
    workspace = ("-w", str(site.home / "workspace.yaml"))
    return (
        Program(
            name="code",
            meaning="Code server of the lake",
            words=(
                "dagster",
                "code-server",
                "start",
                "-m",
                DEFINITIONS_MODULE,
                "-h",
                host,
                "-p",
                str(site.code_port),
            ),
            variables={},
        ),
        Program(
            name="web",
            meaning="Dagster's pages of the lake",
            words=("dagster-webserver", *workspace, "-h", host, "-p", str(site.web_port)),
            variables={},
        ),
        Program(
            name="daemon",
            meaning="Dagster's daemon of the lake",
            words=("dagster-daemon", "run", *workspace),
            variables={KEEPS_BACKFILLS: "1"},
        ),
    )


def workspace_text(site: Site, host: str) -> str:
    """`workspace.yaml` for a code server on `host`."""
    server = {"host": host, "port": site.code_port, "location_name": "lake"}
    return _yaml_text({"load_from": [{"grpc_server": server}]})


def _yaml_text(document: dict[str, Any]) -> str:
    """A document of YAML, its keys in the order given."""
    return str(yaml.safe_dump(document, sort_keys=False, width=100))


def unit_files(site: Site) -> dict[str, str]:
    """Three units of systemd and the workspace that they share, text by file name."""
    units = {
        f"lake-{program.name}.service": _unit_text(site, program)
        for program in programs_of(site, LOOPBACK)
    }
    return {**units, "workspace.yaml": workspace_text(site, LOOPBACK)}


def _unit_text(site: Site, program: Program) -> str:
    """A unit of systemd. The web server and the daemon start after the code server, and stay while
    it is away."""
    first = programs_of(site, LOOPBACK)[0].name
    after = "" if program.name == first else f" lake-{first}.service"
    command = (str(site.programs / program.words[0]), *program.words[1:])
    variables = {**site.environment, **program.variables}
    lines = [
        "[Unit]",
        f"Description={program.meaning}",
        f"After=network-online.target{after}",
        "Wants=network-online.target",
        "",
        "[Service]",
        f"User={site.user}",
        f"WorkingDirectory={_escaped_specifiers(str(site.home))}",
        *(f"Environment={_unit_word(f'{name}={value}')}" for name, value in variables.items()),
        "# Secrets, NAME=value a line; the minus: the file may be missing.",
        f"EnvironmentFile=-{_escaped_specifiers(str(site.home / SECRETS_FILE))}",
        f"ExecStart={' '.join(_unit_word(word).replace('$', '$$') for word in command)}",
        "Restart=always",
        f"RestartSec={RESTART_SECONDS}",
        f"TimeoutStopSec={STOP_SECONDS}",
        f"UMask={site.umask:04o}",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _escaped_specifiers(text: str) -> str:
    """A text in which systemd sees no specifier (`%n`); systemd.unit(5)."""
    return text.replace("%", "%%")


def _unit_word(word: str) -> str:
    """One word of a line of systemd, in quotes where it has blanks or quotes; systemd.syntax(7)."""
    escaped = _escaped_specifiers(word.replace("\\", "\\\\").replace('"', '\\"'))
    needs_quotes = escaped != word or any(sign.isspace() or sign == "'" for sign in word)
    return f'"{escaped}"' if needs_quotes else escaped


def container_files(site: Site) -> dict[str, str]:
    """A Dockerfile, a compose file, and the workspace for containers, text by file name."""
    return {
        "Dockerfile": _image_text(),
        "compose.yaml": _compose_text(site),
        "workspace.yaml": workspace_text(site, "code"),
    }


def _image_text() -> str:
    """The image of all three containers: this release of the package from a wheel that lies beside
    the file, with Java, and Dagster's PostgreSQL of the installed Dagster."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    wheel = f"backfill_assets-{version('backfill-assets')}-py3-none-any.whl"
    return (
        "# The image of the code server, the web server and the daemon. "
        f"Put {wheel} beside this file.\n"
        f"FROM python:{python}-slim\n"
        f"COPY {wheel} /tmp/\n"
        f'RUN pip install --no-cache-dir "/tmp/{wheel}[java,stores,postgres]" \\\n'
        f"    dagster=={version('dagster')} dagster-webserver=={version('dagster-webserver')} \\\n"
        f"    dagster-postgres=={_release_of_integrations()}\n"
    )


def _release_of_integrations() -> str:
    """The release of Dagster's integrations that goes with the installed Dagster: `0.29.27` for
    1.13.27; they are released together, sixteen minor numbers apart."""
    _, minor, patch = version("dagster").split(".")[:3]
    return f"0.{int(minor) + 16}.{patch}"


def _compose_text(site: Site) -> str:
    """Three services that see the lake's folder and the home at the paths that they have here, so
    that what is recorded of a path is true inside and outside. They run as the user of this site,
    whose files they write."""
    folders = [str(site.home), *([site.lake] if site.is_in_folder else [])]
    services: dict[str, dict[str, Any]] = {
        program.name: {
            "build": ".",
            "init": True,
            "user": f"{os.geteuid()}:{os.getegid()}",
            "command": [_plain_word(word) for word in program.words],
            "environment": {
                name: _plain_word(value) for name, value in _container_variables(site, program)
            },
            "env_file": [{"path": str(site.home / SECRETS_FILE), "required": False}],
            "volumes": [f"{_plain_word(folder)}:{_plain_word(folder)}" for folder in folders],
            "working_dir": _plain_word(str(site.home)),
            "restart": "always",
            "stop_grace_period": f"{STOP_SECONDS}s",
        }
        for program in programs_of(site, EVERY_INTERFACE)
    }
    # On the loopback of the host: Dagster's web server knows no users.
    services["web"]["ports"] = [f"{LOOPBACK}:{site.web_port}:{site.web_port}"]
    return _yaml_text({"name": "lake", "services": services})


def _container_variables(site: Site, program: Program) -> list[tuple[str, str]]:
    """The variables of a container. HOME is the one folder that lasts: Delta's jars are kept
    there."""
    return [*{**site.environment, **program.variables, "HOME": str(site.home)}.items()]


def _plain_word(text: str) -> str:
    """A text in which compose sees no variable (`$NAME`)."""
    return text.replace("$", "$$")
