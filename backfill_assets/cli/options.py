"""Click's options of a pydantic model: what a command and a job of Dagster both take is declared once, in the model.

Not here: options that only commands have (`common`), and the models (`plans.policy`, `operations.rollback`).
"""

from collections.abc import Callable, Collection, Mapping
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

RANGES: Mapping[type, Callable[..., Any]] = {int: click.IntRange, float: click.FloatRange}
Command = Callable[..., None]


def options_of(
    model: type[BaseModel], types: Mapping[str, Any] | None = None, without: Collection[str] = ()
) -> Callable[[Command], Command]:
    """Return a decorator that adds an option for each field of `model`, but those `without`; `types` in place of the
    field's own. The command gets them by the names of the fields: None, False or () where an option is not given.

    Of `json_schema_extra` are read: `option` (its name), `aliases`, `metavar`, `range` (least and most), `default` (in
    words, for `--help`).
    """

    def decorate(command: Command) -> Command:
        for name, field in reversed(model.model_fields.items()):
            if name not in without:
                command = _option(name, field, (types or {}).get(name))(command)
        return command

    return decorate


def given_options(model: type[BaseModel], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields of `model` that a person gave, by the names of the fields."""
    found = {name: options[name] for name in model.model_fields if name in options}
    values = {name: [*value] if isinstance(value, tuple) else value for name, value in found.items()}
    return {name: value for name, value in values.items() if not (value is None or value is False or value == [])}


def _option(name: str, field: FieldInfo, kind: Any) -> Callable[[Command], Command]:
    extra: Mapping[str, Any] = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    spelled = [f"--{extra.get('option', name.replace('_', '-'))}", *extra.get("aliases", ())]
    of, default = _plain(field.annotation), extra.get("default", field.default)
    shown = "" if default is None or default is False or default in ("", []) else f"  [default: {default}]"
    words: dict[str, Any] = {"help": f"{field.description or ''}{shown}", "metavar": extra.get("metavar")}
    if of is bool:
        return click.option(*spelled, name, is_flag=True, **words)
    if kind is None and get_origin(of) is Literal:
        kind = click.Choice(get_args(of))
    elif kind is None and "range" in extra:
        kind = RANGES[of](*extra["range"])
    elif kind is None and get_origin(of) is None:
        kind = of
    return click.option(*spelled, name, type=kind, multiple=get_origin(of) is list, **words)


def _plain(annotation: Any) -> Any:
    """The type without `| None`."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if isinstance(annotation, UnionType) else annotation
