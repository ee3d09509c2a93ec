"""The paper's tables: what was published, and the same scores of the models here."""

from febm.benchmark.jobs import Job, run_job
from febm.benchmark.published import published

__all__ = ["Job", "published", "run_job"]
