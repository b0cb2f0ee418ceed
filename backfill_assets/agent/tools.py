"""The tools that an agent sees: reading a lake, and planning, each a function of plain arguments.

Here: their names, words and arguments, which are checked before a command gets them. Not here:
limits and harmless texts (`answers`), and the protocol (`agent_command`). No tool runs a plan,
releases, puts back, publishes or erases anything: a plan waits for a person, who gets its id.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_assets.agent.answers import command_answer
from backfill_assets.kernel.core.days import parse_day
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.texts import printable_text

NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
PLAN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")
NOTE_CHARS = 200
CHECKS_OF_DAY = (
    'SELECT "table", "check", day, outcome, what FROM system.checks '
    "WHERE \"table\" = '{table}' AND day = DATE '{day}'"
)


@dataclass(frozen=True)
class LakeTools:
    """The tools over the lake at an address."""

    lake: str

    def all(self) -> Mapping[Callable[..., dict[str, Any]], str]:
        """The tools, whose docstrings an agent reads, each with the command whose document it
        gives."""
        return {
            self.status: "status",
            self.why_stale: "status",
            self.show_day: "show",
            self.lateness: "lateness",
            self.query: "sql",
            self.explain_refusal: "sql",
            self.make_plan: "plan",
            self.list_plans: "plan list",
            self.show_plan: "plan show",
        }

    def status(self, first_day: str = "", last_day: str = "") -> dict[str, Any]:
        """States, rows and versions of the days (YYYY-MM-DD, both included; without them all) of
        every table: fresh, stale, missing, held, outdated, pending, incomplete."""
        return command_answer(self.lake, ["status"], given=_days(first_day, last_day))

    def why_stale(self) -> dict[str, Any]:
        """The stale days of every table, each with its reason, the input days that were written
        since, and the command with which a person rebuilds it."""
        return command_answer(self.lake, ["status"], given=["--stale", "--why"])

    def show_day(self, table: str, day: str) -> dict[str, Any]:
        """Receipt, inputs, landed files, quarantine and history of one day (YYYY-MM-DD) of a
        table."""
        return command_answer(self.lake, ["show"], given=[_table(table), _day(day)])

    def lateness(self) -> dict[str, Any]:
        """How late rows arrive, what a look-back of N days would miss, and up to which day tables
        may be believed."""
        return command_answer(self.lake, ["lateness"])

    def query(self, sql: str) -> dict[str, Any]:
        """Answer one SELECT of DuckDB's SQL over the lake's tables by name, and over system.days,
        system.writes, system.checks and others. Reads nothing else, writes nothing. Give a LIMIT:
        200 rows are shown."""
        return command_answer(self.lake, ["sql"], given=["--", sql])

    def explain_refusal(self, table: str, day: str) -> dict[str, Any]:
        """What each gate finds on a written day (YYYY-MM-DD) of a table: which would refuse a write
        of it, and what it found."""
        sql = CHECKS_OF_DAY.format(table=_table(table), day=_day(day))
        return command_answer(self.lake, ["sql"], given=["--", sql])

    def make_plan(
        self, first_day: str, last_day: str, tables: list[str], note: str
    ) -> dict[str, Any]:
        """Plan to make the days (YYYY-MM-DD, both included) of tables again: which days and why,
        what follows downstream, chunks, and the price in seconds. Nothing is made: the plan waits,
        and a person runs it. `note` says why, and is kept."""
        named = ",".join(_table(name) for name in tables)
        given = [*_days(first_day, last_day), f"--note=by an agent: {_note(note)}"]
        if named:
            given.append(f"--tables={named}")
        answer = command_answer(self.lake, ["plan"], given=given)
        return answer | {"waits_for": _hand_over(answer)}

    def list_plans(self) -> dict[str, Any]:
        """The plans of the lake, and how each stands."""
        return command_answer(self.lake, ["plan", "list"])

    def show_plan(self, plan: str) -> dict[str, Any]:
        """A plan by its id: its days, chunks, price, and what was made of it."""
        if not PLAN_ID.fullmatch(plan):
            raise _argument_error("plan", plan, "an id such as 20240301-120000-1a2b")
        return command_answer(self.lake, ["plan", "show"], given=[plan])


def _hand_over(answer: dict[str, Any]) -> str:
    """Who goes on with a plan that was made, and how; that there is none."""
    found = answer.get("data")
    plan = found.get("id") if isinstance(found, dict) else None
    if not plan:
        return "nobody: no plan was made"
    return (
        f"a person: give them the id {plan}. `backfill-assets plan show {plan}` shows it, and "
        f"`backfill-assets run {plan}` makes its days; no tool here does"
    )


def _days(first_day: str, last_day: str) -> list[str]:
    """The options of days; none where none is named."""
    options = []
    if first_day:
        options.append(f"--from={_day(first_day)}")
    if last_day:
        options.append(f"--to={_day(last_day)}")
    return options


def _day(text: str) -> str:
    """The day as commands take it. Raises BackfillError for another text."""
    return str(parse_day(text))


def _table(name: str) -> str:
    """The name of a table. Raises BackfillError for what no table is called."""
    if not NAME.fullmatch(name):
        raise _argument_error("table", name, "the name of a table, such as staging")
    return name


def _note(text: str) -> str:
    """A note in one line."""
    return printable_text(" ".join(text.split()))[:NOTE_CHARS]


def _argument_error(argument: str, value: str, wanted: str) -> BackfillError:
    return BackfillError(
        f"the argument {argument}",
        f"{printable_text(value)[:60]!r} is not {wanted}",
        "Nothing was done",
        "Take it from `status` or `list_plans`",
    )
