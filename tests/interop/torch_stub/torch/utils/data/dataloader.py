"""A loader without worker processes and without pinned memory."""

from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class _MultiProcessingDataLoaderIter:
    """No object is ever an instance of this."""


class DataLoader(Generic[T_co]):
    """Iterates over the dataset in this process; batches are of datasets with `__getitem__` whose samples are tuples."""

    def __init__(self, dataset, batch_size=None, shuffle=False, num_workers=0, **_ignored):
        if shuffle or (num_workers and batch_size is None):
            raise NotImplementedError("the torch stand-in only iterates, without workers or shuffling")
        self.dataset = dataset
        self.batch_size = batch_size
        self.num_workers = num_workers

    def __iter__(self):
        return iter(self.dataset) if self.batch_size is None else self._batches()

    def _batches(self):
        import torch

        for start in range(0, len(self.dataset), self.batch_size):
            samples = [self.dataset[i] for i in range(start, min(start + self.batch_size, len(self.dataset)))]
            columns = zip(*samples)
            yield [torch.stack(c) if isinstance(c[0], torch.Tensor) else torch.tensor(c) for c in columns]
