"""Datasets: samples by number, views of them, and loaders."""

from __future__ import annotations

import operator
import os
import warnings
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex, Unpack, overload

from . import _packhorse
from ._batch import Batch
from ._errors import ContentError
from ._fields import Fields, describe
from ._pack import text_of

if TYPE_CHECKING:
    from ._loader import Loader, LoaderSettings
    from .torch import TorchDataset


_Known = tuple[tuple[int, int], tuple[int, int]]

# Decoders that a dataset keeps, one for each set of fields and seed.
_DECODERS = 8


class Dataset:
    """A sequence of samples in shards, numbered from 0.

    `len(ds)` is the number of samples, `ds[i]` is one as a dictionary: its key as `__key__`, and its fields as they are
    stored (bytes, text, numbers, arrays). `ds[a:b]`, `split`, `where`, `take` and `subset` are views: nothing is copied.
    Datasets can be pickled, and used in forked processes.
    """

    def __init__(
        self,
        place: str,
        how: tuple[Any, ...] = (None, {}, None),
        views: tuple[Any, ...] = (),
        known: _Known | None = None,
    ) -> None:
        self._place = place
        self._how = how
        self._views = views
        self._open(None, known)

    def _open(self, ours: _packhorse.Dataset | None, known: _Known | None = None) -> None:
        """Takes `ours`, or opens the dataset: another process may have opened it before, as `known`."""
        self._pid = os.getpid()
        self._decoders: dict[Any, _packhorse.Decoder] = {}
        if ours is None:
            base = self._base()
            ours = _as_known(base, known and known[0], self._shown)
            self._whole_known = ours.known()
            for view in self._views:
                ours = _view(ours, view)
            ours = _as_known(ours, known and known[1], self._shown)
            if len(base) > self._whole_known[1]:
                self._views = (("slice", 0, self._whole_known[1]), *self._views)
        self._opened = ours

    def _base(self) -> _packhorse.Dataset:
        return _packhorse.Dataset.open(self._place, *self._how)

    @property
    def is_whole(self) -> bool:
        """Whether it is all that is at one place, opened without settings: no view, not several datasets, and no pattern."""
        return not self._views and self._how == (None, {}, None) and not set("*?[{") & set(self._place)

    @property
    def _shown(self) -> str:
        """Where it is, without a user, a password or a signature."""
        return _packhorse.shown_place(self._place)

    @property
    def _ours(self) -> _packhorse.Dataset:
        if self._pid != os.getpid():
            self._open(None, self._known(self._opened))
        return self._opened

    def _known(self, ours: _packhorse.Dataset) -> _Known:
        """What tells another process the samples of the whole dataset, and these."""
        return self._whole_known, ours.known()

    def _with(self, *view: Any) -> Dataset:
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        made._views = (*self._views, view)
        made._open(_view(self._ours, view))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (Dataset, (self._place, self._how, self._views, self._known(self._ours)))

    def __len__(self) -> int:
        return len(self._ours)

    @overload
    def __getitem__(self, at: SupportsIndex) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice | Iterable[int]) -> Dataset: ...
    def __getitem__(self, at: SupportsIndex | slice | Iterable[int]) -> dict[str, Any] | Dataset:
        if isinstance(at, str):
            raise TypeError(f"samples are numbered: ds.where(keys=[{at!r}])[0] is the one with this key")
        if isinstance(at, slice):
            numbers = range(*at.indices(len(self)))
            return self._with("slice", numbers.start, max(numbers.start, numbers.stop)) if at.step in (None, 1) else self.subset(numbers)
        # A tensor of one number would be an index too.
        if getattr(at, "ndim", 0):
            return self.subset(at)  # type: ignore[arg-type]
        try:
            number = operator.index(at)  # type: ignore[arg-type]
        except TypeError:
            return self.subset(at)  # type: ignore[arg-type]
        number += len(self) if number < 0 else 0
        if not 0 <= number < len(self):
            raise IndexError(f"sample {at} of {len(self)}")
        return self._ours.samples([number])[0]

    def __contains__(self, key: object) -> bool:
        """Whether a sample has this key. It looks at all keys; for many, `set(ds.keys)` is faster."""
        if not isinstance(key, str):
            raise TypeError(f"samples are known by their keys, which are text, and {key!r} is not")
        return bool(self._ours.find([key])[0])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        start = 0
        while start < len(self):
            numbers = list(range(start, min(start + self._ours.at_once(), len(self))))
            start += len(numbers)
            try:
                samples = self._ours.samples(numbers)
            except ContentError:
                # The good ones before the bad one come first.
                for number in numbers:
                    yield self._ours.samples([number])[0]
            else:
                yield from samples

    @property
    def fields(self) -> dict[str, str]:
        """The fields of samples and their types."""
        return dict(self._ours.fields())

    @property
    def omitted(self) -> dict[str, str]:
        """The fields of third-party shards that can't be read, and why not."""
        return dict(self._ours.omitted())

    @property
    def classes(self) -> list[str]:
        """The names of classes: a label is a position in this list. Empty if the dataset has no class list."""
        return self._ours.classes()

    @property
    def splits(self) -> list[str]:
        """The names of the splits; empty without splits."""
        return self._ours.splits()

    @property
    def keys(self) -> list[str]:
        """The keys of all samples. Reads indexes, or the column of keys; no other data."""
        return self._ours.keys()

    @property
    def nbytes(self) -> int:
        """Bytes of the shards."""
        return self._ours.bytes()

    def split(self, name: str) -> Dataset:
        """The samples of one split."""
        return self._with("split", name)

    def take(self, samples: int) -> Dataset:
        """The first samples, or all if there are fewer."""
        if samples < 0:
            raise ValueError(f"take takes a number of samples, not {samples}; ds[{samples}:] has the last ones")
        return self._with("slice", 0, min(samples, len(self)))

    def subset(self, numbers: Iterable[int]) -> Dataset:
        """The samples of these numbers, in this order; numbers may repeat. Those below 0 count from the end. A mask, one bool for
        each sample, chooses those where it is true."""
        return self._with("subset", self._places(numbers))

    def _chosen(self, numbers: bytes) -> Dataset:
        """The samples of these numbers. Other processes take the numbers, and don't look for the samples again."""
        places = array("Q")
        places.frombytes(numbers)
        return self._with("subset", places)

    def _places(self, numbers: Iterable[int]) -> array[int]:
        if isinstance(numbers, (str, bytes, bytearray)):
            raise TypeError(f"samples are chosen by numbers or a mask, not by {type(numbers).__name__}")
        samples = len(self)
        # Arrays of pyarrow have numbers of its own.
        wanted: Any = getattr(numbers, "to_pylist", lambda: numbers if hasattr(numbers, "__len__") else list(numbers))()
        if _is_mask(wanted):
            if len(wanted) != samples:
                raise IndexError(f"a mask of {len(wanted)} bools for {samples} samples")
            return array("Q", (number for number, flag in enumerate(wanted) if flag))
        try:
            places = array("Q", wanted)
        except OverflowError:
            numbers = [number + samples if number < 0 else number for number in map(operator.index, wanted)]
            places = array("Q", (number if number >= 0 else samples for number in numbers))
        if len(places) and max(places) >= samples:
            wrong = next(number for number, place in zip(wanted, places) if place >= samples)
            raise IndexError(f"sample {wrong} of {samples}")
        return places

    def where(self, condition: str | None = None, *, keys: str | os.PathLike[str] | Iterable[str] | None = None) -> Dataset:
        """The samples that meet a condition on their fields, in the dataset's order; with `keys`, those of them that have these keys.

        A condition is comparisons joined by `and`, `or`, `not` and parentheses, such as `cls == 3 and (json.width >= 256 or
        txt is null)`. A sample that lacks a field meets no comparison with it but `is null`. `keys` are the keys, or a file with one on each line; a key that no sample has is an error.
        """
        # First the keys: each must be one of the dataset's, whether its sample meets the condition or not.
        chosen = self if keys is None else self.subset(self._numbers_of(keys))
        return chosen if condition is None else chosen._chosen(chosen._ours.matching(condition))

    def _numbers_of(self, keys: str | os.PathLike[str] | Iterable[str], *, of_whole: bool = False) -> list[int]:
        """The numbers of the samples with these keys, or with those of a file, ascending. With `of_whole`, other samples of the dataset
        that this is a view of may have some."""
        if isinstance(keys, (str, os.PathLike)):
            try:
                with open(keys, encoding="utf-8-sig") as lines:
                    wanted = [line.rstrip("\r\n") for line in lines if line.strip()]
            except FileNotFoundError:
                from ._errors import MissingFileError

                path = os.fspath(keys)
                raise MissingFileError(f"{path}: no such file of keys", kind="config", code="no-such-file", input=path) from None
        else:
            wanted = list(keys)
        if not wanted:
            return []
        numbers, missing = self._ours.find(wanted)
        if missing and of_whole and self._views:
            _, missing = self._whole()._ours.find(missing)
        if missing:
            from ._errors import ConfigError

            raise ConfigError(
                f"{len(missing)} of {len(wanted)} keys are not in {self._shown}; the first is {missing[0]!r}",
                kind="config", code="bad-request", input=self._shown, sample=missing[0],
            )  # fmt: skip
        return numbers

    def _whole(self) -> Dataset:
        """What this is a view of."""
        return Dataset(self._place, self._how)

    def select(self, fields: Iterable[str]) -> Dataset:
        """The same samples with these fields only."""
        if isinstance(fields, str):
            raise TypeError(f"select takes several names: select([{fields!r}])")
        return self._with("select", list(fields))

    def join(
        self,
        table: str | os.PathLike[str],
        key: str = "key",
        *,
        columns: Iterable[str] | None = None,
        fill_missing: bool = False,
    ) -> Dataset:
        """The same samples with the columns of a table as fields. Its column `key` has the keys of samples, or the last parts
        of keys.

        The table is a `.csv`, `.tsv`, `.jsonl` or `.parquet` file with one row for each sample. `columns` are those to add;
        all but the key if not given. A sample without a row is an error, unless `fill_missing` gives it nulls; rows that no
        sample has are warned of.
        """
        path = os.path.abspath(os.fspath(table))
        return self._with("join", path, key, None if columns is None else list(columns), fill_missing)

    def fold(self, i: int, folds: int, seed: int = 0) -> Dataset:
        """Fold `i` of `folds`, counted from 1: the samples to hold out. The fold of a sample depends on its key and the
        seed, so it stays the same when the dataset grows."""
        return self._chosen(self._ours.fold(i, folds, seed, False))

    def without_fold(self, i: int, folds: int, seed: int = 0) -> Dataset:
        """The samples that are not in fold `i`: those to train with."""
        return self._chosen(self._ours.fold(i, folds, seed, True))

    def write_view(self, out: str | os.PathLike[str]) -> str:
        """Writes these samples and fields as a folder of a few KB that `open` opens like a dataset. It reads the shards of
        this one, which must be one sealed dataset. Returns the root digest of the view."""
        return self._ours.write_view(os.fspath(out))

    def batch(self, numbers: Iterable[int], fields: Fields = None, *, seed: int = 0, epoch: int = 0) -> Batch:
        """The samples of these numbers as a batch, decoded as a loader with this seed does in this epoch."""
        described = describe(fields)
        key = (repr(described), seed)
        ours = self._ours
        decoder = self._decoders.get(key)
        if decoder is None:
            if len(self._decoders) >= _DECODERS:
                self._decoders.clear()
            decoder = self._decoders[key] = _packhorse.Decoder(ours, described, seed, False, False)
        return Batch(decoder.decode(list(self._places(numbers)), epoch))

    def loader(self, batch: int | None = None, **settings: Unpack[LoaderSettings]) -> Loader:
        """Shuffled batches of `batch` samples: see `Loader` for the settings."""
        from ._loader import Loader

        known = Loader.__init__.__kwdefaults__ or {}
        for name in settings:
            if name not in known:
                raise TypeError(f"{name!r} is not a setting of loaders{_meant(name, known)}")
        self._warn_of_splits()
        if batch is None:
            raise TypeError("a loader needs the number of samples in a batch, such as ds.loader(32)")
        return Loader(self, batch, **settings)

    def torch(self, fields: Fields = None, *, transform: Any = None, seed: int = 0, keys: bool = False) -> TorchDataset:
        """As a map-style dataset for `torch.utils.data.DataLoader`. With `keys` each sample has its key too, as `__key__`."""
        from .torch import TorchDataset

        return TorchDataset(self, fields, transform=transform, seed=seed, keys=keys)

    def _warn_of_splits(self) -> None:
        splits = self.splits
        if len(splits) > 1:
            text = f"batches have samples of all splits ({', '.join(splits)}); ds.split({splits[0]!r}) has those of one"
            warnings.warn(text, stacklevel=3)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._ours.arrow_stream()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {kind}" for name, kind in self.fields.items())
        return f"Dataset({self._shown!r}, {len(self)} samples, {{{fields}}})"


class _Concat(Dataset):
    """Several datasets, one after another."""

    def _warn_of_splits(self) -> None:
        """Splits that were put together on purpose are not warned of."""

    @property
    def _shown(self) -> str:
        return ", ".join(part._shown for part in self._parts)

    def __init__(
        self, parts: tuple[Dataset, ...], views: tuple[Any, ...] = (), known: _Known | None = None
    ) -> None:
        self._parts = parts
        super().__init__(", ".join(part._place for part in parts), (), views, known)

    def _base(self) -> _packhorse.Dataset:
        return _packhorse.Dataset.concat([part._ours for part in self._parts])

    def _whole(self) -> Dataset:
        return _Concat(tuple(part._whole() for part in self._parts))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Concat, (self._parts, self._views, self._known(self._ours)))


# What torch's DataLoader calls settings that have another name here.
_OTHERS = {
    "batch_size": "batch", "drop_last": "remainder='drop' or 'uneven'", "generator": "seed", "num_workers": "threads",
    "prefetch_factor": "ahead", "pin_memory": "device", "sampler": "shuffle, and `subset` of datasets", "transform": "fields",
    "rank": "place=(rank, world)", "world_size": "place=(rank, world)", "cache_dir": "cache",
}  # fmt: skip


def _meant(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, 1)
    meant = _OTHERS.get(name) or (close[0] if close else None)
    return f"; here it is {meant}" if name in _OTHERS else f"; did you mean {meant}?" if meant else f"; there are {', '.join(known)}"


def _as_known(ours: _packhorse.Dataset, known: tuple[int, int] | None, place: str) -> _packhorse.Dataset:
    """The samples that another process had: these, or the first ones of a dataset that has grown since."""
    if known is None or ours.known() == known:
        return ours
    if len(ours) > known[1]:
        first = ours.slice(0, known[1])
        if first.known() == known:
            return first
    from ._errors import ChangedError

    raise ChangedError(
        f"{place}: it, or a table joined to it, has changed since another process opened it; open it again",
        kind="changed", code="base-changed", input=place, hint="open it again",
    )  # fmt: skip


def _view(ours: _packhorse.Dataset, view: tuple[Any, ...]) -> _packhorse.Dataset:
    name, *given = view
    if name == "subset":
        return ours.subset(given[0].tobytes())
    made: _packhorse.Dataset = getattr(ours, name)(*given)
    return made


def open_dataset(
    place: str | os.PathLike[str],
    *,
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    indexes: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Opens the dataset at `place`: a path, `s3://bucket/prefix` (or `gs://`, `az://`) or `http(s)://host/path`.

    It is a folder that packhorse sealed, or third-party shards: a folder, a file, or a pattern such as
    `shard-{000..127}.tar` or `*.parquet`. `format` names the format of files whose names do not tell it, `read` holds
    settings of its reader, and `indexes` is a folder that keeps the indexes of third-party shards.
    """
    text = os.fsdecode(place)
    if "://" not in text:
        text = os.path.abspath(text)
    index = None if indexes is None else os.path.abspath(os.fspath(indexes))
    opened = Dataset(text, (format, {name: text_of(value) for name, value in (read or {}).items()}, index))
    if opened.omitted:
        left_out = ", ".join(f"{name} ({reason})" for name, reason in list(opened.omitted.items())[:3])
        more = f" and {len(opened.omitted) - 3} more" if len(opened.omitted) > 3 else ""
        warnings.warn(f"fields that can't be read are left out: {left_out}{more}; `omitted` of the dataset has all", stacklevel=2)
    return opened


def concat(datasets: Iterable[Dataset]) -> Dataset:
    """Several datasets, one after another. Their fields must have the same types."""
    parts = (datasets,) if isinstance(datasets, Dataset) else tuple(datasets)
    wrong = next((part for part in parts if not isinstance(part, Dataset)), None)
    if wrong is not None:
        raise TypeError(f"concat takes opened datasets, and {wrong!r} is none: concat([open(…), open(…)])")
    return _Concat(parts)


def _is_mask(wanted: Any) -> bool:
    # NumPy, torch, pandas, pandas with Arrow's types, and polars name it in their own ways.
    kind = str(getattr(wanted, "dtype", "object"))
    if kind != "object":
        return kind.removeprefix("torch.").partition("[")[0].lower() in ("bool", "boolean")
    first = next((one for one in wanted if one is not None), None)
    return type(first).__name__ in ("bool", "bool_") or str(getattr(first, "dtype", "")).removeprefix("torch.") == "bool"
