"""Batches on a GPU, over the fake driver of `crates/testkit/src/cuda`, which simulates a GPU by threads with random delays and
ends the process where memory is used wrongly."""

import ctypes
import importlib.util
import struct

import numpy as np
import packhorse
import pytest
from conftest import run_well, write
from packhorse._device import device_name, stream_handle

# --- the setting ------------------------------------------------------------------------------------------------------


class Written:
    """An object that is told by its text, as torch.device."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


def test_names_of_devices():
    """A device is a name, a number, or an object with such a text."""
    for device, name in [
        ("cpu", "cpu"),
        ("cuda", "cuda"),
        ("cuda:3", "cuda:3"),
        (0, "cuda:0"),
        (7, "cuda:7"),
        (Written("cuda:1"), "cuda:1"),
        (Written("cpu"), "cpu"),
        (Written("cpu:0"), "cpu"),
    ]:
        assert device_name(device) == name
    for wrong in ("gpu", "cuda:", "cuda:x", "CUDA", "cuda:-1", -1, True, None, 1.5, "mps", "cuda:0\n"):
        with pytest.raises(ValueError, match="device="):
            device_name(wrong)


def test_names_of_torch():
    """Devices of torch are devices."""
    torch = pytest.importorskip("torch")
    assert device_name(torch.device("cuda:1")) == device_name(torch.device("cuda", 1)) == "cuda:1"
    assert device_name(torch.device("cpu")) == "cpu"


def test_handles_of_streams():
    """A stream is a handle, or an object of torch, CuPy or cuda.core that has one."""
    class Stream:
        pass

    of_torch, of_cupy, of_core = Stream(), Stream(), Stream()
    of_torch.cuda_stream, of_cupy.ptr, of_core.__cuda_stream__ = 4096, 8192, lambda: (0, 12288)
    assert [stream_handle(one) for one in (of_torch, of_cupy, of_core, 77, 2)] == [4096, 8192, 12288, 77, 2]
    of_torch.cuda_stream = 0
    assert stream_handle(of_torch) == stream_handle(0) == 1
    for wrong in (None, "stream", Stream()):
        with pytest.raises(TypeError, match="is not a stream"):
            stream_handle(wrong)
    with pytest.raises(ValueError):
        stream_handle(-1)


def test_the_cpu_is_a_device(numbers):
    """Arrays in host memory say so, have no array interface of CUDA, and batches take streams and ignore them."""
    batch = next(iter(numbers.loader(10, device=Written("cpu"))))
    array = batch["cls"]
    assert array.device == batch.device == "cpu"
    assert not hasattr(array, "__cuda_array_interface__")
    assert array.cpu().address == array.address
    batch.used_on(1)


def test_no_gpu(numbers):
    """Without a driver the first use is an error that says what to do; what needs no GPU works."""
    try:
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("there is a driver")
    except OSError:
        pass
    loader = numbers.loader(10, device="cuda:0")
    assert len(loader) == 10 and loader.state_dict()["consumed"] == 0 and loader.stats()["batches"] == 0
    with pytest.raises(packhorse.UnsupportedError) as raised:
        iter(loader)
    assert (raised.value.kind, raised.value.code) == ("unsupported", "gpu-failed")
    assert "there is no driver" in str(raised.value) and "install NVIDIA's driver" in raised.value.hint


@pytest.mark.parametrize(
    ("env", "device", "name", "message"),
    [
        ({"FAKE_CUDA_FAIL": "cuInit:1:100"}, "cuda", "UnsupportedError", "the driver finds no GPU; nvidia-smi and"),
        ({"FAKE_CUDA_FAIL": "cuInit:1:34"}, 0, "UnsupportedError", "stub of CUDA's toolkit"),
        ({"FAKE_CUDA_FAIL": "cuInit:1:3"}, 0, "UnsupportedError", "forked from one that uses it; start processes by spawn"),
        ({}, "cuda:2", "ConfigError", "there is no GPU 2: there are 2, counted from 0"),
        ({"LOCAL_RANK": "many"}, "cuda", "ConfigError", "LOCAL_RANK"),
        ({"FAKE_CUDA_FAIL": "cuMemHostAlloc:1:2"}, 1, "StorageError", "pinned memory: memory is used up"),
    ],
)
def test_unusable_gpus(numbers, fake, env, device, name, message):
    """A GPU that can't be used is an error of its own class, when the loader starts."""
    code = """
        import sys
        import packhorse

        device = sys.argv[2]
        loader = packhorse.open(sys.argv[1]).loader(10, device=int(device) if device.isdigit() else device)
        try:
            iter(loader)
        except packhorse.Error as error:
            assert error.kind and error.code
            print(type(error).__name__, error)
    """
    found = run_well(code, numbers._place, device, env={**fake, **env})
    assert found.startswith(name + " ") and message in found, found


def test_the_gpu_of_a_rank(numbers, on_gpu):
    """`"cuda"` is the GPU of the local rank, or that which torch uses."""
    code = """
        import types
        ds = packhorse.open(sys.argv[1])
        def device(**settings):
            batch = next(iter(ds.loader(10, **settings)))
            return batch.device, batch["cls"].device, batch["cls"].__dlpack_device__()
        assert device(device="cuda") == ("cuda:1", "cuda:1", (2, 1)), device(device="cuda")
        assert device(device="cuda:0") == ("cuda:0", "cuda:0", (2, 0))
        cuda = types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 0)
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
        assert device(device="cuda")[0] == "cuda:0"
    """
    on_gpu(code, numbers._place, LOCAL_RANK="3")


# --- batches ----------------------------------------------------------------------------------------------------------


def test_batches_are_those_of_the_host(of_each_format, on_gpu):
    """All fields, keys and numbers of two epochs are those of a loader in host memory, for each format."""
    code = """
        ds = packhorse.open(sys.argv[1])
        here, there = (ds.loader(7, seed=3, remainder="uneven", device=device) for device in ("cpu", "cuda:0"))
        for _ in range(2):
            for wanted, found in zip(here, there, strict=True):
                equal(found, wanted)
        assert there.stats()["batches"] == 10
    """
    on_gpu(code, of_each_format._place)


def test_ragged_fields(ragged, on_gpu):
    """Rows of different lengths and shapes."""
    code = """
        ds = packhorse.open(sys.argv[1])
        for wanted, found in zip(ds.loader(6, seed=1), ds.loader(6, seed=1, device=0), strict=True):
            equal(found, wanted)
            for name in wanted:
                assert found[name].tolist() == wanted[name].tolist()
                assert found[name].bytes() == wanted[name].bytes()
                assert [row.tolist() for row in found[name]] == wanted[name].tolist()
                assert found[name][-1].device == "cuda:0" and found[name].cpu().values.device == "cpu"
    """
    on_gpu(code, ragged._place)


def test_pictures_are_finished_on_the_gpu(views, on_gpu):
    """Normalised pictures travel as bytes, and are bit for bit those of the host: crops, flips, both orders of axes, also where
    samples lack the picture."""
    code = """
        ds = packhorse.open(sys.argv[1])
        fields = {
            "first": Image("jpg", (17, 12), crop="random", flip=0.5, normalize="imagenet"),
            "label": "cls",
            "last": Image("jpg", 16, normalize=([0.1, 0.2, 0.3], [0.5, -2.0, 0.01]), channels_last=True),
            "bytes": Image("jpg", 9, crop="random", flip=0.5),
            "some": Image("png", 8, normalize=True, required=False),
            "own": Image("jpg"),
        }
        here, there = (ds.loader(5, seed=3, fields=fields, device=device) for device in ("cpu", "cuda"))
        for _ in range(3):
            for wanted, found in zip(here, there, strict=True):
                equal(found, wanted)
        told = there.explain()
        assert "device: cuda:0 (Fake GPU 0)" in told, told
        assert "made on the GPU: first, last" in told, told
        assert "first: Float32 [5, 3, 17, 12]" in told and "last: Float32 [5, 16, 16, 3]" in told, told
        mine = here.explain().splitlines()
        assert [line for line in told.splitlines() if line in mine] == mine
        sent = 5 * (17 * 12 * 3 + 16 * 16 * 3 + 9 * 9 * 3 + 8 * 8 * 3 * 4 + 8 + 12) + 6 * 8
        assert there._pipeline.on_gpu() == (["first", "last"], sent, 5 * 4 * 3 * (17 * 12 + 16 * 16))
    """
    on_gpu(code, views._place)


def test_resident_samples(of_each_format, on_gpu):
    """Batches of samples that the GPU keeps are those of a loader that reads: for each format, over epochs, from a state, without
    skipped samples, and any batch by its number. Samples are loaded once."""
    code = """
        ds = packhorse.open(sys.argv[1])
        settings = {"seed": 3, "remainder": "uneven", "place": (1, 2), "skip": [ds[4]["__key__"]]}
        here, there = ds.loader(7, **settings), ds.loader(7, **settings, device="cuda:0", resident=True)
        for _ in range(2):
            for wanted, found in zip(here, there, strict=True):
                equal(found, wanted)
        kept = there._kept[1]
        next(iter(here))
        state = here.state_dict()
        here.load_state_dict(state)
        there.load_state_dict(state)
        for wanted, found in zip(here, there, strict=True):
            equal(found, wanted)
        equal(there.at(11, 0, 2), here.at(11, 0, 2))
        assert there._kept[1] is kept and kept.bytes > 0
        copied = pickle.loads(pickle.dumps(there))
        for wanted, found in zip(here, copied, strict=True):
            equal(found, wanted)
        del kept, copied
    """
    on_gpu(code, of_each_format._place)


def test_resident_pictures(views, on_gpu):
    """Flips, random crops and normalisation are drawn for each epoch as by the host: bit for bit, and random crops within 2 of
    255. Whole pictures and keys that the GPU needs for that are not among the arrays."""
    code = """
        ds = packhorse.open(sys.argv[1])
        fields = {
            "crop": Image("jpg", (17, 12), crop="random"),
            "first": Image("jpg", (9, 8), crop="random", flip=0.5, normalize=([0.5, 0.5, 0.5], [1, 1, 1]), channels_last=True),
            "last": Image("jpg", 16, flip=0.5, normalize="imagenet"),
            "still": Image("jpg", 16),
            "own": Image("jpg"),
            "some": Image("png", 8, normalize=True, required=False),
            "label": "cls",
        }
        here, there = (ds.loader(5, seed=3, fields=fields, device=device, resident=device != "cpu") for device in ("cpu", "cuda"))
        seen = set()
        for _ in range(3):
            for wanted, found in zip(here, there, strict=True):
                assert list(found) == list(wanted) and found.keys == wanted.keys
                for name in wanted:
                    a, b = (np.asarray(getattr(one[name].cpu(), "values", one[name].cpu())) for one in (found, wanted))
                    assert a.dtype == b.dtype and a.shape == b.shape, name
                    if name in ("crop", "first"):
                        scale = 1 if name == "crop" else 255
                        assert np.abs(a.astype(np.float64) - b.astype(np.float64)).max() * scale <= 2.01, name
                    else:
                        assert a.tobytes() == b.tobytes(), name
                seen.add(found["crop"].tobytes())
        assert len(seen) == 12
        told = there.explain()
        assert "it keeps all samples" in told and "made on the GPU: crop, first, last" in told, told
        mine = [line for line in here.explain().splitlines() if line.startswith("  ")]
        assert [line for line in told.splitlines() if line.startswith("  ")] == mine, told
    """
    on_gpu(code, views._place)


def test_colors(views, on_gpu):
    """Colours change and parts are erased by sample and epoch alone: whatever the batch and the rank, and also where the GPU keeps
    the samples. A jitter of nothing changes nothing."""
    code = """
        ds = packhorse.open(sys.argv[1])
        image = lambda **colors: Image("jpg", 16, flip=0.5, normalize="imagenet", **colors)
        fields = {
            "plain": image(),
            "still": image(jitter=(0, 0, 0, 0)),
            "image": image(rotate=15, jitter=(0.4, 0.4, 0.4, 0.1, 0.8), grayscale=0.2, blur=(5, 0.1, 2.0, 0.5), erase=0.25),
            "bytes": Image("jpg", (9, 14), jitter=(0.5, 0.5, 0.5, 0.5)),
        }
        seen, erased = {}, 0
        for batch, world, resident in [(5, 1, False), (4, 2, False), (7, 1, True)]:
            for rank in range(world):
                loader = ds.loader(
                    batch, seed=3, fields=fields, device="cuda", place=(rank, world), resident=resident, remainder="uneven"
                )
                for epoch in range(2):
                    for one in loader:
                        assert list(one) == list(fields)
                        arrays = {name: np.asarray(one[name].cpu()) for name in one}
                        assert arrays["image"].dtype == np.float32 and arrays["bytes"].dtype == np.uint8
                        assert arrays["bytes"].shape == (one.rows, 9, 14, 3)
                        assert np.abs(arrays["still"] - arrays["plain"]).max() < 1e-5
                        for row, number in enumerate(one.numbers):
                            pixels = arrays["image"][row].tobytes() + arrays["bytes"][row].tobytes()
                            assert seen.setdefault((epoch, number), pixels) == pixels
                            erased += (arrays["image"][row] == 0).all(axis=0).any()
                told = loader.explain()
                assert "plain, still, image, bytes" in told, told
        assert len(seen) == 48 == len(set(seen.values())) and erased > 10, (len(seen), erased)
    """
    on_gpu(code, views._place)


def test_turned_and_blurred_pictures(views, on_gpu):
    """Pictures turn to the left, and are blurred by a Gaussian, mirrored at the borders; some of them, where a share is given."""
    code = """
        ds = packhorse.open(sys.argv[1])
        image = lambda **changes: Image("jpg", 16, normalize=True, **changes)
        fields = {
            "plain": image(),
            "left": image(rotate=(90, 90)),
            "over": image(rotate=(180, 180)),
            "some": image(rotate=(180, 180, 0.5)),
            "soft": image(blur=(7, 1.5, 1.5)),
            "odd": Image("jpg", (9, 14), normalize=True, blur=5),
        }
        weights = np.exp(-0.5 * (np.arange(-3, 4) / 1.5) ** 2)
        weights /= weights.sum()
        turned = 0
        for resident in (False, True):
            for one in ds.loader(5, seed=3, fields=fields, device="cuda", remainder="uneven", resident=resident):
                arrays = {name: np.asarray(one[name].cpu()) for name in one}
                plain = arrays["plain"]
                assert np.abs(arrays["left"] - np.rot90(plain, axes=(2, 3))).max() < 1e-5
                assert np.abs(arrays["over"] - plain[:, :, ::-1, ::-1]).max() < 1e-5
                for before, after in zip(plain, arrays["some"]):
                    turned += np.abs(after - before[:, ::-1, ::-1]).max() < 1e-5
                    assert min(np.abs(after - before).max(), np.abs(after - before[:, ::-1, ::-1]).max()) < 1e-5
                padded = np.pad(plain, ((0, 0), (0, 0), (3, 3), (3, 3)), mode="reflect")
                across = sum(weight * padded[:, :, :, i : i + 16] for i, weight in enumerate(weights))
                wanted = sum(weight * across[:, :, i : i + 16] for i, weight in enumerate(weights))
                assert np.abs(arrays["soft"] - wanted).max() < 1e-5
                assert arrays["odd"].shape[1:] == (3, 9, 14)
        assert 10 < turned < 38, turned
    """
    on_gpu(code, views._place)


def test_mixed_pictures(views, on_gpu):
    """Each picture is its own share of itself and the rest of the one before it, and so are the labels: also where the GPU decodes or keeps
    the samples. A label is a field like any other until it is mixed."""
    code = """
        ds = packhorse.open(sys.argv[1])
        for settings, resident in [({}, False), ({}, True), ({"decode": "gpu"}, False)]:
            image = lambda **mixed: Image("jpg", 16, flip=0.5, normalize="imagenet", **mixed, **settings)
            classes = 30
            plain = {"image": image(), "label": "cls"}
            blended = {"image": image(mixup=0.4, targets=("label", classes)), "label": "cls"}
            pasted = {"image": image(cutmix=1.0, mix=0.7, targets=("label", classes)), "label": "cls", "number": "cls"}
            loaders = [
                ds.loader(6, seed=3, fields=fields, device="cuda", resident=resident) for fields in (plain, blended, pasted)
            ]
            shares = []
            for still, blend, paste in zip(*loaders, strict=True):
                pictures, labels = np.asarray(still["image"].cpu()), np.asarray(still["label"].cpu())
                assert labels.dtype == np.int64 and np.asarray(paste["number"].cpu()).tolist() == labels.tolist()
                one_hot = np.eye(classes, dtype=np.float32)[labels]
                targets = np.asarray(blend["label"].cpu())
                assert targets.dtype == np.float32 and targets.shape == (6, classes)
                own = targets[np.arange(6), labels]
                mixed = lambda values: own.reshape(-1, *[1] * (values.ndim - 1)) * values + (
                    (1 - own).reshape(-1, *[1] * (values.ndim - 1)) * np.roll(values, 1, 0)
                )
                assert np.abs(targets - mixed(one_hot)).max() < 1e-6
                # Bytes are decoded to, before they are mixed.
                assert np.abs(np.asarray(blend["image"].cpu()) - mixed(pictures)).max() < (0.01 if settings else 1e-5)
                found, targets = np.asarray(paste["image"].cpu()), np.asarray(paste["label"].cpu())
                of_own = np.abs(found - pictures).max(1) < 0.01
                of_other = np.abs(found - np.roll(pictures, 1, 0)).max(1) < 0.01
                assert (of_own | of_other).all()
                for row in range(6):
                    assert abs((~of_own[row]).mean() + targets[row, labels[row]] - 1) < 0.05
                shares += [*own, *targets[np.arange(6), labels]]
            assert 10 < sum(0.01 < share < 0.99 for share in shares) and 1.0 in shares
            told = loaders[1].explain()
            assert "label: Float32 [6, 30]" in told and "made on the GPU: image, label" in told, told
    """
    on_gpu(code, views._place)


def test_mixes_that_make_no_sense(views, on_gpu):
    """Pictures are mixed with their labels, which are numbers of the batch."""
    for wrong in ({"mixup": 0.2}, {"cutmix": 1.0}, {"targets": ("label", 10)}):
        with pytest.raises(ValueError, match="need targets="):
            packhorse.Image("jpg", 16, **wrong)
    code = """
        ds = packhorse.open(sys.argv[1])
        for settings, labels, message in [
            ({"mixup": -0.5}, "cls", "mixup is -0.5"),
            ({"mixup": 0.5, "mix": 1.5}, "cls", "mix is 1.5"),
            ({"mixup": 0.5}, "other", "no field label"),
            ({"cutmix": 0.5}, packhorse.Number("cls", "float32"), "holds Float32, not Int64"),
        ]:
            fields = {"image": Image("jpg", 16, targets=("label", 10), **settings)}
            fields["other" if labels == "other" else "label"] = "cls" if labels == "other" else labels
            try:
                next(iter(ds.loader(4, fields=fields, device=0)))
                raise AssertionError(f"{settings} are not refused")
            except packhorse.ConfigError as error:
                assert message in str(error), error
    """
    on_gpu(code, views._place)


def test_colors_that_make_no_sense(views, on_gpu):
    """Colours change on a GPU only, in pictures of one size, by amounts that make sense."""
    for wrong in ({"jitter": (0.1, 0.1, 0.1, 0.1)}, {"grayscale": 0.1}, {"erase": 0.1}, {"rotate": 5}, {"blur": 3}):
        with pytest.raises(ValueError, match="give the loader its device"):
            views.loader(4, fields={"image": packhorse.Image("jpg", 16, **wrong)})
    if importlib.util.find_spec("torch"):
        with pytest.raises(ValueError, match="give the loader its device"):
            views.torch(fields={"image": packhorse.Image("jpg", 16, jitter=(0.1, 0.1, 0.1, 0.1))})[0]
    with pytest.raises(ValueError, match="is not \\(brightness"):
        packhorse.Image("jpg", 16, jitter=(0.4, 0.4))
    for wrong in ({"rotate": (1, 2, 3, 4)}, {"rotate": True}, {"blur": (3, 1)}, {"blur": 129}, {"blur": 4}, {"blur": (3.5, 1, 2)}, {"blur": (float("inf"), 1, 2)}):
        with pytest.raises(ValueError, match="is neither"):
            packhorse.Image("jpg", 16, **wrong)
    code = """
        ds = packhorse.open(sys.argv[1])
        for field, resident, error in [
            (Image("jpg", grayscale=0.5), False, packhorse.UnsupportedError),
            (Image("png", 16, grayscale=0.5, required=False), False, packhorse.UnsupportedError),
            (Image("jpg", 16, crop="random", grayscale=0.5), True, packhorse.UnsupportedError),
            (Image("jpg", 16, jitter=(0.4, 0.4, 0.4, 0.6)), False, packhorse.ConfigError),
            (Image("jpg", 16, erase=1.5), False, packhorse.ConfigError),
            (Image("jpg", 16, rotate=(5, -5)), False, packhorse.ConfigError),
            (Image("jpg", 16, blur=(5, 0, 1)), False, packhorse.ConfigError),
            # As far as a picture is wide there is nothing to mirror.
            (Image("jpg", 16, blur=33), False, packhorse.ConfigError),
        ]:
            try:
                next(iter(ds.loader(4, fields={"image": field}, device=0, resident=resident)))
                raise AssertionError(f"{field} is not refused")
            except error:
                pass
    """
    on_gpu(code, views._place)


def test_decoding_on_the_gpu(views, on_gpu):
    """Pictures that the GPU decodes have the fields, samples, crops and flips of the CPU's, and nearly its pixels: here the CPU decodes
    what the library refuses, and the GPU's kernels do the rest."""
    code = """
        ds = packhorse.open(sys.argv[1])
        fields = lambda **settings: {
            "random": Image("jpg", (17, 12), crop="random", flip=0.5, normalize="imagenet", **settings),
            "label": "cls",
            "center": Image("jpg", 16, channels_last=True, normalize=True, **settings),
            "squash": Image("jpg", (9, 14), crop="squash", flip=0.5, **settings),
            "some": Image("png", 8, required=False, **settings),
        }
        there = ds.loader(5, seed=3, fields=fields(decode="gpu"), device="cuda")
        here = ds.loader(5, seed=3, fields=fields())
        for _ in range(2):
            for wanted, found in zip(here, there, strict=True):
                assert list(found) == list(wanted) and list(found.keys) == list(wanted.keys)
                assert found["label"].tolist() == wanted["label"].tolist()
                for name, scale in [("random", 1 / 255 / 0.22), ("center", 1 / 255), ("squash", 1), ("some", 1)]:
                    mine, other = np.asarray(found[name].cpu()), np.asarray(wanted[name])
                    assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
                    assert np.abs(mine.astype(np.float32) - other).max() <= 2.5 * scale, name
        told = there.explain()
        assert "made on the GPU: random, center, squash, some" in told, told
        assert there.at(2)["squash"].tolist() == list(ds.loader(5, seed=3, fields=fields(decode="gpu"), device=0))[2]["squash"].tolist()
    """
    on_gpu(code, views._place, FAKE_NVJPEG_SIZE="1")


def test_decoded_pictures_belong_to_their_samples(views, on_gpu):
    """What the library makes of a JPEG is in its sample's row, whatever the batch and the rank, and colours change after it."""
    code = """
        ds = packhorse.open(sys.argv[1])
        image = lambda **colors: Image("jpg", 16, flip=0.5, normalize="imagenet", decode="gpu", **colors)
        fields = {
            "plain": image(),
            "still": image(jitter=(0, 0, 0, 0)),
            "image": image(jitter=(0.4, 0.4, 0.4, 0.1, 0.8), grayscale=0.2, erase=0.25),
        }
        seen, changed = {}, 0
        for batch, world in [(5, 1), (4, 2)]:
            for rank in range(world):
                loader = ds.loader(batch, seed=3, fields=fields, device="cuda", place=(rank, world), remainder="uneven")
                for epoch in range(2):
                    for one in loader:
                        assert list(one) == list(fields)
                        arrays = {name: np.asarray(one[name].cpu()) for name in one}
                        # Colours change bytes, which are rounded.
                        assert np.abs(arrays["still"] - arrays["plain"]).max() <= 0.51 / 255 / 0.22
                        changed += np.abs(arrays["image"] - arrays["plain"]).max() > 0.1
                        for row, number in enumerate(one.numbers):
                            pixels = arrays["image"][row].tobytes() + arrays["plain"][row].tobytes()
                            assert seen.setdefault((epoch, number), pixels) == pixels
        assert len(seen) == 48 and len(set(seen.values())) > 40 and changed > 10, (len(seen), changed)
    """
    on_gpu(code, views._place)


def test_decoding_that_makes_no_sense(views, on_gpu):
    """Only a GPU with its library decodes, pictures of one size, as batches are needed."""
    with pytest.raises(ValueError, match="give the loader its device"):
        views.loader(4, fields={"image": packhorse.Image("jpg", 16, decode="gpu")})
    with pytest.raises(ValueError, match="decode='GPU' is neither"):
        packhorse.Image("jpg", 16, decode="GPU")
    code = """
        ds = packhorse.open(sys.argv[1])
        for settings, resident, message in [
            ({}, False, "pictures of one size"),
            ({"size": 16, "crop": "exact"}, False, "pictures of one size"),
            ({"size": 16, "filter": "bicubic"}, False, "resamples bilinearly"),
            ({"size": 16, "normalize": True, "required": False}, False, "every sample has"),
            ({"size": 16, "erase": 0.5, "required": False}, False, "every sample has"),
            ({"size": 16}, True, "decoded by the CPU, once"),
        ]:
            try:
                next(iter(ds.loader(4, fields={"image": Image("jpg", decode="gpu", **settings)}, device=0, resident=resident)))
                raise AssertionError(f"{settings} are not refused")
            except packhorse.UnsupportedError as error:
                assert message in str(error), error
        os.environ["PACKHORSE_NVJPEG"] = "/no/libnvjpeg.so"
        try:
            next(iter(ds.loader(4, fields={"image": Image("jpg", 16, decode="gpu")}, device=0)))
            raise AssertionError("decoded without a library")
        except packhorse.UnsupportedError as error:
            assert "nvidia-nvjpeg" in str(error) + (error.hint or ""), error
    """
    on_gpu(code, views._place)


def test_a_diagnosis_decodes_on_the_gpu(views, on_gpu):
    """What the GPU's decoder gains is predicted, and observed with steps of Python."""
    code = """
        ds = packhorse.open(sys.argv[1])
        fields = {"image": Image("jpg", 96, crop="random", normalize="imagenet")}
        loader = ds.loader(4, fields=fields, device=0, threads=1)
        shapes = set()
        step = lambda batch: shapes.add((tuple(batch["image"].shape), str(batch["image"].dtype)))
        found = packhorse.diagnose(loader, step, seconds=1.0, rounds=3, apply=True)
        assert shapes == {((4, 3, 96, 96), "float32")}, shapes
        # It is worth it only on a real GPU.
        assert not any("was not tried" in note for note in found.notes), found
        os.environ["PACKHORSE_NVJPEG"] = "/no/libnvjpeg.so"
        found = packhorse.diagnose(loader, step, seconds=1.0, rounds=3)
        tried = [note for note in found.notes if "gpu decoding was not tried" in note]
        assert bool(tried) == any(cost["stage"] == "decode" for cost in found.costs), found
    """
    on_gpu(code, views._place)


def test_what_can_not_be_resident(views, on_gpu):
    """Host memory, random views that the GPU can't make, more samples than memory."""
    with pytest.raises(ValueError, match="give its device"):
        views.loader(4, resident=True)
    code = """
        ds = packhorse.open(sys.argv[1])
        for field, error, message in [
            (Image("jpg", 16, crop="random", filter="bicubic"), packhorse.UnsupportedError, "bilinear"),
            (Image("png", 16, crop="random", required=False), packhorse.ConfigError, "cut or mirrored at random"),
            (Image("jpg", flip=0.5), packhorse.UnsupportedError, "not mirrored at random"),
            ("jpg", packhorse.LimitError, "24 samples take about"),
        ]:
            loader = ds.loader(4, fields={"image": field}, device=0, resident=True)
            if error is packhorse.LimitError:
                os.environ["FAKE_CUDA_FREE"] = "1000"
            try:
                next(iter(loader))
                raise AssertionError(f"{field} is not refused")
            except error as raised:
                assert message in str(raised), raised
        try:
            packhorse.diagnose(loader, lambda batch: None)
            raise AssertionError("not refused")
        except ValueError as raised:
            assert "loads nothing" in str(raised)
    """
    on_gpu(code, views._place)


def test_settings_that_fit_no_picture(views, on_gpu):
    """What can't be normalised is refused on a GPU as in host memory."""
    code = """
        ds = packhorse.open(sys.argv[1])
        for wrong, message in [
            (Image("jpg", 8, normalize=([0, 0, 0], [1, 0, 1])), "no std of 0"),
            (Image("jpg", normalize=True), "can't be normalised"),
        ]:
            for device in ("cpu", 0):
                try:
                    iter(ds.loader(4, fields={"image": wrong}, device=device))
                    raise AssertionError("not refused")
                except packhorse.ConfigError as error:
                    assert message in str(error), error
        assert len(next(iter(ds.loader(4, fields={"image": Image("jpg", 8)}, device=0)))["image"]) == 4
    """
    on_gpu(code, views._place)


def test_states_and_steps(numbers, on_gpu):
    """Epochs, states, any step, pickles and the end are as in host memory; batches sent ahead do not count."""
    code = """
        ds = packhorse.open(sys.argv[1])
        numbers = lambda loader: [batch["cls"].tolist() for batch in loader]
        here = ds.loader(10, seed=4)
        wanted = [numbers(here) for _ in range(3)]

        loader = ds.loader(10, seed=4, device="cuda:0")
        assert loader.state_dict() == ds.loader(10, seed=4).state_dict()
        found = []
        for step, batch in enumerate(loader):
            found.append(batch["cls"].tolist())
            assert loader.state_dict()["consumed"] == 10 * (step + 1)
            if step == 3:
                break
        state = loader.state_dict()
        again = pickle.loads(pickle.dumps(loader))
        other = ds.loader(10, seed=4)
        other.load_state_dict(state)
        rest = numbers(other)
        assert found + rest == wanted[0]
        loader.load_state_dict(state)
        assert numbers(loader) == numbers(again) == rest
        assert numbers(loader) == wanted[1]
        loader.set_epoch(0)
        assert numbers(loader) == wanted[0]

        at = loader.at(step=13, rank=0, world=1)
        assert at.device == "cuda:0" and at["cls"].tolist() == wanted[1][3] and at.epoch == 1
        assert loader.at(2, 1, 2)["cls"].tolist() == ds.loader(10, seed=4, place=(1, 2)).at(2)["cls"].tolist()
        assert loader.is_at_end() and len(loader) == 10
        loader.close()
        assert numbers(loader) == wanted[1]
        assert loader.stats()["batches"] == 10
    """
    on_gpu(code, numbers._place)


def test_threads_of_the_caller(numbers, on_gpu):
    """Without threads of its own a loader works too, and several loaders share a GPU."""
    code = """
        ds = packhorse.open(sys.argv[1])
        wanted = sorted(range(100))
        for threads in (0, 1):
            loaders = [ds.loader(10, seed=seed, threads=threads, readers=threads, device=0) for seed in range(2)]
            for batches in zip(*loaders, strict=True):
                pass
            assert all(sorted(n for batch in loader for n in batch["cls"].tolist()) == wanted for loader in loaders)
    """
    on_gpu(code, numbers._place)


def test_errors_are_in_the_place_of_their_batch(numbers, on_gpu):
    """A copy that fails is one error, and the next batch comes."""
    code = """
        loader = packhorse.open(sys.argv[1]).loader(10, device=0)
        found, errors = 0, []
        batches = iter(loader)
        while True:
            try:
                found += next(batches).rows
            except StopIteration:
                break
            except packhorse.Error as error:
                errors.append(error)
        assert found == 90 and len(errors) == 1, (found, errors)
        assert isinstance(errors[0], packhorse.StorageError) and errors[0].code == "gpu-failed"
        assert "copy to the GPU: CUDA_ERROR_700" in str(errors[0])
    """
    on_gpu(code, numbers._place, FAKE_CUDA_FAIL="cuMemcpyHtoDAsync_v2:4:700")


def test_bad_samples_are_skipped(tmp_path, on_gpu):
    """`on_error="skip"` warns, and a batch has fewer rows."""
    samples = ({"__key__": f"f{n:02}", "cls": b"none" if n == 13 else str(n)} for n in range(40))
    dataset = write(tmp_path / "shards", samples, samples_per_shard=10)
    code = """
        import warnings
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            loader = packhorse.open(sys.argv[1]).loader(10, device=0, on_error="skip", shuffle="sequential")
            found = [batch["cls"].tolist() for batch in loader]
        assert [len(one) for one in found] == [10, 9, 10, 10]
        assert sum(found, []) == [n for n in range(40) if n != 13]
        assert any("f13" in str(one.message) for one in told)
    """
    on_gpu(code, dataset._place)


def megatron(prefix, lengths):
    """Writes a pair of Megatron's files of documents of these lengths, and returns its prefix."""
    tokens = np.arange(sum(lengths), dtype=np.uint16)
    starts = np.cumsum([0, *lengths[:-1]]) * 2
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1)
    index = [np.array(lengths, np.int32), starts.astype(np.int64), np.arange(len(lengths) + 1, dtype=np.int64)]
    prefix.with_suffix(".idx").write_bytes(head + b"".join(part.tobytes() for part in index))
    prefix.with_suffix(".bin").write_bytes(tokens.tobytes())
    return prefix


def test_tokens(tmp_path, on_gpu):
    """Tokens in training order, their companions and states."""
    code = """
        tokens = packhorse.TokenDataset(sys.argv[1])
        settings = {"seed": 5, "companions": ["position_ids", "loss_mask", "cu_seqlens"]}
        wanted = list(tokens.loader(4, 16, **settings))
        loader = tokens.loader(4, 16, device="cuda:0", **settings)
        assert len(loader) == len(wanted)
        for step, found in enumerate(loader):
            assert found.device == "cuda:0"
            for name in wanted[step]:
                same(found[name], wanted[step][name])
            assert len(loader) == len(wanted) - step - 1
            if step == 2:
                break
        again = tokens.loader(4, 16, **settings)
        again.load_state_dict(loader.state_dict())
        assert next(iter(again))["tokens"].tolist() == wanted[3]["tokens"].tolist()
        assert next(iter(loader))["tokens"].tolist() == wanted[3]["tokens"].tolist()
    """
    on_gpu(code, megatron(tmp_path / "corpus", [3 + n * 7 % 40 for n in range(60)]))
