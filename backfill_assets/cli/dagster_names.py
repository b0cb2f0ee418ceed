"""Names and lines of Dagster's own settings that commands and the doctor say.

Not here: Dagster's home of a lake (`dagster_home`), and Dagster, which this does not import.
"""

import json
import re
from pathlib import Path
from typing import Any

# What a lake's own home of Dagster gets.
SETTINGS_OF_A_LAKE = Path(__file__).with_name("templates") / "dagster.yaml"
HOME_VARIABLE = "DAGSTER_HOME"
DEFINITIONS_MODULE = "backfill_assets.definitions"  # the tables of a lake, as Dagster loads them
LOOPBACK = "127.0.0.1"  # where Dagster's servers listen: they know no users
# A variable of Dagster's daemon.
KEEPS_BACKFILLS = "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR"


NAMES_A_STORAGE = re.compile(r"^(event_log_storage|storage|instance_class):", re.MULTILINE)


OUR_EVENT_STORAGE: dict[str, Any] = {
    "module": "backfill_assets.orchestration.event_storage",
    "class": "BatchedEventLogStorage",
    "config": {"home": {"env": HOME_VARIABLE}},
}


EVENT_STORAGE = "event_log_storage: " + json.dumps(OUR_EVENT_STORAGE).replace(
    '"', ""
)  # a line of YAML
