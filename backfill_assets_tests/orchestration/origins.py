"""Where the code of a run lies, as Dagster stores it with a run, for tests that launch runs by hand.

Lives here: both origins of a job. Does not live here: the runs (`test_run_launcher`).
"""

import json
import sys
from typing import Any

import dagster as dg


def remote_origin(job: str) -> Any:
    """A job of a code location on this machine."""
    location = {
        "__class__": "GrpcServerRepositoryLocationOrigin", "host": "localhost", "location_name": "jobs", "port": 1,
        "socket": None,
    }  # fmt: skip
    repository = {
        "__class__": "ExternalRepositoryOrigin", "repository_location_origin": location,
        "repository_name": "__repository__",
    }  # fmt: skip
    return _stored({"__class__": "ExternalPipelineOrigin", "external_repository_origin": repository}, job)


def local_origin(job: str, module: str, folder: str | None = None, **other: Any) -> Any:
    """A job of `defs` in a module, found in a folder, and run by this Python; `other` for what is otherwise."""
    pointer = {"__class__": "ModuleCodePointer", "fn_name": "defs", "module": module, "working_directory": folder}
    repository = {
        "__class__": "RepositoryPythonOrigin", "code_pointer": pointer, "container_context": None,
        "container_image": None, "entry_point": ["dagster"], "executable_path": sys.executable, **other,
    }  # fmt: skip
    return _stored({"__class__": "PipelinePythonOrigin", "repository_origin": repository}, job)


def _stored(origin: dict[str, Any], job: str) -> Any:
    return dg.deserialize_value(json.dumps({**origin, "pipeline_name": job}))
