"""Metadata of assets and of every written day, under Dagster's own names where they exist, and a
run's summary table.

Here: names and values; each entry of each day costs storage and time, so that only what a person
looks for is repeated from the receipt. Not here: recording them (`io_manager`, `reconcile`).
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import date
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import dagster as dg

from backfill_assets.dagster.adapter.context import PLAIN, Naming
from backfill_assets.dagster.adapter.dagster_private import newest_materializations
from backfill_assets.dagster.adapter.printed_commands import command_with_lake
from backfill_assets.kernel.core.calendars import Calendar
from backfill_assets.kernel.core.commands import show_command
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import contiguous_ranges, parse_day, ranges_text
from backfill_assets.kernel.core.ledgers import QUARANTINE
from backfill_assets.kernel.core.ownership import BY
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.kernel.core.profiles import Finding
from backfill_assets.kernel.core.receipts import Built, DayEntry, Provenance
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import DayReceipt, TableView
from backfill_assets.kernel.tables.data_files import day_bytes
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Table, source_files
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.kernel.write.replace import WriteResult
from backfill_assets.reading.fitness import input_days

PREFIX = "backfill_assets/"
ROWS = "dagster/partition_row_count"
FINGERPRINT, INPUT_DIGEST = PREFIX + "fingerprint", PREFIX + "input_digest"
VERSION, WRITE_ID = PREFIX + "version", PREFIX + "write_id"
STATE, UNCHANGED, REWRITTEN = PREFIX + "state", PREFIX + "unchanged", PREFIX + "rewritten"
SHOW, WHY, INPUTS, PLAN_RUNS = (PREFIX + name for name in ("show", "why", "inputs", "plan_runs"))
SUMMARY, PHASES = PREFIX + "summary", PREFIX + "phases"
RECORDED_FROM = PREFIX + "recorded_from"
BY_FILE = "backfill_assets/files"  # rows per landed file and outcome
# Of the checks: measured values; what failed, in words.
FIGURES, FINDINGS = (
    PREFIX + "figures",
    PREFIX + "findings",
)
# How names of figures begin that are metadata themselves.
SHOWN_UNDER_OWN_NAMES = (
    "rows",
    "nulls ",
)
# Of one run, not of the day.
OF_ONE_RUN = (
    SUMMARY,
    PREFIX + "compare",
    RECORDED_FROM,
    REWRITTEN,
    PHASES,
    FINDINGS,
)
# One JSON entry for what programs read and a person seldom looks for.
INTERNALS = PREFIX + "internals"
# By their names in events of earlier releases.
FOLDED_NAMES = (
    VERSION,
    WRITE_ID,
    FINGERPRINT,
    INPUT_DIGEST,
    FIGURES,
    PHASES,
)
LISTED_DAYS = 31  # a month; the dialog that shows it is about that high
IN_CODE = str.maketrans({"`": "'", "|": "¦"})  # | ends a cell in code, too


def asset_metadata(lake: Lake, table: Table, naming: Naming = PLAIN) -> dict[str, Any]:
    """The asset's own metadata: column schema, address and name of its table, and the files of its
    code."""
    code = [
        dg.LocalFileCodeReference(file_path=str(path), line_number=1, label=path.name)
        for path in source_files(table)
    ]
    references = dg.CodeReferencesMetadataValue(code_references=[*code])
    return {**table_metadata(lake, table.contract, naming), "dagster/code_references": references}


def table_metadata(lake: Lake, contract: Contract, naming: Naming = PLAIN) -> dict[str, Any]:
    """Metadata from a table's contract: columns, their declared source columns, address and
    name."""
    columns, deps = list[dg.TableColumn](), dict[str, list[dg.TableColumnDep]]()
    for column in contract.columns:
        columns.append(_table_column(contract, column))
        if column.made_from:
            deps[column.name] = [_column_dep(naming, source) for source in column.made_from]
    metadata: dict[str, Any] = {"dagster/column_schema": dg.TableSchema(columns=columns)}
    if deps:
        metadata["dagster/column_lineage"] = dg.TableColumnLineage(deps_by_column=deps)
    metadata["dagster/uri"] = lake.table_uri(contract.name)
    metadata["dagster/table_name"] = contract.name
    return metadata


def _table_column(contract: Contract, column: Column) -> dg.TableColumn:
    is_key = contract.key == (column.name,)
    constraints = dg.TableColumnConstraints(nullable=column.nullable, unique=is_key)
    return dg.TableColumn(
        column.name, column.type, column.description, constraints, tags={**column.tags}
    )


def _column_dep(naming: Naming, source: str) -> dg.TableColumnDep:
    """The dependency on a column that is named TABLE.COLUMN."""
    table, _, column = source.rpartition(".")
    return dg.TableColumnDep(asset_key=naming.key(table), column_name=column)


def entry_metadata(entry: DayEntry, version: int, is_open: bool = False) -> dict[str, Any]:
    """A receipt of a day, or of a period that may not be over (`is_open`), under the names in
    Dagster; its state is as of the write."""
    return {
        ROWS: entry.rows,
        STATE: _state_after_write(entry.built, is_open).value,
        VERSION: str(version),  # a text: as a number it would be one plot more
        FINGERPRINT: entry.fingerprint,
        INPUT_DIGEST: entry.input_digest,
    }


def _state_after_write(built: Built, is_open: bool) -> State:
    """The state that a write of this kind leaves: complete -> fresh, or provisional where its
    period is not over, merged -> outdated, others by their name."""
    if built is Built.COMPLETE:
        return State.PROVISIONAL if is_open else State.FRESH
    if built is Built.MERGED:
        return State.OUTDATED
    return State(built.value)


def data_version(entry: DayEntry) -> str:
    """Dagster's data version of a day that is recorded alone; days of a range run share one that
    Dagster makes."""
    return f"{entry.rows}.{entry.fingerprint}"


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> dg.MarkdownMetadataValue:
    """A table in Markdown. The last cell of each row may quote what a file holds: as code on one
    line nothing of it is Markdown, neither a tag nor a link."""
    lines = [names, ["---"] * len(names), *([*row[:-1], _plain_markdown(row[-1])] for row in rows)]
    return dg.MetadataValue.md("\n".join(f"| {' | '.join(line)} |" for line in lines))


def _plain_markdown(text: str) -> str:
    if not text:
        return ""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return f"`{printable.translate(IN_CODE)}`"


def day_materialization(
    key: dg.AssetKey, day: date, entry: DayEntry, metadata: Mapping[str, Any]
) -> dg.AssetMaterialization:
    """The materialization of a day that no run recorded, with its data version."""
    tags = {
        "dagster/data_version": data_version(entry),
        "dagster/data_version_is_user_provided": "true",
    }
    return dg.AssetMaterialization(key, partition=str(day), metadata=metadata, tags=tags)


def origin_metadata(
    contract: Contract,
    day: date,
    states: States,
    versions: Mapping[str, int],
    provenance: Provenance,
    naming: Naming = PLAIN,
) -> dict[str, Any]:
    """Reason and author of the write of a day (`provenance`), its input days with the `versions`
    that were read, and links to these days and to the runs of its plan.

    The links are relative, so that they also hold below the secret of `backfill-assets ui`.
    """
    metadata = _why_metadata(provenance)
    read = defaultdict[str, set[date]](set)
    for wanted in contract.inputs:
        read[wanted.table] |= {*input_days(states, wanted, day)}
    texts, links = list[str](), dict[str, Any]()
    for table, days in read.items():
        if not days:
            continue
        version = f" at version {versions[table]}" if table in versions else ""
        texts.append(f"{table} {ranges_text(days)}{version}")
        first, last = min(days), max(days)
        query = f"view=partitions&partition={last}&default_range=[{first}...{last}]"
        links[f"{PREFIX}from_{table}"] = dg.MetadataValue.url(f"{naming.page(table)}?{query}")
    if texts:
        metadata[INPUTS] = "; ".join(texts)
    return {**metadata, **links}


def _why_metadata(provenance: Provenance) -> dict[str, Any]:
    """Reason and author of a write, with a link to the runs of its plan."""
    tags = provenance.tags
    author = tags.get(BY, "unknown")
    note = f": {provenance.note}" if provenance.note else ""
    plan = tags.get(PLAN_TAG, "")
    if not plan:
        return {WHY: f"{provenance.reason}, by {author}{note}"}
    return {
        WHY: f"plan {plan}, chunk {tags.get(CHUNK_TAG, '?')}, by {author}{note}",
        PLAN_RUNS: dg.MetadataValue.url(f"../runs?q[]=tag:{PLAN_TAG}={plan}"),
    }


def folded_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata in the order in which Dagster lists it: what the run did first, and the
    internals in one entry at the end."""
    shown = {name: value for name, value in metadata.items() if name not in FOLDED_NAMES}
    if SUMMARY in shown:
        shown = {SUMMARY: shown[SUMMARY], **shown}
    internals = {
        n.removeprefix(PREFIX): _plain_value(metadata[n]) for n in FOLDED_NAMES if n in metadata
    }
    if internals:
        shown[INTERNALS] = dg.MetadataValue.json(internals)
    return shown


def unfolded_metadata(metadata: Mapping[str, dg.MetadataValue[Any]]) -> dict[str, Any]:
    """Metadata of an event with each of its internals under the name of its own that earlier
    releases gave it."""
    unfolded: dict[str, Any] = {**metadata}
    folded = unfolded.pop(INTERNALS, None)
    internals = folded.value if folded is not None else {}
    for name, value in internals.items():
        if isinstance(value, Mapping):
            unfolded[PREFIX + name] = dg.MetadataValue.json(value)
        else:
            unfolded[PREFIX + name] = dg.MetadataValue.text(value)
    return unfolded


def _plain_value(value: Any) -> Any:
    return value.value if isinstance(value, dg.MetadataValue) else value


def day_metadata(
    rebuild: Rebuild,
    published: WriteResult,
    earlier: Mapping[str, Mapping[str, Any]],
    naming: Naming = PLAIN,
) -> dict[str, dict[str, Any]]:
    """Per partition key: rows, origin, bytes, fingerprint, what the write did, for raw the account
    of every file; of a table that an asset of a project returns also its columns, name and address,
    which no definition has; and on the last day, what the run did to the table and the seconds of
    each phase.

    `earlier` are facts of days that needed no computing; `seconds_per_day` is the run's time for
    this table, shared out evenly over its days.
    """
    candidate = rebuild.ready
    days = list(candidate.chunk)
    sizes = day_bytes(rebuild.request.lake_session.lake, rebuild.table.contract)
    seconds = round((time.monotonic() - rebuild.request.provenance.began) / len(days), 3)
    states = rebuild.request.known.states
    by_day = {}
    for day in days:
        cost = {PREFIX + "bytes": sizes.get(day, 0), PREFIX + "seconds_per_day": seconds}
        by_day[day] = _metadata_of_day(rebuild, published, day, cost, states, naming)
    for day, findings in groupby(rebuild.findings, key=attrgetter("day")):
        by_day[day] |= _judged_figures([*findings], is_computed=day not in candidate.settled)
    for day in candidate.settled:
        # What the run found wins; it comes first, as Dagster lists it.
        by_day[day] = {**by_day[day], **earlier.get(str(day), {}), **by_day[day]}
    after = {d: candidate.entries[d] for d in days}
    before = {day: receipt.entry for day, receipt in candidate.before.latest.items()}
    same_rows = rewritten_days(candidate.before, after, published)
    for day in same_rows:
        by_day[day] |= {UNCHANGED: True, REWRITTEN: True}
    last = by_day[days[-1]]
    lake, contract = rebuild.request.lake_session.lake, rebuild.table.contract
    summary = changes_summary(before, after, published, same_rows, contract.calendar)
    last[SUMMARY] = dg.MetadataValue.md(summary)
    last[PHASES] = dg.MetadataValue.json(dict(rebuild.request.phases.seconds()))
    of_table = table_metadata(lake, contract, naming) if contract.made_by else {}
    return {str(day): folded_metadata({**metadata, **of_table}) for day, metadata in by_day.items()}


def _metadata_of_day(
    rebuild: Rebuild,
    published: WriteResult,
    day: date,
    cost: Mapping[str, float],
    states: States,
    naming: Naming,
) -> dict[str, Any]:
    """The metadata of one day: its receipt, what the write did to it, its origin if it was
    computed, and the account of its files. `cost`: bytes and seconds, by their names."""
    candidate, contract = rebuild.ready, rebuild.table.contract
    entry, profile = candidate.entries[day], candidate.profiles[day]
    show = show_command(contract.name, day)
    metadata = entry_metadata(entry, published.version, states.is_open(contract.name, day))
    metadata[SHOW] = command_with_lake(show, rebuild.request.lake_session.lake.root)
    if day not in candidate.settled:
        provenance = rebuild.request.provenance
        metadata |= origin_metadata(contract, day, states, candidate.inputs, provenance, naming)
    metadata |= {**cost, UNCHANGED: day not in published.changed}
    has_receipt = day in published.changed or day in published.receipted
    if published.write_id and has_receipt:
        metadata[WRITE_ID] = published.write_id
    if profile.rows:
        for column, nulls in profile.nulls.items():
            metadata[f"{PREFIX}null_share_{column}"] = round(nulls / profile.rows, 6)
    return metadata | _account_metadata(candidate.accounts.get(day, {}))


def _account_metadata(account: Mapping[str, Any]) -> dict[str, Any]:
    """What became of the rows of landed files, by file and by outcome, and further figures."""
    metadata = dict[str, Any]()
    if files := account.get("by_file"):
        metadata[BY_FILE] = dg.MetadataValue.json(dict(files))
        for outcome in (QUARANTINE, "duplicate", "too late"):
            rows = sum(outcomes.get(outcome, 0) for outcomes in files.values())
            metadata[f"{PREFIX}{outcome.replace(' ', '_')}_rows"] = rows
    for name, number in account.get("facts", {}).items():
        metadata[PREFIX + name] = round(number, 6)
    return metadata


def _judged_figures(findings: Sequence[Finding], *, is_computed: bool) -> dict[str, Any]:
    """What the checks measured in a day, and what failed. `is_computed`: the run judged the day's
    rows; findings from its receipt have only a part of the figures, so that none is shown."""
    figures, failed = dict[str, Any](), list[str]()
    for finding in findings:
        if is_computed:
            for name, value in finding.facts.items():
                if not name.startswith(SHOWN_UNDER_OWN_NAMES):
                    figures[name] = value
        if not finding.passed:
            failed.append(f"{finding.check}: {finding.message}")
    shown = dict[str, Any]()
    if figures:
        shown[FIGURES] = dg.MetadataValue.json(figures)
    if failed:
        shown[FINDINGS] = "; ".join(failed)
    return shown


def earlier_facts(
    instance: dg.DagsterInstance, rebuild: Rebuild, naming: Naming = PLAIN
) -> dict[str, dict[str, Any]]:
    """Facts that only computing gives, from the newest materialization of each settled day: plots
    draw the newest materialization, and a rerun without changes must not blank them."""
    keys = [str(day) for day in rebuild.days if day in rebuild.ready.settled]
    records = newest_materializations(instance, naming.key(rebuild.table.name), keys)
    return {
        key: content_facts(record, rebuild.ready.entries[parse_day(key)])
        for key, record in records.items()
    }


def content_facts(record: dg.EventLogRecord | None, entry: DayEntry) -> dict[str, Any]:
    """The facts of a materialization about this content of a day, without facts of a single run.
    Empty where it is of other content, or of another lake of the instance."""
    materialized = record.asset_materialization if record else None
    if materialized is None:
        return {}
    facts = unfolded_metadata(materialized.metadata)
    fingerprint, digest = facts.get(FINGERPRINT), facts.get(INPUT_DIGEST)
    content = _plain_value(fingerprint), _plain_value(digest)
    if content != (entry.fingerprint, entry.input_digest):
        return {}
    of_day = {name: value for name, value in facts.items() if name not in OF_ONE_RUN}
    return {name: value for name, value in of_day.items() if name.startswith(PREFIX)}


class WrittenDay(NamedTuple):
    """A day as a receipt says that it was written, in which table version, by which write."""

    entry: DayEntry
    version: int
    write_id: str


def receipt_metadata(
    states: States,
    table: str,
    day: date,
    record: dg.EventLogRecord | None,
    made: WrittenDay | DayReceipt,
    told: Mapping[str, str],
) -> dict[str, Any]:
    """Metadata of a day that no run reports: its receipt, the facts of its newest materialization,
    and what else is `told` of it: RECORDED_FROM, the write."""
    known = entry_metadata(made.entry, made.version, states.is_open(table, day))
    known[SHOW] = show_command(table, day)
    return folded_metadata({**known, **content_facts(record, made.entry), **known, **told})


def rewritten_days(
    before: TableView, after: Mapping[date, DayEntry], published: WriteResult
) -> frozenset[date]:
    """The days whose rows a forced run replaced by the same rows."""
    both = before.latest.keys() & after.keys()
    same = {day for day in both if before.latest[day].entry.content == after[day].content}
    return frozenset(published.changed & same - before.foreign)


def changes_summary(
    before: Mapping[date, DayEntry],
    after: Mapping[date, DayEntry],
    published: WriteResult,
    same_rows: Set[date] = frozenset(),
    calendar: Calendar | None = None,
) -> str:
    """Rows before and after of every changed day, the newest first up to a month of them, and the
    sums over all.

    `before` holds the days that had a receipt, `after` all days of the run, `same_rows` the days
    that were only rewritten; `calendar` is the table's (None: of days).
    """
    calendar = calendar or Calendar()
    changed = sorted((after.keys() & published.changed) - same_rows, reverse=True)
    kept = len(after) - len(changed)
    lines = [_summary_headline(changed, kept, len(same_rows), published, calendar.count_text)]
    if not changed:
        return lines[0]
    lines += ["", f"| {calendar.unit} | rows before | rows now | change |", "|---|---:|---:|---:|"]
    lines += [_day_line(day, before.get(day), after[day]) for day in changed[:LISTED_DAYS]]
    if len(changed) > LISTED_DAYS:
        lines.append(f"| … {len(changed) - LISTED_DAYS} more | | | |")
    rows_before = sum(before[day].rows for day in changed if day in before)
    rows_after = sum(after[day].rows for day in changed)
    lines.append(_summary_line("**all changed**", rows_before, rows_after))
    return "\n".join(lines)


def _summary_headline(
    changed: list[date],
    kept: int,
    same_rows: int,
    published: WriteResult,
    count_text: Callable[[int], str],
) -> str:
    """How many days changed and which; `kept`: how many others the run had, `same_rows`: how many
    of these got the same rows once more; `count_text` says so many days in words."""
    written = f", {same_rows} of them written again" if same_rows else ""
    if not changed:
        new = ", the receipts are new" if published.receipted else ""
        return f"Nothing changed: {count_text(kept)} hold what they held{written}{new}."
    spans = contiguous_ranges(changed)
    days = ", ".join(map(str, spans[:3]))
    if len(spans) > 3:
        days += " …"
    rest = f"; {kept} other(s) hold what they held{written}" if kept else ""
    return f"{count_text(len(changed))} changed in version {published.version}: {days}{rest}."


def _day_line(day: date, before: DayEntry | None, after: DayEntry) -> str:
    if before is None:
        return _summary_line(str(day), None, after.rows)
    if before.scheme != after.scheme:  # nothing can say whether they are the same rows
        return _summary_line(str(day), before.rows, after.rows, "as many rows")
    return _summary_line(str(day), before.rows, after.rows)


def _summary_line(
    name: str, before: int | None, after: int, same: str = "same rows, other content"
) -> str:
    if before is None:
        return f"| {name} | – | {after:,} | new |"
    change = f"{after - before:+,}" if after != before else same
    return f"| {name} | {before:,} | {after:,} | {change} |"
