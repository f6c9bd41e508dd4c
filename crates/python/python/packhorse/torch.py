"""Datasets and loaders for torch's `DataLoader` and torchdata's `StatefulDataLoader`. Imports torch."""

# Where torch is not installed, pyright takes `import torch` for this very file, and misses what torch has. mypy does not.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import mmap
import operator
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import Dataset as _MapDataset
from torch.utils.data import IterableDataset, get_worker_info

from ._batch import Batch, Lists, Ragged, each
from ._dataset import Dataset
from ._fields import Described, Fields, describe
from ._loader import Loader, State
from ._packhorse import Array
from ._tokens import TokenLoader

Sample = dict[str, Any]


# Types of fields that are arrays of bytes or Booleans.
_ARRAY = re.compile(r"(list<)*(UInt8|Boolean)[\[>]")


def _shared(*shape: int) -> Any:
    """Zeros in memory that a process shares with its workers."""
    zeros: Any = torch.zeros(shape, dtype=torch.int64, device="cpu")
    return zeros.share_memory_()


class TorchDataset(_MapDataset[Any]):
    """A map-style dataset: `[i]` is a dictionary of tensors, numbers and bytes, and with `keys` of the sample's key as `__key__`, to
    which `transform` is applied.

    Random crops and flips depend on `seed`, the epoch (`set_epoch`) and the sample alone, whichever worker decodes it.
    """

    def __init__(
        self,
        dataset: Dataset,
        fields: Fields = None,
        *,
        transform: Callable[[Sample], Any] | None = None,
        seed: int = 0,
        keys: bool = False,
    ) -> None:
        self.dataset = dataset
        self.keys = keys
        self.fields = fields
        self.transform = transform
        self.seed = seed
        # Workers may outlive an epoch.
        self._epoch = _shared()
        self._arrays: frozenset[str] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A copy has memory of its own, which its workers must see too.
        self._epoch.share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Chooses the random crops and flips. Call it before the `for` over the `DataLoader`, whose workers see it then."""
        self._epoch.fill_(operator.index(epoch))

    @property
    def epoch(self) -> int:
        """The epoch of the random crops and flips."""
        return int(self._epoch)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number: int) -> Any:
        number = operator.index(number)
        at = number + len(self) if number < 0 else number
        if not 0 <= at < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        return self.__getitems__([at])[0]

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        batch = self.dataset.batch([int(number) for number in numbers], self.fields, seed=self.seed, epoch=self.epoch)
        if self._arrays is None:
            self._arrays = _arrays(self.dataset, describe(self.fields))
        columns = {name: _rows(values, name in self._arrays) for name, values in batch.items()}
        if self.keys:
            columns["__key__"] = batch.keys
        samples = [{name: rows[row] for name, rows in columns.items()} for row in range(batch.rows)]
        return samples if self.transform is None else [self.transform(sample) for sample in samples]


def _arrays(dataset: Dataset, described: list[Described]) -> frozenset[str]:
    """The fields that are arrays of bytes or Booleans, which look like bytes where their rows have different lengths."""
    kinds = dataset.fields
    sources = [(name, source, kind) for name, source, kind, *_ in described] or [(name, name, "auto") for name in kinds]

    def is_array(source: str, kind: str) -> bool:
        held = [kinds.get(one, "") for one in source.split(";")]
        of_blobs = any(one.endswith("blob>") for one in held)
        return kind == "ragged" and not of_blobs or any(_ARRAY.match(one) for one in held)

    return frozenset(name for name, source, kind in sources if is_array(source, kind))


def _rows(values: Array | Ragged | Lists, is_array: bool) -> Any:
    """One entry for each sample: a tensor, or the bytes of a field of bytes; of lists in lists a list of these."""
    if isinstance(values, Array):
        return values.torch()
    if isinstance(values, Lists):
        is_bytes = not is_array and values.values.dtype == "uint8" and values.values.ndim == 1
        return values.bytes() if is_bytes else each(lambda array: array.torch(), list(values))
    if not is_array and values.shapes is None and values.values.dtype == "uint8" and values.values.ndim == 1:
        return values.bytes()
    return [row.torch() for row in values]


class TorchLoader(IterableDataset[dict[str, Any]]):
    """The batches of a loader as dictionaries of tensors, for `DataLoader(loader.torch(), batch_size=None)`.

    Without workers (`num_workers=0`) the loader's own threads do the work: that is the fast way, and nothing is copied
    between processes. With workers each is a rank of its own, so that no sample comes twice. Call `set_epoch` before each
    epoch: workers that are made for one epoch start at the epoch that was set. Persistent workers that were told of no
    epoch go on with the next. With `keys` each batch has the list of its samples' keys too, as `__key__`.
    """

    def __init__(self, loader: Loader | TokenLoader, *, keys: bool = False) -> None:
        self.loader = loader
        self.keys = keys
        self._own: Loader | TokenLoader | None = None
        self._resume: State | None = None
        # The epoch that was asked for after a state was loaded.
        self._asked: int | None = None
        self._ended = False
        self._arrays: frozenset[str] | None = None
        # The epoch of the last `set_epoch` of this process, and how many there were: its persistent workers look there.
        self._pid = os.getpid()
        self._set = _shared(2)
        self._seen = 0
        # Where the pass before began: the epoch and one, or 1 of tokens; 0 before the first.
        self._begun = _shared(1)
        if isinstance(loader, Loader):
            loader._workers = loader._workers or mmap.mmap(-1, 1)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return _Pass(self)

    def _begin(self) -> Iterator[Batch]:
        """The batches of the next pass."""
        if isinstance(self.loader, Loader) and self.loader._workers is not None:
            # The process that forked this worker sees it.
            self.loader._workers[0] = get_worker_info() is not None
        is_new = self._own is None and self._resume is None
        loader = self._of_worker()
        self._ended = False
        if get_worker_info() is not None:
            epoch, calls = self._set.tolist()
            if calls != self._seen:
                self._go_to(epoch, loader)
                self._seen = calls
            self._warn_of_new_workers(is_new, loader)
        if self._resume is not None:
            resume = dict(self._resume)
            ended = resume.pop("ended", True)
            # One that is refused is refused again.
            loader.load_state_dict(resume)
            asked, self._resume, self._asked = self._asked, None, None
            # Of a pass whose last batch was taken, and that had not ended, nothing is left.
            if not ended and loader.is_at_end():
                return iter(())
            if asked is not None and isinstance(loader, Loader):
                loader.set_epoch(asked)
        return iter(loader)

    def _warn_of_new_workers(self, is_new: bool, loader: Loader | TokenLoader) -> None:
        """Workers that are made for one pass begin where those before did, unless another epoch was set. An order of tokens has none to set."""
        worker = get_worker_info()
        if worker is None or worker.id > 0:
            return
        what, remedy, begun = "tokens", "no workers", 1
        if isinstance(loader, Loader):
            what, remedy, begun = "order of samples", "call set_epoch before each pass", loader.epoch + 1
        repeats = self._begun.item() == begun and not (isinstance(loader, Loader) and loader.shuffle == "sequential")
        if is_new and repeats:
            text = f"these workers begin with the same {what} as those of the pass before: give the DataLoader persistent_workers=True, or {remedy}"
            warnings.warn(text, stacklevel=2)
        self._begun.fill_(begun)

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of `epoch`. In the middle of that epoch, after `load_state_dict`, it goes on there."""
        self._go_to(epoch, self.loader)
        if self._pid != os.getpid():
            # A process that was forked since has workers of its own.
            self._pid, self._set, self._seen = os.getpid(), _shared(2), 0
        self._seen += 1
        self._set.copy_(torch.tensor([epoch, self._seen]))

    def _go_to(self, epoch: int, loader: Loader | TokenLoader) -> None:
        """Makes the next pass of this process that of `epoch`."""
        if not isinstance(loader, Loader):
            raise TypeError("an order of tokens has all its epochs: there is none to set")
        loader.set_epoch(epoch)
        if self._resume is not None:
            # Each epoch may have workers of its own, which begin with the state that is known here.
            self._asked = epoch
            if self._resume["epoch"] != epoch:
                self._resume = self._asked = None

    def state_dict(self) -> State:
        """The state of this process's loader."""
        if self._resume is not None:
            return self._resume
        return {**self._of_worker().state_dict(), "ended": self._ended}

    def load_state_dict(self, state: State) -> None:
        """Continues from a state of a loader with as many workers."""
        self._resume, self._asked = state, None

    def _tensors(self, batch: Batch) -> dict[str, Any]:
        if self._arrays is None:
            loader = self.loader
            self._arrays = _arrays(loader.dataset, loader._described) if isinstance(loader, Loader) else frozenset()
        tensors = {name: _rows(values, name in self._arrays) for name, values in batch.items()}
        return {**tensors, "__key__": list(batch.keys)} if self.keys else tensors

    def _of_worker(self) -> Loader | TokenLoader:
        worker = get_worker_info()
        if worker is None:
            return self.loader
        if self._own is None:
            rank, world = self.loader.place
            place = (rank * worker.num_workers + worker.id, world * worker.num_workers)
            self._own = self.loader._as_rank(place, threads=1)
        return self._own

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self.loader, Loader) and self.loader._workers is not None:
            # It is most often a worker that gets it.
            self.loader._workers[0] = 1
        return {**self.__dict__, "_own": None, "_ended": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A copy has memory of its own, which its workers must see too.
        self._set.share_memory_()
        self._begun.share_memory_()


class _Pass(Iterator[dict[str, Any]]):
    """The batches of a pass. What comes after an error is what comes from the loader."""

    def __init__(self, data: TorchLoader) -> None:
        self._data = data
        self._batches: Iterator[Batch] | None = None
        self._over = False

    def __next__(self) -> dict[str, Any]:
        if self._over:
            raise StopIteration
        if self._batches is None:
            self._batches = self._data._begin()
        try:
            return self._data._tensors(next(self._batches))
        except StopIteration:
            self._over = self._data._ended = True
            raise


__all__ = ["TorchDataset", "TorchLoader"]
