"""A new lake.toml for landed files: its text, for one source or several, and the trial load that it
passed.

Not here: what the files suggest (`first_source`), and writing the file (`learn.init_command`).
"""

import json
import tempfile
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfill_assets.engines.lake_session import LakeSession, explaining_losses
from backfill_assets.intake.files import LandedFile
from backfill_assets.intake.landings import list_files
from backfill_assets.intake.listing import EXTENSIONS
from backfill_assets.kernel.core.errors import SettingsError, source_section
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME, lake_model
from backfill_assets.learn.first_columns import KEYS, quoted_for_spark
from backfill_assets.learn.first_source import FirstSource, guessed_source
from backfill_assets.learn.new_lake import lake_toml
from backfill_assets.plans.moves import trial_scan

SHOWN = 10  # deliveries
NUMBERS = ("BIGINT", "INT", "DECIMAL")


@dataclass(frozen=True)
class LandedFiles:
    """The files that a glob finds, and their format."""

    glob: str
    form: str
    files: Sequence[LandedFile]

    def is_named_so(self, file: LandedFile) -> bool:
        """Whether a file's name ends as those of the format do; a glob may find others."""
        return file.name.lower().endswith(EXTENSIONS[self.form])


@dataclass(frozen=True)
class Preview:
    """What the files that were read gave in a trial load."""

    header: tuple[str, ...]
    rows: int
    deliveries: list[tuple[Any, ...]]  # the first ones
    refused: dict[str, int]  # rows by the reason for which they would go to quarantine


def landed_form(root: Path, form: str | None, files: str | None) -> LandedFiles | None:
    """The glob, the format and the files that lie there; of several formats the one with most
    files. None if no file is there yet. `form` and `files` (a glob) narrow the search. Raises
    SettingsError for a bad glob."""
    candidates = list[LandedFiles]()
    for known, extensions in EXTENSIONS.items():
        if form not in (None, known):
            continue
        globs = [files] if files else [f"landing/**/*{extension}" for extension in extensions]
        for glob in globs:
            matching = [f for f in list_files(glob, root, known).files if f.size]
            if matching:
                candidates.append(LandedFiles(glob, known, matching))
    return max(candidates, key=_file_counts, default=None)


def _file_counts(landed: LandedFiles) -> tuple[int, int]:
    """The number of files that are named as their format is, and of all."""
    return sum(map(landed.is_named_so, landed.files)), len(landed.files)


def guessed_sources(
    landed: Mapping[str, LandedFiles], chosen: Mapping[str, str]
) -> dict[str, FirstSource]:
    """Return what the files of each source suggest. `chosen` as in `first_source`; each of several
    sources takes its own columns. Raises SettingsError as it does."""
    if len(landed) == 1:
        return {name: guessed_source(one.files, one.form, chosen) for name, one in landed.items()}
    alone = {name: guessed_source(one.files, one.form, {}) for name, one in landed.items()}
    columns = {name: {c.name.lower() for c in guess.columns} for name, guess in alone.items()}
    _refuse_no_source(chosen, columns)
    keys = {guess.roles["event_key"].lower() for guess in alone.values()}
    found = {}
    for name, one in landed.items():
        others = set[str]().union(*(known for other, known in columns.items() if other != name))
        own = {role: column for role, column in chosen.items() if column.lower() in columns[name]}
        found[name] = guessed_source(one.files, one.form, own, others - keys)
    return found


def _refuse_no_source(chosen: Mapping[str, str], columns: Mapping[str, Collection[str]]) -> None:
    """Raise SettingsError if no source (`columns` by source) has a chosen column."""
    for role, column in chosen.items():
        if not any(column.lower() in known for known in columns.values()):
            raise SettingsError(
                f"--{role}",
                f"no source has a column {column}",
                "No lake.toml was written",
                "Correct it",
            )


def guessed_toml(
    guesses: Mapping[str, FirstSource], landed: Mapping[str, LandedFiles], values: Mapping[str, Any]
) -> str:
    """The commented `lake.toml` with these sources and, over a payload of its own, a first feature
    and label of the first source. `values` as in `lake_toml`; what they name wins. Raises
    SettingsError for values that a lake would not accept."""
    (main, guess), *_ = guesses.items()
    source = {
        "start_date": min(g.start_date for g in guesses.values()),
        "files": landed[main].glob,
        "format": guess.form,
        "select": guess.select,
    }
    text = lake_toml({**source, **values})
    if main:
        sections = "\n".join(
            _source_section(name, g, landed[name].glob) for name, g in guesses.items()
        )
        text = _with_lines_replaced(text, "[source]", sections + "\n", "[features]")
        text = text.replace('# source = "NAME" ', f"source = {json.dumps(main)} ")
    else:
        text = _with_declarations(text, guess)
    if not guess.is_plain:
        text = _with_features(text, guess)
    lake_model().model_validate(tomllib.loads(text))
    return text


def _with_declarations(text: str, guess: FirstSource) -> str:
    """The text with the payload and the dialect of its one source, where these are not plain."""
    if not guess.is_plain:
        payload = f"[source.payload]\n{_payload_lines(guess)}"
        text = _with_lines_replaced(text, "# [source.payload]", payload, "# [source.dialect]")
    if declared := guess.dialect.declared:
        dialect = f"[source.dialect]\n{_toml_lines(declared)}"
        text = _with_lines_replaced(text, "# [source.dialect]", dialect, "# Where deliveries come")
    return text


def _source_section(name: str, guess: FirstSource, glob: str) -> str:
    """The section `[sources.NAME]` of a source, with its payload and dialect where these are not
    plain."""
    lines = _toml_lines({"files": glob, "format": guess.form, "select": guess.select})
    section = f"[sources.{name}]\n{lines}"
    if not guess.is_plain:
        section += f"[sources.{name}.payload]\n{_payload_lines(guess)}"
    if declared := guess.dialect.declared:
        section += f"[sources.{name}.dialect]\n{_toml_lines(declared)}"
    return section


def _toml_lines(values: Mapping[str, Any]) -> str:
    """A line of TOML for each key."""
    texts = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
    return "".join(f"{key} = {text}\n" for key, text in texts.items())


def _payload_lines(guess: FirstSource) -> str:
    return _toml_lines({name: column.type for name, column in guess.payload.items()})


def _with_features(text: str, guess: FirstSource) -> str:
    """The text with a count of events, and sums of the first two numbers that are no names of
    anything."""
    features = _feature_text("events_7d", "count", "", 7)
    numbers = [n for n, column in guess.payload.items() if column.type.startswith(NUMBERS)]
    measures = [n for n in numbers if not (n in (guess.entity, "index") or KEYS.search(n))]
    for name in measures[:2]:
        features += _feature_text(
            f"{name}_28d", "sum", f"of = {json.dumps(quoted_for_spark(name))}\n", 28
        )
    entity = f"entity = {json.dumps([guess.entity])}\n"
    text = _with_lines_replaced(text, "windows_days", entity, "cutoff_grace_hours")
    text = _with_lines_replaced(text, "# [[features.columns]]", f"{features}\n", "[labels]")
    label = 'label = "count_ahead() > 0"           # is there an event in the horizon?\n'
    return _with_lines_replaced(text, "measure", label, "# label")


def _feature_text(name: str, agg: str, of: str, days: int) -> str:
    return f'[[features.columns]]\nname = "{name}"\nagg = "{agg}"\n{of}days = {days}\n'


def _with_lines_replaced(text: str, start: str, new: str, end: str) -> str:
    """The text with `new` in place of the lines from `start` (how a line begins) to before
    `end`."""
    rows = text.splitlines(keepends=True)
    first = next(i for i, row in enumerate(rows) if row.startswith(start))
    after = next(i for i, row in enumerate(rows[first + 1 :], first + 1) if row.startswith(end))
    return "".join([*rows[:first], new, *rows[after:]])


@explaining_losses()
def trial_load(root: Path, text: str, guesses: Mapping[str, FirstSource]) -> dict[str, Preview]:
    """Load the files that the guesses read by `text` as lake.toml, on its engine, up to the rows of
    `raw`; nothing is recorded. Raises SettingsError where a source has no usable row, or an
    expression is refused."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / FILE_NAME).write_text(text, encoding="utf-8")
        lake = open_lake(root, proposed=Path(folder))
    found = {}
    for name, guess in guesses.items():
        files = [f for f in guess.files if f.name not in guess.unreadable]
        header = ("event_key", "event_ts", "arrival_ts", "op", *guess.payload)
        figures = trial_scan(LakeSession(lake.of_source(name)), files, header, SHOWN)
        found[name] = Preview(header, *figures)
        _refuse_unusable(name, found[name])
    return found


def _refuse_unusable(source: str, preview: Preview) -> None:
    """Raise SettingsError if a trial load gave no usable row of a source, naming the most frequent
    reason."""
    refused = preview.refused
    if sum(refused.values()) != preview.rows:
        return
    why = max(refused, key=lambda reason: refused[reason]) if preview.rows else "there is none"
    raise SettingsError(
        f"{source_section(source)} of the new lake.toml",
        f"none of {preview.rows:,} row(s) is usable by it: {printable_text(why)}",
        "No lake.toml was written",
        "Name columns with --key, --event-ts, --arrival-ts, or the expressions with --select",
    )
