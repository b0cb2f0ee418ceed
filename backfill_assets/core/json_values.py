"""Records as JSON values, for every `to_dict` and every `--json`.

Not here: writing JSON for a screen (`cli.common`) and the formats of files that are read back (receipts, plans).
"""

from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import date
from enum import Enum
from typing import Any


def json_of(value: Any) -> Any:
    """Return JSON values: fields of records by name (or their `to_dict`), days and instants in ISO 8601."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return json_of(vars(value))
    if isinstance(value, Mapping):
        return {str(json_of(key)): json_of(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple | set | frozenset):
        return [json_of(item) for item in value]
    return value
