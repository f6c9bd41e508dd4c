"""A stand-in for torch, for tests only.

The readers `wids` and `megatron-energon` import torch but need next to nothing of it to read samples.
The real Linux wheel needs several gigabytes of GPU libraries before it can even be imported, so the
checks put this folder on PYTHONPATH where no real torch is installed.  It holds the names that those
two packages touch while they are imported, and the few functions that they call while they read, made
from numpy.  Anything else fails with an AttributeError instead of returning a wrong value.
"""

import random as _random

import numpy as _np

__version__ = "0.0.0+packhorse.stub"


class dtype:
    """A named element type; equal to nothing but itself."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


float16, bfloat16, float32, float64 = map(dtype, ("float16", "bfloat16", "float32", "float64"))
uint8, int8, int16, int32, int64 = map(dtype, ("uint8", "int8", "int16", "int32", "int64"))
bool = dtype("bool")
float, double, long = float32, float64, int64


class Size(tuple):
    """A shape."""


class device:
    """A device name; only used in annotations."""

    def __init__(self, name="cpu"):
        self.type = name


class Event:
    """Only looked up by Energon's garbage collection wrapper."""


class Tensor:
    """A numpy array with the handful of methods that the readers call."""

    def __init__(self, array):
        self.array = _np.asarray(array)

    def __len__(self):
        return len(self.array)

    def __getitem__(self, index):
        return Tensor(self.array[index])

    def __setitem__(self, index, value):
        self.array[index] = value.array if isinstance(value, Tensor) else value

    def __index__(self):
        return int(self.array)

    @property
    def shape(self):
        return Size(self.array.shape)

    def numpy(self):
        return self.array

    def item(self):
        return self.array.item()

    def tolist(self):
        return self.array.tolist()


class Generator:
    """A seeded random generator (not torch's sequence)."""

    def __init__(self, device="cpu"):
        self.random = _random.Random(0)

    def manual_seed(self, seed):
        self.random.seed(seed)
        return self


def zeros(*shape, dtype=None):
    return Tensor(_np.zeros(shape, dtype=dtype.name if dtype is not None else "float32"))


def tensor(values, dtype=None):
    return Tensor(_np.array(values, dtype=dtype.name if dtype is not None else None))


def from_numpy(array):
    return Tensor(array)


def stack(tensors):
    return Tensor(_np.stack([tensor.array for tensor in tensors]))


def count_nonzero(values):
    return Tensor(_np.count_nonzero(values.array))


def manual_seed(seed):
    return Generator().manual_seed(seed)


from . import cuda, distributed, multiprocessing, nn, utils  # noqa: E402,F401
