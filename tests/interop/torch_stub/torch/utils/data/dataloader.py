"""A loader without workers, without batches, without pinned memory."""

from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class _MultiProcessingDataLoaderIter:
    """No object is ever an instance of this."""


class DataLoader(Generic[T_co]):
    """Iterates over the dataset in this process."""

    def __init__(self, dataset, batch_size=None, shuffle=False, num_workers=0, **_ignored):
        if batch_size is not None or shuffle or num_workers:
            raise NotImplementedError("the torch stand-in only iterates, without workers, batches or shuffling")
        self.dataset = dataset
        self.num_workers = num_workers

    def __iter__(self):
        return iter(self.dataset)
