"""Work that takes no time, or that ends badly, for tests of the grid: other processes can import it, and quickly."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def start_program(folder: Path, program: str, argument: Path) -> subprocess.Popen:
    """A process of its own that runs `program`, kept in the folder, with what is here to import."""
    file = folder / "program.py"
    file.write_text(program)
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.Popen([sys.executable, file, argument], env=environment, stdout=subprocess.PIPE, text=True)


def square(number: int) -> int:
    return number**2


def square_of_even(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number**2


def process_id(_: object) -> int:
    return os.getpid()


def environment(names: tuple[str, ...]) -> list[str | None]:
    return [os.environ.get(name) for name in names]


def no_way_back(_: object) -> object:
    return lambda: None


def die(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_unless_even(number: int) -> int:
    if number % 2:
        die(number)
    return number**2


def die_at_first(marker: Path | int) -> object:
    """Dies the first time that it gets a file to mark; numbers are only given back."""
    if isinstance(marker, Path):
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return "survived"
        die(marker)
    return marker


def sleep_long(marker: Path) -> None:
    marker.with_suffix(".part").write_text(str(os.getpid()))
    marker.with_suffix(".part").replace(marker)
    time.sleep(600)


def sleep_if_second(marker: Path) -> str | None:
    return sleep_long(marker) if marker.name == "second" else "first"


def interrupt_itself(_: object) -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"


def rows_of(task):
    """A row for each table that is missing."""
    import pandas as pd

    job = task.job
    rows = [
        {
            "table": table,
            "dataset": job.dataset,
            "model": job.model,
            "recipe": job.recipe,
            "seed": job.seed,
            "split": "random" if table == "prediction" else "",
            "p": "1/4" if table == "prediction" else "",
            "metric": "mse",
            "n": 0,
            "value": 0.1 + job.seed,
        }
        for table in task.tables
    ]
    return pd.DataFrame(rows), None if task.model else b"a model"


def rows_but_die_at_first(task):
    """`rows_of`, but the process of the second seed dies the first time."""
    if task.job.seed == 1:
        die_at_first(Path(os.environ["FEBM_TEST_MARKER"]))
    return rows_of(task)


def rows_until_the_third_seed(task):
    """`rows_of`, but the third seed never ends."""
    if task.job.seed == 2:
        time.sleep(600)
    return rows_of(task)
