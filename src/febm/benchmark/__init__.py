"""The paper's tables: what was published, and the same scores of the models here, as one grid that can be resumed."""

import importlib
from typing import TYPE_CHECKING, Any

# Not left for later, as the others are: its module has the same name, and would take its place.
from febm.benchmark.published import published

if TYPE_CHECKING:
    from febm.benchmark.engines import Cluster, Engine, Here, Processes
    from febm.benchmark.folder import RunFolder
    from febm.benchmark.grid import GridResult, plan, run_grid
    from febm.benchmark.jobs import Job, run_job

__all__ = [
    "Cluster",
    "Engine",
    "GridResult",
    "Here",
    "Job",
    "Processes",
    "RunFolder",
    "plan",
    "published",
    "run_grid",
    "run_job",
]

# Imported when first asked for: a worker process that starts need not wait for JAX before it can say so.
_HOMES = {
    "Cluster": "engines",
    "Engine": "engines",
    "Here": "engines",
    "Processes": "engines",
    "RunFolder": "folder",
    "GridResult": "grid",
    "plan": "grid",
    "run_grid": "grid",
    "Job": "jobs",
    "run_job": "jobs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'febm.benchmark' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"febm.benchmark.{_HOMES[name]}"), name)
    return value
