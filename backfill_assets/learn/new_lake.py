"""The text of a new, commented `lake.toml`, which is checked as a load would check it.

Not here: reading it back (`kernel.tables.settings`), guessing its values from files
(`learn.first_source`), and its template (`new_lake.toml`).
"""

import json
import os
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from backfill_assets.intake.landings import refuse_unusable_source
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.texts import refusal_reason
from backfill_assets.kernel.tables.gate_bounds import ColumnGate, TableGate
from backfill_assets.kernel.tables.settings import ENV_PREFIX, lake_model

TEMPLATE = Path(__file__).with_name("new_lake.toml")
DEFAULTS: Mapping[str, Any] = {
    "windows_days": [7, 28],
    "horizon_days": 7,
    "maturity_days": 7,
    "engine": "embedded",
    "memory": "2g",
}


def lake_toml(values: Mapping[str, Any]) -> str:
    """The text of a new, commented `lake.toml`; `values` are start_date, files, format, select, and
    any of DEFAULTS.

    Raises SettingsError for values that a lake would not accept.
    """
    filled = {
        **DEFAULTS,
        "engine": os.environ.get(f"{ENV_PREFIX}SPARK__ENGINE", DEFAULTS["engine"]),
        **values,
    }
    literals = {
        k: str(v) if isinstance(v, date) else json.dumps(v, ensure_ascii=False)
        for k, v in filled.items()
    }
    gates = {"table_gate": commented_bounds(TableGate), "column_gate": commented_bounds(ColumnGate)}
    text = TEMPLATE.read_text(encoding="utf-8").format(**literals, **gates)
    try:
        settings = lake_model().model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        culprit = str(error)
    except ValidationError as error:
        culprit = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {refusal_reason(e)}" for e in error.errors()
        )
    else:
        for source in settings.delivered.values():
            refuse_unusable_source(source)
        return text
    raise SettingsError("the new lake.toml", culprit, "Nothing was written", "Correct the options")


def commented_bounds(bounds: type[BaseModel]) -> str:
    """Bounds as a new `lake.toml` has them, commented out: an example, or the default, and the
    description of each."""
    lines = list[str]()
    for name, field in bounds.model_fields.items():
        if field.description is None:
            continue
        example = json.dumps((field.examples or [field.default])[0])
        text, why = f"# {name} = {example}", field.description
        lines.append(f"{text:36s} # {why}" if why else text)
    return "\n".join(lines)
