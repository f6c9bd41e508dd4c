"""Tokens of Megatron's `.bin` and `.idx` files: documents, and samples in training order."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

from . import _packhorse
from ._batch import Batch
from ._device import device_name, open_gpu
from ._errors import StorageError
from ._loader import State, check_counts, named_stats, one_of
from ._packhorse import Array
from ._place import check_place, in_worker, pickled_place, rank_and_world, warn_of_workers

if TYPE_CHECKING:
    from .torch import TorchLoader

_WITH = ("position_ids", "segment_ids", "loss_mask", "cu_seqlens")


class TokenDataset:
    """The documents of a pair of `.bin` and `.idx`, given as its prefix, as one of the two, or as a folder with one pair.

    `len` is the number of documents that have tokens: one without, which packing skips by default, has a row in `SHARD.documents.parquet`
    and no place here. `[i]` is the tokens of one, `[a:b]` a list of them. The files are mapped, and must not be written meanwhile.
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        text = os.fspath(place).removesuffix(".bin")
        self._place = text if "://" in text else os.path.abspath(text)
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._opened = _packhorse.Tokens.open(self._place)
        self._lengths: list[int] | None = None

    @property
    def _ours(self) -> _packhorse.Tokens:
        if self._pid != os.getpid():
            self._open()
        return self._opened

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each document."""
        ours = self._ours
        if self._lengths is None:
            self._lengths = ours.lengths()
        return self._lengths

    @property
    def dtype(self) -> str:
        """The type of tokens."""
        return self._ours.dtype()

    def __len__(self) -> int:
        return len(self._ours)

    @overload
    def __getitem__(self, number: int) -> Array: ...
    @overload
    def __getitem__(self, number: slice) -> list[Array]: ...
    def __getitem__(self, number: int | slice) -> Array | list[Array]:
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        at = number + len(self) if number < 0 else number
        if not 0 <= at < len(self):
            raise IndexError(f"document {number} of {len(self)}")
        return self._ours.document(at, self.lengths[at])

    def __iter__(self) -> Iterator[Array]:
        return (self[number] for number in range(len(self)))

    def loader(
        self,
        batch: int,
        seq_length: int,
        *,
        seed: int = 1234,
        samples: int | None = None,
        place: str | tuple[int, int] = "auto",
        device: object = "cpu",
        companions: Iterable[str] = (),
        pad: int | None = None,
        remainder: str = "drop",
        threads: int | None = None,
    ) -> TokenLoader:
        """Samples of `seq_length + 1` tokens in the order of Megatron's GPTDataset of this seed, as the field `tokens`.

        `samples` is how many there are at least; one epoch without it. `companions` are more fields: `position_ids`,
        `segment_ids`, `loss_mask`, `cu_seqlens`. `remainder`, `place` and `device` are as of `Dataset.loader`, except that
        `"pad"` adds rows of the token `pad` (0 without it), for which `loss_mask` is 0.
        """
        one_of("remainder", remainder, "drop", "pad", "uneven")
        check_counts(threads=threads)
        check_place(place)
        wanted = [companions] if isinstance(companions, str) else list(companions)
        for name in wanted:
            if name not in _WITH:
                raise ValueError(f"companions={name!r} is none of {', '.join(_WITH)}")
        settings = {
            "batch": batch, "length": seq_length, "seed": seed, "samples": samples, "with": wanted, "pad": pad,
            "remainder": remainder, "threads": threads,
        }  # fmt: skip
        return TokenLoader(self, settings, place, device)

    def __reduce__(self) -> tuple[Any, ...]:
        return (TokenDataset, (self._place,))

    def __repr__(self) -> str:
        return f"TokenDataset({self._place!r}, {len(self)} documents, {sum(self.lengths)} tokens, {self.dtype})"


class TokenLoader:
    """Batches of tokens in training order. A `for` goes on from where the loader is, to the end of the order: it has as many
    epochs as its `samples` take. Batches have no keys."""

    def __init__(self, dataset: TokenDataset, settings: dict[str, Any], place: str | tuple[int, int], device: object = "cpu") -> None:
        self.dataset = dataset
        self._settings = settings
        self._place = place
        self._of_worker = in_worker()
        self._device = device_name(device)
        self._gpu: _packhorse.Gpu | None = None
        self._resume: State | None = None
        self._pid = os.getpid()
        self._pipeline: _packhorse.TokenPipeline | None = None
        # The rank of the threads that run.
        self._placed: tuple[int, int] | None = None

    @property
    def place(self) -> tuple[int, int]:
        """The rank of this loader, and the number of ranks that share the samples."""
        if isinstance(self._place, tuple):
            return self._place
        if self._placed is not None and self._pipeline is not None and self._pid == os.getpid():
            return self._placed
        return rank_and_world()

    def _running(self) -> _packhorse.TokenPipeline:
        if self._pid != os.getpid():
            if self._pipeline is not None:
                self._resume = json.loads(self._pipeline.state())
            self._pid, self._pipeline, self._gpu = os.getpid(), None, None
        if self._pipeline is None:
            state = None if self._resume is None else json.dumps(self._resume)
            self._gpu = self._gpu or open_gpu(self._device)
            place = self.place
            settings = {**self._settings, "place": place, "state": state}
            self._pipeline = self.dataset._ours.loader(settings, self._gpu)
            self._placed = place
        return self._pipeline

    def __iter__(self) -> Iterator[Batch]:
        if isinstance(self._place, str) and not self._of_worker:
            warn_of_workers()
        if self._pipeline is not None and isinstance(self._place, str) and self._placed != rank_and_world():
            # The ranks were made after the loader was looked at.
            self._pipeline, self._resume = None, self.state_dict()
        if not self._running().remaining():
            warnings.warn(
                "no batch is left of the order: `samples` makes it longer, load_state_dict goes back, and a smaller batch fits",
                stacklevel=2,
            )
        return _Order(self)

    def __len__(self) -> int:
        """The number of batches left."""
        return self._running().remaining()

    def is_at_end(self) -> bool:
        """Whether all batches of the order were taken."""
        return self._running().remaining() == 0

    def torch(self) -> TorchLoader:
        """As an iterable dataset for torch's `DataLoader(…, batch_size=None)`, as `Loader.torch`; its `set_epoch` is an error, since
        the order has all epochs."""
        from .torch import TorchLoader

        return TorchLoader(self)

    def _as_rank(self, place: tuple[int, int], threads: int | None) -> TokenLoader:
        """This loader as that of another rank, from where this one is."""
        own = object.__new__(TokenLoader)
        own.__dict__.update(self.__getstate__())
        own._place = place
        own._settings = {**self._settings, "threads": self._settings["threads"] or threads}
        return own

    def stats(self) -> dict[str, float]:
        """What the loader has done, as `Loader.stats` says it; reading is part of decoding here."""
        return named_stats(self._running().stats())

    def state_dict(self) -> State:
        """The progress of all ranks together, valid for any world size and batch size."""
        state: State = json.loads(self._running().state())
        return state

    def load_state_dict(self, state: State) -> None:
        """Continues from a state. Raises `StateError` if it is of another order: of other files, another seed or length."""
        before = self.state_dict()
        self._pipeline, self._resume = None, dict(state)
        try:
            self._running()
        except BaseException:
            self._pipeline, self._resume = None, before
            raise

    def __repr__(self) -> str:
        rank, world = self.place
        return f"TokenLoader({len(self)} batches of {self._settings['batch']} left, rank {rank} of {world}, {self.dataset!r})"

    def __getstate__(self) -> dict[str, Any]:
        resume = self._resume if self._pipeline is None else json.loads(self._pipeline.state())
        return {
            "dataset": self.dataset, "_settings": self._settings, "_place": pickled_place(self._place), "_resume": resume,
            "_pid": os.getpid(), "_pipeline": None, "_placed": None, "_device": self._device, "_gpu": None,
        }  # fmt: skip


class _Order(Iterator[Batch]):
    """The batches that are left of an order. After a `StorageError` the same batch comes, after others the next."""

    def __init__(self, loader: TokenLoader) -> None:
        self._loader = loader
        self._over = False

    def __next__(self) -> Batch:
        if self._over:
            raise StopIteration
        loader = self._loader
        pipeline = loader._running()
        state = pipeline.state()
        try:
            batch = pipeline.next()
        except StorageError as error:
            # What failed may pass, but not of a GPU: the same batch is read again.
            if error.code != "gpu-failed" and loader._pipeline is pipeline:
                loader._pipeline, loader._resume = None, json.loads(state)
            raise
        if batch is None:
            self._over = True
            raise StopIteration
        return Batch(batch)
