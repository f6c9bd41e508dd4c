"""Samples of a program into a dataset."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Unpack

from . import _packhorse
from ._fields import dtype_name
from ._pack import Packed, PackSettings, shows_settings, split_settings
from ._settings import Path


class Writer:
    """Writes samples, in their order, into the sealed dataset `out`: webdataset's `ShardWriter`, for every format.

    ```python
    with packhorse.Writer("shards", to="webdataset", shard_size="500MB") as writer:
        for key, jpeg, label in samples():
            writer.write({"__key__": key, "jpg": jpeg, "cls": label})
    ```

    A sample is a dictionary: `__key__` (its number if there is none), and fields of bytes, text, numbers or arrays (what
    `numpy.asarray` takes). Formats with typed columns store them as they are, and all samples must have the types of the
    first; WebDataset stores text and numbers as text, a field called `json` as JSON, arrays as `.npy`. Names that begin with `__`, such as the `__url__` of
    webdataset's samples, are left out. `columns` names fields
    that the first sample may lack: `{"png": "bytes"}`. With `ragged` arrays may differ in shape.

    The dataset is published when the `with` ends, or by `close`. If it ends by an exception, or the program dies before, nothing
    is left: samples of a program can't be read again, so there is nothing to continue from.

    Other settings are those of docs/settings.md that do not need all samples beforehand: `shard_size`, `samples_per_shard`,
    `index`, `name`, `classes`, `compression`, …; `class_names` is a class list; `jobs`, `memory`, `replace` as the command's.
    """

    @shows_settings
    def __init__(
        self,
        out: Path,
        to: str | None = None,
        *,
        class_names: list[str] | None = None,
        **settings: Unpack[PackSettings],
    ) -> None:
        columns, ragged = settings.pop("columns", None), settings.pop("ragged", None)
        if columns is not None and not isinstance(columns, Mapping):
            raise TypeError(f"columns={columns!r}: of a writer it names types, such as {{'png': 'bytes'}}")
        given, how = split_settings({"to": to, "out": os.fsdecode(out), **settings})
        self._ours = _packhorse.Writer(given, how, [(name, dtype_name(dtype)) for name, dtype in (columns or {}).items()], class_names or [], bool(ragged))
        self.packed: Packed | None = None
        """What was packed, once the writer is closed."""

    def write(self, sample: Mapping[str, Any]) -> None:
        """Adds a sample. After an error of it (`ContentError`, `LimitError`) the sample is left out, and others can follow. Samples are checked in
        groups: an error may be of one of the last 256, which it names. Another error, such as a `StorageError` of a full disk, ends the writer, which
        has lost samples by it."""
        if not isinstance(sample, Mapping):
            raise TypeError(f"sample {self.samples} is of type {type(sample).__name__}: give a dictionary of its fields")
        self._ours.write(sample if type(sample) is dict else dict(sample))

    @property
    def samples(self) -> int:
        """How many samples were written."""
        return self._ours.samples

    @property
    def totals(self) -> dict[str, Any]:
        """What was written so far, as the `progress` of `pack` gets it: `samples`, `bytes`, `shards` and others."""
        return self._ours.totals()

    def close(self) -> Packed:
        """Publishes the shards and seals the dataset."""
        if self.packed is None:
            self.packed = Packed(json.loads(self._ours.finish()))
        return self.packed

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            if self.packed is None:
                self._ours.abort()
