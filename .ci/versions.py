"""Runs quick tests, known answers and demo with other versions than the lock's:
`python3 .ci/versions.py`, or with `oldest`, `newest` or `client` one set of them alone.

Lives here: `oldest`, every package at the floor that `pyproject.toml` states, on the oldest Python
of this machine that is new enough; `newest`, the newest set that pip finds, on the newest Python;
`client`, the lock with `pyspark-client` in place of pyspark and Delta, where the door is tried
without Spark. Each in an environment of its own, `.venv-oldest` and so on, made anew; a table of
what was tried ends it. Without a word it tries the first two, each in a process of its own. The
known answers (`end_to_end/test_golden.py`) start Spark, which may fetch Delta's jars; those of data
that lie beside a checkout are skipped where there are none. Does not live here: the lock's own
(`env.py`).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

BOTH = ("oldest", "newest")
KINDS = (*BOTH, "client")
KIND = sys.argv[1] if len(sys.argv) == 2 else ""
os.environ["BACKFILL_ASSETS_VENV"] = f".venv-{KIND}"  # env.py reads it as it is imported

from env import (  # noqa: E402
    BIN,
    CHECKOUT,
    OLDEST_PYTHON,
    PROJECT,
    VENV,
    base_python,
    check_python,
    child_env,
    give_up,
    say,
    split_lock,
)

FLOOR = re.compile(r"^([\w.-]+(?:\[[\w,-]+\])?)\s*>=\s*([\w.]+)")
WITHOUT_CLIENT = ("pyspark", "delta-spark")
CLIENT = "pyspark-client"


def pythons() -> "dict[tuple[int, ...], str]":
    """The interpreters of this machine that are new enough, by version: on the path, of pyenv, and
    this one."""
    asked = "import sys; print(*sys.version_info[:3])"
    on_path = [shutil.which(f"python3.{minor}") or "" for minor in range(11, 30)]
    of_pyenv = Path.home().glob(".pyenv/versions/3.*/bin/python3")
    found = {}
    for program in (*filter(None, on_path), *map(str, of_pyenv), base_python()):
        told = subprocess.run([program, "-c", asked], capture_output=True, text=True, check=False)
        version = tuple(map(int, told.stdout.split()))
        if version >= OLDEST_PYTHON:
            found[version] = program
    return found


def chosen_python() -> str:
    """The interpreter that this kind is tried on."""
    known = pythons()
    choice = {"oldest": min(known), "newest": max(known)}.get(KIND)
    return known[choice] if choice else base_python()


def wanted() -> "list[str]":
    """What the package and all its extras ask for."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    return [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]


def tools() -> "list[str]":
    """What the tests need beside them."""
    tools: list[str] = tomllib.loads(PROJECT.read_text())["dependency-groups"]["dev"]
    return tools


def floors() -> "list[str]":
    """The same, each package at its floor."""
    found = [FLOOR.match(line) for line in wanted()]
    return [f"{match[1]}=={match[2]}" for match in found if match]


def pip(*args: str, text: str = "") -> None:
    """Run pip in the environment, with `text` as its list of packages; ends the program where it
    fails."""
    command = [
        str(BIN / "python"),
        "-I",
        "-m",
        "pip",
        "--no-input",
        "--disable-pip-version-check",
        "-q",
        *args,
    ]
    if text:
        (VENV / "packages.txt").write_text(text)
        command += ["-r", str(VENV / "packages.txt")]
    if subprocess.run(command, env=child_env(), stdin=subprocess.DEVNULL, check=False).returncode:
        give_up(f"pip could not finish {' '.join(args)}. Nothing was tried.")


def make() -> None:
    """Make the environment of this kind, with the project in it."""
    python = chosen_python()
    say(f"making {VENV.name} by {python} …")
    subprocess.run([python, "-I", "-m", "venv", "--clear", str(VENV)], check=True)
    if KIND == "client":
        *others, wheels = split_lock()
        entries = re.findall(
            r"^[A-Za-z0-9][^\n]*\n(?:[ \t][^\n]*\n)*", others[0] + wheels, re.MULTILINE
        )
        kept = [e for e in entries if re.split(r"[=\[; ]", e, maxsplit=1)[0] not in WITHOUT_CLIENT]
        pip("install", "--no-deps", "--require-hashes", text="".join(kept))
        pip("install", "--no-deps", CLIENT)
    else:
        pip("install", text="\n".join([*(floors() if KIND == "oldest" else wanted()), *tools()]))
    pip("install", "--no-deps", "--no-index", "--no-build-isolation", "--editable", str(CHECKOUT))


def tell() -> None:
    """Print the versions that are tried."""
    names = {re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in [*wanted(), CLIENT]}
    command = [
        str(BIN / "python"),
        "-I",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "list",
        "--format=freeze",
    ]
    listed = (
        subprocess.run(command, capture_output=True, text=True, check=True)
        .stdout.lower()
        .replace("_", "-")
        .split()
    )
    print(f"{KIND}:", *(line for line in listed if line.split("==")[0] in names), flush=True)


def trials(folder: str) -> "dict[str, list[str]]":
    """The commands that have to succeed there, by what they try."""
    tests = [str(BIN / "pytest"), "-q", f"--basetemp={folder}/pytest"]
    if KIND == "client":
        door = [*tests, "-n0", "-m", "not spark", "backfill_assets_tests/dagster"]
        return {"door without Spark": door}
    golden = "backfill_assets_tests/end_to_end/test_golden.py"
    return {
        "quick tests": [*tests, "-m", "quick"],
        "known answers": [*tests, "-n0", golden],
        "demo": [str(BIN / "backfill-assets"), "demo", "--lake", f"{folder}/lake"],
    }


def try_all(folder: str) -> int:
    """Run every trial, whichever failed, and print a line of each; 1 where one of them failed."""
    failed, lines = 0, []
    for name, command in trials(folder).items():
        began = time.monotonic()
        code = subprocess.run(command, cwd=CHECKOUT, env=child_env(), check=False).returncode
        failed = failed or int(code != 0)
        verdict = f"FAILED (exit code {code})" if code else "ok"
        lines.append(f"{KIND:8} {name:20} {time.monotonic() - began:6.0f} s  {verdict}")
    print("", *lines, sep="\n", flush=True)
    return failed


def main() -> int:
    """Make the environment, try the commands in it; 1 where one of them failed."""
    check_python()
    if len(sys.argv) == 1:
        return max(subprocess.call([sys.executable, __file__, kind]) for kind in BOTH)
    if KIND not in KINDS:
        give_up(f"say which: python3 .ci/versions.py [{'|'.join(KINDS)}]")
    make()
    tell()
    with tempfile.TemporaryDirectory() as folder:
        return try_all(folder)


if __name__ == "__main__":
    sys.exit(main())
