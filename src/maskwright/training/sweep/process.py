"""The process of a cell: `python -m maskwright.training.sweep.process cell.json`.

It lives as long as its standard input is open, so that it never outlives the sweep that started it, however that ends.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path


def end_with_parent() -> None:
    """End this process as soon as the other end of its standard input is closed."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main(path: Path) -> int:
    """Run the cell whose job is in a file; 0 if all of it went well."""
    end_with_parent()
    from maskwright.training.sweep.cell import run_job  # takes seconds, in which the parent may end

    return 0 if run_job(path) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
