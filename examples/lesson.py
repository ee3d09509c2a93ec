"""What all examples share: their two options, and how pictures are saved."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

import matplotlib.pyplot as plt

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})


def begin(description: str | None) -> tuple[bool, Path]:
    """Read the options: whether to work in small, and the folder for pictures, which is made."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few curves and short fits, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("febm-examples"), help="folder for pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    return options.small, options.out


def axes_for(count: int, label: str) -> Sequence[plt.Axes]:
    """Axes side by side that share their scales."""
    _, panels = plt.subplots(1, count, figsize=(3.4 * count, 3.0), sharey=True, layout="constrained", squeeze=False)
    for axes in panels[0]:
        axes.set_xlabel(label)
    return panels[0]


def save(panels: Sequence[plt.Axes], path: Path) -> None:
    """Write the picture that holds the axes, and say where."""
    panels[0].figure.savefig(path, dpi=120)
    plt.close(panels[0].figure)
    print(f"The picture is {path}.")
