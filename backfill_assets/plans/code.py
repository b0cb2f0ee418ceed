"""The older code of a plan (`plan --code REF`): the pipeline's files of one git commit, frozen in
the lake.

Elsewhere: which files these are (`[pipeline]` in lake.toml), reading them (`pipeline`), pins
(`preflight`).

Frozen are the pipeline file, the files beside it that it imports, directly or through others, and
the SQL files, in a folder named by a digest over them; installed packages are today's. Environment
variables override the lake's settings for the plan's processes, so that they all find the older
tables. Such days show as outdated under today's code.
"""

import contextlib
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

from backfill_assets.kernel.core.addresses import bucket_address
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.port import AlreadyThere, Place
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.plans.files import PLANS_FOLDER
from backfill_assets.plans.model import PlanCode

OVERRIDE, OVERRIDE_SQL = "BACKFILL_ASSETS__PIPELINE__TABLES", "BACKFILL_ASSETS__PIPELINE__SQL"
FROZEN_FOLDER = "code"  # of frozen files, below the folder of plans
SUFFIXES = (".py", ".sql")
DIGEST_CHARS = 16
GIT_SECONDS = 30.0  # of one call; the file system may be slow
COMMIT_IT = "Commit the file, and name a commit, branch or tag that holds it"
# A Python file and all that it imports from beside it, itself first.
Reach = Callable[[Path], tuple[Path, ...]]
Files = Mapping[str, bytes]  # content by path below the frozen folder


def pin_code(lake: Lake, ref: str, reached: Reach) -> PlanCode:
    """Freeze the files that make the lake's tables as of `ref` (commit, branch or tag); `reached`
    (of `pipeline.own_files`) gives a file and its imports.

    Raises BackfillError if git has no such files at `ref`.
    """
    pipeline = lake.settings.pipeline
    place, _, name = (pipeline.tables or "").rpartition(":")
    _refuse_unversioned(lake, place)
    python = (lake.root / place).resolve() if place else None
    queries = _absolute_pattern(lake.root, pipeline.sql) if pipeline.sql else None
    folder = _git_top_folder([path for path in (python, queries) if path is not None])
    named_so = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    commit = _git_output(folder, *named_so).decode().strip()
    files, tables, sql = set[Path](), "", ""
    with _exported_commit(folder, commit) as export:
        if python is not None:
            tables = os.path.relpath(python, folder)
            files |= _python_files(export / tables, python, ref, reached)
        if queries is not None:
            sql = os.path.relpath(queries, folder)
            files |= _queries(export, sql, f"{folder / sql} at {ref}")
        contents = {file.relative_to(export).as_posix(): file.read_bytes() for file in files}
        digest = _freeze_files(lake.place, contents)
    frozen = f"{PLANS_FOLDER}/{FROZEN_FOLDER}/{digest}"
    return PlanCode(
        ref=ref,
        commit=commit,
        tables=f"{frozen}/{tables}:{name}" if tables else "",
        sql=f"{frozen}/{sql}" if sql else "",
        digest=digest,
        files=len(files),
    )


def _queries(export: Path, pattern: str, named: str) -> set[Path]:
    """The exported SQL files of a pattern; an error names them as `named`."""
    found = {*export.glob(pattern)}
    if not found:
        raise _code_error(named, "git does not know such a file there", COMMIT_IT)
    return found


def _refuse_unversioned(lake: Lake, place: str) -> None:
    """Raise if git can have no older version of the tables of `lake`; `place` is the file or module
    that declares them, or empty."""
    pipeline = lake.settings.pipeline
    what = ""
    if place and not place.endswith(".py"):
        what = f"they are made by the module {place}"
    elif not place and not pipeline.sql:
        what = "they are those of this product"
    if what:
        raise _code_error(
            "the tables of this lake",
            f"{what}, no file beside lake.toml, so that there is no older version to take",
            "Install the older version in an environment of its own and plan there, or name a "
            "file of yours in "
            "`[pipeline] tables`",
        )
    if bucket_address(lake.root) and not Path(place or pipeline.sql or "").is_absolute():
        raise _code_error(
            f"the tables of {lake.address}",
            "git knows no file of a bucket",
            "Put the older files into a candidate (`candidate create`) and publish it, or name "
            "files of a repository "
            "on this machine in [pipeline], by absolute paths",
        )


def _absolute_pattern(root: Path, pattern: str) -> Path:
    """The pattern of the SQL files as an absolute one; links and `..` are resolved in front of its
    first wildcard."""
    *folders, name = Path(pattern).parts
    fixed = [*takewhile(lambda part: not set(part) & set("*?["), folders)]
    return root.joinpath(*fixed).resolve().joinpath(*folders[len(fixed) :], name)


def _git_top_folder(files: Sequence[Path]) -> Path:
    """The top folder of the git repository of the files (they need not exist); raises BackfillError
    for several."""
    places = [next(folder for folder in file.parents if folder.is_dir()) for file in files]
    tops = {_git_output(place, "rev-parse", "--show-toplevel").decode().strip() for place in places}
    if len(tops) > 1:
        why = (
            f"they lie in {len(tops)} git repositories ({', '.join(sorted(tops))}); one commit "
            "cannot hold both"
        )
        raise _code_error(
            "the pipeline file and the SQL files", why, "Move them into one repository"
        )
    return Path(tops.pop())


def _python_files(file: Path, today: Path, ref: str, reached: Reach) -> set[Path]:
    """The exported pipeline file and what it imports from beside it; `today` is that file now."""
    if not file.is_file():
        raise _code_error(str(today), f"git does not know it so: it is not in {ref}", COMMIT_IT)
    try:
        return {*reached(file)}
    except SyntaxError as error:
        where = f"line {error.lineno}: {error.msg}"
        raise _code_error(
            f"{today} at {ref}", f"it is no Python ({where})", "Name another commit"
        ) from None


@contextlib.contextmanager
def _exported_commit(folder: Path, commit: str) -> Iterator[Path]:
    """The Python and SQL files of a commit in the repository `folder`, in a temporary folder."""
    names = _git_output(folder, "ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0")
    suffixes = {Path(name).suffix for name in names}
    patterns = [f"*{suffix}" for suffix in SUFFIXES if suffix in suffixes]
    packed = _git_output(folder, "archive", "--format=tar", commit, "--", *(patterns or ["."]))
    with tempfile.TemporaryDirectory() as export, tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(export, [m for m in tar if m.isfile()], filter="data")
        yield Path(export).resolve()


def _freeze_files(lake: Place, files: Files) -> str:
    """Write the files into a folder named by a digest over them, and so never to anything else;
    gives the digest."""
    listed = [f"{sha256(content).hexdigest()} {name}\n" for name, content in sorted(files.items())]
    digest = sha256("".join(listed).encode()).hexdigest()[:DIGEST_CHARS]
    for name, content in files.items():
        with contextlib.suppress(AlreadyThere):  # also what a process that was killed has written
            path = f"{PLANS_FOLDER}/{FROZEN_FOLDER}/{digest}/{name}"
            lake.write(path, content, if_absent=True)
    return digest


@contextlib.contextmanager
def using_code(code: PlanCode | None) -> Iterator[None]:
    """Within, this process and its children open the lake with the tables of that code."""
    wanted = {OVERRIDE: code.tables, OVERRIDE_SQL: code.sql} if code else {}
    before = {name: os.environ.get(name) for name, value in wanted.items() if value}
    os.environ.update({name: wanted[name] for name in before})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _git_output(folder: Path, *words: str) -> bytes:
    """The output of git in a folder; raises BackfillError if git fails."""
    path = str(folder)
    try:
        command = ("git", "-C", path, *words)
        result = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)
    except FileNotFoundError:
        raise _code_error(
            path, "git is not installed here", "Install git, or plan without --code"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        fix = "Try again, or plan with the file as it is"
        raise _code_error(path, f"git gave no answer ({error})", fix) from None
    if result.returncode:
        lines = result.stderr.decode(errors="replace").strip().splitlines()
        why = lines[0] if lines else f"{words[-1]} is no commit, branch or tag"
        raise _code_error(path, f"git does not know it so: {why}", COMMIT_IT)
    return result.stdout


def _code_error(what: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(what, culprit, "Nothing was planned", fix)
