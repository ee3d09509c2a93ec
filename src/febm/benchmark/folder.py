"""The folder of a run: a file of rows for each job, written whole or not at all, and what it says is already there."""

import os
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from febm.benchmark.jobs import COLUMNS, Job
from febm.files import whole_file

TYPES = {"seed": "int64", "n": "int64", "value": "float64"}


class RunFolder:
    """Scores, errors and models of the jobs of a run.

    scores/NAME.csv has the rows of a job, errors/NAME.txt the traceback of one that failed last time, models/NAME.febm
    the fitted model; results.csv and results.parquet have all rows together. NAME is `Job.name`.
    """

    def __init__(self, out: str | os.PathLike[str]) -> None:
        self.out = Path(out)
        self.scores, self.errors, self.models = (self.out / name for name in ("scores", "errors", "models"))
        self.results_csv, self.results_parquet = self.out / "results.csv", self.out / "results.parquet"

    def make(self) -> None:
        """Make the folders, or say what is in the way."""
        for folder in (self.scores, self.errors, self.models):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError) as error:
                raise ValueError(
                    f"benchmark: out is {str(self.out)!r}, but {error.filename} is a file that stands in the way; "
                    "name another folder."
                ) from error

    def score_path(self, job: Job) -> Path:
        """Where the rows of the job are."""
        return self.scores / f"{job.name}.csv"

    def error_path(self, job: Job) -> Path:
        """Where the traceback of the job is, if it failed."""
        return self.errors / f"{job.name}.txt"

    def model_path(self, job: Job) -> Path:
        """Where the fitted model of the job is."""
        return self.models / f"{job.name}.febm"

    def missing(self, job: Job) -> tuple[str, ...]:
        """The tables of the job that its file has no rows of."""
        held = set(self._rows(job)["table"])
        return tuple(table for table in job.tables if table not in held)

    def model(self, job: Job) -> bytes | None:
        """The saved model of the job, if there is one."""
        try:
            return self.model_path(job).read_bytes()
        except FileNotFoundError:
            return None

    def keep(self, job: Job, rows: pd.DataFrame, model: bytes | None) -> None:
        """Add the rows of tables that were missing; the job has no error any more."""
        if model is not None:
            write_whole(self.model_path(job), model)
        old = self._rows(job)
        together = _together(table for table in (old[~old["table"].isin(rows["table"])], rows) if len(table))
        write_whole(self.score_path(job), together.to_csv(index=False).encode())
        self.error_path(job).unlink(missing_ok=True)

    def fail(self, job: Job, error: str) -> None:
        """Say why the job has no rows."""
        write_whole(self.error_path(job), error.encode())

    def results(self) -> pd.DataFrame:
        """The rows of all jobs that are done, those of other runs into this folder too."""
        return _together(map(read_rows, sorted(self.scores.glob("*.csv"))))

    def write_results(self) -> pd.DataFrame:
        """Write all rows together, and give them back."""
        results = self.results()
        write_whole(self.results_csv, results.to_csv(index=False).encode())
        write_whole(self.results_parquet, results.to_parquet(index=False))
        return results

    def _rows(self, job: Job) -> pd.DataFrame:
        path = self.score_path(job)
        return read_rows(path) if path.exists() else _together([])


def read_rows(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The rows in a file: names and shares as words, an empty word where there is none; NaN for a score unknown."""
    rows = pd.read_csv(path, dtype="str", keep_default_na=False)
    # Python reads numbers exactly, which pandas does not do in all its versions.
    values = [float(value or "nan") for value in rows["value"]]
    return rows.assign(value=values).astype(TYPES)


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file that appears with all its contents or not at all."""
    with whole_file(path) as file:
        file.write(contents)


def _together(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    found = list(tables)
    if found:
        return pd.concat(found, ignore_index=True)
    return pd.DataFrame({name: pd.Series(dtype=TYPES.get(name, "str")) for name in COLUMNS})
