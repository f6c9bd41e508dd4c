"""The command `packhorse`: `python -m packhorse` is the same."""

from __future__ import annotations

import os
import signal
import sys

from . import _packhorse


def main() -> None:
    """Runs the command with the arguments of this process."""
    sys.stdout.flush()
    # Ctrl-C is the command's: Python would raise KeyboardInterrupt beside it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = _packhorse.run(["packhorse", *sys.argv[1:]])
    # Nothing of Python is left to do, and a closed pipe is not an error.
    os._exit(code)


if __name__ == "__main__":
    main()
