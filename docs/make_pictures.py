"""Make the pictures of the tutorial anew: `python docs/make_pictures.py` runs its code and keeps what it draws."""

import os
import shutil
import tempfile
from pathlib import Path

from run_page import run

HERE = Path(__file__).resolve().parent


def main() -> None:
    os.environ.setdefault("MPLBACKEND", "Agg")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run(HERE / "tutorial.md")
        os.chdir(HERE)
        for picture in sorted(Path(folder).glob("*.png")):
            shutil.copy(picture, HERE / "images" / f"tutorial_{picture.name}")
            print(f"docs/images/tutorial_{picture.name}")


if __name__ == "__main__":
    main()
