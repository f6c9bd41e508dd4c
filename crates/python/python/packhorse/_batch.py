"""Batches: mappings from names of fields to arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


class Lists(Sequence[list[Any]]):
    """Lists in the lists of a row, and several bytes a row: `values`, one after another, and `offsets` (`int64 [rows + 1]`) as in
    `Ragged`, and `lengths`, those of the innermost lists of each row. Row `i` is a list of arrays, or of lists of these."""

    def __init__(self, flat: Ragged, lengths: Ragged | Lists) -> None:
        self._flat = flat
        self.lengths = lengths

    @property
    def values(self) -> Array:
        """All values, of one dimension."""
        return self._flat.values

    @property
    def offsets(self) -> Array:
        """Where the values of each row begin and end."""
        return self._flat.offsets

    def __len__(self) -> int:
        return len(self._flat)

    @overload
    def __getitem__(self, at: int) -> list[Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[list[Any]]: ...
    def __getitem__(self, at: int | slice) -> list[Any] | list[list[Any]]:
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        values, end = self._flat[at], 0

        def cut(lengths: Array | list[Any]) -> list[Any]:
            nonlocal end
            if isinstance(lengths, list):
                return [cut(inner) for inner in lengths]
            found = []
            for length in lengths.tolist():
                found.append(values.cut(end, end + length))
                end += length
            return found

        return cut(self.lengths[at])

    def cpu(self) -> Lists:
        """The same lists in host memory: a copy of those on a GPU."""
        return Lists(self._flat.cpu(), self.lengths.cpu())

    def bytes(self) -> list[list[Any]]:
        """A copy of the bytes of each innermost list: of several pictures a sample the files."""
        return each(lambda values: values.tobytes(), list(self.cpu()))

    def tolist(self) -> list[list[Any]]:
        """The rows as lists of lists of numbers."""
        return each(lambda values: values.tolist(), list(self.cpu()))

    def numpy(self) -> list[list[Any]]:
        """The rows as lists of NumPy arrays, without copies."""
        return each(lambda values: values.numpy(), list(self))

    def awkward(self) -> Any:
        """As an array of the package `awkward`."""
        ak: Any = import_module("awkward")
        inner, lengths = self.lengths, [self.lengths]
        while isinstance(inner, Lists):
            inner = inner.lengths
            lengths.append(inner)
        ends = inner.offsets.numpy()
        array = ak.Array(self.values.numpy())
        for counts in [*(of.values.numpy() for of in lengths), ends[1:] - ends[:-1]]:
            array = ak.unflatten(array, counts)
        return array

    def torch(self) -> Any:
        """The values of each row in one list, as a nested tensor of torch; `lengths.torch()` says where the inner lists end."""
        return self._flat.torch()

    def __repr__(self) -> str:
        return f"Lists({self.values.dtype}, {len(self)} rows, {len(self.lengths.values)} lists, {len(self.values)} values)"


def each(work: Callable[[Array], Any], rows: list[Any]) -> list[Any]:
    return [each(work, row) if isinstance(row, list) else work(row) for row in rows]


class Batch(Mapping[str, Union[Array, Ragged, Lists]]):
    """The samples that a rank reads at once: a mapping from the names of fields to their arrays.

    An array has as many rows as there are samples. All arrays lie in one block of memory, of the host or of a GPU, which the
    loader uses again when the batch and its arrays are gone.
    """

    def __init__(self, ours: _Batch) -> None:
        self._ours = ours
        fields = ours.fields()
        self._ragged = {name for name, ragged, _ in fields if ragged}
        self._parts = {name for name, _, part in fields if part}
        self._names = [name for name, _, part in fields if not part]

    def __getitem__(self, name: str) -> Array | Ragged | Lists:
        values = self._ours.array(name)
        if values is None:
            raise KeyError(name)
        if name not in self._ragged:
            return values
        offsets = self._ours.array(f"{name}.offsets")
        assert offsets is not None
        shapes, lengths = f"{name}.shape", f"{name}.lengths"
        rows = Ragged(values, offsets, self._ours.array(shapes) if shapes in self._parts else None)
        if lengths not in self._parts:
            return rows
        inner = self[lengths]
        assert not isinstance(inner, Array)
        return Lists(rows, inner)

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
        """All fields as torch tensors, without copies; ragged ones as nested tensors, and of lists in lists `NAME.lengths` too."""
        made = {}
        for name, values in self.items():
            while isinstance(values, Lists):
                made[name] = values.torch()
                name, values = f"{name}.lengths", values.lengths
            made[name] = values.torch()
        return made

    def numpy(self) -> dict[str, Any]:
        """All fields as NumPy arrays, without copies; ragged ones as lists of arrays, lists in lists as lists of these."""
        return {name: values.numpy() for name, values in self.items()}

    def __repr__(self) -> str:
        return f"Batch({self.rows} samples: {', '.join(f'{name}={self[name]!r}' for name in self)})"


def _array(data: bytes, dtype: str, shape: list[int]) -> Array:
    """An array of a pickle."""
    return _packhorse.array_of(data, dtype, shape)
