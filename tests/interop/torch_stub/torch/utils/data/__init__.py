"""Dataset base classes and a loader that reads in this process."""

from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """A map-style dataset."""


class IterableDataset(Dataset[T_co]):
    """An iterable dataset."""


class Sampler(Generic[T_co]):
    """A sampler of indexes."""


def get_worker_info():
    """There are no worker processes."""
    return None


from . import dataloader  # noqa: E402
from .dataloader import DataLoader  # noqa: E402,F401
