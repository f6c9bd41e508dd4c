"""Every kind of field, compared with the library that owns it."""

import datetime
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import warnings
from pathlib import Path

import numpy as np
import packhorse
import pytest
from conftest import encoded, mixed, npy, picture, write
from PIL import Image, ImageOps

pa = pytest.importorskip("pyarrow")

NUMBERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def decoded(file):
    """The pixels of a picture, by Pillow."""
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB"))


def near(ours, theirs, tolerance):
    """Whether two pictures differ by no more than this."""
    assert np.shape(ours) == np.shape(theirs)
    difference = np.abs(np.asarray(ours).astype(int) - np.asarray(theirs).astype(int))
    assert difference.max() <= tolerance, f"pixels differ by {difference.max()}, {difference.mean():.2f} on average"


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_pictures_of_their_own_size_are_pillows(odd_pictures):
    """Without a size, JPEG and PNG files become the pixels that Pillow decodes."""
    batch = odd_pictures.batch(range(8), {"image": packhorse.Image("jpg;png")})
    assert isinstance(batch["image"], packhorse.RaggedArray)
    for number, image in enumerate(batch["image"]):
        sample = odd_pictures[number]
        near(image, decoded(sample.get("jpg") or sample["png"]), 0 if "png" in sample else 3)


def test_center_crop_is_pillows(pictures):
    """The shorter side is scaled to `short`, then the centre is cut out, as Pillow and torchvision do."""
    batch = pictures.batch(range(6), {"image": packhorse.Image("jpg", (16, 20), short=24)})
    assert batch["image"].shape == (6, 16, 20, 3)
    for number, image in enumerate(batch["image"]):
        scaled = Image.fromarray(decoded(pictures[number]["jpg"])).resize((32, 24), Image.Resampling.BILINEAR)
        near(image, np.asarray(scaled)[4:20, 6:26], 3)


def test_squash_is_pillows_resize(pictures):
    """`squash` scales the whole picture to the size."""
    image = pictures.batch([3], {"image": packhorse.Image("jpg", (12, 10), crop="squash")})["image"][0]
    near(image, Image.fromarray(decoded(pictures[3]["jpg"])).resize((10, 12), Image.Resampling.BILINEAR), 3)


def test_bicubic_is_pillows(pictures):
    """The filter can be bicubic."""
    image = pictures.batch([3], {"image": packhorse.Image("jpg", 20, crop="squash", filter="bicubic")})["image"][0]
    near(image, Image.fromarray(decoded(pictures[3]["jpg"])).resize((20, 20), Image.Resampling.BICUBIC), 3)


def test_exact_takes_one_size_only(pictures, odd_pictures):
    """`exact` is for pictures of one size; another size is a bad sample."""
    image = pictures.batch([2], {"image": packhorse.Image("jpg", (30, 40), crop="exact")})["image"]
    near(image[0], decoded(pictures[2]["jpg"]), 3)
    with pytest.raises(packhorse.ContentError) as raised:
        odd_pictures.batch([0, 1], {"image": packhorse.Image("jpg;png", (50, 30), crop="exact")})
    assert raised.value.sample == "o001"


def test_pictures_are_upright(tmp_path):
    """A picture is turned as its EXIF orientation says."""
    exif = Image.Exif()
    exif[0x0112] = 6
    file = encoded(picture(1), exif=exif)
    dataset = write(tmp_path / "shards", [{"jpg": file}])
    image = dataset.batch([0], {"image": packhorse.Image("jpg")})["image"][0]
    assert image.shape == (40, 30, 3)
    near(image, decoded(file), 3)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "JPEG"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_kinds_of_pictures(tmp_path, kind, mode):
    """Grey and coloured JPEG, PNG and WebP become red, green and blue."""
    file = io.BytesIO()
    lossless = {"lossless": True} if kind == "WEBP" else {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
    Image.fromarray(picture(1)).convert(mode).save(file, kind, **lossless)
    dataset = write(tmp_path / "shards", [{"img": file.getvalue()}])
    image = dataset.batch([0], {"image": packhorse.Image("img")})["image"][0]
    near(image, decoded(file.getvalue()), 3 if kind == "JPEG" else 0)


# --- masks ------------------------------------------------------------------------------------------------------------


def mask(kind, number=0):
    """A mask of 40 × 30 numbers in blocks, by Pillow: grays, indices into a palette, bits or numbers of 16 bits."""
    y, x = np.mgrid[0:30, 0:40]
    numbers = (x // 8 + 5 * (y // 6) + number) % 25
    if kind == "1":
        return Image.fromarray((numbers % 2 * 255).astype(np.uint8)).convert("1")
    if kind == "I;16":
        return Image.fromarray((numbers * 1000).astype(np.uint16))
    image = Image.fromarray(numbers.astype(np.uint8))
    if kind == "P":
        image.putpalette([(7 * value) % 256 for value in range(3 * 25)])
    return image


def file_of(image, **settings):
    """The image as a PNG file."""
    file = io.BytesIO()
    image.save(file, "PNG", **settings)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["L", "P", "1", "I;16"])
def test_masks_are_the_numbers_that_pillow_stores(tmp_path, kind):
    """Grays, indices, bits and wide numbers come as they are, in each crop of one size with the nearest pixel."""
    image = mask(kind)
    dtype = "uint16" if kind == "I;16" else "uint8"
    dataset = write(tmp_path / "shards", [{"png": file_of(image)}])
    whole = dataset.batch([0], {"mask": packhorse.Mask(dtype=dtype)})["mask"][0]
    assert whole.dtype == dtype and whole.shape == (30, 40)
    assert np.array_equal(whole, np.asarray(image))
    fields = {
        "exact": packhorse.Mask("png", (30, 40), crop="exact", dtype=dtype),
        "squash": packhorse.Mask("png", (17, 23), crop="squash", dtype=dtype),
        "flipped": packhorse.Mask("png", (30, 40), crop="squash", flip=1.0, dtype=dtype),
    }
    batch = dataset.batch([0], fields)
    assert np.array_equal(batch["exact"][0], np.asarray(image))
    assert np.array_equal(batch["flipped"][0], np.asarray(image)[:, ::-1])
    assert batch["squash"].shape == (1, 17, 23)
    assert np.array_equal(batch["squash"][0], np.asarray(image.resize((23, 17), Image.Resampling.NEAREST)))


@pytest.mark.parametrize("smaller", [1, 2])
def test_masks_follow_their_images(tmp_path, smaller):
    """An image and its mask are cropped and flipped alike, in every epoch, also where the mask is stored smaller."""
    samples = []
    for number in range(12):
        numbers = np.asarray(mask("L", number))
        image = np.repeat(numbers[..., None] * 10, 3, axis=2)
        stored = mask("P", number)
        stored = stored.resize((stored.width // smaller, stored.height // smaller), Image.Resampling.NEAREST)
        fields = {"jpg": file_of(Image.fromarray(image)), "seg.png": file_of(stored)}
        samples.append({"__key__": f"{number:02}", **fields})
    dataset = write(tmp_path / "shards", samples, columns={"jpg": "bytes", "seg.png": "bytes"})
    view = {"size": (24, 32), "crop": "random", "flip": 0.5}
    fields = {"image": packhorse.Image("jpg", **view), "mask": packhorse.Mask("seg.png", **view)}
    loader = dataset.loader(4, seed=3, fields=fields)
    shares = []
    for _ in range(40):
        for batch in loader:
            assert batch["mask"].shape == (4, 24, 32)
            red, numbers = np.asarray(batch["image"])[..., 0].astype(int), np.asarray(batch["mask"]).astype(int)
            near_enough = np.abs(red - numbers * 10) <= 5
            shares += near_enough.mean(axis=(1, 2)).tolist()
    # At the borders of blocks the image's colours mix, and the mask's numbers do not.
    assert len(shares) == 480 and min(shares) > 0.5 and np.mean(shares) > 0.7
    narrow = [{**samples[0], "seg.png": file_of(mask("P").resize((40, 10)))}]
    dataset = write(tmp_path / "narrow", narrow, columns={"jpg": "bytes", "seg.png": "bytes"})
    with pytest.raises(packhorse.ContentError, match="and its image .*: no crop is the same of both"):
        dataset.batch([0], fields)


def test_masks_that_are_no_masks(tmp_path):
    """Colours are not numbers, and numbers over 255 do not fit into bytes."""
    dataset = write(tmp_path / "shards", [{"jpg": encoded(picture(1)), "png": file_of(mask("I;16"))}])
    with pytest.raises(packhorse.ContentError, match="has colours"):
        dataset.batch([0], {"mask": packhorse.Mask("jpg")})
    with pytest.raises(packhorse.ContentError, match="bytes hold 0 to 255"):
        dataset.batch([0], {"mask": packhorse.Mask("png")})
    with pytest.raises(ValueError, match="neither uint8 nor uint16"):
        packhorse.Mask("png", dtype="int64")


def test_packed_masks_keep_their_numbers(tmp_path):
    """A field of masks that is named is resized to the nearest pixel; images beside it are not."""
    (tmp_path / "in").mkdir()
    Image.fromarray(picture(1)).save(tmp_path / "in" / "a.jpg")
    mask("L").save(tmp_path / "in" / "a.seg.png")
    packhorse.pack(tmp_path / "in", tmp_path / "out", to="webdataset", image=["resize=20x15", "nearest=seg.png"])
    packed = Image.open(io.BytesIO(packhorse.open(tmp_path / "out")[0]["seg.png"]))
    assert np.array_equal(np.asarray(packed), np.asarray(mask("L").resize((20, 15), Image.Resampling.NEAREST)))
    with pytest.raises(packhorse.ConfigError, match="nearest"):
        packhorse.pack(tmp_path / "in", tmp_path / "other", to="webdataset", image=["nearest=seg.png"])


@pytest.mark.parametrize(
    ("asked", "mean", "std"),
    [
        (True, (0, 0, 0), (1, 1, 1)),
        ("imagenet", MEAN, STD),
        (((0.5, 0.4, 0.3), (0.1, 0.2, 0.3)), (0.5, 0.4, 0.3), (0.1, 0.2, 0.3)),
    ],
)
def test_normalize_is_the_formula(pictures, asked, mean, std):
    """Normalised pixels are `(value / 255 - mean) / std` of the `uint8` pixels, channels first or last."""
    fields = {
        "bytes": packhorse.Image("jpg", 16),
        "first": packhorse.Image("jpg", 16, normalize=asked),
        "last": packhorse.Image("jpg", 16, normalize=asked, channels_last=True),
    }
    batch = pictures.batch(range(5), fields)
    values = np.asarray(batch["bytes"]).astype(np.float64)
    wanted = ((values / 255 - np.array(mean)) / np.array(std)).astype(np.float32)
    last, first = np.asarray(batch["last"]), np.asarray(batch["first"])
    assert last.dtype == first.dtype == np.float32
    assert first.shape == (5, 3, 16, 16)
    assert last.shape == (5, 16, 16, 3)
    np.testing.assert_allclose(last, wanted, rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(first, last.transpose(0, 3, 1, 2))


def test_random_crops_are_a_function_of_seed_epoch_and_sample(pictures):
    """A random crop is the same again, and another one in another epoch, seed or sample."""
    fields = {"image": packhorse.Image("jpg", 16, crop="random", flip=0.5)}

    def pixels(numbers=(0, 1, 2, 3), **how):
        return np.asarray(pictures.batch(numbers, fields, **how)["image"]).copy()

    first = pixels(seed=1, epoch=2)
    np.testing.assert_array_equal(first, pixels(seed=1, epoch=2))
    np.testing.assert_array_equal(first[[2, 0]], pixels((2, 0), seed=1, epoch=2))
    assert (first != pixels(seed=1, epoch=3)).any()
    assert (first != pixels(seed=2, epoch=2)).any()


def test_flip_is_left_to_right(pictures):
    """With probability 1 each picture is mirrored."""
    plain = packhorse.Image("jpg", 16)
    flipped = packhorse.Image("jpg", 16, flip=1.0)
    batch = pictures.batch(range(4), {"plain": plain, "flipped": flipped})
    near(batch["flipped"], np.asarray(batch["plain"])[:, :, ::-1], 0)


def test_draws_tell_the_sample_and_the_epoch(pictures):
    """`Draws` is a number for each sample in each epoch."""
    one = pictures.batch(range(24), {"draws": packhorse.Draws()})["draws"]
    assert one.dtype == "uint64"
    assert len(set(one.tolist())) == 24
    assert one.tolist() == pictures.batch(range(24), {"draws": packhorse.Draws()})["draws"].tolist()
    assert not set(one.tolist()) & set(pictures.batch(range(24), {"draws": packhorse.Draws()}, epoch=1)["draws"].tolist())


@pytest.mark.skipif("PACKHORSE_TEST_DATA" not in os.environ, reason="PACKHORSE_TEST_DATA names no folder")
def test_real_pictures_are_pillows():
    """Photographs become the pixels that Pillow decodes."""
    place = Path(os.environ["PACKHORSE_TEST_DATA"]) / "clothing-train.tar"
    if not place.exists():
        pytest.skip("no clothing-train.tar")
    dataset = packhorse.open(place)
    field = next(name for name in dataset.fields if name in ("jpg", "jpeg"))
    image = dataset.batch([0, 5], {"image": packhorse.Image(field)})["image"]
    for number, row in zip([0, 5], image):
        difference = np.abs(np.asarray(row).astype(int) - decoded(dataset[number][field]))
        assert difference.mean() < 1
        assert difference.max() <= 10


# --- values of WebDataset ---------------------------------------------------------------------------------------------


def test_auto_takes_each_field_by_its_type(pictures):
    """`cls` becomes a number, `npy` an array, text and other bytes are ragged."""
    batch = pictures.batch(range(24))
    assert list(batch) == ["cls", "jpg", "json", "npy", "txt"]
    assert batch["cls"].dtype == "int64"
    assert batch["cls"].tolist() == [number % 5 for number in range(24)]
    assert batch["txt"].strings() == [f"a picture, number {number} é" for number in range(24)]
    assert batch["jpg"].bytes() == [pictures[number]["jpg"] for number in range(24)]
    grids = np.stack([np.arange(6, dtype=np.float32).reshape(2, 3) * number for number in range(24)])
    np.testing.assert_array_equal(batch["npy"], grids)
    assert batch["npy"].dtype == "float32"


def test_json_numbers(pictures):
    """`Json` takes a number from inside of a document."""
    fields = {
        "width": packhorse.Json("json", "size.width"),
        "score": packhorse.Json("json", "boxes.0.score", "float32"),
        "low": packhorse.Json("json", "boxes.1.score", "float64"),
    }
    batch = pictures.batch(range(24), fields)
    assert batch["width"].dtype == "int64"
    assert batch["width"].tolist() == [number * 2 for number in range(24)]
    assert batch["score"].dtype == "float32"
    assert batch["score"].tolist() == [number / 8 for number in range(24)]
    assert batch["low"].tolist() == [-1.5] * 24


def test_names_in_json_may_have_dots(tmp_path):
    """Galaxy Zoo's columns are `Class1.1` and so on."""
    packhorse.pack([{"json": {"Class1.1": i / 4, "Class1": {"1": 9, "2": i}}} for i in range(4)], tmp_path / "out", "webdataset")
    ds = packhorse.open(tmp_path / "out")
    batch = ds.batch(range(4), {"dot": packhorse.Json("json", "Class1.1", "float32"), "path": packhorse.Json("json", "Class1.2")})
    assert batch["dot"].tolist() == [0.0, 0.25, 0.5, 0.75] and batch["path"].tolist() == [0, 1, 2, 3]
    assert len(ds.where("json.Class1.1 > 0.4")) == 2


def test_json_of_python_may_hold_nan(tmp_path):
    """Python's `json` writes NaN, which JSON lacks."""
    samples = [{"txt": "a", "json": json.dumps({"width": 10 + i, "score": float("nan") if i == 2 else 0.5}).encode()} for i in range(4)]
    packhorse.pack(samples, tmp_path / "out", to="webdataset")
    dataset = packhorse.open(tmp_path / "out")
    batch = dataset.batch(range(4), {"w": packhorse.Json("json", "width"), "s": packhorse.Json("json", "score", "float32")})
    assert batch["w"].tolist() == [10, 11, 12, 13]
    assert np.isnan(batch["s"].numpy()).tolist() == [False, False, True, False]
    assert len(dataset.where("json.width >= 12")) == 2 and len(dataset.where("json.score >= 0")) == 3


def test_a_path_that_json_lacks_is_a_bad_sample(pictures):
    """A path that leads nowhere is an error that names the sample."""
    with pytest.raises(packhorse.ContentError) as raised:
        pictures.batch([7], {"x": packhorse.Json("json", "size.height")})
    assert raised.value.sample == "p007"


@pytest.mark.parametrize("dtype", NUMBERS)
def test_number_of_each_type(pictures, dtype):
    """`Number` reads text as a number of the type asked for."""
    values = pictures.batch(range(10), {"label": packhorse.Number("cls", dtype)})["label"]
    assert values.dtype == dtype
    np.testing.assert_array_equal(values, np.arange(10, dtype=dtype) % 5)


def test_text_that_is_no_number_is_a_bad_sample(pictures):
    """Text that is not a number is an error that names the sample and the field."""
    with pytest.raises(packhorse.ContentError) as raised:
        pictures.batch([4], {"label": packhorse.Number("txt")})
    assert raised.value.sample == "p004"


def test_missing_fields(tmp_path):
    """A sample without the field is an error, or zeros and nothing if the field is not required."""
    samples = [{"a": b"1", "b": b"2"}, {"a": b"3"}]
    dataset = write(tmp_path / "shards", samples, columns={"a": "bytes", "b": "bytes"})
    assert dataset[0] == {"__key__": "000000000", "a": b"1", "b": b"2"}
    assert "b" not in dataset[1]
    with pytest.raises(packhorse.ContentError) as raised:
        dataset.batch([0, 1], {"b": packhorse.Number("b")})
    assert raised.value.sample == "000000001"
    fields = {"n": packhorse.Number("b", required=False), "raw": packhorse.Bytes("b", required=False)}
    batch = dataset.batch([0, 1], fields)
    assert batch["n"].tolist() == [2, 0]
    assert batch["raw"].bytes() == [b"2", b""]


def test_an_unknown_field_is_refused(pictures):
    """A field that no sample has is a bad request, and so is a value that describes no field."""
    with pytest.raises(packhorse.ConfigError):
        pictures.batch([0], ["nothing"])
    with pytest.raises(TypeError):
        pictures.batch([0], {"x": 5})


def test_samples_are_as_stored(pictures):
    """`ds[i]` has the key and the stored bytes; numbers may be negative."""
    sample = pictures[3]
    assert sample["__key__"] == "p003"
    assert sample["cls"] == b"3"
    assert sample["txt"].decode() == "a picture, number 3 é"
    assert json.loads(sample["json"])["size"] == {"width": 6}
    np.testing.assert_array_equal(np.load(io.BytesIO(sample["npy"])), np.arange(6).reshape(2, 3) * 3)
    assert pictures[-1]["__key__"] == "p023"
    assert pictures[np.int64(3)] == sample
    for beyond in (24, -25):
        with pytest.raises(IndexError):
            pictures[beyond]
    assert pictures[[0, -1]].keys == ["p000", "p023"] == pictures.subset(np.array([0, -1])).keys
    assert pictures.batch(iter([-1]), ["cls"]).keys == ["p023"]
    with pytest.raises(IndexError, match="sample -25 of 24"):
        pictures.subset([1, -25])
    with pytest.raises(ValueError, match="takes a number of samples, not -1"):
        pictures.take(-1)
    assert [sample["__key__"] for sample in pictures] == pictures.keys


def test_samples_are_those_of_webdataset(pictures):
    """The package webdataset reads the same samples in the same order."""
    wds = pytest.importorskip("webdataset")
    tars = sorted(str(tar) for tar in Path(pictures._place).glob("*.tar"))
    theirs = list(wds.WebDataset(tars, shardshuffle=False))
    assert len(theirs) == len(pictures) == 24
    for ours, other in zip(pictures, theirs):
        assert ours == {name: value for name, value in other.items() if name == "__key__" or not name.startswith("__")}


def test_shards_of_webdataset(tmp_path):
    """Tars that webdataset wrote can be read without packing."""
    wds = pytest.importorskip("webdataset")
    with wds.ShardWriter(str(tmp_path / "s-%02d.tar"), maxcount=4, verbose=0) as sink:
        for number in range(10):
            sink.write({"__key__": f"a{number}", "cls": number, "npy": np.full(3, number, np.int16), "txt": str(number)})
    dataset = packhorse.open(tmp_path / "s-{00..02}.tar")
    batch = dataset.batch(range(10))
    assert batch.keys == [f"a{number}" for number in range(10)]
    assert batch["cls"].tolist() == list(range(10))
    assert batch["npy"].dtype == "int16"
    assert batch["npy"].tolist() == [[number] * 3 for number in range(10)]
    assert batch["txt"].strings() == list("0123456789")


@pytest.mark.parametrize("to", ["parquet", "hdf5", "webdataset"])
def test_ragged_takes_arrays_that_happen_to_have_one_shape(tmp_path, to):
    """A program for samples of several lengths also takes those of one."""
    samples = [{"v": np.arange(2) + i, "m": np.full((2, 3), i, np.float32)} for i in range(4)]
    write(tmp_path / "out", samples, to=to)
    names = ("v.npy", "m.npy") if to == "webdataset" else ("v", "m")
    fields = {name: packhorse.Ragged(source) for name, source in zip("vm", names)}
    batch = packhorse.open(tmp_path / "out").batch([2, 1], fields)
    assert [row.tolist() for row in batch["v"]] == [[2, 3], [1, 2]]
    assert [row.tolist() for row in batch["m"]] == [[[2.0] * 3] * 2, [[1.0] * 3] * 2]


def test_npy_of_different_shapes_is_ragged_on_request(tmp_path):
    """`Ragged` takes arrays of different shapes; `Dense` refuses them."""
    arrays = [np.arange(2 * n, dtype=np.float64).reshape(n, 2) for n in (1, 3, 2)]
    dataset = write(tmp_path / "shards", [{"npy": npy(array)} for array in arrays])
    rows = dataset.batch(range(3), {"x": packhorse.Ragged("npy")})["x"]
    assert rows.tolist() == [array.tolist() for array in arrays]
    with pytest.raises(packhorse.ContentError):
        dataset.batch(range(3), {"x": packhorse.Dense("npy")})


# --- typed formats ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["parquet", "arrow", "hdf5", "tfrecord"])
def test_values_of_typed_formats(tmp_path, to):
    """Numbers, text, bytes, arrays and booleans come back from each typed format, one by one and in batches."""
    dataset = write(tmp_path / "shards", mixed(20), to=to, samples_per_shard=6)
    wanted = list(mixed(20))
    for ours, sample in zip(dataset, wanted):
        assert ours.keys() == sample.keys()
        assert ours["grid"].tolist() == sample["grid"].tolist()
        assert {name: ours[name] for name in ours if name != "grid"} == {
            name: sample[name] for name in sample if name != "grid"
        }
    batch = dataset.batch(range(20))
    assert batch["x"].dtype == "int64"
    assert batch["y"].dtype == "float64"
    assert batch["x"].tolist() == [sample["x"] for sample in wanted]
    assert batch["y"].tolist() == [sample["y"] for sample in wanted]
    assert batch["text"].strings() == [sample["text"] for sample in wanted]
    assert batch["data"].bytes() == [sample["data"] for sample in wanted]
    assert list(map(bool, batch["flag"].tolist())) == [sample["flag"] for sample in wanted]
    np.testing.assert_array_equal(batch["grid"], np.stack([sample["grid"] for sample in wanted]))


@pytest.mark.parametrize("dtype", [*NUMBERS, "float16"])
def test_arrays_of_each_type(tmp_path, dtype):
    """Arrays keep NumPy's type, and big-endian ones their values."""
    arrays = [np.arange(number, number + 4).astype(dtype) for number in range(5)]
    samples = [{"a": array, "b": array.astype(array.dtype.newbyteorder(">"))} for array in arrays]
    dataset = write(tmp_path / "shards", samples, to="arrow")
    batch = dataset.batch(range(5))
    for name in "ab":
        assert batch[name].dtype == dtype
        np.testing.assert_array_equal(batch[name], np.stack(arrays))
        np.testing.assert_array_equal(dataset[2][name], arrays[2])
    assert dataset[2]["a"].tolist() == arrays[2].tolist()


def test_bits(tmp_path):
    """`Bits` packs booleans, the first in the lowest bit, as NumPy does with `bitorder="little"`."""
    flags = np.random.default_rng(1).integers(0, 2, (9, 13)).astype(bool)
    dataset = write(tmp_path / "shards", [{"flags": row} for row in flags], to="arrow")
    bits = dataset.batch(range(9), {"flags": packhorse.Bits()})["flags"]
    assert bits.dtype == "uint8"
    np.testing.assert_array_equal(bits, np.packbits(flags, axis=1, bitorder="little"))
    np.testing.assert_array_equal(np.asarray(dataset.batch(range(9))["flags"]).astype(bool), flags)


def test_hdf5_of_h5py(tmp_path):
    """Files of h5py: numbers, tensors, text and rows of different lengths."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(2)
    grids = rng.normal(size=(12, 2, 3)).astype(np.float32)
    rows = [np.arange(number % 4, dtype=np.int32) for number in range(12)]
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = np.arange(12, dtype=np.int16)
        file["grid"] = grids
        file.create_dataset("text", data=[f"t{n} é" for n in range(12)], dtype=h5py.string_dtype())
        ragged = file.create_dataset("rows", 12, dtype=h5py.vlen_dtype(np.int32))
        for number, row in enumerate(rows):
            ragged[number] = row
    dataset = packhorse.open(tmp_path / "data.h5")
    batch = dataset.batch([11, 0, 5, 6, 7])
    assert batch["x"].dtype == "int16"
    assert batch["x"].tolist() == [11, 0, 5, 6, 7]
    np.testing.assert_array_equal(batch["grid"], grids[[11, 0, 5, 6, 7]])
    assert batch["rows"].tolist() == [rows[n].tolist() for n in (11, 0, 5, 6, 7)]
    assert batch["text"].strings() == [f"t{n} é" for n in (11, 0, 5, 6, 7)]
    np.testing.assert_array_equal(dataset[3]["grid"], grids[3])


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_tables_of_pyarrow(tmp_path, kind):
    """Tables of pyarrow: numbers, text, bytes, lists of one length and of any."""
    table = pa.table(
        {
            "x": pa.array(range(10), pa.uint16()),
            "text": [f"t{n} é" for n in range(10)],
            "data": [bytes([n]) * n for n in range(10)],
            "pair": pa.array([[n, n + 0.5] for n in range(10)], pa.list_(pa.float32(), 2)),
            "row": pa.array([list(range(n % 3)) for n in range(10)], pa.list_(pa.int64())),
        }
    )
    if kind == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, tmp_path / "data.parquet", row_group_size=4)
    else:
        with pa.ipc.new_file(tmp_path / "data.arrow", table.schema) as sink:
            sink.write_table(table, max_chunksize=4)
    dataset = packhorse.open(tmp_path / f"data.{kind}")
    numbers = [9, 0, 4, 4]
    batch = dataset.batch(numbers)
    assert batch["x"].dtype == "uint16"
    assert batch["x"].tolist() == numbers
    assert batch["text"].strings() == [f"t{n} é" for n in numbers]
    assert batch["data"].bytes() == [bytes([n]) * n for n in numbers]
    assert batch["pair"].tolist() == [[n, n + 0.5] for n in numbers]
    assert batch["row"].tolist() == [list(range(n % 3)) for n in numbers]


def test_a_table_of_a_dataset(tmp_path):
    """`pyarrow.table(dataset)` has the keys and the values of all samples, in order."""
    dataset = write(tmp_path / "shards", mixed(20), to="parquet", samples_per_shard=6)
    table = pa.table(dataset)
    wanted = list(mixed(20))
    assert table.num_rows == 20
    assert table["__key__"].to_pylist() == [sample["__key__"] for sample in wanted]
    for name in ("x", "y", "text", "data", "flag"):
        assert table[name].to_pylist() == [sample[name] for sample in wanted]
    grids = table["grid"].combine_chunks()
    grids = getattr(grids, "storage", grids)
    np.testing.assert_array_equal(np.array(grids.to_pylist()).reshape(20, 2, 3), np.stack([s["grid"] for s in wanted]))
    assert pa.table(dataset[3:5])["x"].to_pylist() == [3, 4]


def test_a_table_of_pictures_has_their_bytes(pictures):
    """The table of a WebDataset has the bytes of its members."""
    table = pa.table(pictures)
    assert table["jpg"].to_pylist() == [sample["jpg"] for sample in pictures]
    assert table["__key__"].to_pylist() == pictures.keys


# --- ragged -----------------------------------------------------------------------------------------------------------


def test_rows_of_different_lengths(ragged):
    """Values and offsets, rows by number, from the end and by slices."""
    rows = ragged.batch(range(20))["row"]
    wanted = [list(range(number, number + number % 4)) for number in range(20)]
    assert rows.tolist() == wanted
    assert rows.offsets.dtype == "int64"
    assert rows.offsets.tolist() == np.cumsum([0] + [len(row) for row in wanted]).tolist()
    assert rows.values.tolist() == sum(wanted, [])
    assert rows[-1].tolist() == wanted[-1]
    assert [row.tolist() for row in rows[3:6]] == wanted[3:6]
    with pytest.raises(IndexError):
        rows[20]
    with pytest.raises(IndexError):
        rows[-21]


def test_arrays_of_different_shapes(ragged):
    """Rows with several dimensions have their own shapes."""
    grids = ragged.batch(range(20))["grid"]
    assert [grid.shape for grid in grids] == [(1 + number % 3, 2 + number % 2) for number in range(20)]
    assert grids.shapes.tolist() == [[1 + number % 3, 2 + number % 2] for number in range(20)]
    assert all((np.asarray(grid) == number).all() for number, grid in enumerate(grids))


def test_awkward(ragged):
    """Rows as an awkward array, without a copy."""
    pytest.importorskip("awkward")
    rows = ragged.batch(range(20))["row"]
    awkward = rows.awkward()
    assert awkward.to_list() == rows.tolist()
    assert awkward.layout.content.data.__array_interface__["data"][0] == rows.values.address


def test_nested_tensors(ragged):
    """Rows as a nested tensor of torch, without a copy."""
    torch = pytest.importorskip("torch")
    rows = ragged.batch(range(20))["row"]
    nested = rows.nested()
    assert nested.layout == torch.jagged
    assert [row.tolist() for row in nested.unbind()] == rows.tolist()
    assert nested.values().data_ptr() == rows.values.address
    assert [row.tolist() for row in rows.torch().unbind()] == rows.tolist()


def test_ragged_rows_in_numpy(ragged):
    """Rows of any lengths and shapes as NumPy arrays, without a copy."""
    for rows in ragged.batch(range(20), ["row", "grid"]).values():
        found = rows.numpy()
        assert [row.tolist() for row in found] == rows.tolist()
        assert [row.__array_interface__["data"][0] for row in found] == [row.address for row in rows]


def test_batches_as_mappings(pictures):
    """A batch is a mapping of its fields; `keys` are the samples' keys, and called the fields' names."""
    batch = pictures.batch([5, 2], ["cls", "txt"])
    assert batch.keys == ["p005", "p002"]
    assert batch.keys() == ["cls", "txt"]
    assert list(batch) == ["cls", "txt"]
    assert len(batch) == 2
    assert "jpg" not in batch
    assert dict(batch).keys() == {"cls", "txt"}
    assert batch.rows == 2
    assert batch.numbers == [5, 2]
    assert "2 samples" in repr(batch)
    with pytest.raises(KeyError):
        batch["jpg"]
    arrays = batch.numpy()
    assert arrays["cls"].tolist() == [0, 2]
    assert bytes(arrays["txt"][1]) == "a picture, number 2 é".encode()


def test_fields_are_checked_early():
    """Settings of fields that make no sense are refused at once."""
    for wrong in (
        {"crop": "middle", "size": 5},
        {"crop": "random"},
        {"filter": "nearest"},
        {"normalize": "mnist"},
        {"normalize": ((1, 2), (3, 4))},
    ):
        with pytest.raises(ValueError):
            packhorse.Image("jpg", **wrong)
    assert packhorse.Image("jpg", 5) == packhorse.Image("jpg", (5, 5))
    assert packhorse.Number("a") != packhorse.Number("b")


def test_json_without_a_value(tmp_path):
    """Null, or nothing at a path: an error that says so, zeros, and never what a condition asks for."""
    with packhorse.Writer(tmp_path / "out", to="webdataset") as writer:
        for key, value in (("a", {"score": 0.5}), ("b", {"score": None}), ("c", {})):
            writer.write({"__key__": key, "json": {"filler": "x" * 100, **value}})
    ds = packhorse.open(tmp_path / "out")
    with pytest.raises(packhorse.ContentError, match=r"score is not a valid Int64: 0\.5"):
        ds.batch([0], {"x": packhorse.Json("json", "score")})
    with pytest.raises(packhorse.ContentError, match=r"has no score.*required") as error:
        ds.batch([1], {"x": packhorse.Json("json", "score", "float32")})
    assert error.value.code == "field-missing"
    zeros = ds.batch([0, 1, 2], {"x": packhorse.Json("json", "score", "float32", required=False)})
    assert zeros["x"].tolist() == [0.5, 0.0, 0.0]
    told = ds.batch(range(3), {"score": packhorse.Present("json", path="score"), "json": packhorse.Present()})
    assert {name: told[name].tolist() for name in told} == {"score": [1, 0, 0], "json": [1, 1, 1]}
    assert ds.where("json.score > 0").keys == ["a"] and len(ds.where("json.score != 1")) == 1
    with pytest.raises(packhorse.ConfigError, match="no sample has a value of depth in its field json"):
        ds.where("json.depth == 1")


def test_complex_numbers_and_times(tmp_path):
    """Batches hold pairs of floats and ticks; single samples have NumPy's types."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(3)
    waves = (rng.normal(size=(6, 2, 3)) + 1j * rng.normal(size=(6, 2, 3))).astype("c8")
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["k"], file["w"], file["n"] = waves, waves[:, 0, 0].astype("c16"), np.arange(6)
    days = np.arange("2024-01-01", "2024-01-07", dtype="M8[D]")
    times = days.astype("M8[us]") + np.arange(6)
    np.savez(tmp_path / "in.npz", t=times, d=days, td=np.arange(6).astype("m8[s]"), pair=times.reshape(6, 1).repeat(2, 1))
    packhorse.pack(tmp_path / "in.h5", tmp_path / "a", to="parquet")
    packhorse.pack(tmp_path / "in.npz", tmp_path / "b", to="hdf5", rows=True)
    ds = packhorse.open(tmp_path / "a")
    batch = ds.batch(range(6))
    assert (batch["k"].dtype, batch["k"].shape) == ("float32", (6, 2, 3, 2))
    assert np.array_equal(np.asarray(batch["k"]).view("c8")[..., 0], waves)
    assert np.array_equal(np.asarray(batch["w"]).view("c16")[..., 0], waves[:, 0, 0].astype("c16"))
    assert np.array_equal(ds[2]["k"], waves[2]) and ds[2]["w"] == waves[2, 0, 0] and "k" in repr(batch)
    ds = packhorse.open(tmp_path / "b")
    batch = ds.batch(range(6), {"t": "t", "d": "d", "td": packhorse.Number("td", "int64"), "pair": "pair"})
    assert np.array_equal(np.asarray(batch["t"]).view("M8[us]"), times)
    assert np.array_equal(np.asarray(batch["d"]).view("M8[D]"), days) and batch["td"].tolist() == list(range(6))
    assert np.array_equal(np.asarray(batch["pair"])[:, 1].view("M8[us]"), times)
    assert np.array_equal(ds[4]["pair"], times[[4, 4]]) and ds[4]["d"] == days[4]
    with pytest.raises(packhorse.ConfigError, match="is of type Int64, not Float32.*without a type"):
        packhorse.open(tmp_path / "a").batch([0], {"n": packhorse.Number("n", "float32")})


@pytest.mark.parametrize("to", ["hdf5", "parquet", "webdataset"])
def test_the_dataset_says_which_arrays_are_ragged(tmp_path, to):
    """The first samples of one shape do not make a field dense that was packed as ragged, nor one of lists."""
    (tmp_path / "in").mkdir()
    for number, count in enumerate((5, 5, 5, 5, 9)):
        np.savez(tmp_path / "in" / f"{number}.npz", obs=np.full((count, 3), number, "f4"), state=np.zeros(2, "f4"))
    packhorse.pack(tmp_path / "in", tmp_path / "out", to=to, ragged=True, progress=False)
    ds = packhorse.open(tmp_path / "out")
    end = ".npy" if to == "webdataset" else ""
    for view in (ds, ds.subset([0, 1]), packhorse.concat([ds.subset([0, 1]), ds.subset([4])])):
        for batch in view.loader(2, shuffle="sequential", remainder="uneven"):
            assert batch[f"state{end}"].shape == (batch.rows, 2)
            assert [row.shape for row in batch[f"obs{end}"]] == [(9 if key == "4" else 5, 3) for key in batch.keys]
    assert ds.batch([0, 1], {"obs": packhorse.Dense(f"obs{end}")})["obs"].shape == (2, 5, 3)
    rows = "".join(json.dumps({"ids": [1] * count}) + "\n" for count in (2, 2, 2, 2, 3))
    (tmp_path / "in.jsonl").write_text(rows)
    packhorse.pack(tmp_path / "in.jsonl", tmp_path / "lists", to=to, from_="jsonl", progress=False)
    lists = packhorse.open(tmp_path / "lists").batch(range(5))[f"ids{end}"]
    assert [len(row) for row in lists] == [2, 2, 2, 2, 3]


@pytest.mark.parametrize("to", ["hdf5", "parquet", "webdataset"])
def test_ragged_complex_numbers(tmp_path, to):
    """Spectra of different lengths are pairs of floats too."""
    (tmp_path / "in").mkdir()
    rng = np.random.default_rng(5)
    spectra = [(rng.normal(size=(n, 3)) + 1j * rng.normal(size=(n, 3))).astype("c8") for n in (2, 1, 4)]
    for number, spectrum in enumerate(spectra):
        np.save(tmp_path / "in" / f"{number}.npy", spectrum)
    packhorse.pack(tmp_path / "in", tmp_path / "out", to=to, ragged=True, progress=False)
    rows = packhorse.open(tmp_path / "out").batch(range(3), {"x": packhorse.Ragged("npy")})["x"]
    assert (rows.values.dtype, rows.values.shape, rows.offsets.tolist()) == ("float32", (21, 2), [0, 6, 9, 21])
    assert rows.shapes.tolist() == [[2, 3, 2], [1, 3, 2], [4, 3, 2]]
    assert all(np.array_equal(row.view("c8")[..., 0], wanted) for row, wanted in zip(rows.numpy(), spectra))


def test_bytes_of_a_fixed_length(tmp_path):
    """UUIDs and the like are rows of bytes, beside other fields and in torch too."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ids = [bytes(range(n, n + 16)) for n in range(8)]
    pq.write_table(pa.table({"uid": pa.array(ids, pa.binary(16)), "y": range(8)}), tmp_path / "in.parquet")
    packhorse.pack(tmp_path / "in.parquet", tmp_path / "h5", to="hdf5")
    for place in ("in.parquet", "h5"):
        batch = packhorse.open(tmp_path / place).batch(range(8))
        assert (batch["uid"].dtype, batch["uid"].shape) == ("uint8", (8, 16))
        assert [bytes(row) for row in batch["uid"].tolist()] == ids and batch["y"].tolist() == list(range(8))
    np.savez(tmp_path / "in.npz", s=np.array([b"ab", b"c"]))
    packhorse.pack(tmp_path / "in.npz", tmp_path / "s", to="parquet", rows=True)
    assert packhorse.open(tmp_path / "s").batch([1])["s"].tolist() == [[99, 0]]


def test_lists_of_lists(tmp_path):
    """Boxes: as many as a sample has, four numbers each. Lists of other lengths in one sample are an error of that sample."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    boxes = [[[1.0, 2, 3, 4], [5, 6, 7, 8]], [], [[9, 10, 11, 12]]]
    fixed = pa.array(boxes, pa.list_(pa.list_(pa.float32(), 4)))
    deep = pa.array([[[[1], [2]]], [[[3], [4]], [[5], [6]]], []], pa.list_(pa.list_(pa.list_(pa.int16()))))
    odd = pa.array([[[1], [2, 3]], [[1]], []], pa.list_(pa.list_(pa.int32())))
    pq.write_table(pa.table({"boxes": fixed, "deep": deep, "odd": odd}), tmp_path / "in.parquet")
    packhorse.pack(tmp_path / "in.parquet", tmp_path / "tars", to="webdataset", drop=["odd"])
    for place, suffix in ((tmp_path / "in.parquet", ""), (tmp_path / "tars", ".npy")):
        ds = packhorse.open(place)
        fields = {name: packhorse.Ragged(name + suffix) for name in ("boxes", "deep")}
        batch = ds.batch([2, 0, 1], fields)
        assert [row.tolist() for row in batch["boxes"]] == [boxes[2], boxes[0], boxes[1]]
        assert batch["boxes"][1].shape == (2, 4) and batch["deep"][2].shape == (2, 2, 1)
        assert [row.tolist() for row in batch["deep"]] == [[], [[[1], [2]]], [[[3], [4]], [[5], [6]]]]
    ds = packhorse.open(tmp_path / "in.parquet")
    assert ds.batch([1], {"odd": packhorse.Ragged("odd")})["odd"][0].tolist() == [[1]]
    with pytest.raises(packhorse.ContentError, match="lists of 1 and of 2 values in one sample"):
        ds.batch([0], {"odd": packhorse.Ragged("odd")})
    with pytest.raises(packhorse.ContentError, match="lists of 1 and of 2 values in one sample"):
        packhorse.pack(tmp_path / "in.parquet", tmp_path / "bad", to="webdataset")


def test_without_fields_missing_values_are_no_zeros(tmp_path):
    """A sample that lacks a field is an error unless zeros were asked for."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"y": [1, None, 3], "f": [1.5, 2.5, None]}), tmp_path / "n.parquet")
    data = packhorse.open(tmp_path / "n.parquet")
    for read in (lambda: data.batch([0, 1, 2]), lambda: list(data.loader(3, shuffle="sequential"))):
        with pytest.raises(packhorse.ContentError, match="has no field"):
            read()
    batch = data.batch([0, 1, 2], {"y": packhorse.Auto("y", required=False)})
    assert batch["y"].tolist() == [1, 0, 3]


def test_wide_tables_open(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({f"c{number}": [0.5, 1.5] for number in range(4200)}), tmp_path / "w.parquet")
    packhorse.pack(tmp_path / "w.parquet", tmp_path / "d", to="parquet")
    assert packhorse.open(tmp_path / "d")[1]["c4199"] == 1.5


def test_old_timestamps_with_a_schema_of_arrow(tmp_path):
    """INT96, whatever unit and zone Arrow's schema in the file has."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, kind in enumerate([pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("us", tz="UTC")]):
        table = pa.table({"t": pa.array([1, 10**9, None], pa.int64()).cast(kind), "x": [1, 2, 3]})
        pq.write_table(table, tmp_path / f"{number}.parquet", use_deprecated_int96_timestamps=True)
        packhorse.pack(tmp_path / f"{number}.parquet", tmp_path / f"d{number}", to="parquet")
        packed = pq.read_table(tmp_path / f"d{number}" / "shard-000000.parquet")["t"]
        assert packed.type == pa.timestamp("us", tz=kind.tz)
        assert packed.cast(pa.int64()).to_pylist() == table["t"].cast(packed.type).cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("to", ["webdataset", "parquet", "arrow", "hdf5", "tfrecord"])
def test_the_first_name_that_a_sample_has(tmp_path, to):
    """Of several names a sample's is the first that it has, in columns as in tars."""
    (tmp_path / "in").mkdir()
    for name, data in {"a.jpg": b"1", "b.jpeg": b"2", "c.jpeg": b"3", "c.jpg": b"4"}.items():
        (tmp_path / "in" / name).write_bytes(data)
    packhorse.pack(tmp_path / "in", tmp_path / "out", to=to, progress=False)
    dataset = packhorse.open(tmp_path / "out")
    for names, wanted in {"jpg;jpeg": [b"1", b"2", b"4"], "jpeg;jpg": [b"1", b"2", b"3"]}.items():
        batch = dataset.batch([0, 1, 2], {"x": packhorse.Bytes(names)})
        assert batch["x"].bytes() == wanted


def test_ragged_text_is_a_column_of_a_table(tmp_path):
    """pyarrow takes no tensors of text: such a column is a struct there."""
    rows = [["a", "b"], ["c"], []]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"tags": row, "id": number}) + "\n" for number, row in enumerate(rows)))
    packhorse.pack(tmp_path / "t.jsonl", tmp_path / "w", "webdataset", from_="jsonl")
    packhorse.pack(tmp_path / "w", tmp_path / "a", "parquet", ragged=True)
    table = pa.table(packhorse.open(tmp_path / "a"))
    assert [row["data"] for row in table["tags"].to_pylist()] == rows
    assert table["id"].to_pylist() == [0, 1, 2]


def test_columns_that_no_field_takes_are_not_read(tmp_path):
    """A column that batches can't hold, and a large one, cost nothing where other fields are asked for."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "id": pa.array(range(10)),
            "odd": pa.array([[1, None]] + [[1]] * 9, pa.list_(pa.int32())),
            "blob": [bytes([n]) * 200_000 for n in range(10)],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", compression="none", use_dictionary=False, row_group_size=5)
    dataset = packhorse.open(tmp_path / "a.parquet")
    for narrow in (dataset, dataset.select(["id"])):
        loader = narrow.loader(batch=2, fields={"id": "id"}, shuffle="sequential")
        assert [int(number) for batch in loader for number in batch["id"]] == list(range(10))
        assert loader.stats()["read_bytes"] < 100_000
    assert len(dataset.where("id > 3")) == 6
    # A file without any of the fields has rows all the same.
    pq.write_table(pa.table({"other": [1]}), tmp_path / "b.parquet")
    both = packhorse.open(tmp_path / "*.parquet")
    loader = both.loader(batch=11, fields={"id": packhorse.Number("id", required=False)}, shuffle="sequential")
    assert [int(number) for batch in loader for number in batch["id"]] == [*range(10), 0]


@pytest.mark.parametrize("to", ["parquet", "arrow", "hdf5", "tfrecord", "webdataset"])
def test_lists_of_text_are_json(tmp_path, to):
    """Captions of a picture, answers to a question: the list of a sample is the JSON of that list."""
    captions = [["a dog", "ein \N{DOG}, \"wau\""], [], ["x"], ["long " * 99, "", "\n"]]
    lines = "".join(json.dumps({"id": n, "caps": caps}) + "\n" for n, caps in enumerate(captions))
    (tmp_path / "in.jsonl").write_text(lines)
    packhorse.pack(tmp_path / "in.jsonl", tmp_path / "out", to=to, from_="jsonl", progress=False)
    dataset = packhorse.open(tmp_path / "out")
    name = next(field for field in dataset.fields if field.startswith("caps"))
    for fields in ({"caps": name}, {"caps": packhorse.Bytes(name)}) if to != "webdataset" else ({"caps": name},):
        batch = next(iter(dataset.loader(batch=4, fields=fields, shuffle="sequential")))
        assert [json.loads(text) for text in batch["caps"].strings()] == captions
    if to != "webdataset":
        batch = dataset.batch([2, 0])
        assert [json.loads(text) for text in batch["caps"].strings()] == [captions[2], captions[0]]


@pytest.mark.parametrize("to", ["parquet", "arrow", "hdf5"])
def test_conditions_of_times(tmp_path, to):
    """Dates and timestamps are compared with text; a missing one meets nothing."""
    pq = pytest.importorskip("pyarrow.parquet")
    start = datetime.datetime(2024, 5, 1, 12)
    moments = [start + datetime.timedelta(minutes=n, microseconds=n) for n in range(9)]
    table = pa.table(
        {
            "id": pa.array(range(10)),
            "us": pa.array([*moments, None], pa.timestamp("us")),
            "ms": pa.array([*(m.replace(microsecond=0) for m in moments), None], pa.timestamp("ms", "Europe/Paris")),
            "day": pa.array([start.date() + datetime.timedelta(days=n) for n in range(9)] + [None]),
        }
    )
    if to == "hdf5":
        table = table.slice(0, 9)
    pq.write_table(table, tmp_path / "a.parquet")
    packhorse.pack(tmp_path / "a.parquet", tmp_path / "out", to=to, shuffle=False, progress=False)
    dataset = packhorse.open(tmp_path / "out")
    for condition, count in [
        ("us >= '2024-05-01 12:05'", 4),
        ("us > '2024-05-01T12:05:00.000005'", 3),
        ("us == '2024-05-01 12:05:00.000005' and id == 5", 1),
        ("us < '2024-05-01T14:00:00+02:00'", 0),
        ("ms <= '2024-05-01 12:03'", 4),
        ("day != '2024-05-02'", 8),
        ("day > '2024-05-08' and day < '2024-05-10'", 1),
        (f"us < {10**17}", 9),
    ]:
        assert len(dataset.where(condition)) == count, condition
    with pytest.raises(packhorse.ConfigError, match="is a time, and 'today' is none|is a time, and \"today\" is none"):
        dataset.where("us > 'today'")


def test_numbers_of_json_are_those_of_python(tmp_path):
    """Every double that `json.dumps` writes comes back, in fields and in conditions."""
    rng = random.Random(7)
    values = [rng.uniform(-100, 100) for _ in range(200)] + [-94.19895434327705, 1.2345678901234567e-7]
    (tmp_path / "in").mkdir()
    for number, value in enumerate(values):
        (tmp_path / "in" / f"{number:04}.json").write_text(json.dumps({"v": value}))
    packhorse.pack(tmp_path / "in", tmp_path / "out", to="webdataset", shuffle=False, progress=False)
    dataset = packhorse.open(tmp_path / "out")
    loader = dataset.loader(batch=len(values), fields={"v": packhorse.Json("json", "v", "float64")}, shuffle="sequential")
    [batch] = loader
    assert batch["v"].tolist() == values
    assert all(len(dataset.where(f"json.v == {value!r}")) == 1 for value in values[::20])


@pytest.mark.parametrize("to", ["parquet", "arrow", "hdf5", "tfrecord"])
def test_lists_of_one_length_are_dense(tmp_path, to):
    """Lists without a fixed length in the schema, of which all have one, are one array; others are an error that names the sample."""
    import pyarrow.parquet as pq

    rows = [[n + 0.5, -n] for n in range(10)]
    nested = [[[n, 1, 2], [3, 4, n]] for n in range(10)]
    table = pa.table({"action": pa.array(rows, pa.list_(pa.float32())), "grid": pa.array(nested, pa.list_(pa.list_(pa.int64())))})
    pq.write_table(table, tmp_path / "in.parquet")
    ds = packhorse.pack(tmp_path / "in.parquet", tmp_path / "out", to=to) and packhorse.open(tmp_path / "out")
    batch = ds.batch(range(10), {"action": packhorse.Dense("action"), "grid": packhorse.Dense("grid")})
    assert np.asarray(batch["action"]).dtype == np.float32
    assert np.array_equal(np.asarray(batch["action"]), np.array(rows, "f4"))
    assert np.array_equal(np.asarray(batch["grid"]), np.array(nested))

    table = pa.table({"action": pa.array([[1.0, 2], [3]]), "grid": pa.array([[[1, 2], [3, 4], [5, 6]], [[1, 2, 3], [4, 5, 6]]])})
    pq.write_table(table, tmp_path / "odd.parquet")
    packhorse.pack(tmp_path / "odd.parquet", tmp_path / "odd", to=to)
    odd = packhorse.open(tmp_path / "odd")
    for name in ("action", "grid"):
        with pytest.raises(packhorse.ContentError, match="and others have") as raised:
            odd.batch([0, 1], {name: packhorse.Dense(name)})
        assert raised.value.sample.endswith("1")

    # One sample does not decide for all.
    table = pa.table({"action": pa.array([[1.0], []] + rows), "n": range(12)})
    pq.write_table(table, tmp_path / "first.parquet")
    packhorse.pack(tmp_path / "first.parquet", tmp_path / "first", to=to)
    loader = packhorse.open(tmp_path / "first").loader(12, fields={"a": packhorse.Dense("action"), "n": "n"}, on_error="skip", shuffle="sequential")
    with pytest.warns(UserWarning, match="skipped"):
        assert next(iter(loader))["n"].tolist() == list(range(2, 12))


def test_two_views_of_a_picture(tmp_path):
    """Fields of one lane are cut and mirrored alike, those of two lanes independently, and each with its mask."""
    rng = np.random.default_rng(1)
    samples = []
    for n in range(40):
        gray = rng.integers(0, 256, (24, 24), dtype="u1")
        samples.append({"jpg.png": encoded(np.stack([gray] * 3, -1), "PNG"), "mask.png": encoded(gray, "PNG")})
    ds = packhorse.pack(samples, tmp_path / "out", to="webdataset", progress=False) and packhorse.open(tmp_path / "out")

    def crop(kind, source, lane, **more):
        return kind(source, 24, crop="random", scale=(0.2, 0.9), flip=0.5, lane=lane, **more)

    fields = {f"{lane}{twin}": crop(packhorse.Image, "jpg.png", lane) for lane in (0, 1, 2) for twin in "ab"}
    fields |= {f"mask{lane}": crop(packhorse.Mask, "mask.png", lane) for lane in (0, 1)}
    batch = {name: values.numpy() for name, values in next(iter(ds.loader(40, seed=3, fields=fields))).items()}
    for lane in (0, 1, 2):
        assert (batch[f"{lane}a"] == batch[f"{lane}b"]).all()
    for one, two in ((0, 1), (0, 2), (1, 2)):
        same = [(a == b).all() for a, b in zip(batch[f"{one}a"], batch[f"{two}a"])]
        assert sum(same) == 0, (one, two)
    # A mask takes the nearest pixel and an image several, so they agree closely where they are cut alike.
    for lane, other in ((0, 1), (1, 0)):
        far = [np.abs(batch[f"mask{lane}"].astype(int) - batch[f"{which}a"][..., 0]).mean() for which in (lane, other)]
        assert far[0] < far[1] / 2, far
    for wrong in ({"scale": (0.2, 1)}, {"ratio": (1, 1)}, {"short": 9, "crop": "squash"}, {"lane": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            packhorse.Image("jpg.png", 24, **wrong)


@pytest.mark.parametrize("to", ["webdataset", "parquet", "hdf5"])
def test_names_of_classes_become_numbers(tmp_path, to):
    """Of text, bytes and JSON; a name that is not in the list is an error that names the sample."""
    samples = [
        {"__key__": f"k{number}", "label": name, "txt": name, "json": json.dumps({"a": [{"b": name}], "n": number % 2})}
        for number, name in enumerate(["cat", "dog", "cat", "ant"])
    ]
    data = write(tmp_path / "data", samples, to=to)
    text = "label" if "label" in data.fields else next(name for name in data.fields if name.startswith("label"))
    fields = {
        "label": packhorse.Class(text, ["ant", "cat", "dog"]),
        "txt": packhorse.Class(None, iter(["dog", "ant", "cat"])),
        "json": packhorse.Class("json", ["cat", "dog", "ant"], path="a.0.b"),
        "n": packhorse.Class("json", ["1", "0"], path="n"),
    }
    batch = data.batch(range(4), fields)
    assert {name: values.tolist() for name, values in batch.items()} == {
        "label": [1, 2, 1, 0], "txt": [2, 0, 2, 1], "json": [0, 1, 0, 2], "n": [1, 0, 1, 0],
    }  # fmt: skip
    assert batch["label"].dtype == "int64"
    with pytest.raises(packhorse.ContentError, match='"ant", which is not among the names of the classes') as caught:
        data.batch(range(4), {"txt": packhorse.Class("txt", ["cat", "dog"])})
    assert (caught.value.sample, caught.value.code) == ("k3", "unknown-class")
    loader = data.loader(1, fields={"txt": packhorse.Class("txt", ["cat", "dog"])}, on_error="skip", shuffle="sequential")
    with pytest.warns(UserWarning, match="k3"):
        assert sum((batch["txt"].tolist() for batch in loader), []) == [0, 1, 0]
    with pytest.raises(packhorse.ConfigError, match="names of classes that are equal"):
        data.batch([0], {"txt": packhorse.Class("txt", ["cat", "cat"])})
    with pytest.raises(TypeError, match="is one text"):
        packhorse.Class("txt", "cat")
    for names in ({"cat", "dog"}, {"cat": 1, "dog": 0}):
        with pytest.raises(TypeError, match="has no order of its own"):
            packhorse.Class("txt", names)
    with pytest.raises(ValueError, match="there are none"):
        packhorse.Class("txt", [])
    with pytest.raises(packhorse.ContentError, match="ask for it as `Class`"):
        data.batch(range(4), {"txt": packhorse.Number("txt")})


def test_the_first_arrays_do_not_decide_alone(tmp_path):
    """Neither a damaged first array nor one of another shape leaves out the others, and the first may be far away."""

    def tar(name, members):
        with tarfile.open(tmp_path / name, "w") as archive:
            for member, data in members:
                info = tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return packhorse.open(tmp_path / name)

    def numbers(first):
        values = [first] + [npy(np.full(2, number, "f4")) for number in range(1, 8)]
        dataset = tar("eight.tar", [(f"k{number}.x.npy", value) for number, value in enumerate(values)])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            loader = dataset.loader(4, fields={"x": "x.npy"}, shuffle="sequential", on_error="skip")
            found = [batch["x"][:, 0].tolist() for batch in loader]
        assert any("k0" in str(warning.message) for warning in said)
        return found

    assert sum(numbers(npy(np.zeros(3, "f4"))), []) == [1, 2, 3, 4, 5, 6, 7]
    assert sum(numbers(b"not an array"), []) == [1, 2, 3, 4, 5, 6, 7]
    ragged = [npy(np.zeros(4, "f4"))] + [npy(np.full((2, 3), number, "f4")) for number in range(1, 8)]
    dataset = tar("ragged.tar", [(f"k{number}.x.npy", value) for number, value in enumerate(ragged)])
    with pytest.warns(UserWarning, match="k0"):
        loader = dataset.loader(4, fields={"x": packhorse.Ragged("x.npy")}, on_error="skip")
        assert sum(len(batch["x"]) for batch in loader) == 7
    with pytest.raises(packhorse.ContentError) as raised:
        tar("bad.tar", [("k0.x.npy", b"not an array")]).loader(1, fields={"x": "x.npy"})
    assert raised.value.sample == "k0" and "bad.tar" in raised.value.input
    many = pa.table({"__key__": [f"k{number}" for number in range(1500)], "x.npy": [b"not an array"] * 1500})
    pytest.importorskip("pyarrow.parquet").write_table(many, tmp_path / "many.parquet")
    with pytest.raises(packhorse.ContentError, match="k0"):
        packhorse.open(tmp_path / "many.parquet").loader(1, fields={"x": packhorse.Dense("x.npy")})
    members = [(f"k{number:04}.cls", b"1") for number in range(1500)]
    members.append(("k1499.p.npy", npy(np.arange(2.0))))
    rare = tar("rare.tar", members)
    assert rare.batch([1499], ["p.npy"])["p.npy"].tolist() == [[0.0, 1.0]]
    # The types of a view's fields are those of its dataset.
    zeros = rare[:3].batch([0, 1, 2], {"p": packhorse.Auto("p.npy", required=False)})["p"]
    assert zeros.dtype == "float64" and zeros.tolist() == [[0.0, 0.0]] * 3
    with pytest.raises(packhorse.ContentError, match="k0000"):
        rare[:3].batch([0], {"p": packhorse.Ragged("p.npy")})


def test_names_that_read_as_others(tmp_path):
    import pyarrow as pa

    def dataset(columns):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), folder / "t.parquet")
        packhorse.pack(folder / "t.parquet", folder / "out", to="parquet")
        return packhorse.open(folder / "out")

    # The name of a column is not a list of others.
    both = dataset({"a": [3, 4], "a;b": [1, 2]})
    assert both.batch([0, 1])["a;b"].tolist() == [1, 2]
    assert both.batch([0], {"x": "a;b", "y": "a;c"})["x"].tolist() == [1]
    assert dataset({"a;b": [1, 2]}).batch([1])["a;b"].tolist() == [2]
    # Text in a column of a table stays text, whatever it is called.
    text = dataset({"index": ["007", "bob"], "x.cls2": ["1", "2"], "cls": ["0", "1"]})
    batch = text.batch([0, 1])
    assert batch["index"].strings() == ["007", "bob"] and batch["x.cls2"].strings() == ["1", "2"]
    assert batch["cls"].tolist() == [0, 1]
    assert text.where("index == '007'").keys == text.where("cls == 0").keys
    # Parts of ragged fields have names of their own.
    for part, values in [("shape", [[100, 100], [2, 1]]), ("offsets", [[1], [2]])]:
        parts = dataset({"raw": [b"hello", b"wo"], f"raw.{part}": pa.array(values, pa.list_(pa.int64(), len(values[0])))})
        with pytest.raises(packhorse.ConfigError, match=rf"field raw\.{part} has a name that batches give to a part of raw"):
            parts.batch([0, 1])
        found = parts.batch([0, 1], {"raw": "raw", "sizes": f"raw.{part}"})
        assert found["sizes"].tolist() == values and found["raw"].strings() == ["hello", "wo"]
        with pytest.raises(packhorse.ConfigError, match="part of raw"):
            parts.batch([0, 1], {f"raw.{part}": f"raw.{part}", "raw": "raw"})


def test_samples_are_read_together_by_their_size_in_memory(tmp_path):
    """How many samples are read together is that of their values, not of compressed shards."""
    samples = ({"x": np.zeros(2_000_000, np.uint8)} for _ in range(100))
    dataset = write(tmp_path / "shards", samples, to="arrow", ragged=True, compression="zstd")
    assert dataset.nbytes < 1 << 20
    reader = pa.RecordBatchReader.from_stream(dataset)
    assert [batch.num_rows for batch in reader] == [8, 33, 33, 26]
    assert dataset._ours.at_once() == 8
    next(iter(dataset))
    assert dataset._ours.at_once() == 33


def test_fields_that_a_tar_has_under_other_names(tmp_path):
    """Names are in lower case and escaped in tars: only those are fields, and lists stay ragged."""
    boxes = [[float(k) for k in range(row % 3)] for row in range(6)]
    table = pa.table({"Image": [encoded(picture(row)) for row in range(6)], "objects/Boxes": boxes, "Label": list(range(6))})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "t.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        packhorse.pack(tmp_path / "t.parquet", tmp_path / "shards", to="webdataset")
    dataset = packhorse.open(tmp_path / "shards")
    assert list(dataset.fields) == ["image", "label.npy", "objects%2fboxes.npy"] == sorted(dataset[0])[1:]
    assert len(dataset.where("image is not null")) == 6
    with pytest.raises(packhorse.ConfigError, match="did you mean image"):
        dataset.where("Image is null")
    batch = next(iter(dataset.loader(6, fields=["objects%2fboxes.npy"], shuffle="sequential")))
    assert [row.tolist() for row in batch["objects%2fboxes.npy"]] == boxes
    shown = subprocess.run([sys.executable, "-m", "packhorse", "stat", tmp_path / "shards"], capture_output=True, text=True, check=True)
    assert "read as image" in shown.stdout and "read as objects%2fboxes.npy" in shown.stdout


def test_boxes_of_pictures_without_objects(tmp_path):
    """Lists of lists without one have the length of those that others have, as detectors want it."""
    pq = pytest.importorskip("pyarrow.parquet")
    boxes = [[[float(row), 1.0, 2.0, 3.0]] * (row % 3) for row in range(40)]
    for kind in (pa.list_(pa.list_(pa.float32(), 4)), pa.list_(pa.list_(pa.float32()))):
        pq.write_table(pa.table({"boxes": pa.array(boxes, kind)}), tmp_path / "t.parquet")
        dataset = packhorse.open(tmp_path / "t.parquet")
        for batch in dataset.loader(4, fields=[packhorse.Ragged("boxes")], shuffle="full"):
            assert {row.shape[1] for row in batch["boxes"]} == {4}
        found = dataset.batch(range(40), [packhorse.Ragged("boxes")])["boxes"]
        assert [row.tolist() for row in found] == boxes
        empty = dataset.subset(range(0, 40, 3)).batch([0, 1], [packhorse.Ragged("boxes")])["boxes"]
        assert [row.shape for row in empty] == [(0, 0)] * 2, "no sample of the view has a box"


# --- lists in lists ---------------------------------------------------------------------------------------------------


def polygons(number):
    """Lists of lists of several lengths, some of them empty."""
    return [[float(number + at + value) for value in range((number + at) % 3)] for at in range(number % 4)]


def files(number):
    return [bytes([number] * at) for at in range(number % 3)]


@pytest.fixture(scope="module")
def jagged(tmp_path_factory):
    """A table of another program, with lists of lists, lists of those, and lists of bytes."""
    path = tmp_path_factory.mktemp("jagged") / "table.parquet"
    columns = {
        "polygons": [polygons(number) for number in range(20)],
        "deep": [[polygons(at) for at in range(number % 3)] for number in range(20)],
        "files": [files(number) for number in range(20)],
    }
    pa.parquet.write_table(pa.table(columns), path)
    return packhorse.open(path)


def test_lists_in_lists_come_back(jagged):
    """Lists of any lengths, and lists of bytes, have their values in one array."""
    batch = jagged.batch([7, 0, 11, 3])
    assert list(batch) == ["deep", "files", "polygons"]
    assert isinstance(batch["polygons"], packhorse.ListArray)
    for at, number in enumerate([7, 0, 11, 3]):
        wanted = [polygons(inner) for inner in range(number % 3)]
        assert batch["polygons"].tolist()[at] == polygons(number)
        assert [part.tolist() for part in batch["polygons"][at]] == polygons(number)
        assert batch["deep"].tolist()[at] == wanted
        assert batch["files"].bytes()[at] == files(number)
        assert [len(part) for part in batch["polygons"].numpy()[at]] == batch["polygons"].lengths[at].tolist()
        assert [list(map(int, part)) for part in batch["deep"].lengths[at]] == [list(map(len, part)) for part in wanted]
    assert len(batch["polygons"][-1:]) == 1
    assert [part.tolist() for part in batch["polygons"][-1]] == polygons(3)
    assert "4 rows" in repr(batch["polygons"])
    with pytest.raises(IndexError):
        batch["polygons"][4]


def test_lists_in_lists_in_other_libraries(jagged):
    """awkward has the lists as they are; torch has the values of a row in one."""
    batch = jagged.batch(range(12))
    ak = pytest.importorskip("awkward")
    assert batch["deep"].awkward().tolist() == batch["deep"].tolist()
    assert ak.num(batch["polygons"].awkward()).tolist() == [number % 4 for number in range(12)]


def test_lists_in_lists_in_torch(jagged):
    pytest.importorskip("torch")
    tensors = jagged.batch(range(12)).torch()
    assert list(tensors) == ["deep", "deep.lengths", "deep.lengths.lengths", "files", "files.lengths", "polygons", "polygons.lengths"]
    assert tensors["polygons"][11].tolist() == [value for part in polygons(11) for value in part]
    rows = next(iter(jagged.loader(6, shuffle="sequential").torch()))
    assert rows["files"][5] == files(5)
    assert [part.tolist() for part in rows["polygons"][5]] == polygons(5)


@pytest.mark.parametrize("to", ["parquet", "arrow", "hdf5", "tfrecord"])
def test_several_pictures_a_sample(tmp_path, to):
    """A program packs lists of pictures, which become ragged pixels: those of each picture alone."""
    pictures = [encoded(picture(number, 20 + number, 24)) for number in range(6)]
    samples = [{"images": pictures[:3]}, {"images": []}, {"images": pictures[3:4]}, {}, {"images": pictures[4:]}]
    many = write(tmp_path / "many", samples, to=to)
    assert [sample.get("images") or [] for sample in many] == [sample.get("images", []) for sample in samples]
    alone = write(tmp_path / "alone", ({"jpg": file} for file in pictures), to=to)
    wanted = np.asarray(alone.batch(range(6), {"image": packhorse.Image("jpg", (16, 16))})["image"])
    fields = {
        "image": packhorse.Image("images", (16, 16), required=False),
        "scaled": packhorse.Image("images", (16, 16), normalize=True, required=False),
    }
    batch = many.batch(range(5), fields)
    assert batch["image"].offsets.tolist() == [0, 3, 3, 4, 4, 6]
    np.testing.assert_array_equal(batch["image"].values, wanted)
    assert batch["image"][4].shape == (2, 16, 16, 3)
    np.testing.assert_allclose(batch["scaled"].values, np.moveaxis(wanted, 3, 1) / 255, rtol=1e-6)
    with pytest.raises(packhorse.ConfigError, match="one size"):
        many.batch([0], {"image": packhorse.Image("images")})


def test_nulls_inside_lists_are_filled_on_request(tmp_path):
    """Interleaved documents have a picture or a text at each place, and null at the other."""
    images = pa.array([[{"bytes": b"one", "path": None}, None], [None, {"bytes": b"two", "path": None}], None])
    columns = {"images": images, "texts": [[None, "b"], ["c", None], []], "x": [[[1.5, None]], [], [[None]]], "n": [[1, None], [], []]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "table.parquet")
    with pytest.raises(packhorse.UnsupportedError, match="read"):
        packhorse.open(tmp_path / "table.parquet").batch([0], ["images"])
    dataset = packhorse.open(tmp_path / "table.parquet", read={"fill": "images,texts,x", "columns": "images,texts,x"})
    batch = dataset.batch([0, 1])
    assert batch["images"].bytes() == [[b"one", b""], [b"", b"two"]]
    assert batch["texts"].strings() == ['["","b"]', '["c",""]']
    assert np.isnan(batch["x"][0][0]).tolist() == [False, True]
    assert dataset[2].get("images") is None
    with pytest.raises(packhorse.ConfigError, match="no column image;"):
        packhorse.open(tmp_path / "table.parquet", read={"fill": "image"})
    with pytest.raises(packhorse.UnsupportedError):
        packhorse.open(tmp_path / "table.parquet", read={"fill": "n", "columns": "n"}).batch([0])


def test_several_pictures_a_sample_in_torch(tmp_path):
    """Pictures of lists, also of lists in lists, are tensors, and bytes are bytes."""
    torch = pytest.importorskip("torch")
    files = [encoded(picture(number)) for number in range(3)]
    table = pa.table({"deep": [[files[:1], files[1:]], []], "flat": [files[:2], files[2:]]})
    pa.parquet.write_table(table, tmp_path / "table.parquet")
    fields = {name: packhorse.Image(name, (8, 8)) for name in ("deep", "flat")}
    dataset = packhorse.open(tmp_path / "table.parquet")
    rows = next(iter(dataset.loader(2, fields=fields, shuffle="sequential").torch()))
    assert [tuple(part.shape) for part in rows["deep"][0]] == [(1, 8, 8, 3), (2, 8, 8, 3)] and rows["deep"][1] == []
    assert [tuple(row.shape) for row in rows["flat"]] == [(2, 8, 8, 3), (1, 8, 8, 3)]
    assert torch.equal(rows["deep"][0][1][0], rows["flat"][0][1])
    for kind in (packhorse.Auto, packhorse.Ragged, packhorse.Bytes):
        assert next(iter(dataset.loader(2, fields={"x": kind("flat")}, shuffle="sequential").torch()))["x"] == [files[:2], files[2:]]


def test_too_many_pictures_are_left_out(tmp_path):
    """A sample whose pixels would fill the memory is an error of that sample."""
    one = encoded(picture(1))
    pa.parquet.write_table(pa.table({"x": [[one], [one] * 20_000, [one]]}), tmp_path / "table.parquet")
    dataset, fields = packhorse.open(tmp_path / "table.parquet"), {"x": packhorse.Image("x", 224)}
    with pytest.raises(packhorse.LimitError, match="20000 pictures"):
        dataset.batch([0, 1], fields)
    batches = list(dataset.loader(3, fields=fields, on_error="skip", remainder="uneven", shuffle="sequential"))
    assert [len(row) for batch in batches for row in batch["x"]] == [1, 1]


@pytest.mark.parametrize("to", ["parquet", "hdf5", "tfrecord"])
def test_programs_write_lists_in_lists(tmp_path, to):
    """Lists of any lengths, also samples that another dataset gave."""
    samples = [{"x": polygons(number), "n": [number] * (number % 3)} for number in range(12)]
    columns = {"x": "list<list<float32>>", "n": "list<int16>", "late": "list<list<int64>>"}
    samples[5]["late"] = [[1], [], [2, 3]]
    dataset = write(tmp_path / "one", samples, to=to, columns=columns)
    batch = dataset.batch(range(12), {"x": "x", "n": "n", "late": packhorse.Auto("late", required=False)})
    assert batch["x"].tolist() == [sample["x"] for sample in samples]
    assert (batch["n"].values.dtype, batch["n"].tolist()) == ("int16", [sample["n"] for sample in samples])
    assert batch["late"].tolist() == [sample.get("late", []) for sample in samples]
    again = write(tmp_path / "two", ({"x": sample["x"]} for sample in dataset), to="arrow", columns={"x": "list<list<float32>>"})
    assert again.batch(range(12))["x"].tolist() == batch["x"].tolist()
    with pytest.raises(packhorse.ContentError) as error:
        write(tmp_path / "three", [{"x": [[1.0, 2.0], [3.0]]}], to=to)
    assert "list<list<float32>>" in error.value.hint
    for value in ([1.0], [["a"]], 5, [[[1.0]]], [[2**40]]):
        wrong = {"x": "list<list<int8>>"} if value == [[2**40]] else {"x": "list<list<float32>>"}
        with pytest.raises(packhorse.ContentError), packhorse.Writer(tmp_path / "four", to=to, columns=wrong) as writer:
            writer.write({"x": [[1], []]})
            writer.write({"x": value})
    with pytest.raises(packhorse.ConfigError):
        packhorse.Writer(tmp_path / "five", to=to, columns={"x": "list<list<str>>"})


def test_a_sample_that_a_writer_refused_leaves_no_values(tmp_path):
    with packhorse.Writer(tmp_path / "out", to="parquet", columns={"x": "list<list<int8>>"}) as writer:
        writer.write({"x": [[1], [2, 3]]})
        with pytest.raises(packhorse.ContentError):
            writer.write({"x": [[4, 5], ["a"]]})
        writer.write({"x": [[6]]})
    assert packhorse.open(tmp_path / "out").batch([0, 1])["x"].tolist() == [[[1], [2, 3]], [[6]]]


def test_declared_lists_of_bytes(tmp_path):
    """An empty list in the first sample does not tell its type."""
    samples = [{"images": []}, {"images": [b"a", b"long enough to be a block"]}]
    with pytest.raises(packhorse.ContentError) as error:
        packhorse.pack(iter(samples), tmp_path / "out", to="parquet")
    assert '"bytes[]"' in error.value.hint
    packhorse.pack(iter(samples), tmp_path / "out", to="parquet", columns={"images": "bytes[]"})
    assert packhorse.open(tmp_path / "out").batch([0, 1])["images"].bytes() == [sample["images"] for sample in samples]
    with pytest.raises(packhorse.UnsupportedError) as error:
        packhorse.pack(iter(samples), tmp_path / "tar", to="webdataset", columns={"images": "bytes[]"})
    assert "Parquet" in error.value.hint or "format of columns" in str(error.value)
