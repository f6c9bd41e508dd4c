"""torch.multiprocessing is the standard library's module to the readers."""

from multiprocessing import Queue  # noqa: F401
