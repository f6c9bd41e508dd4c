"""Loaders: batches in an order that is a function of seed, epoch and position."""

from __future__ import annotations

import inspect
import json
import mmap
import operator
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from . import _packhorse
from ._batch import Batch
from ._dataset import Dataset
from ._device import device_name, find_nvjpeg, open_gpu
from ._errors import StorageError
from ._fields import Fields, describe
from ._place import check_place, in_worker, pickled_place, rank_and_world, warn_of_workers

if TYPE_CHECKING:
    from .torch import TorchLoader

State = dict[str, Any]

# Threads of a loader and batches that are ready at most: more are a mistake that takes all memory.
_MOST = {"threads": 1024, "readers": 1024, "ahead": 65_536, "seed": 2**64 - 1}


class LoaderSettings(TypedDict, total=False):
    """The settings of `Dataset.loader`: see `Loader`."""

    fields: Fields
    seed: int
    shuffle: str | None
    place: str | tuple[int, int]
    device: object
    resident: bool
    cache: str | os.PathLike[str] | int | None
    on_error: Literal["fail", "skip"]
    skip: str | os.PathLike[str] | Iterable[str]
    remainder: Literal["drop", "pad", "uneven"]
    threads: int | None
    ahead: int | None
    readers: int | None
    readahead: bool
    verify: bool


class Loader:
    """Batches of a dataset, read and decoded ahead by threads.

    Each `for` over a loader is a whole epoch, with an order of its own; after `load_state_dict` the first is the rest of one.
    A `for` that is left early ends its epoch.

    * `fields`: `{"image": Image("jpg;png", 224), "label": "cls"}`; all fields of the dataset without it.
    * `shuffle`: `"blocks:16"` (shards are shuffled, and the samples of 16 shards together), `"full"` or `"sequential"`;
      `"blocks:16:window:6400"` (of 16 shards, 6,400 samples at a time: 64 runs of 100 neighbours);
      `"nodes:4:blocks:16:epochs:10"` (each of 4 nodes reads shards of its own, and others after 10 epochs), also in windows
      (`"nodes:4:blocks:16:window:6400:epochs:10"`). By default `"blocks:16"`, and windows of about 120 MiB for large shards of
      tables: `loader.shuffle` says which.
    * `place`: `(rank, world)`, or `"auto"`: torch.distributed, or the launcher's environment variables.
    * `device`: `"cpu"`, or a GPU: `"cuda"`, `"cuda:0"`, a number, a `torch.device`. Batches are sent there ahead of their use.
    * `resident`: keep all samples, decoded, in the GPU's memory: they are read once, and epochs cost nothing but copies there.
    * `cache`: a folder for whole shards, or bytes of memory (`"8GiB"`), which rows of tables may take once more, decoded.
    * `on_error`: `"fail"`, or `"skip"` bad samples, and those of missing or damaged shards, with a warning for each.
    * `skip`: keys of samples to leave out, or a file with one on each line. Order, states and other batches stay as they are. The
      dataset may be a view (`take`, `where`, …) that leaves some of them out already.
    * `remainder`: what becomes of samples that fill no step on every rank: `"drop"`, `"pad"` (samples from the start of the
      epoch repeat) or `"uneven"` (smaller batches).
    * `threads`: how many decode, `ahead`: how many batches are ready or in work, `readers`: how many threads read.
    * `readahead`: read local shards from begin to end into the page cache, a block before their samples are wanted.
    * `verify`: compare the checksum of every field.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch: int,
        *,
        fields: Fields = None,
        seed: int = 0,
        shuffle: str | None = None,
        place: str | tuple[int, int] = "auto",
        device: object = "cpu",
        resident: bool = False,
        cache: str | os.PathLike[str] | int | None = None,
        on_error: Literal["fail", "skip"] = "fail",
        skip: str | os.PathLike[str] | Iterable[str] = (),
        remainder: Literal["drop", "pad", "uneven"] = "drop",
        threads: int | None = None,
        ahead: int | None = None,
        readers: int | None = None,
        readahead: bool = True,
        verify: bool = False,
    ) -> None:
        one_of("on_error", on_error, "fail", "skip")
        one_of("remainder", remainder, "drop", "pad", "uneven")
        if shuffle is not None and not isinstance(shuffle, str):
            raise ValueError(f"shuffle={shuffle!r} is not a text such as 'sequential', 'full', 'blocks:16' or 'blocks:16:window:6400'")
        check_place(place)
        if batch < 1:
            raise ValueError(f"batch={batch} is less than one sample")
        check_counts(seed=seed, threads=threads, readers=readers, ahead=ahead)
        ram, folder = _cache(cache)
        self.dataset = dataset
        self.batch = batch
        self._place = place
        # Whether each worker of a DataLoader makes its own, perhaps of a part of the data.
        self._of_worker = in_worker()
        self._device = device_name(device)
        self._described = describe(fields, gpu=self._device != "cpu")
        self._gpu: tuple[int, _packhorse.Gpu] | None = None
        self._keep = resident
        self._kept: tuple[int, _packhorse.Resident] | None = None
        # A byte that is set where workers of a DataLoader take the batches.
        self._workers: mmap.mmap | None = None
        if resident and self._device == "cpu":
            raise ValueError("resident=True keeps samples in a GPU's memory: give its device, such as 'cuda'")
        self._settings = {
            "batch": batch, "seed": seed, "shuffle": shuffle, "remainder": remainder, "on_error": on_error,
            "threads": threads, "ahead": ahead, "readers": readers, "readahead": readahead,
            "verify": verify, "ram": ram, "dir": folder,
            "skip": [] if skip is None else dataset._numbers_of(skip, of_whole=True),
        }  # fmt: skip
        # Fields and settings that make no sense raise here, not at the first batch.
        nodes = re.match(r"nodes:(\d+)", shuffle or "")
        first = self._first(place if isinstance(place, tuple) else (0, int(nodes[1]) if nodes else 1))
        # How samples are shuffled, also where that was left to the default.
        self.shuffle: str = json.loads(first.state())["shuffle"]
        first.stop()
        self._reset(None)

    def _reset(self, resume: State | None) -> None:
        self._pid = os.getpid()
        self._pipeline: _packhorse.Pipeline | None = None
        self._resume = resume
        # Batches left of the epoch; None before one begins.
        self._left: int | None = None
        # Whether one of it was taken.
        self._begun = False
        # Whether the next `for` is of an epoch of which no batch is left.
        self._over = False
        self._turn = 0
        # The rank of the threads that run.
        self._placed: tuple[int, int] | None = None

    # --- epochs -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Batch]:
        if isinstance(self._place, str) and not self._of_worker:
            warn_of_workers()
        own = self._pipeline is not None and self._pid == os.getpid()
        if own and isinstance(self._place, str) and self._placed != rank_and_world():
            # The ranks were made, or ended, after the loader was looked at.
            # If the epoch has ended, other ranks would find samples left in it.
            state, left, begun, over = self._moved_state(), self._left, self._begun, self._over
            self._close(state)
            self._over = over
            if left:
                self._left, self._begun = left, begun
        pipeline = self._running()
        if self._over:
            self._over, self._left, self._begun = False, 0, False
            self._turn += 1
            return _Epoch(self, self._turn)
        if self._left and self._begun:
            # The epoch before was left early.
            self.set_epoch(self.epoch + 1)
            pipeline = self._running()
        each, left = pipeline.steps()
        self._left, self._begun = left or each, False
        self._turn += 1
        if self._workers is not None:
            self._workers[0] = 0
        if each == 0:
            world = self.place[1]
            ranks = f" ({self.batch} on each of {world} ranks)" if world > 1 else ""
            warnings.warn(f"a step of {self.batch * world} samples{ranks} is more than the {len(self.dataset)} samples: no batch")
        return _Epoch(self, self._turn)

    def _next(self, turn: int) -> Batch:
        if self._pid != os.getpid():
            raise RuntimeError("this process was forked inside of an epoch: begin a new `for` over the loader")
        if turn != self._turn:
            raise RuntimeError("another `for` over this loader began, or its state was set")
        if not self._left:
            raise StopIteration
        pipeline, batch = self._running(), None
        left, begun, self._begun = self._left, self._begun, True
        handed, state = pipeline.handed(), pipeline.state()
        self._left = left - 1
        try:
            batch = pipeline.next()
            self._tell(pipeline.messages())
            if batch is not None:
                return Batch(batch)
        except BaseException as error:
            # A batch that can't be made counts as a step. One that an exception of a signal kept back comes next.
            if batch is not None:
                pipeline.put_back(batch)
            # What failed may pass, but not of a GPU: the same batch is read again.
            may_pass = isinstance(error, StorageError) and error.code != "gpu-failed"
            if turn == self._turn and may_pass and batch is None:
                self._tell(pipeline.messages())
                self._close(json.loads(state))
                self._turn, self._left, self._begun = turn, left, begun
            elif pipeline.handed() == handed and turn == self._turn:
                self._left = left
            raise
        raise StopIteration

    def __len__(self) -> int:
        """The number of batches of a whole epoch on each rank."""
        step = self.batch * self.place[1]
        rest = 0 if self._settings["remainder"] == "drop" else step - 1
        return (len(self.dataset) + rest) // step

    @property
    def place(self) -> tuple[int, int]:
        """The rank of this loader, and the number of ranks that share the samples."""
        if isinstance(self._place, tuple):
            return self._place
        if self._placed is not None and self._pid == os.getpid():
            return self._placed
        return rank_and_world()

    @property
    def epoch(self) -> int:
        """The epoch of the last batch, or of the next one if none was taken."""
        state = self._state()
        # A state from the end of an epoch goes on with the next one.
        ended = self._left is None and not self._over and state["consumed"] > 0 and self.is_at_end()
        return int(state["epoch"]) + ended

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `for` that of `epoch`. In the middle of that epoch, after `load_state_dict`, it goes on there; at its end no
        batch is left."""
        epoch = operator.index(epoch)
        if not 0 <= epoch < 2**63:
            raise ValueError(f"epoch={epoch}: epochs count from 0 to 2**63 - 1")
        state, self._over = self._state(), False
        if self._left is None and state["epoch"] == epoch and state["consumed"] > 0 and self._is_end(state):
            self._over = True
            return
        ended = self._left == 0 and state["epoch"] + 1 == epoch
        # Nothing was taken since the state was set, not even by a `for` that has begun.
        waits = not self._left and (self._left is None or state["consumed"] == 0)
        begins = bool(self._left) and not self._begun
        if ended or (state["epoch"] == epoch and (waits or (begins and not self._is_end(state)))):
            return
        self._close(state | {"epoch": epoch, "consumed": 0})

    def is_at_end(self) -> bool:
        """Whether all batches of the current epoch were taken."""
        each, left = self._running().steps()
        return each > 0 and left == 0

    def _is_end(self, state: State) -> bool:
        """The same of a state, without the threads of a loader."""
        if self._pipeline is not None and self._pid == os.getpid():
            return self.is_at_end()
        pipeline = self._first(self.place, state)
        each, left = pipeline.steps()
        pipeline.stop()
        return each > 0 and left == 0

    # --- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """The progress of all ranks together: equal on every rank after the same number of batches. A loader of any world
        size and batch size continues from it with the very next sample. Workers of a `DataLoader` have states of their own."""
        if self._workers is not None and self._workers[0]:
            warnings.warn(
                "workers of a DataLoader take the batches of this loader, and its state does not know of them: take the state of a "
                "StatefulDataLoader, or num_workers=0",
                stacklevel=2,
            )
        return self._state()

    def _state(self) -> State:
        if self._pid == os.getpid() and self._pipeline is None:
            if self._resume is None:
                self._resume = self._first_state()
            return dict(self._resume)
        state: State = json.loads(self._running().state())
        return state

    def _moved_state(self) -> State:
        """The state for another loader in the place of this one: behind an epoch that has ended, at the start of the next."""
        return self._behind_its_end(self._state())

    def _behind_its_end(self, state: State) -> State:
        return state | {"epoch": state["epoch"] + 1, "consumed": 0} if self._left == 0 else state

    def load_state_dict(self, state: State) -> None:
        """Continues from a state. Raises `StateError` if it is of another dataset, shuffle or seed."""
        if not isinstance(state, dict):
            raise TypeError(f"a state is a dictionary, as state_dict() gives it, not {type(state).__name__}")
        before = self._state()
        self._close(dict(state))
        try:
            self._running()
        except BaseException:
            self._close(before)
            raise

    def at(self, step: int, rank: int | None = None, world: int | None = None) -> Batch:
        """The batch of any step and rank again, by arithmetic. Steps count from the start of epoch 0, as if all had had this
        batch size and `world`."""
        own = self.place
        return Batch(self._running().at(step, own[0] if rank is None else rank, own[1] if world is None else world))

    # --- what runs ----------------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """What runs where: ranks, order, threads, fields."""
        rank, world = self.place
        set_ = self._settings
        lines = [
            f"{len(self.dataset)} samples of {self.dataset._shown}",
            f"rank {rank} of {world}: {len(self)} batches of {self.batch} an epoch; shuffle {self.shuffle}, seed {set_['seed']}",
            f"threads: {set_['threads'] if set_['threads'] is not None else 'one for each CPU to'} decode, "
            f"{set_['readers'] if set_['readers'] is not None else 2} read",
        ]
        cached = [f"{set_['ram']} in memory"] * bool(set_["ram"]) + [f"shards in {set_['dir']}"] * bool(set_["dir"])
        lines.append(f"cache: {', '.join(cached) or 'none'}")
        pipeline = self._running()
        lines += self._explain_gpu(pipeline)
        for name, kind, shape, ragged in pipeline.layout():
            dims = ["?" if ragged else str(shape[0]), *map(str, shape[1:])]
            lines.append(f"  {name}: {kind} [{', '.join(dims)}]")
        return "\n".join(lines)

    def _explain_gpu(self, pipeline: _packhorse.Pipeline) -> list[str]:
        """What a GPU does; nothing without one."""
        gpu, told = self._open_gpu(), pipeline.on_gpu()
        if gpu is None or told is None:
            return []
        finished, sent, made = told
        if self._kept is not None:
            return [
                f"device: cuda:{gpu.number} ({gpu.name}); it keeps all samples, and makes batches of them",
                f"memory on the GPU: {_size(self._kept[1].bytes)} for samples, and {_size(sent + made)} for each batch that is ahead or "
                "in use and one more; rows of different lengths besides",
                f"made on the GPU: {', '.join(finished) or 'nothing'}",
            ]
        return [
            f"device: cuda:{gpu.number} ({gpu.name}); one copy for each batch, two ahead of their use",
            f"memory: pinned {_size(sent)} for each batch that is ready or in work, on the GPU {_size(sent + made)} for each that "
            "is ahead or in use and one more; rows of different lengths besides",
            f"made on the GPU: {', '.join(finished) or 'nothing'}",
        ]

    def stats(self) -> dict[str, float]:
        """What the loader has done since its threads were started: batches, samples and bytes taken, how many batches were late
        (not ready when they were asked for), the seconds waited (`waited_s`), and more for each stage; without threads, nothing."""
        return named_stats(_packhorse.no_stats() if self._pipeline is None else self._pipeline.stats())

    def torch(self, *, keys: bool = False) -> TorchLoader:
        """As an iterable dataset for torch's `DataLoader(…, batch_size=None)` and torchdata's `StatefulDataLoader`. With `keys` each
        batch has the list of its samples' keys too, as `__key__`."""
        from .torch import TorchLoader

        return TorchLoader(self, keys=keys)

    def close(self) -> None:
        """Ends the threads, and gives back the samples that a GPU keeps. The next `for` starts again where the loader is."""
        if self._pipeline is not None:
            over = self._over
            self._close(self._moved_state())
            self._over = over
        self._kept = None

    def _close(self, resume: State) -> None:
        pipeline, turn = self._pipeline, self._turn
        if pipeline is not None and self._pid == os.getpid():
            pipeline.stop()
        self._reset(resume)
        self._turn = turn + 1

    def _running(self) -> _packhorse.Pipeline:
        if self._pid != os.getpid():
            # A forked child goes on from where its parent was.
            over = self._over
            self._reset(self._forked_state())
            self._over = over
        if self._pipeline is None:
            state = None if self._resume is None else json.dumps(self._resume)
            place = self.place
            settings = self._settings | {"place": place, "state": state}
            gpu = self._open_gpu()
            resident = self._open_resident(gpu) if self._keep and gpu is not None else None
            self._pipeline = _packhorse.Pipeline(self.dataset._ours, self._described, settings, gpu, resident)
            self._placed = place
            self._tell(self._pipeline.messages())
        return self._pipeline

    def _open_gpu(self) -> _packhorse.Gpu | None:
        """The GPU, opened once in a process."""
        if self._gpu is None or self._gpu[0] != os.getpid():
            gpu = open_gpu(self._device)
            if any(kind == "image" and settings["decode"] == "gpu" for _, _, kind, _, settings in self._described):
                find_nvjpeg()
            self._gpu = None if gpu is None else (os.getpid(), gpu)
        return None if self._gpu is None else self._gpu[1]

    def _open_resident(self, gpu: _packhorse.Gpu) -> _packhorse.Resident:
        """The samples in the GPU's memory, loaded once in a process."""
        if self._kept is None or self._kept[0] != os.getpid():
            settings = self._settings | {"place": (0, 1), "state": None}
            self._kept = (os.getpid(), _packhorse.Resident(gpu, self.dataset._ours, self._described, settings))
            self._tell(self._kept[1].messages())
        return self._kept[1]

    def _first_state(self) -> State:
        """The state before the first batch, without the threads of a loader: workers may be forked after this."""
        pipeline = self._first(self.place)
        state: State = json.loads(pipeline.state())
        pipeline.stop()
        return state

    def _first(self, place: tuple[int, int], state: State | None = None) -> _packhorse.Pipeline:
        """A loader without threads and caches."""
        resume = None if state is None else json.dumps(state)
        settings = self._settings | {"place": place, "state": resume, "threads": 0, "readers": 0, "ram": 0, "dir": None}
        return _packhorse.Pipeline(self.dataset._ours, self._described, settings)

    def _forked_state(self) -> State | None:
        if self._pipeline is None:
            return self._resume
        return self._behind_its_end(json.loads(self._pipeline.state()))

    def _as_rank(self, place: tuple[int, int], threads: int) -> Loader:
        """This loader as that of another rank, from where this one is."""
        own = object.__new__(Loader)
        own.__setstate__(self.__getstate__())
        own._place = place
        own._settings = {**self._settings, "threads": self._settings["threads"] or threads}
        return own

    def _tell(self, messages: list[tuple[bool, str]]) -> None:
        for skipped, text in messages:
            warnings.warn(f"skipped: {text}" if skipped else text, stacklevel=4)

    def __getstate__(self) -> dict[str, Any]:
        # A forked child has none of the parent's threads, and needs none of its own to tell where that was.
        running = self._pipeline is not None and self._pid == os.getpid()
        resume = self._moved_state() if running else self._forked_state()
        return {
            "dataset": self.dataset, "batch": self.batch, "shuffle": self.shuffle, "_described": self._described, "_place": pickled_place(self._place),
            "_device": self._device, "_keep": self._keep, "_settings": self._settings, "_resume": resume,
            "_over": self._over,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._gpu, self._kept, self._workers, self._of_worker = None, None, None, False
        self._reset(state["_resume"])
        self._over = state["_over"]

    def __repr__(self) -> str:
        rank, world = self.place
        return f"Loader({len(self)} batches of {self.batch}, rank {rank} of {world}, {self.dataset!r})"


# `help()` and notebooks show the settings of loaders at `Dataset.loader` too.
_of_loaders = inspect.signature(Loader.__init__)
_given = [one for name, one in _of_loaders.parameters.items() if name != "dataset"]
Dataset.loader.__signature__ = _of_loaders.replace(parameters=_given, return_annotation="Loader")  # type: ignore[attr-defined]


def named_stats(stats: list[tuple[str, float]]) -> dict[str, float]:
    """Seconds as they are, counts and bytes as whole numbers."""
    return {name: value if name.endswith("_s") else int(value) for name, value in stats}


class _Epoch(Iterator[Batch]):
    """The batches of one epoch."""

    def __init__(self, loader: Loader, turn: int) -> None:
        self._loader = loader
        self._turn = turn

    def __next__(self) -> Batch:
        return self._loader._next(self._turn)


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def check_counts(**settings: int | None) -> None:
    """Refuses numbers below 0, and those over what makes sense."""
    for name, value in settings.items():
        if value is not None and not 0 <= operator.index(value) <= _MOST[name]:
            raise ValueError(f"{name}={value}: give a number from 0 to {_MOST[name]}")


def one_of(name: str, value: str, *words: str) -> None:
    if value not in words:
        raise ValueError(f"{name}={value!r} is none of {', '.join(words)}")


def _cache(cache: str | os.PathLike[str] | int | None) -> tuple[int, str | None]:
    """Bytes of memory, and a folder."""
    if cache is None or isinstance(cache, int):
        if cache is not None and cache < 0:
            raise ValueError(f"cache={cache}: give a number of bytes, or a folder")
        return cache or 0, None
    text = os.fspath(cache)
    if not text:
        raise ValueError("cache='' names no folder: give one, a size such as 8GiB, or None")
    number = re.match(r"(\d+(?:\.\d+)?) *([A-Za-z]*)$", text.strip())
    if number is None:
        return 0, os.path.abspath(text)
    units = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    if number[2] not in units:
        raise ValueError(f"cache={text!r}: give a size such as 8GiB, or a folder such as './{text}'")
    return int(float(number[1]) * units[number[2]]), None
