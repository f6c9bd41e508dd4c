"""The rank of this process."""

from __future__ import annotations

import sys

from . import _packhorse


def rank_and_world() -> tuple[int, int]:
    """Rank and world size: those of `torch.distributed` or `jax.distributed` if it is initialised, else those of the environment
    (`RANK`, `SLURM_PROCID`, `OMPI_COMM_WORLD_RANK`, `PMI_RANK`), else 0 of 1."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    jax = sys.modules.get("jax")
    is_initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if jax is not None and is_initialized is not None and is_initialized():
        return jax.process_index(), jax.process_count()
    return _packhorse.environment_rank()


def pickled_place(place: str | tuple[int, int]) -> str | tuple[int, int]:
    """The place that travels to another process: a rank among several that was found, so that workers have that of their parent. One
    that was not found is looked for there."""
    if isinstance(place, tuple):
        return place
    found = rank_and_world()
    return found if found[1] > 1 else place


def check_place(place: object) -> None:
    """Raises an error if `place` is neither "auto" nor a rank below a number of ranks."""
    if place == "auto":
        return
    if not (isinstance(place, tuple) and len(place) == 2):
        raise ValueError(f"place={place!r} is neither 'auto' nor (rank, world)")
    rank, world = place
    if not 0 <= rank < world:
        raise ValueError(f"place={place!r}: ranks count from 0, so that of {world} the last is {world - 1}")
