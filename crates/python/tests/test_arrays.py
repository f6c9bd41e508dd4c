"""Arrays in other libraries: no copies, read-only, and alive as long as anyone uses them."""

import gc
import struct

import numpy as np
import packhorse
import pytest
from conftest import numbered, run_python, run_well, write

FORMATS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Arrays of NumPy's every type, `a_int8` and so on, of 2 × 3 elements."""
    samples = (
        {f"a_{name}": (np.arange(6).reshape(2, 3) + number).astype(name) for name in FORMATS} for number in range(12)
    )
    return write(tmp_path_factory.mktemp("grid") / "shards", samples, to="arrow")


# --- NumPy and buffers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FORMATS)
def test_numpy_sees_the_same_memory(grid, dtype):
    """`numpy.asarray` copies nothing, and can't be written to."""
    array = grid.batch(range(4))[f"a_{dtype}"]
    seen = np.asarray(array)
    assert seen.dtype == dtype
    assert seen.shape == array.shape == (4, 2, 3)
    assert seen.__array_interface__["data"] == (array.address, True)
    assert not seen.flags.writeable
    assert seen.flags.c_contiguous
    assert array.nbytes == seen.nbytes
    assert array.ndim == 3
    with pytest.raises(ValueError):
        seen[0] = 1
    with pytest.raises(ValueError):
        seen.flags.writeable = True
    assert array.numpy().__array_interface__["data"][0] == array.address


@pytest.mark.parametrize("dtype", FORMATS)
def test_buffers(grid, dtype):
    """A memoryview has the format, shape and strides of the array, and is read-only."""
    array = grid.batch([3, 4])[f"a_{dtype}"]
    view = memoryview(array)
    size = struct.calcsize(FORMATS[dtype])
    assert view.format == FORMATS[dtype]
    assert view.itemsize == size
    assert view.shape == (2, 2, 3)
    assert view.strides == (6 * size, 3 * size, size)
    assert view.readonly
    assert view.contiguous
    assert view.nbytes == array.nbytes
    assert bytes(view) == array.tobytes() == np.asarray(array).tobytes()
    with pytest.raises((BufferError, TypeError)):
        struct.pack_into("B", array, 0, 1)


def test_files_take_arrays(grid, tmp_path):
    """What takes a buffer takes an array: files, hashes, joins."""
    array = grid.batch([3])["a_int32"]
    with open(tmp_path / "file", "wb") as file:
        file.write(array)
    assert (tmp_path / "file").read_bytes() == array.tobytes() == b"".join([array])


def test_alignment(grid):
    """Every field of a batch begins where its elements may."""
    batch = grid.batch(range(3))
    for name in batch:
        assert batch[name].address % memoryview(batch[name]).itemsize == 0


def test_the_rules_of_dunder_array(grid):
    """`copy=None` copies if it must, `copy=True` always, `copy=False` never."""
    array = grid.batch(range(4))["a_int32"]

    def address(made):
        return made.__array_interface__["data"][0]

    assert address(np.array(array, copy=None)) == array.address
    assert address(np.asarray(array, copy=False)) == array.address
    assert address(array.__array__()) == array.address
    copied = np.array(array)
    assert address(copied) != array.address
    assert copied.flags.writeable
    copied += 1
    assert address(array.__array__(copy=True)) != array.address
    assert array.__array__(copy=True).flags.writeable
    other = np.asarray(array, dtype=np.float64)
    assert other.dtype == np.float64
    np.testing.assert_array_equal(other, np.asarray(array))
    np.testing.assert_array_equal(array.__array__(np.float64), np.asarray(array))
    assert address(np.asarray(array, dtype=np.int32)) == array.address
    assert address(array.__array__(np.int32, copy=True)) != array.address
    with pytest.raises(ValueError):
        array.__array__(np.float64, copy=False)
    with pytest.raises(ValueError):
        np.asarray(array, dtype=np.float64, copy=False)


def test_arithmetic_of_numpy(grid):
    """NumPy's functions take arrays as they are."""
    array = grid.batch(range(4))["a_float32"]
    np.testing.assert_array_equal(np.add(array, 1), np.asarray(array) + 1)
    assert np.stack([array, array]).shape == (2, 4, 2, 3)
    assert np.mean(array) == np.asarray(array).mean()


def test_rows_and_numbers(grid):
    """Rows are arrays of the same memory, numbers are Python's."""
    array = grid.batch(range(4))["a_int16"]
    row = array[2]
    assert row.shape == (2, 3)
    assert row.address == array.address + 2 * 12
    assert row[-1].tolist() == [5, 6, 7]
    assert row[1][2] == 7
    assert isinstance(row[1][2], int)
    assert isinstance(grid.batch([0])["a_float32"][0][0][0], float)
    assert [one.tolist() for one in array] == array.tolist()
    assert len(array) == 4
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            array[beyond]
    assert repr(array) == "Array(int16, [4, 2, 3])"


def test_float16(grid):
    """Halves are numbers of Python too."""
    array = grid.batch(range(4))["a_float16"]
    assert array[1][0].tolist() == [1.0, 2.0, 3.0]
    assert array[1][1][2] == 6.0


def test_halves_of_every_kind(tmp_path):
    """Small, large, negative and infinite halves are the numbers that NumPy reads."""
    halves = np.array([0, -0.0, 6e-8, 1e-5, 0.1, -1.5, 65504, np.inf, -np.inf], np.float16)
    array = write(tmp_path / "shards", [{"a": halves}], to="arrow").batch([0])["a"][0]
    assert [array[at] for at in range(9)] == halves.tolist()
    nan = write(tmp_path / "nan", [{"a": np.array([np.nan], np.float16)}], to="arrow").batch([0])["a"][0]
    assert nan[0] != nan[0]


def test_empty_arrays(grid):
    """A batch of no samples has arrays of no rows."""
    batch = grid.batch([])
    assert batch.rows == 0
    assert batch["a_int32"].shape == (0, 2, 3)
    assert np.asarray(batch["a_int32"]).shape == (0, 2, 3)
    assert batch["a_int32"].tolist() == []


def test_an_index_is_that_of_numpy(grid):
    """Indexes mean the same as in NumPy: an array of one number has a dimension, and a bool is a mask."""
    array = grid.batch(range(4))["a_int32"]
    for index in (True, False, np.array([3]), np.array(3), np.int64(-1), np.True_, [3], (1, 1), None, ...):
        np.testing.assert_array_equal(np.asarray(array[index]), np.asarray(array)[index])
        assert np.shape(array[index]) == np.asarray(array)[index].shape


def test_a_tensor_is_an_index(grid):
    """So is a tensor of one number."""
    torch = pytest.importorskip("torch")
    array = grid.batch(range(4))["a_int32"]
    assert np.shape(array[torch.tensor([3])]) == (1, 2, 3) and np.shape(array[torch.tensor(3)]) == (2, 3)


# --- DLPack -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FORMATS)
def test_numpy_by_dlpack(grid, dtype):
    """`numpy.from_dlpack` takes the same memory."""
    array = grid.batch(range(4))[f"a_{dtype}"]
    seen = np.from_dlpack(array)
    assert not seen.flags.writeable
    assert seen.dtype == dtype
    assert seen.__array_interface__["data"][0] == array.address
    np.testing.assert_array_equal(seen, np.asarray(array))


def test_copies_by_dlpack(grid):
    """`copy=True` gives a copy that is the consumer's own."""
    array = grid.batch(range(4))["a_int32"]
    copied = np.from_dlpack(array, copy=True)
    assert copied.flags.writeable
    assert copied.__array_interface__["data"][0] != array.address
    np.testing.assert_array_equal(copied, np.asarray(array))
    shared = np.from_dlpack(array, copy=False)
    assert shared.__array_interface__["data"][0] == array.address


def test_the_device_of_dlpack(grid):
    """Arrays are in memory of the host; other devices and streams are refused."""
    array = grid.batch(range(4))["a_int32"]
    assert array.__dlpack_device__() == (1, 0)
    assert array.__dlpack__(dl_device=(1, 0)) is not None
    with pytest.raises(BufferError):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        array.__dlpack__(stream=1)


def test_names_of_capsules(grid):
    """A consumer that knows no versions gets the capsule of old, others the new one."""
    array = grid.batch(range(4))["a_int32"]
    assert '"dltensor"' in repr(array.__dlpack__())
    assert '"dltensor"' in repr(array.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(array.__dlpack__(max_version=(1, 0)))


def test_capsules_that_nobody_takes(grid):
    """Capsules that are dropped free what they hold."""
    array = grid.batch(range(4))["a_int32"]
    for _ in range(1000):
        array.__dlpack__()
        array.__dlpack__(max_version=(1, 0))
        array.__dlpack__(max_version=(1, 0), copy=True)
    assert array[1][0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", [dtype for dtype in FORMATS if dtype not in ("uint16", "uint32", "uint64")])
def test_torch(grid, dtype):
    """torch takes the same memory, and gives it back to NumPy."""
    torch = pytest.importorskip("torch")
    array = grid.batch(range(4))[f"a_{dtype}"]
    for tensor in (array.torch(), torch.from_dlpack(array), torch.utils.dlpack.from_dlpack(array.__dlpack__())):
        assert tensor.dtype == getattr(torch, dtype)
        assert tensor.data_ptr() == array.address
        assert tuple(tensor.shape) == array.shape
        assert tensor.is_contiguous()
        np.testing.assert_array_equal(np.from_dlpack(tensor), np.asarray(array))
        assert tensor.numpy().__array_interface__["data"][0] == array.address


def test_a_batch_as_tensors(pictures, ragged):
    """`batch.torch()` has dense fields as tensors, and ragged ones as nested tensors."""
    torch = pytest.importorskip("torch")
    batch = pictures.batch([1, 2], {"image": packhorse.Image("jpg", 8, normalize=True), "label": "cls"})
    tensors = batch.torch()
    assert tensors["image"].shape == (2, 3, 8, 8)
    assert tensors["image"].data_ptr() == batch["image"].address
    assert tensors["label"].tolist() == [1, 2]
    nested = ragged.batch([1, 2], ["row"]).torch()["row"]
    assert nested.is_nested
    assert torch.equal(nested.unbind()[1], torch.tensor([2, 3], dtype=torch.int32))
    longest = max(len(row) for row in nested.unbind())
    assert nested.to_padded_tensor(0).shape == (2, longest)


def test_booleans_in_torch(tmp_path):
    """Booleans one by one are torch's and NumPy's booleans."""
    torch = pytest.importorskip("torch")
    dataset = write(tmp_path / "shards", [{"a": np.array([True, False, True])}], to="arrow")
    value = dataset[0]["a"]
    assert value.dtype == "bool"
    assert value.torch().dtype == torch.bool
    assert value.torch().tolist() == value.tolist() == np.asarray(value).tolist() == [True, False, True]


def test_jax(grid):
    """JAX takes arrays."""
    pytest.importorskip("jax")
    array = grid.batch(range(4))["a_float32"]
    assert array.jax().tolist() == array.tolist()


# --- lifetimes --------------------------------------------------------------------------------------------------------


def loops(tmp_path, count=400):
    """A loader over arrays of 4 kB, and what the array of each sample is."""
    samples = ({"cls": number, "a": np.full(1000, number, np.float32)} for number in range(count))
    dataset = write(tmp_path / "shards", samples, to="arrow", samples_per_shard=100)
    return dataset.loader(4, seed=1, ahead=2)


def test_arrays_outlive_everything(tmp_path):
    """Arrays, rows, views and tensors keep their values when batch, loader and dataset are gone."""
    torch = pytest.importorskip("torch")
    loader = loops(tmp_path)
    numbers, kept = [], []
    for step, batch in enumerate(loader):
        if step % 10 == 0:
            numbers.append(batch["cls"].tolist())
            array = batch["a"]
            kept.append((array, array[1], memoryview(array), np.asarray(array), np.from_dlpack(array), torch.from_dlpack(array)))
    del array
    for _ in range(5):
        for batch in loader:
            pass
    del batch, loader
    gc.collect()
    junk = [np.full(4000, -1, np.float32) for _ in range(200)]
    assert len(kept) == 10
    for wanted, (array, row, view, seen, packed, tensor) in zip(numbers, kept):
        assert [one[0] for one in array] == wanted
        assert set(row.tolist()) == {wanted[1]}
        assert [view[at, 999] for at in range(4)] == wanted
        assert seen[:, 500].tolist() == packed[:, 999].tolist() == tensor[:, 0].tolist() == wanted
    del junk


def test_one_view_keeps_a_batch(tmp_path):
    """One row that is left keeps its batch's memory while thousands of others come and go."""
    loader = loops(tmp_path)
    first = next(iter(loader))
    row, wanted = np.asarray(first["a"])[2, 10:20], float(first["cls"][2])
    del first
    for _ in range(10):
        for _ in loader:
            pass
    assert row.tolist() == [wanted] * 10


def test_batches_use_their_memory_again(tmp_path):
    """Batches that are gone give their memory to others."""
    loader, addresses = loops(tmp_path), set()
    for _ in range(3):
        for batch in loader:
            addresses.add(batch["a"].address)
    assert len(addresses) < 30


@pytest.mark.parametrize("order", ["array", "loader", "iterator", "all"])
def test_the_end_of_the_interpreter(numbers, order):
    """A program may end with live arrays, loaders and iterators: exit code 0, and nothing on stderr."""
    code = """
        import sys
        import numpy as np
        import packhorse

        dataset = packhorse.open(sys.argv[1])
        loader = dataset.loader(7, threads=2)
        batches = iter(loader)
        batch = next(batches)
        kept = [batch["cls"], np.asarray(batch["cls"]), memoryview(batch["cls"]), batch["cls"].__dlpack__(), batch]
        keep = sys.argv[2]
        if keep == "array":
            del loader, batches, dataset
        elif keep == "loader":
            del batches, kept, batch
        elif keep == "iterator":
            del loader, kept, batch, dataset
        else:
            sys.kept = [kept, loader, batches, dataset]
        print("ends")
    """
    assert run_well(code, numbers._place, order) == "ends\n"


def test_the_end_with_tensors(numbers):
    """A program may end with tensors of a loader that runs."""
    pytest.importorskip("torch")
    code = """
        import sys
        import packhorse

        loader = packhorse.open(sys.argv[1]).loader(7)
        batches = iter(loader)
        tensors = [next(batches)["cls"].torch() for _ in range(3)]
        sys.kept = tensors, batches
        print("ends")
    """
    assert run_well(code, numbers._place) == "ends\n"


def test_the_end_by_an_exception(numbers):
    """A program that ends by an exception inside of an epoch shows that exception alone."""
    code = """
        import sys
        import packhorse

        for batch in packhorse.open(sys.argv[1]).loader(7):
            raise LookupError("mine")
    """
    done = run_python(code, numbers._place)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("LookupError: mine")
    assert done.stderr.count("Traceback") == 1


def test_arrays_compare_and_slice_as_numpy_does(tmp_path):
    data = write(tmp_path / "d", numbered(6))
    labels = data.batch(range(6), {"y": "cls"})["y"]
    assert (labels == 3).tolist() == [False, False, False, True, False, False]
    assert (labels == labels).all() and not (labels != labels).any() and (labels < 2).sum() == 2
    assert labels[1:3].tolist() == [1, 2] and labels[[5, 0]].tolist() == [5, 0] and labels[-1] == 5
    with pytest.raises(IndexError):
        labels[6]


def test_arrays_are_copied_and_pickled(tmp_path):
    import copy
    import pickle

    rows = [{"x": np.arange(3, dtype="f4") + n, "flag": np.array([True, False]), "half": np.ones((2, 2), "f2")} for n in range(3)]
    ds = write(tmp_path / "out", rows, to="parquet")
    for again in (copy.deepcopy(ds[1]), pickle.loads(pickle.dumps(ds[1]))):
        for name, wanted in rows[1].items():
            found = again[name]
            assert isinstance(found, packhorse.Array) and found.dtype == wanted.dtype.name and found.shape == wanted.shape
            assert found.tolist() == wanted.tolist()
    batch = ds.batch([0, 2])
    again = pickle.loads(pickle.dumps({name: batch[name] for name in batch}))
    assert again["x"].tolist() == [[0, 1, 2], [2, 3, 4]]


@pytest.mark.parametrize("to", ["parquet", "hdf5", "arrow"])
def test_what_is_written_into_a_sample_stays_there(tmp_path, to):
    """An array of a sample can be written through DLPack, and is a copy of what the dataset keeps."""
    packhorse.pack([{"x": np.arange(3.0) + number} for number in range(10)], tmp_path / "shards", to=to)
    dataset = packhorse.open(tmp_path / "shards")
    view, wanted = np.from_dlpack(dataset[6]["x"]), np.array(dataset[6]["x"])
    if view.flags.writeable:
        view[:] = -7
    assert np.array_equal(dataset[6]["x"], wanted) and wanted[0] == 6
