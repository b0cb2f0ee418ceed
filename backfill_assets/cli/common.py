"""Options, argument types and JSON output of all commands; imports only click and `kernel.core`, so
that `--help` is quick.

Not here: drawing for people (`drawing`).
"""

import contextlib
import functools
import gc
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from backfill_assets.cli.json_text import json_texts
from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.days import (
    DayRange,
    inclusive_range,
    parse_day,
    parse_days,
    parse_span,
)
from backfill_assets.kernel.core.errors import BackfillError, TransientError
from backfill_assets.kernel.core.ownership import BY, whoami
from backfill_assets.kernel.core.process import LAKE_OPTION, lake_folder
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.core.write_mode import OnBadDays, WriteMode
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.pipeline.chosen import chosen_pipeline

if TYPE_CHECKING:
    from backfill_assets.cli.progress import RunOutcome
    from backfill_assets.kernel.core.contracts import Contract
    from backfill_assets.kernel.core.plans import Work
    from backfill_assets.kernel.tables.home import Lake
    from backfill_assets.kernel.write.known import KnownStates
    from backfill_assets.kernel.write.model import Pipeline
    from backfill_assets.reading.rejected import Unusable

# Keys of click's `meta`, which a command shares with its groups.
LAKE_KEY = "backfill_assets.lake"
TARGET_KEY = "backfill_assets.target"
JSON_KEY = "backfill_assets.json"
NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def keep_garbage() -> None:
    """Let this command look for no garbage: of one whose objects stay to its end, that is a tenth
    of its time."""
    gc.disable()
    click.get_current_context().call_on_close(gc.enable)


def _meta_option(
    key: str, *spelled: str, **words: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option whose value is kept under `key` in click's `meta`, and no argument of the
    command."""

    def keep(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value:
            ctx.meta[key] = value

    return click.option(*spelled, expose_value=False, callback=keep, **words)


# Before or after the verb: `meta` is shared by a command and its groups, and the innermost is read
# last.
lake_help = "The lake's folder. [default: $BACKFILL_ASSETS_LAKE, else .lake in the project]"
lake_option = _meta_option(LAKE_KEY, LAKE_OPTION, metavar="DIR", help=lake_help)
target_option = _meta_option(
    TARGET_KEY, "--target", metavar="NAME", help="A candidate of the lake, in its place."
)
json_option = _meta_option(
    JSON_KEY, "--json", "as_json", is_flag=True, help="One JSON document on stdout."
)


def json_and_lake(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options `--json` and `--lake`."""
    return json_option(lake_option(command))


newest_option = click.option(
    "--newest",
    is_flag=True,
    help="Each table at its newest commit, also while a run writes others.",
)


class Parsed(click.ParamType):  # type: ignore[type-arg]  # a generic class in newer versions of click only
    """A value that `parse` makes of a text; its BackfillError or ValueError is click's error about
    the option."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value, or raise click's error."""
        try:
            return self.parse(value) if isinstance(value, str) else value
        except (BackfillError, ValueError) as error:
            self.fail(str(error), param, ctx)


def _utf8_text(text: str) -> str:
    """Return the text; raises ValueError where the terminal gave bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:  # no receipt could keep it
        raise ValueError(
            f"'{printable_text(text)}' is not UTF-8. Nothing was done. Write it in UTF-8."
        ) from None
    return text


TEXT = Parsed("text", _utf8_text)
DAY = Parsed("YYYY-MM-DD", parse_day)
SPAN = Parsed("A..B", parse_span)
FILE = click.Path(dir_okay=False, path_type=Path)


def _days_in_file(path: str) -> DayRange:
    """The days that a file lists, one or more a line; # begins a comment."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{printable_text(path)} cannot be read: {error}. Nothing was done."
        ) from None
    return parse_days(",".join(line.partition("#")[0] for line in lines))


def some_days_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options for a command that needs days, which may be no range: --from and --to, --days, or
    --days-from FILE alone; the command gets them as `days`. UsageError without any, and where a
    file and another option name some."""

    @functools.wraps(command)
    def with_days(*args: Any, listed: DayRange | None, **options: Any) -> None:
        """Call the command with the days of `--days-from`, else with those of the other options."""
        if listed is not None and options["days"] is not None:
            raise click.UsageError(
                "--days-from says the days already: leave --from, --to and --days away."
            )
        if listed is None and options["days"] is None:
            raise click.UsageError("which days? Say --from DAY --to DAY, or --days.")
        command(*args, **{**options, "days": listed or options["days"]})

    which = "Days that are no range, e.g. 2024-03-01,2024-03-05..07."
    several = click.option(
        "--days", "--partitions", "span", type=Parsed("DAYS", parse_days), help=which
    )
    listing = "A file with such days; # begins a comment."
    listed = click.option("--days-from", "listed", type=Parsed("FILE", _days_in_file), help=listing)
    return days_options(several=several)(listed(with_days))


keep_good_option = click.option(
    "--keep-good-days", is_flag=True, help="Write the days that pass though others are refused."
)


def good_days_tags(asked: bool) -> dict[str, str]:
    """The tags of a run for which keeping good days was asked, or not."""
    return WriteMode(on_bad_days=OnBadDays.KEEP_GOOD if asked else None).tags


def days_options(
    required: bool = False, default: str = "", several: Callable[..., Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds `--from` and `--to`, both days included; the command gets them
    as `days` (None without them, unless they are `required`). `default`: the days without them, for
    `--help`. `--days A..B` and `--partitions A..B`, as some commands of earlier releases have it,
    mean the same everywhere and are hidden, unless `several` is an option in their place."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        """Add the options; what click prints first in `--help` is applied last."""

        @functools.wraps(command)
        def with_days(
            *args: Any, first: date | None, last: date | None, span: DayRange | None, **options: Any
        ) -> None:
            days = _days_of_options(first, last, span)
            if days is None and required:
                raise click.UsageError("which days? Say --from DAY --to DAY.")
            command(*args, days=days, **options)

        usual = f"  [default: {default}]" if default else ""
        hidden = several or click.option("--days", "--partitions", "span", type=SPAN, hidden=True)
        last = click.option(
            "--to", "last", type=DAY, help="The last day, included.  [default: that of --from]"
        )
        first = click.option("--from", "first", type=DAY, help=f"The first day.{usual}")
        return first(last(hidden(with_days)))

    return decorate


def _days_of_options(
    first: date | None, last: date | None, span: DayRange | None
) -> DayRange | None:
    """Return the days of `--from` and `--to`, or of `--days`; raise click's error where they
    contradict each other."""
    if span is not None and (first or last):
        raise click.UsageError("--days says the days already: leave --from and --to away.")
    if first:
        return inclusive_days(first, last or first)
    if last:
        raise click.UsageError("--to is the last day; the first one is missing: --from DAY.")
    return span


@contextlib.contextmanager
def errors_as_usage() -> Iterator[None]:
    """Turn errors of the product inside into wrong usage: exit code 2."""
    try:
        yield
    except BackfillError as error:
        raise click.UsageError(str(error)) from None


def inclusive_days(first: date, last: date) -> DayRange:
    """Return the range `first` through `last`; raise click's error where it ends before it
    starts."""
    with errors_as_usage():
        return inclusive_range(first, last)


def lake_root() -> Path:
    """Return the absolute folder of the chosen lake, which need not exist, or of the candidate that
    `--target` names. Raises BackfillError if there is no such candidate."""
    meta = click.get_current_context().meta
    root = lake_folder(meta.get(LAKE_KEY))
    if (target := meta.get(TARGET_KEY)) is None:
        return root
    from backfill_assets.kernel.core.addresses import CANDIDATES
    from backfill_assets.kernel.tables.table_places import base_lake_folder

    folder: Path = root / CANDIDATES / target
    if base_lake_folder(folder) == folder:
        raise BackfillError(
            f"the candidate {target}",
            f"the lake {address_of(root)} has none of that name",
            "Nothing was done",
            f"`backfill-assets candidate create {target} --tables NAMES` makes one",
        )
    return folder


@dataclass(frozen=True)
class Overrides:
    """Replacements for opening the lake and running a backfill (None: the usual functions), click's
    `obj`."""

    opened: "Callable[[], tuple[Lake, Pipeline]] | None" = None
    work: "Callable[[KnownStates, Work], RunOutcome] | None" = None


def caller_overrides() -> Overrides:
    """Return the functions that the command's caller put in place of the usual ones (`Overrides`;
    usually none)."""
    return click.get_current_context().find_object(Overrides) or Overrides()


def named_lake() -> "Lake":
    """Open the chosen lake; raises SettingsError if there is none."""
    return open_lake(lake_root())


def opened_lake() -> "tuple[Lake, Pipeline]":
    """Open the chosen lake and its pipeline; raises SettingsError if there is none."""
    if (instead := caller_overrides().opened) is not None:
        return instead()
    lake = named_lake()
    return lake, pipeline_in(lake)


def pipeline_in(lake: "Lake") -> "Pipeline":
    """Return the tables that a lake's settings choose. Raises SettingsError for those that cannot
    be."""
    return chosen_pipeline(lake)


def wants_json() -> bool:
    """Whether the command answers a program (`--json`) in place of people."""
    context = click.get_current_context(silent=True)
    return context is not None and JSON_KEY in context.meta


def print_json(document: Any) -> None:
    """Write one JSON document to stdout, piece by piece; characters that a screen does not show are
    escaped."""
    for text in json_texts(document):
        click.echo(NOT_ASCII.sub(_shown_character, text), nl=False)
    click.echo()


def _shown_character(found: re.Match[str]) -> str:
    """A character as JSON shows it: escaped where a screen does not show it."""
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def say_cut_periods(contracts: "Iterable[Contract]", days: DayRange | None) -> None:
    """Name on stderr each table with weeks, months, quarters or years that have days outside of
    these, too: they are taken as a whole. Nothing for all days (None)."""
    from backfill_assets.cli.drawing import remark

    for contract in contracts:
        calendar = contract.calendar
        if days is None or calendar.is_of_days:
            continue
        covered = map(calendar.span, contract.keys_in(days))
        cut = [str(span) for span in covered if not {*span} <= {*days}]
        if cut:
            remark(
                f"Note: {contract.name} has every {calendar}, and each is taken as a whole: "
                f"{', '.join(cut)}"
            )


def say_unusable(lake: "Lake") -> "Unusable":
    """Name the rows that landed and that no table gets, or that there is no file where lake.toml
    says, in one line on stderr; return the former."""
    from backfill_assets.cli.drawing import remark
    from backfill_assets.intake.ledger import FILES, ledger_of_source
    from backfill_assets.reading.rejected import unusable_rows

    ledgers = [ledger_of_source(FILES, each.source) for each in lake.by_source()]
    empty = not any(lake.store.view(ledger.name, ledger.day_column).exists for ledger in ledgers)
    if ledgers and empty and not _has_landed(lake):
        patterns = ", ".join(source.files for source in lake.settings.delivered.values())
        remark(f"Nothing has landed where lake.toml says: {patterns}")
    found = unusable_rows(lake)
    if line := str(found):
        remark(line)
    return found


def say_why_readers_wait(lake: "Lake") -> str:
    """Say in one line on stderr for which runs readers wait; return it, "" where they wait for
    none."""
    from backfill_assets.cli.drawing import remark
    from backfill_assets.kernel.tables.versions import why_readers_wait

    if why := why_readers_wait(lake):
        remark(f"Note: {why}")
    return why


def _has_landed(lake: "Lake") -> bool:
    """Whether something lies where one of the sources says, or cannot be read, which its error
    says."""
    from backfill_assets.engines.loss import failing_alone
    from backfill_assets.intake.source_log import list_source

    try:
        with failing_alone(f"the deliveries of {lake.address}"):
            listings = [
                list_source(source, lake.shared or lake.root)
                for source in lake.settings.delivered.values()
            ]
    except TransientError:
        raise
    except BackfillError:
        return True
    return any(listing.files or listing.refused for listing in listings)


def split_names(listed: str | None) -> list[str] | None:
    """Return the names in a comma-separated list; None for None."""
    if listed is None:
        return None
    names = (name.strip() for name in listed.split(","))
    return [name for name in names if name]


def command_provenance() -> Provenance:
    """The provenance of a command: the current user."""
    return Provenance("", tags={BY: whoami()})


class LakeMomentType(click.ParamType[datetime | int]):
    """An instant (UTC), or the number of a lake version."""

    name = "instant|number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | int:
        """Return the aware instant or the number."""
        if isinstance(value, str) and value.isdecimal():
            return int(value)
        moment: datetime = INSTANT.convert(value, param, ctx)
        return moment.replace(tzinfo=UTC)


LAKE_MOMENT = LakeMomentType()


INSTANT = click.DateTime(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d"])


class ObservationForm(TypedDict):
    """What a look at a table of others found, as JSON values."""

    version: int  # of the others' log
    days: Sequence[DayText]  # whose rows are new, or others than before
    rows_without_day: int


class CandidateForm(TypedDict):
    """What a candidate has built; days per table as text."""

    name: str
    folder: str
    tables: Sequence[str]
    days: Mapping[str, str]
    behind: Mapping[str, str]
    error: str


def statuses_of_candidates(lake: Lake) -> Sequence[Any]:
    """Return the `candidates.candidates.CandidateStatus` of each candidate of a lake; none where no
    room makes any."""
    statuses: Callable[..., Sequence[Any]] | None = offered_function("candidate_statuses")
    return statuses(lake, chosen_pipeline) if statuses is not None else ()
