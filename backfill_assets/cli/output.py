"""What commands take and give: click's options of a pydantic model, and the writers of what a
command found.

Writers are people's terminal, JSON, and files (a page, metrics for a scraper, Parquet). Not here:
options that only commands have (`common`), the models (`plans.policy`), tables and pages
(`drawing`), and what is found (each command).
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

import click

from backfill_assets.cli.common import FILE, json_and_lake, print_json, wants_json
from backfill_assets.cli.drawing import PageSection, TextTable, say, write_file_whole

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

HELP_OF_FILES = {
    "html": "Write a page: one file, no network.",
    "prometheus": "Write metrics in Prometheus' text format.",
    "parquet": "Write the table `audit`, a row per write and day, for any engine.",
}
Part = object  # a table, a section, a function that draws; of anything else its text is a line
LINE_INDENT = 2  # characters: where a line goes on that does not fit
METRIC_PREFIX = "backfill_assets_"


class Gauge(NamedTuple):
    """A metric that can go up and down, with a value for each value of its label."""

    name: str  # without METRIC_PREFIX
    meaning: str
    label: str  # the label's name; "": it has none, and one value under the key ""
    values: Mapping[str, float | None]  # by the label's value; None: unknown


@dataclass(frozen=True)
class Output:
    """What a command found. A writer that nobody asked for computes nothing."""

    document: Any  # for `--json`; or what makes it
    parts: Iterable[Part] = ()  # for people
    failed: bool = False  # whether the command ends with exit code 1
    files: Mapping[str, Callable[[Path], None]] = field(
        default_factory=dict
    )  # what writes a file, by its option


def reporting_command(*files: str) -> Callable[[Callable[..., Output]], Callable[..., None]]:
    """Return a decorator for commands that return Output: adds `--json`, `--lake` and an option per
    kind of `files`.

    People get nothing on the terminal where a file was asked for.
    """

    def decorate(command: Callable[..., Output]) -> Callable[..., None]:
        @functools.wraps(command)
        def reported(*args: Any, **options: Any) -> None:
            given = {name: options.pop(name) for name in files}
            output = command(*args, **options)
            written = {name: path for name, path in given.items() if path is not None}
            for name, path in written.items():
                output.files[name](path)
            write_answer(output.document, () if written else output.parts)
            if output.failed:
                click.get_current_context().exit(1)

        for name in reversed(files):
            reported = click.option(f"--{name}", type=FILE, help=HELP_OF_FILES[name])(reported)
        return json_and_lake(reported)

    return decorate


def write_answer(document: Any, parts: Iterable[Part] = (), nothing: str = "") -> None:
    """Write the document (or what makes it) as JSON on stdout for a program, else draw the parts
    for people; the line `nothing` where there are none."""
    if wants_json():
        print_json(document() if callable(document) else document)
        return
    draw_parts([*parts] or filter(None, [nothing]))


def draw_parts(parts: Iterable[Part]) -> None:
    """Draw parts on stdout."""
    for part in parts:
        if isinstance(part, PageSection | TextTable):
            part.draw()
        elif callable(part):
            part()
        else:
            say(str(part), LINE_INDENT)


# Click's type of a number within bounds, by the type of a field.
RANGE_TYPES: Mapping[type, Callable[..., Any]] = {int: click.IntRange, float: click.FloatRange}
Command = Callable[..., None]


def options_of(
    model: "type[BaseModel]", types: Mapping[str, Any] | None = None, without: Collection[str] = ()
) -> Callable[[Command], Command]:
    """Return a decorator that adds an option for each field of `model`, but those `without`;
    `types` in place of the field's own. The command gets them by the names of the fields: None,
    False or () where an option is not given.

    Of `json_schema_extra` are read: `option` (its name), `aliases`, `metavar`, `range` (least and
    most), `default` (in words, for `--help`).
    """

    def decorate(command: Command) -> Command:
        for name, info in reversed(model.model_fields.items()):
            if name not in without:
                command = _field_option(name, info, (types or {}).get(name))(command)
        return command

    return decorate


def entered_options(model: "type[BaseModel]", options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields of `model` that a person gave, by the names of the fields."""
    given = {}
    for name in model.model_fields:
        value = options.get(name)
        if isinstance(value, tuple):
            value = [*value]
        is_left_out = value is None or value is False or value == []
        if not is_left_out:
            given[name] = value
    return given


def _field_option(name: str, field: "FieldInfo", kind: Any) -> Callable[[Command], Command]:
    """Return the option of a field of a model; `kind` is click's type in place of the one that the
    field's annotation gives (None). A yes-or-no field is a flag, a list an option to repeat."""
    extra: Mapping[str, Any] = {}
    if isinstance(field.json_schema_extra, dict):
        extra = field.json_schema_extra
    spelled = [f"--{extra.get('option', name.replace('_', '-'))}", *extra.get("aliases", ())]
    field_type = _without_none(field.annotation)
    default = extra.get("default", field.default)
    has_no_default = default is None or default is False or default in ("", [])
    shown = "" if has_no_default else f"  [default: {default}]"
    words: dict[str, Any] = {
        "help": f"{field.description or ''}{shown}",
        "metavar": extra.get("metavar"),
    }
    if field_type is bool:
        return click.option(*spelled, name, is_flag=True, **words)
    if kind is None:
        kind = _type_of_option(field_type, extra)
    is_list = get_origin(field_type) is list
    return click.option(*spelled, name, type=kind, multiple=is_list, **words)


def _type_of_option(field_type: Any, extra: Mapping[str, Any]) -> Any:
    """Return click's type for a field's type without None: a choice, a number within the `range`
    that `extra` names, or the type itself; None for a list, whose items click takes as texts."""
    if get_origin(field_type) is Literal:
        return click.Choice(get_args(field_type))
    if "range" in extra:
        return RANGE_TYPES[field_type](*extra["range"])
    return field_type if get_origin(field_type) is None else None


def _without_none(annotation: Any) -> Any:
    """The type without `| None`."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if isinstance(annotation, UnionType) else annotation


def prometheus_text(gauges: Iterable[Gauge]) -> str:
    """Write gauges in Prometheus' text exposition format 0.0.4. An unknown value has no sample.

    Units are in the names: seconds, ratios 0..1, rows; instants are seconds since 1970.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client import Gauge as Family

    registry = CollectorRegistry()
    for gauge in gauges:
        known = {key: value for key, value in gauge.values.items() if value is not None}
        if not known:
            continue
        labels = [gauge.label] if gauge.label else []
        family = Family(METRIC_PREFIX + gauge.name, gauge.meaning, labels, registry=registry)
        for key, value in known.items():
            sample = family.labels(key) if gauge.label else family
            sample.set(value)
    return generate_latest(registry).decode("utf-8")


def write_metrics(file: Path, gauges: Iterable[Gauge]) -> None:
    """Write gauges to a file that every user may read, as a scraper is another one."""
    write_file_whole(file, prometheus_text(gauges), umask=0o022)
