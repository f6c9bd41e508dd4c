"""Traces: what each thread of packhorse does and when."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import _packhorse

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_packhorse.leave_trace)


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Writes what packhorse's threads do inside of the `with` to `path`, as `--trace` does, for Perfetto and others.

    ```python
    with packhorse.trace("epoch.json"):
        for batch in loader:
            train(batch)
    ```

    One trace at a time in a process. Forked children are not in it.
    """
    running = _packhorse.Trace(os.fspath(path))
    try:
        yield
    finally:
        running.finish()
