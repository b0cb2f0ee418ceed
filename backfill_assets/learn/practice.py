"""The desk of a drill: a clock, the symptom, a look at the copy each second, hints on demand, a
score from receipts.

Not here: the faults (`drills`) and the terminal (`learn.practice_command`).
"""

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from backfill_assets.engines.session import drop_session
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import DayReceipt
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import is_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.learn.drills import PlantedFault
from backfill_assets.learn.example_lakes import FEWEST_DAYS, days_until, make_sample
from backfill_assets.learn.lab_lakes import copy_lake, load_days, quickest_engine
from backfill_assets.pipeline.chosen import chosen_pipeline

WORDS = (
    "Type: hint | see WORD (a table, day, file or setting: where the fault is) | quit. Mend it "
    "there."
)
FIT = (State.FRESH, State.PROVISIONAL, State.INCOMPLETE, State.PENDING)
Days = Mapping[tuple[str, date], DayReceipt]  # newest receipts by table and day


@dataclass(frozen=True)
class Desk:
    """Where a person stands: `read` waits for a line at most a second ("" for none), `say` writes
    one."""

    read: Callable[[], str]
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic


@dataclass
class DrillScore:
    """The score of a drill."""

    limit: float  # seconds
    planted: int = 0  # rows that the fault made wrong
    # Seconds until the fault was named or first written over (None: never).
    seen_s: float | None = None
    mended_s: float | None = None  # seconds until the lake was well (None: never)
    wrong_rows: int = 0  # the most rows that readers could get wrong at once
    needless: int = 0  # days written although nothing was wrong with them
    hints: int = 0
    wrong_guesses: int = 0

    @property
    def points(self) -> int:
        """100, less up to 30 each for the time to see and to mend, 20 if it was not mended, 2 for
        each needless day (at most 30), 10 for wrong rows beyond the fault's, 5 for each hint and
        wrong guess; at least 0."""
        seen, mended = (
            self.limit if s is None else min(s, self.limit) for s in (self.seen_s, self.mended_s)
        )
        harm = 10 * (self.wrong_rows > self.planted) + min(30, 2 * self.needless)
        lost = 30 * (seen + mended) / self.limit + 20 * (self.mended_s is None) + harm
        return max(0, round(100 - lost - 5 * (self.hints + self.wrong_guesses)))


@dataclass
class Watch:
    """The copy of a lake in a drill, compared with how it was before the fault."""

    root: Path
    before: Days = field(init=False)  # receipts before the fault
    unfit_before: frozenset[tuple[str, date]] = field(init=False)  # days not fit before the fault
    planted: PlantedFault | None = None
    needed: frozenset[tuple[str, date]] = frozenset()
    found: Days = field(default_factory=dict)  # the receipts when the fault was planted

    def __post_init__(self) -> None:
        states, self.before = self._states_now()
        if states is None:
            culprit, fix = (
                "one of its tables cannot be read",
                "Run `backfill-assets doctor` first, or add --sample",
            )
            raise SettingsError(f"the lake {self.root}", culprit, "Nothing was planted", fix)
        self.unfit_before = frozenset(
            table_day for table_day in self.before if states.of(*table_day) not in FIT
        )

    def plant(self, plant: Callable[[Lake], PlantedFault]) -> PlantedFault:
        """Plant the fault in the copy, and note which days it touched. Raises SettingsError if
        nothing shows it."""
        self.planted = plant(open_lake(self.root))
        wrong = self.wrong()
        _, receipts = self._states_now()
        self.found = receipts or self.before  # none: the fault makes the lake unreadable
        self.needed = frozenset(wrong or ())
        if self.is_well(wrong):
            culprit = "days that needed a rebuild before hide the fault"
            fix = "Run `catch-up` first, or add --sample"
            raise SettingsError(f"the lake {self.root}", culprit, "There is nothing to mend", fix)
        return self.planted

    def _states_now(self) -> tuple[States | None, Days]:
        """The states and the newest receipts now; None and no receipts if the lake cannot be
        read."""
        try:
            lake = open_lake(self.root)
            pipeline = chosen_pipeline(lake)
            states = pipeline.states(read_view(lake, pipeline.contracts))
        except BackfillError:
            return None, {}
        receipts = dict[tuple[str, date], DayReceipt]()
        for table in states.contracts:
            for day, receipt in states.view.table(table).latest.items():
                receipts[table, day] = receipt
        return states, receipts

    def wrong(self) -> dict[tuple[str, date], int] | None:
        """Return the days that are not as they should be, with the rows that readers get of them
        though they are not right; None if the lake cannot be read, and so gives nobody a wrong
        row."""
        states, now = self._states_now()
        if states is None:
            return None
        found = dict[tuple[str, date], int]()
        for table_day in (self.before.keys() | now.keys()) - self.unfit_before:
            state, receipt = states.of(*table_day), now.get(table_day)
            differs = self._differs(receipt, self.before.get(table_day))
            if not differs and state in FIT:
                continue
            # Readers get wrong rows of a day that is stale or differs, none of one that is missing
            # or refused.
            is_read = differs or state is State.STALE
            found[table_day] = receipt.entry.rows if receipt is not None and is_read else 0
        return found

    def _differs(self, receipt: DayReceipt | None, before: DayReceipt | None) -> bool:
        """Whether a day has other rows than before the fault, though these were right."""
        if self.planted is None or not self.planted.earlier_rows_are_right:
            return False
        if receipt is None or before is None:
            return False
        return receipt.entry.content != before.entry.content

    def is_well(self, wrong: Mapping[tuple[str, date], int] | None) -> bool:
        """Whether no day is wrong, and no file is left that has to go."""
        left = [f for f in self.planted.unwanted if f.exists()] if self.planted else []
        return wrong is not None and not wrong and not left

    def written(self) -> tuple[int, int]:
        """Return how many days receipts wrote since the fault, and how many of them did not need
        it: they hold what they held before."""
        _, now = self._states_now()
        written, unchanged = 0, set[tuple[str, date]]()
        for table_day, receipt in now.items():
            if not self._is_newer(table_day, receipt):
                continue
            written += 1
            before = self.before.get(table_day)
            if before is not None and receipt.entry == before.entry:
                unchanged.add(table_day)
        return written, len(unchanged - self.needed)

    def _is_newer(self, table_day: tuple[str, date], receipt: DayReceipt) -> bool:
        """Whether a day was written since the fault was planted."""
        return table_day not in self.found or receipt.version > self.found[table_day].version


def drill_lake(root: Path | None, target: Path) -> Path:
    """Return `target`, a copy of the lake at `root`, or, where there is none, a loaded sample of
    two weeks."""
    if root is not None and is_lake(root):
        return copy_lake(root, target).root
    days = days_until(utc_today(), FEWEST_DAYS)
    make_sample(target, days, quickest_engine())
    load_days(open_lake(target), days, tables=None)
    drop_session(target)
    return target


def run_drill(watch: Watch, desk: Desk, seconds: float) -> DrillScore:
    """Run the clock until the copy is well, the person quits or the time is over."""
    planted, began = watch.planted, desk.clock()
    if planted is None:
        raise RuntimeError("plant the fault first")
    score = DrillScore(seconds, planted=sum((watch.wrong() or {}).values()))
    there = f"In another terminal: export BACKFILL_ASSETS_LAKE={shlex.quote(str(watch.root))}"
    for line in (planted.symptom, f"The copy: {watch.root}", there, WORDS):
        desk.say(line)
    while (passed := round(desk.clock() - began, 1)) < seconds:
        if _is_mended(watch, score, passed):
            break
        word, _, rest = desk.read().strip().partition(" ")
        if word == "quit":
            break
        if word == "hint":
            hints = (*planted.hints, "There is no further hint.")
            desk.say(hints[min(score.hints, len(planted.hints))])
            score.hints += 1
        elif word == "see":
            _judge_guess(score, planted, rest, passed, desk.say)
        elif word:
            desk.say(WORDS)
    return score


def _is_mended(watch: Watch, score: DrillScore, passed: float) -> bool:
    """Look at the copy after so many seconds, and note in the score what it shows; returns whether
    it is well."""
    wrong = watch.wrong()
    score.wrong_rows = max(score.wrong_rows, sum((wrong or {}).values()))
    writes, score.needless = watch.written()
    is_well = watch.is_well(wrong)
    if score.seen_s is None and (writes or is_well):
        score.seen_s = passed
    if is_well:
        score.mended_s = passed
    return is_well


def _judge_guess(
    score: DrillScore, planted: PlantedFault, guess: str, passed: float, say: Callable[[str], None]
) -> None:
    """Answer a guess that came after `passed` seconds, and note it in the score; the first right
    one counts."""
    if guess not in planted.answers:
        score.wrong_guesses += 1
        say("No, it is not there.")
        return
    if score.seen_s is None:
        score.seen_s = passed
    say("Yes. Mend it.")
