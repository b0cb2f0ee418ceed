"""Runs a command inside the project's own environment, which it makes first if need be: `python3
.ci/env.py COMMAND …`.

Lives here: making and refreshing `.venv` in the checkout from the lock (`requirements.txt`, every
file by its hash), with nothing but Python 3.11.5+ and `venv`; $BACKFILL_ASSETS_VENV names another
folder, for another Python beside it. Does not live here: what is locked (`pyproject.toml`) and
where packages come from, which is pip's own configuration. Safe to interrupt and to run twice at
once. Everything it says goes to
stderr. Annotations are quoted and the grammar is old, so that a Python that is too old gets as far
as being told so.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
LOCK = CHECKOUT / ".ci" / "requirements.txt"
PROJECT = CHECKOUT / "pyproject.toml"
VENV = CHECKOUT / os.environ.get("BACKFILL_ASSETS_VENV", ".venv")
STAMP = VENV / "env-stamp.txt"
BIN = VENV / "bin"

OLDEST_PYTHON = (
    3,
    11,
    5,
)  # before, `re` matches possessive quantifiers wrongly: parsers would lose rows
BUILDERS = ("setuptools",)
SOURCE_ONLY = (
    "pyspark",
)  # the index has no wheel of these, so they are built here, with the locked builders
AS_WHEELS = ("--only-binary", ":all:")
# A wheel that is unpacked at once and thrown away is not worth pressing: half of the seconds of
# building pyspark's.
AS_SOURCES = ("--no-build-isolation", "--config-settings=--build-option=--compression=stored")
NEWS = re.compile(
    r"\s*(Downloading .*\(\d+(?:\.\d+)? (?:MB|GB)\)|Building wheel for .*|Installing collected "
    r"packages)"
)


def say(text: str) -> None:
    """Tell the person who waits; on stderr, so that the command's own output stays clean."""
    sys.stderr.write(f"env: {text}\n")  # at once: two pips are told of
    sys.stderr.flush()


def give_up(text: str) -> None:
    """End the program with a message that says what to do; exit code 1."""
    sys.exit(f"env: {text}")


def base_python() -> str:
    """The interpreter to build on: never one inside a virtual environment, which may be the one
    that is rebuilt."""
    inside = sys.prefix != sys.base_prefix
    return os.path.realpath(sys.executable) if inside else sys.executable


def check_python() -> None:
    """Refuse, with what to install, an interpreter that cannot make the environment."""
    if sys.version_info < OLDEST_PYTHON:
        give_up(
            f"needs Python 3.11.5 or newer, this is {sys.version.split()[0]}. Run it with a newer "
            "one, e.g. python3.12."
        )
    if os.name != "posix":
        give_up("needs Linux or macOS (or WSL on Windows).")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        give_up(
            f"this Python {version} lacks the modules venv and ensurepip. Nothing was installed. "
            "On Debian and Ubuntu: "
            f"apt-get install python{version}-venv; elsewhere use a Python from python.org, pyenv "
            "or conda."
        )


def wanted_stamp() -> "dict[str, str]":
    """What the environment must have been made from: interpreter, place, lock and project file."""
    python = f"{sys.implementation.cache_tag} {sys.version.split()[0]} {sys.platform} {VENV}"
    return {
        "python": hashlib.sha256(python.encode()).hexdigest(),
        "lock": hashlib.sha256(LOCK.read_bytes()).hexdigest(),
        "project": hashlib.sha256(PROJECT.read_bytes()).hexdigest(),
    }


def found_stamp() -> "dict[str, str]":
    """What the environment says it was made from; empty when there is none, or its making was
    interrupted."""
    try:
        lines = STAMP.read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(" ", 1) for line in lines if " " in line)


def write_stamp(stamp: "dict[str, str]") -> None:
    """Declare the environment complete, in one step and last of all."""
    part = STAMP.with_suffix(".part")
    part.write_text("".join(f"{name} {value}\n" for name, value in stamp.items()))
    part.replace(STAMP)


@contextmanager
def only_one() -> "Iterator[int]":
    """Hold the checkout's install lock: a second caller waits, and finds the work done.

    Gives the lock's file descriptor for children to inherit: what outlives a killed parent still
    holds the lock.
    """
    import fcntl  # not at the top: check_python says it better where there is none

    handle = os.open(LOCK.parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is setting this environment up, waiting for it …")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def split_lock() -> "tuple[str, str, str]":
    """The lock's entries that build others, those that have to be built, and the rest, which come
    as wheels."""
    entries = re.findall(r"^[A-Za-z0-9][^\n]*\n(?:[ \t][^\n]*\n)*", LOCK.read_text(), re.MULTILINE)
    parts = {BUILDERS: "", SOURCE_ONLY: "", (): ""}
    for entry in entries:
        name = re.split(r"[=\[; ]", entry, maxsplit=1)[0]
        parts[next((names for names in parts if name in names), ())] += entry
    return parts[BUILDERS], parts[SOURCE_ONLY], parts[()]


def child_env() -> "dict[str, str]":
    """The caller's environment as an activated virtual environment would change it."""
    env = {
        **os.environ,
        "VIRTUAL_ENV": str(VENV),
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    env.pop("PYTHONHOME", None)
    return env


def pip(lock: int, *args: str) -> None:
    """Run pip in the environment, showing what takes long, and its last words when it fails; no
    word of indexes."""
    command = [
        str(BIN / "python"),
        "-I",
        "-m",
        "pip",
        "--no-input",
        "--disable-pip-version-check",
        *args,
    ]
    env = {**child_env(), "PIP_USER": "0", "PIP_PROGRESS_BAR": "off"}
    said: list[str] = []
    with subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=(lock,),
    ) as process:
        for line in process.stdout or ():
            said.append(line)
            news = NEWS.match(line)
            if news:
                say(f"  {news[1]}")
    if process.returncode:
        sys.stderr.writelines(said[-40:])
        give_up(
            f"pip could not finish (exit code {process.returncode}, its words are above). Run the "
            "same command again."
        )


def install_locked(lock: int) -> None:
    """Fill the new environment with exactly what the lock lists: what builds, then the rest, beside
    what is built.

    pip does one thing after the other, so that each leaves a processor idle; compiling, a third of
    the work, uses all.
    """
    builders, sources, wheels = split_lock()
    install_part(lock, "builders", builders, *AS_WHEELS)
    with ThreadPoolExecutor(1) as beside:
        built = beside.submit(install_part, lock, "sources", sources, *AS_SOURCES)
        install_part(lock, "wheels", wheels, *AS_WHEELS)
        built.result()  # what failed there is raised here
    packages = sysconfig.get_path("purelib", "venv", vars={"base": str(VENV)})
    compiling = [
        str(BIN / "python"),
        "-I",
        "-m",
        "compileall",
        "-qq",
        "-j",
        "0",
        "-x",
        "/tests?/",
        packages,
    ]
    # Nobody imports packages' own tests, a quarter of all. Templates in packages, which are no
    # Python, are no failure.
    subprocess.run(
        compiling, stdin=subprocess.DEVNULL, stdout=sys.stderr, pass_fds=(lock,), check=False
    )


def install_part(lock: int, name: str, text: str, *how: str) -> None:
    """Install some entries of the lock; nothing where there are none."""
    if text:
        part = VENV / f"locked-{name}.txt"
        part.write_text(text)
        say(
            f"installing the locked {name} "
            f"({len(re.findall(r'^[A-Za-z0-9]', text, re.MULTILINE))} packages) …"
        )
        pip(lock, "install", "--no-deps", "--no-compile", "--require-hashes", *how, "-r", str(part))


def make(lock: int, found: "dict[str, str]", wanted: "dict[str, str]") -> None:
    """Bring the environment to the wanted state: a new one, unless only the project's own file
    changed."""
    began = time.monotonic()
    STAMP.unlink(missing_ok=True)
    if any(found.get(part) != wanted[part] for part in ("python", "lock")):
        say(
            f"making {VENV.name} in {CHECKOUT} (750 MB to fetch the first time: one to several "
            "minutes) …"
        )
        if VENV.is_symlink() or VENV.is_file():
            VENV.unlink()
        if subprocess.run(
            [base_python(), "-I", "-m", "venv", "--clear", str(VENV)], check=False
        ).returncode:
            give_up(
                f"Python could not make {VENV.name}, its words are above. Nothing else was changed."
            )
        install_locked(lock)
    say("installing the project itself …")
    pip(
        lock,
        "install",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--editable",
        str(CHECKOUT),
    )
    write_stamp(wanted)
    say(f"ready after {time.monotonic() - began:.0f} s.")


def run(command: "list[str]") -> None:
    """Become the command, found in the environment first; the caller's directory stays."""
    env = child_env()
    program = shutil.which(command[0], path=env["PATH"])
    if program is None:
        give_up(f"{command[0]}: no such command in {VENV.name} or on PATH.")
        return
    sys.stdout.flush()
    os.execve(program, [program, *command[1:]], env)  # noqa: S606


def main(command: "list[str]") -> None:
    """Make sure of the environment, then run the command in it; without a command, only the
    first."""
    check_python()
    if found_stamp() != wanted_stamp():
        with only_one() as lock:
            found, wanted = found_stamp(), wanted_stamp()
            if found != wanted:
                make(lock, found, wanted)
    if command:
        run(command)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit("\nenv: interrupted. Run the same command again: it starts the set-up afresh.")
