"""Runs quick tests and demo with other versions than the lock's: `python3 .ci/versions.py
oldest|newest|client`.

Lives here: `oldest`, every package at the floor that `pyproject.toml` states; `newest`, the newest
set that pip finds; `client`, the lock with `pyspark-client` in place of pyspark and Delta, where
the door is tried without Spark. Each in an environment of its own, `.venv-oldest` and so on, made
anew. Does not live here: the lock's own (`env.py`).
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib

KINDS = ("oldest", "newest", "client")
KIND = sys.argv[1] if len(sys.argv) == 2 else ""
os.environ["BACKFILL_ASSETS_VENV"] = f".venv-{KIND}"  # env.py reads it as it is imported

from env import (  # noqa: E402
    BIN,
    CHECKOUT,
    PROJECT,
    VENV,
    base_python,
    check_python,
    child_env,
    give_up,
    say,
    split_lock,
)

FLOOR = re.compile(r"^([\w.-]+(?:\[[\w,]+\])?)\s*>=\s*([\w.]+)")
WITHOUT_CLIENT = ("pyspark", "delta-spark")
CLIENT = "pyspark-client"


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
    say(f"making {VENV.name} …")
    subprocess.run([base_python(), "-I", "-m", "venv", "--clear", str(VENV)], check=True)
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


def trials(folder: str) -> "list[list[str]]":
    """The commands that have to succeed there."""
    tests = [str(BIN / "pytest"), "-q", f"--basetemp={folder}/pytest"]
    if KIND == "client":
        return [[*tests, "-n0", "-m", "not spark", "backfill_assets_tests/dagster"]]
    return [
        [*tests, "-m", "quick"],
        [str(BIN / "backfill-assets"), "demo", "--lake", f"{folder}/lake"],
    ]


def main() -> int:
    """Make the environment, try the commands in it; 1 where one of them failed."""
    check_python()
    if KIND not in KINDS:
        give_up(f"say which: python3 .ci/versions.py {'|'.join(KINDS)}")
    make()
    tell()
    with tempfile.TemporaryDirectory() as folder:
        failed = [
            c
            for c in trials(folder)
            if subprocess.run(c, cwd=CHECKOUT, env=child_env(), check=False).returncode
        ]
    for command in failed:
        say(f"FAILED on the {KIND} versions: {' '.join(command)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
