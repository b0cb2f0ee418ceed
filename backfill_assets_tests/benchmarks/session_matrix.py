"""Whether anything of the session enters a row: every function of an engine and many literals, on
two servers.

Lives here: the expressions, the two servers (another clock, account, host, locale, zone, home and
folder) and what they answer otherwise. Does not live here: what `select` refuses (`intake.select`,
`intake.session_free`), which is asked first: what it refuses is not run; and names that no column
bears, which `intake.test_session_free` tries. Needs a C compiler, for the other clock.

usage: python -m backfill_assets_tests.benchmarks.session_matrix [embedded|sail] ...
"""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from backfill_assets.engines.abilities import Engine
from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.server import engine_named, stop_server
from backfill_assets.engines.session import open_session
from backfill_assets.intake.select import NOT_PARSED, refuse_beyond_the_row, select_expressions
from backfill_assets.intake.session_free import clock_fault, guarded_text
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.processes import CHECKOUT

FUNCTIONS = Path(__file__).parents[1] / "intake" / "functions_of_engines.txt"
LANDED = [("10:30:00", "now", "Europe/Berlin", '{"x": "10:30:00"}', 1, 1.5)]
ROW = [
    "*",
    "TIMESTAMP '2020-01-01 00:00:00' AS at",
    "DATE '2020-01-01' AS d",
    "array(t) AS a",
    "map('x', t) AS m",
    "array(TIMESTAMP '2020-01-01 00:00:00') AS ats",
    "struct(t AS t) AS s",
]
AT_ONCE = 50
NOW = "lower('NOW')"
GIVEN = (
    "",
    "t",
    "w",
    "at",
    "d",
    "n",
    "f",
    "j",
    NOW,
    *map(", ".join, itertools.permutations(("t", "at", "n", NOW), 2)),
    "at, z",
    f"z, {NOW}",
    f"d, {NOW}",
    "t, 'HH:mm:ss'",
    "j, 'x timestamp'",
    "n, t, at",
    "t, at, n",
    "at, t, n",
    "DAY, 1, t",
    f"DAY, 1, {NOW}",
    "'UTC', 'UTC', t",
    f"'UTC', 'UTC', {NOW}",
    "n, 1, t, at",
    "n, 1, at, t",
    "at, at, at",
    "parse_json(j), '$.x', concat('time', 'stamp')",
)
OF_ARRAYS = (
    "a",
    "ats",
    "m",
    "array(at, a[0])",
    "a, at",
    "ats, t",
    "ats, a",
    "array(at), array(t)",
    "map('x', at), m",
    "map(at, 1), t",
    "a, x -> coalesce(x, at)",
    "a, x -> x > at",
    "m, (k, v) -> coalesce(v, at)",
    "a, at, (x, y) -> y",
    "array(at), a, (x, y) -> coalesce(x, y)",
    "map('k', at), map('k', t), (k, x, y) -> coalesce(x, y)",
    "ats, 1, t",
)
TAKE_ARRAYS = re.compile(
    r"array|map|zip|concat|sequence|transform|filter|exists|forall|aggregate|reduce|element|get$"
)
LITERALS = [
    f"{kind} '{text}'"
    for kind in ("TIMESTAMP", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "")
    for text in (
        "now",
        "today",
        "10:30:00",
        "T10:30",
        "epoch",
        "2024-03-01 10:30:00",
        "2024-03-01 10:30:00 PST",
    )
]
FORMS = [
    "cast({} AS {})",
    "try_cast({} AS {})",
    "cast(struct({0} AS x) AS struct<x: {1}>).x",
    "coalesce({}, cast(n AS {}))",
    "cast(array({0}) AS array<{1}>)[0]",
    "from_json(concat('\"', {}, '\"'), '{}')",
    "to_json(struct(cast({} AS {})))",
]
CASTS = [
    form.format(value, kind)
    for form, value, kind in itertools.product(
        FORMS,
        ("t", "w", NOW, "a[0]", "m['x']", "s.t", "parse_json(j):x::string"),
        ("timestamp", "date", "time"),
    )
]
OPERATORS = [
    f"{x} {op} {y}"
    for op in ("+", "-", "=", "<", "<=>", "||", "IN", "LIKE", "BETWEEN '2020-01-01' AND")
    for x, y in (
        ("at", "(t)"),
        ("d", "(t)"),
        ("at", f"({NOW})"),
        ("d", f"({NOW})"),
        ("(t)", "INTERVAL '1' DAY"),
    )
]
OTHER = {
    "TZ": "Asia/Kathmandu",
    "LANG": "tr_TR.UTF-8",
    "LC_ALL": "tr_TR.UTF-8",
    "USER": "ada",
    "LOGNAME": "ada",
    "JAVA_TOOL_OPTIONS": "-Duser.name=ada -Duser.language=tr -Duser.country=TR "
    "-Duser.timezone=Asia/Kathmandu",
}
# 1,500 days ago: a wait until a moment of such a clock ends at once, and not in years. faketime
# breaks Python's sleep.
CLOCK = """#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t c, struct timespec *t) {
  int r = syscall(SYS_clock_gettime, c, t);
  if (!r && (c == CLOCK_REALTIME || c == CLOCK_REALTIME_COARSE)) t->tv_sec -= 1500L * 86400;
  return r;
}
time_t time(time_t *t) { struct timespec s; clock_gettime(CLOCK_REALTIME, &s); if (t) *t = s.tv_sec; return s.tv_sec; }
int gettimeofday(struct timeval *t, void *z) {
  struct timespec s; clock_gettime(CLOCK_REALTIME, &s); t->tv_sec = s.tv_sec; t->tv_usec = s.tv_nsec / 1000; return 0;
}"""


def candidates() -> Iterator[str]:
    """Every expression that is tried, in `select` or in a declared column."""
    yield from [
        *LITERALS,
        *CASTS,
        *OPERATORS,
        "CASE at WHEN t THEN 1 END",
        "a[0] + INTERVAL '1' DAY",
    ]
    for name in (n for n in FUNCTIONS.read_text("utf-8").split() if re.fullmatch(r"\w+", n)):
        if name == "map" or not refused(f"{name}(t, t)"):
            yield from (
                f"{name}({given})"
                for given in (*GIVEN, *(OF_ARRAYS if TAKE_ARRAYS.search(name) else ()))
            )


def refused(text: str) -> bool:
    """Whether `select` refuses an expression by its functions, whatever the columns are."""
    try:
        refuse_beyond_the_row(f"{text} AS x")
    except SettingsError:
        return True
    return False


def let_through(text: str, types: dict[str, str], engine: Engine) -> str:
    """The expression as `select` computes it; empty where it refuses it, or the engine would not be
    asked."""
    if refused(text):
        return ""
    try:
        (written,) = select_expressions(f"{text} AS x")
        if clock_fault(written, types) or engine.differences(written, types, landed=True):
            return ""
    except (SettingsError, *NOT_PARSED):
        return ""
    return guarded_text(written, types).removesuffix(" AS x")


def answers(engine: str, lake: Path, asked: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each expression that the engine takes, with its value as text. None asked: all that `select`
    lets through."""
    from pyspark.errors import PySparkException

    session, own = open_session(lake, EngineSettings(engine, memory="2g")), engine_named(engine)
    if (
        own.catches_errors
    ):  # else an expression that occurs twice is computed ahead, where nothing catches its error
        session.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    landed = session.createDataFrame(
        LANDED, "t string, w string, z string, j string, n bigint, f double"
    )
    row = landed.selectExpr(*ROW)
    types = {n.lower(): k for n, k in row.dtypes}
    known = list(asked) or [
        made for text in candidates() if (made := let_through(text, types, own))
    ]
    taken = []
    for text in known:
        with suppress(PySparkException):  # it cannot be analysed, as most
            if asked or row.selectExpr(as_bytes(text, own)).schema:
                taken.append(text)
    size = AT_ONCE if own.catches_errors else 1
    for start in range(0, len(taken), size):
        some = taken[start : start + size]
        try:
            given = row.selectExpr(*(as_bytes(text, own) for text in some)).collect()[0]
        except PySparkException as error:
            yield from ((text, f"error: {type(error).__name__}") for text in some)
            continue
        yield from (
            (text, "" if v is None else bytes(v).decode("utf-8", "replace"))
            for text, v in zip(some, given, strict=True)
        )


def as_bytes(text: str, engine: Engine) -> str:
    """The value as text in bytes; NULL where evaluating it raises, on an engine that catches
    errors."""
    told = f"to_json(struct({text} AS x))"
    return f"try_to_binary({told}, 'utf-8')" if engine.catches_errors else f"cast({told} AS binary)"


def asked_of_another(
    engine: str, folder: Path, asked: Sequence[str], other: dict[str, str]
) -> dict[str, str]:
    """The answers of a server that a process of its own starts, under this environment, in a folder
    of its own."""
    lake = folder / ("other" if other else "one")
    lake.mkdir()
    (folder / "asked.json").write_text(json.dumps(list(asked)), "utf-8")
    own = {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), *sys.path[1:]])}
    if other:
        clock = folder / "clock.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-xc", "-", "-o", str(clock)],
            input=CLOCK,
            text=True,
            check=True,
        )
        own |= {
            **other,
            "HOME": str(lake),
            "XDG_CACHE_HOME": str(Path.home() / ".cache"),
            "LD_PRELOAD": str(clock),
        }
    host = (
        ["unshare", "-u", "sh", "-c", 'hostname faraway; exec "$@"', "-"]
        if other and os.geteuid() == 0
        else []
    )
    part = [
        *host,
        sys.executable,
        "-m",
        "backfill_assets_tests.benchmarks.session_matrix",
        "--part",
        engine,
    ]
    subprocess.run(
        [*part, str(lake), str(folder / "asked.json")],
        check=True,
        cwd=lake,
        env={**os.environ, **own},
    )
    return dict(json.loads((lake / "answers.json").read_text("utf-8")))


def main(engines: Sequence[str]) -> int:
    """Print, by engine, how many expressions were run, and each that two servers answer otherwise;
    1 if any did."""
    failed = False
    for engine in engines:
        with tempfile.TemporaryDirectory(prefix="matrix") as name:
            first = asked_of_another(engine, Path(name), [], {})
            second = asked_of_another(engine, Path(name), list(first), OTHER)
        differing = [text for text, answer in first.items() if second[text] != answer]
        values = sum(a not in ("", "{}") for a in first.values())
        print(
            f"{engine}: {len(first)} expressions run, {values} of them values, {len(differing)} "
            "differ",
            flush=True,
        )
        for text in differing:
            print(f"  {text}\n      {first[text][:150]} | {second[text][:150]}")
        failed |= bool(differing)
    return int(failed)


def part(engine: str, lake: Path, asked: Path) -> None:
    """What one process does: ask a server of its own, write the answers beside it, and stop it."""
    try:
        made = list(answers(engine, lake, json.loads(asked.read_text("utf-8"))))
        (lake / "answers.json").write_text(json.dumps(made), "utf-8")
    finally:
        stop_server(lake, force=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--part"]:
        part(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        sys.exit(main(sys.argv[1:] or ["embedded", "sail"]))
