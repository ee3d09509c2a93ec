"""Pages of the documentation, as docs/run_page.py reads and runs them."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from run_page import blocks, run  # noqa: E402

__all__ = ["ROOT", "blocks", "run"]
