"""The rank of this process."""

from __future__ import annotations

import sys

from . import _packhorse


def rank_and_world() -> tuple[int, int]:
    """Rank and world size: those of `torch.distributed` if it is initialised, else those of the environment (`RANK`,
    `SLURM_PROCID`, `OMPI_COMM_WORLD_RANK`, `PMI_RANK`), else 0 of 1."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return _packhorse.environment_rank()
