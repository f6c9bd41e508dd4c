"""The command `packhorse`: `python -m packhorse` is the same."""

from __future__ import annotations

import os
import sys

from . import _packhorse


def main() -> None:
    """Runs the command with the arguments of this process."""
    sys.stdout.flush()
    code = _packhorse.run(["packhorse", *sys.argv[1:]])
    # Nothing of Python is left to do, and a closed pipe is not an error.
    os._exit(code)


if __name__ == "__main__":
    main()
