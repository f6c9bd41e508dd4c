"""The rank of this process."""

from __future__ import annotations

import sys
import warnings

from . import _packhorse


def rank_and_world() -> tuple[int, int]:
    """Rank and world size: those of `torch.distributed` or `jax.distributed` if it is initialised, else those of the environment
    (`RANK`, `SLURM_PROCID`, `OMPI_COMM_WORLD_RANK`, `PMI_RANK`), else 0 of 1."""
    return _initialised() or _packhorse.environment_rank()


def in_worker() -> bool:
    """Whether this is one of several workers of a torch `DataLoader`."""
    return _workers() > 1


def _workers() -> int:
    module = sys.modules.get("torch.utils.data")
    worker = module.get_worker_info() if module is not None else None
    return 0 if worker is None else int(worker.num_workers)


def warn_of_workers() -> None:
    """Warns where several workers of a torch `DataLoader` each read all samples of a loader that was made outside of them."""
    if in_worker():
        text = (
            f"each of the {_workers()} workers of this DataLoader reads all samples: give the DataLoader `loader.torch()`, which divides "
            "them, or the loader a `place` of the worker's own"
        )
        warnings.warn(text, stacklevel=3)


def _initialised() -> tuple[int, int] | None:
    """The rank that torch or JAX was given."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    # `jax.process_index` would start a backend, which a forked worker must not do.
    given = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    rank, world = getattr(given, "process_id", None), getattr(given, "num_processes", None)
    if getattr(given, "client", None) is not None and rank is not None and world is not None:
        return int(rank), int(world)
    return None


def pickled_place(place: str | tuple[int, int]) -> str | tuple[int, int]:
    """The place that travels to another process: a rank that was given, or is one of several, so that workers have that of their
    parent. Else it is looked for there."""
    if isinstance(place, tuple):
        return place
    found = rank_and_world()
    return found if found[1] > 1 or _initialised() is not None else place


def check_place(place: object) -> None:
    """Raises an error if `place` is neither "auto" nor a rank below a number of ranks."""
    if place == "auto":
        return
    if not (isinstance(place, tuple) and len(place) == 2):
        raise ValueError(f"place={place!r} is neither 'auto' nor (rank, world)")
    rank, world = place
    if not 0 <= rank < world:
        raise ValueError(f"place={place!r}: ranks count from 0, so that of {world} the last is {world - 1}")
