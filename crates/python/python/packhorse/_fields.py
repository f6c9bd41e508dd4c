"""What the fields of batches are made from, and how."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Set
from numbers import Real
from typing import Any, Union, cast

Described = tuple[str, str, str, bool, Any]


class Field:
    """A field of batches, made from the field `source` of samples; of several (`"jpg;png"`) from the first that a sample has.

    A sample that lacks the field is an error, unless `required` is False: then its row is zeros, or empty, and `Present` tells it.
    """

    kind = "auto"

    def __init__(self, source: str | None = None, *, required: bool = True) -> None:
        self.source = source
        self.required = required

    def _settings(self) -> Any:
        return None

    def _needs_gpu(self) -> bool:
        """Whether only a GPU makes it."""
        return False

    def _describe(self, name: str) -> Described:
        return (name, self.source or name, self.kind, self.required, self._settings())

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({told})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(repr(self))


class Auto(Field):
    """The form that the field's type suggests: numbers as they are, arrays of one shape dense, other arrays, bytes and text
    ragged, `cls` as a number, `npy` as an array."""


class Bytes(Field):
    """The bytes as they are stored: ragged `uint8`."""

    kind = "bytes"


class Dense(Field):
    """Arrays of one shape: `[batch, ...]`."""

    kind = "dense"


class Ragged(Field):
    """Arrays of any lengths, as values and offsets."""

    kind = "ragged"


class Bits(Field):
    """Booleans of one shape, eight in a byte, the first in the lowest bit: `uint8 [batch, ceil(n / 8)]`."""

    kind = "bits"


class Draws(Field):
    """The key of a sample's random numbers in its epoch: `uint64 [batch]`. It reads no field."""

    kind = "draws"


class Present(Field):
    """Whether the sample has the field, or in a field of JSON a value under `path`: `uint8 [batch]`, 1 where it does, 0 where it lacks
    it or the value is null."""

    kind = "present"

    def __init__(self, source: str | None = None, *, path: str | None = None, required: bool = True) -> None:
        super().__init__(source, required=required)
        self.path = path

    def _settings(self) -> Any:
        return self.path


class Number(Field):
    """A number, in bytes or text too: `[batch]` of `dtype`, such as `"float32"` or `numpy.float32`."""

    kind = "number"

    def __init__(self, source: str | None = None, dtype: Any = "int64", *, required: bool = True) -> None:
        super().__init__(source, required=required)
        self.dtype = dtype_name(dtype)

    def _settings(self) -> Any:
        return self.dtype


class Json(Field):
    """A number in a field of JSON, under `path` (`"size.width"`, `"boxes.0.label"`, or `"Class1.1"`, a name with a dot): `[batch]` of
    `dtype`."""

    kind = "json"

    def __init__(self, source: str, path: str, dtype: Any = "int64", *, required: bool = True) -> None:
        super().__init__(source, required=required)
        self.path = path
        self.dtype = dtype_name(dtype)

    def _settings(self) -> Any:
        return (self.path, self.dtype)


class Class(Field):
    """The number of a class that samples name in text: its position in `names`, `int64 [batch]`. In a field of JSON `path` says where
    the name is (`"label"`, `"objects.0.category"`). A name that is not in the list is an error of the sample."""

    kind = "class"

    def __init__(
        self, source: str | None, names: Iterable[str], *, path: str | None = None, required: bool = True
    ) -> None:
        super().__init__(source, required=required)
        if isinstance(names, str):
            raise TypeError(f"names={names!r} is one text; give a list of them")
        if isinstance(names, (Mapping, Set)):
            raise TypeError(f"names={names!r} has no order of its own; give a list, whose positions are the numbers")
        self.names = tuple(names)
        if not self.names:
            raise ValueError("names of classes are needed: there are none")
        self.path = path

    def _settings(self) -> Any:
        return (list(self.names), self.path)


class _View(Field):
    """A part of each picture, at one size: what `Image` and `Mask` share."""

    def __init__(
        self,
        source: str,
        size: int | tuple[int, int] | None,
        crop: str | None,
        flip: float,
        short: int | None,
        scale: tuple[float, float] | None,
        ratio: tuple[float, float] | None,
        lane: int,
        required: bool,
    ) -> None:
        super().__init__(source, required=required)
        crops = ("random", "center", "squash", "exact")
        if crop is not None and crop not in crops:
            raise ValueError(f"crop={crop!r} is none of {', '.join(crops)}")
        if crop is not None and size is None:
            raise ValueError(f"crop={crop!r} needs a size")
        cut = crop or ("keep" if size is None else "center")
        for name, value, of in (("scale", scale, "random"), ("ratio", ratio, "random"), ("short", short, "center")):
            if value is not None and cut != of:
                raise ValueError(f"{name}={value!r} is of crop={of!r}, and crop is {cut!r}")
        if short is not None and not 0 < operator.index(short) < 2**32:
            raise ValueError(f"short={short!r} is not a number of pixels")
        if not 0 <= flip <= 1:
            raise ValueError(f"flip={flip!r} is not a probability, 0 to 1")
        if not 0 <= operator.index(lane) < 2**32:
            raise ValueError(f"lane={lane!r} is not a number from 0 to 2**32 - 1")
        self.size = _size(size)
        self.crop = cut
        self.flip = flip
        self.short = short
        self.scale = _pair("scale", (0.08, 1.0) if scale is None else scale)
        self.ratio = _pair("ratio", (3 / 4, 4 / 3) if ratio is None else ratio)
        self.lane = lane

    def _view(self) -> dict[str, Any]:
        height, width = self.size or (0, 0)
        short = self.short or max(height, width) * 8 // 7
        return {
            "crop": self.crop, "height": height, "width": width, "short": short, "scale": self.scale, "ratio": self.ratio,
            "flip": self.flip, "lane": self.lane,
        }  # fmt: skip


class Image(_View):
    """Pictures as pixels: red, green and blue, upright as their EXIF says.

    `size` is a side in pixels or `(height, width)`; None keeps each picture's own size, ragged. `crop` is

    * `"random"`: torchvision's `RandomResizedCrop(size, scale, ratio)`;
    * `"center"`: the shorter side is scaled to `short` (by default 8/7 of `size`, as 256 for 224), then the centre is cut out;
    * `"squash"`: the whole picture, whatever its proportions;
    * `"exact"`: every picture must have this size.

    `flip` is the probability of a left-right flip. Random numbers depend on the loader's seed, the epoch and the sample alone, so all
    pictures and masks of a sample are cut and mirrored alike. Those with another `lane` (1, 2, …) have random numbers of their own, as
    two views of one picture need.
    Without `normalize` pixels are `uint8 [batch, height, width, 3]`. `normalize=True` (0 to 1), `"imagenet"` or `(mean, std)`
    makes them `float32`, `(value / 255 - mean) / std`, as `[batch, 3, height, width]`, or with the channels last if
    `channels_last`.

    On a GPU pictures may change at random, by torchvision's formulas and in this order: `rotate=15` or `(-15, 15)` is
    `RandomRotation`, bilinear, for all pictures, or for a share of them with a third number (masks don't turn);
    `jitter=(brightness, contrast, saturation, hue)` is `ColorJitter` of these, for all or, with a fifth number, for a share;
    `grayscale` is the probability of `RandomGrayscale`; `blur=23` or `(23, 0.1, 2.0)` is `GaussianBlur` of this kernel and range of
    sigma, for all or, with a fourth number, for a share; `erase`, after the normalisation, is the probability of `RandomErasing`.
    `mixup` and `cutmix` are the alphas of torchvision's
    `MixUp` and `CutMix`: each picture, or a share `mix` of them, is mixed with the one before it in the batch, by one of the two.
    `targets=("label", 1000)` names the field of labels, which become `float32 [batch, 1000]`: the shares of the classes.

    With `decode="gpu"` the GPU decodes JPEGs, by nvJPEG (`pip install nvidia-nvjpeg-cu12`), then crops and resizes them: for pictures of
    one size, with the bilinear filter. Its pixels differ a little from the CPU's, which decodes what nvJPEG can't.
    """

    kind = "image"

    def __init__(
        self,
        source: str = "jpg;jpeg;png;webp",
        size: int | tuple[int, int] | None = None,
        *,
        crop: str | None = None,
        flip: float = 0.0,
        short: int | None = None,
        scale: tuple[float, float] | None = None,
        ratio: tuple[float, float] | None = None,
        lane: int = 0,
        filter: str = "bilinear",
        normalize: bool | str | tuple[Iterable[float], Iterable[float]] | None = None,
        channels_last: bool = False,
        reduced: bool = False,
        rotate: float | tuple[float, ...] | None = None,
        jitter: tuple[float, ...] | None = None,
        grayscale: float = 0.0,
        blur: int | tuple[float, ...] | None = None,
        erase: float = 0.0,
        mixup: float = 0.0,
        cutmix: float = 0.0,
        mix: float = 1.0,
        targets: tuple[str, int] | None = None,
        decode: str = "cpu",
        required: bool = True,
    ) -> None:
        super().__init__(source, size, crop, flip, short, scale, ratio, lane, required)
        if decode not in ("cpu", "gpu"):
            raise ValueError(f"decode={decode!r} is neither cpu nor gpu")
        if jitter is not None and len(jitter) not in (4, 5):
            raise ValueError(f"jitter={jitter!r} is not (brightness, contrast, saturation, hue), with a probability or without")
        turn = _numbers(rotate, lambda degrees: (-degrees, degrees), 2, 3)
        if turn == ():
            raise ValueError(f"rotate={rotate!r} is neither degrees nor (from, to), with a probability or without")
        soft = _numbers(blur, lambda kernel: (kernel, 0.1, 2.0), 3, 4)
        if soft is not None and not (soft and 0 < soft[0] < 128 and soft[0] % 2 == 1):
            raise ValueError(f"blur={blur!r} is neither an odd number of pixels up to 127 nor (kernel, from, to), with a probability or without")
        if filter not in ("bilinear", "bicubic"):
            raise ValueError(f"filter={filter!r} is neither bilinear nor bicubic")
        self.filter = filter
        self.normalize = _normalize(normalize)
        self.channels_last = channels_last
        self.reduced = reduced
        self.rotate = turn
        self.jitter = jitter
        self.grayscale = grayscale
        self.blur = soft
        self.erase = erase
        if (targets is None) != (mixup == 0 and cutmix == 0):
            raise ValueError("mixup and cutmix need targets=(labels, classes), the field of labels and the number of classes, and targets one of them")
        self.mixup = mixup
        self.cutmix = cutmix
        self.mix = mix
        self.targets = targets
        self.decode = decode

    def _settings(self) -> Any:
        normalize = None if self.normalize is None else (*self.normalize, self.channels_last)
        jitter = (0.0, 0.0, 0.0, 0.0, 0.0) if self.jitter is None else (*self.jitter, 1.0)[:5]
        rotate = [0.0, 0.0, 0.0] if self.rotate is None else [*self.rotate, 1.0][:3]
        blur = (1, 1.0, 1.0, 0.0) if self.blur is None else (int(self.blur[0]), *[*self.blur[1:], 1.0][:3])
        mix = (self.mix if self.targets else 0.0, self.mixup, self.cutmix)
        colors = {
            "rotate": rotate, "jitter": list(jitter), "grayscale": self.grayscale, "blur": blur, "erase": self.erase, "mix": mix,
            "targets": self.targets,
        }  # fmt: skip
        return {
            "view": self._view(), "filter": self.filter, "reduced": self.reduced, "normalize": normalize,
            "colors": colors if self._changes_colors() else None, "decode": self.decode,
        }  # fmt: skip

    def _changes_colors(self) -> bool:
        asked = (self.rotate, self.jitter, self.blur, self.targets)
        return any(one is not None for one in asked) or self.grayscale != 0 or self.erase != 0

    def _needs_gpu(self) -> bool:
        return self.decode == "gpu" or self._changes_colors()


class Mask(_View):
    """Masks as numbers: `dtype [batch, height, width]`, `"uint8"` or `"uint16"`; ragged without a size.

    Numbers are those stored: the gray value, the index into a palette, 0 and 1 of a bilevel image. They are never interpolated.
    `size`, `crop`, `flip`, `short`, `scale`, `ratio` and `lane` are those of `Image`: with the same settings a mask gets the crop and the flip
    of the image in its sample, also where it is stored smaller or larger. Masks in colours are an error, and so are masks of other
    proportions than the image.
    """

    kind = "mask"

    def __init__(
        self,
        source: str = "png",
        size: int | tuple[int, int] | None = None,
        *,
        crop: str | None = None,
        flip: float = 0.0,
        short: int | None = None,
        scale: tuple[float, float] | None = None,
        ratio: tuple[float, float] | None = None,
        lane: int = 0,
        dtype: Any = "uint8",
        required: bool = True,
    ) -> None:
        super().__init__(source, size, crop, flip, short, scale, ratio, lane, required)
        self.dtype = dtype_name(dtype)
        if self.dtype not in ("uint8", "uint16"):
            raise ValueError(f"dtype={dtype!r} is neither uint8 nor uint16")

    def _settings(self) -> Any:
        return {"view": self._view(), "dtype": self.dtype}


def dtype_name(dtype: Any) -> str:
    """NumPy's name of a type, given as text or as NumPy has it."""
    return dtype if isinstance(dtype, str) else str(getattr(dtype, "name", None) or getattr(dtype, "__name__", dtype))


def _numbers(asked: Any, of_one: Callable[[float], tuple[float, ...]], *counts: int) -> tuple[float, ...] | None:
    """So many numbers, or those that one stands for; none of them for anything else."""
    if asked is None:
        return None
    if isinstance(asked, Real) and not isinstance(asked, bool):
        return of_one(float(asked))
    right = isinstance(asked, (tuple, list)) and len(asked) in counts and all(isinstance(one, Real) for one in asked)
    return tuple(map(float, asked)) if right else ()


def _size(size: Any) -> tuple[int, int] | None:
    """Height and width."""
    if size is None:
        return None
    wrong = ValueError(f"size={size!r} is neither a side in pixels nor (height, width)")
    if isinstance(size, bool):
        raise wrong
    try:
        side = operator.index(size)
    except TypeError:
        try:
            height, width = map(operator.index, size)
        except (TypeError, ValueError):
            raise wrong from None
    else:
        height = width = side
    if height < 1 or width < 1:
        raise wrong
    return height, width


def _pair(name: str, pair: Any) -> tuple[float, float]:
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={pair!r} is not a pair of numbers, the least and the greatest") from None
    return low, high


def _normalize(asked: Any) -> tuple[list[float], list[float]] | None:
    if asked is None or asked is False:
        return None
    if asked is True:
        return [0.0] * 3, [1.0] * 3
    if asked == "imagenet":
        return [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    if isinstance(asked, str):
        raise ValueError(f"normalize={asked!r} is neither 'imagenet' nor a pair of mean and std")
    try:
        mean, std = (list(map(float, part)) for part in asked)
    except (TypeError, ValueError):
        raise ValueError(f"normalize={asked!r} is not a pair of three means and three standard deviations") from None
    if len(mean) != 3 or len(std) != 3:
        raise ValueError("normalize takes three means and three standard deviations")
    return mean, std


Fields = Union[Mapping[str, Union[Field, str]], Iterable[Union[str, Field]], None]


def _named(one: str | Field) -> tuple[str, str | Field]:
    """A field of a list, which is called as what it is made from."""
    if not isinstance(one, Field):
        return one, one
    if one.source is None:
        raise TypeError(f"{one!r} has no name in a list: give it its source, or a dictionary")
    return one.source, one


def describe(fields: Fields, gpu: bool = False) -> list[Described]:
    """The fields as the compiled part takes them, for batches on a GPU or in host memory. A text stands for `Auto` of that field."""
    if fields is None:
        return []
    if isinstance(fields, str):
        fields = [fields]
    named: Mapping[str, str | Field]
    if isinstance(fields, Mapping):
        named = cast("Mapping[str, str | Field]", fields)
    else:
        listed = [_named(one) for one in fields]
        named = dict(listed)
        if len(named) < len(listed):
            names = [name for name, _ in listed]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the list has {twice!r} twice: a dictionary gives each a name of its own")
    described = []
    for name, field in named.items():
        if isinstance(field, str):
            field = Auto(field)
        if not isinstance(field, Field):
            raise TypeError(f"field {name!r} is {field!r}; give the name of a field, or packhorse.Image, Auto, Bytes, …")
        if field._needs_gpu() and not gpu:
            message = "decode='gpu', rotate, jitter, grayscale, blur, erase, mixup and cutmix are for batches on a GPU: give the loader its device"
            raise ValueError(f"field {name!r}: {message}")
        described.append(field._describe(name))
    return described
