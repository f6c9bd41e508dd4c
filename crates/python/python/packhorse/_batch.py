"""Batches: mappings from names of fields to arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Union, overload

from . import _packhorse
from ._device import stream_handle
from ._packhorse import Array
from ._packhorse import Batch as _Batch


class Keys(Sequence[str]):
    """The keys of a batch's samples. Called, as the `keys` of mappings are, it gives the names of the fields."""

    def __init__(self, keys: list[str], names: list[str]) -> None:
        self._keys = keys
        self._names = names

    def __call__(self) -> list[str]:
        return list(self._names)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        return self._keys[at]

    def __len__(self) -> int:
        return len(self._keys)

    def __eq__(self, other: object) -> bool:
        return self._keys == (other._keys if isinstance(other, Keys) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._keys)


class Ragged(Sequence[Array]):
    """Rows of different lengths: `values`, one after another, and `offsets` (`int64 [rows + 1]`): row `i` is
    `values[offsets[i]:offsets[i + 1]]`. `shapes` (`int32 [rows, rank]`) is there if rows have several dimensions."""

    def __init__(self, values: Array, offsets: Array, shapes: Array | None) -> None:
        self.values = values
        self.offsets = offsets
        self.shapes = shapes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, at: int) -> Array: ...
    @overload
    def __getitem__(self, at: slice) -> list[Array]: ...
    def __getitem__(self, at: int | slice) -> Array | list[Array]:
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        row = at + len(self) if at < 0 else at
        if not 0 <= row < len(self):
            raise IndexError(f"row {at} of {len(self)}")
        shape = None if self.shapes is None else self.shapes[row].tolist()
        return self.values.cut(self.offsets[row], self.offsets[row + 1], shape)

    def cpu(self) -> Ragged:
        """The same rows in host memory: a copy of those on a GPU."""
        return Ragged(self.values.cpu(), self.offsets.cpu(), None if self.shapes is None else self.shapes.cpu())

    def bytes(self) -> list[bytes]:
        """A copy of the bytes of each row."""
        return [row.tobytes() for row in self.cpu()]

    def strings(self) -> list[str]:
        """The rows as text, from UTF-8."""
        return [row.decode() for row in self.bytes()]

    def tolist(self) -> list[Any]:
        """The rows as lists of numbers."""
        return [row.tolist() for row in self.cpu()]

    def awkward(self) -> Any:
        """As an array of the package `awkward`, without a copy."""
        ak: Any = import_module("awkward")

        lists = ak.contents.ListOffsetArray(
            ak.index.Index64(self.offsets.numpy()), ak.contents.NumpyArray(self.values.numpy())
        )
        return ak.Array(lists)

    def nested(self) -> Any:
        """As a nested tensor of torch: of layout `jagged` and without a copy, or, of rows of several dimensions, a copy of
        layout `strided`."""
        torch: Any = import_module("torch")

        if self.shapes is not None:
            offsets, shapes = self.offsets.tolist(), self.shapes.tolist()
            rows = [self.values.cut(offsets[at], offsets[at + 1], shapes[at]) for at in range(len(self))]
            return torch.nested.nested_tensor([row.torch() for row in rows])
        offsets = self.offsets.torch()
        if offsets.is_cuda or len(self) == 0:
            return torch.nested.nested_tensor_from_jagged(self.values.torch(), offsets)
        # So that `to_padded_tensor` pads to the longest row. On a GPU it would wait for the copy.
        longest = int(offsets.diff().max())
        return torch.nested.nested_tensor_from_jagged(self.values.torch(), offsets, max_seqlen=longest)

    def torch(self) -> Any:
        """As `nested`."""
        return self.nested()

    def numpy(self) -> list[Any]:
        """The rows as NumPy arrays, without copies."""
        return [row.numpy() for row in self]

    def __repr__(self) -> str:
        return f"Ragged({self.values.dtype}, {len(self)} rows, {len(self.values)} values)"


class Batch(Mapping[str, Union[Array, Ragged]]):
    """The samples that a rank reads at once: a mapping from the names of fields to their arrays.

    An array has as many rows as there are samples. All arrays lie in one block of memory, of the host or of a GPU, which the
    loader uses again when the batch and its arrays are gone.
    """

    def __init__(self, ours: _Batch) -> None:
        self._ours = ours
        fields = ours.fields()
        self._ragged = {name for name, ragged in fields if ragged}
        parts = {f"{name}.{part}" for name in self._ragged for part in ("offsets", "shape")}
        self._names = [name for name, _ in fields if name not in parts]

    def __getitem__(self, name: str) -> Array | Ragged:
        values = self._ours.array(name)
        if values is None:
            raise KeyError(name)
        if name not in self._ragged:
            return values
        offsets = self._ours.array(f"{name}.offsets")
        assert offsets is not None
        return Ragged(values, offsets, self._ours.array(f"{name}.shape"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def keys(self) -> Keys:  # type: ignore[override]
        """The keys of the samples, one for each row; none for tokens. `batch.keys()`, as of any mapping, are the names of the fields."""
        return Keys(self._ours.sample_keys() if self._ours.has_numbers else [], self._names)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the samples in the dataset, one for each row."""
        return self._ours.numbers

    @property
    def rows(self) -> int:
        """How many samples there are."""
        return self._ours.rows

    @property
    def epoch(self) -> int:
        """The epoch of the samples."""
        return self._ours.epoch

    @property
    def positions(self) -> range:
        """The positions in the epoch's order that the batch covers. A skipped sample has a position and no row."""
        return range(*self._ours.positions)

    @property
    def device(self) -> str:
        """Where the arrays are: `"cpu"`, or a GPU such as `"cuda:0"`."""
        return self._ours.device

    def used_on(self, stream: Any) -> None:
        """Says that a stream other than those of `torch.from_dlpack` and its like uses the batch on its GPU: work that is
        queued on it after this waits until the batch has arrived, and the memory is not used again before the work that is
        queued on it when the batch and its arrays are dropped. As `record_stream` of torch's tensors. The stream, a torch or
        CuPy stream or its handle, must live as long. Does nothing in host memory."""
        self._ours.used_on(stream_handle(stream))

    def torch(self) -> dict[str, Any]:
        """All fields as torch tensors, without copies; ragged ones as nested tensors."""
        return {name: values.torch() for name, values in self.items()}

    def numpy(self) -> dict[str, Any]:
        """All fields as NumPy arrays, without copies; ragged ones as lists of arrays."""
        return {name: values.numpy() for name, values in self.items()}

    def __repr__(self) -> str:
        return f"Batch({self.rows} samples: {', '.join(f'{name}={self[name]!r}' for name in self)})"


def _array(data: bytes, dtype: str, shape: list[int]) -> Array:
    """An array of a pickle."""
    return _packhorse.array_of(data, dtype, shape)
