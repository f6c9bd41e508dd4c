"""Where batches are: in host memory, or on a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from typing import Any

from . import _packhorse


def device_name(device: object) -> str:
    """`"cpu"`, `"cuda"` or `"cuda:N"` of a name, a number, or an object with such a text, as `torch.device`."""
    if isinstance(device, int) and not isinstance(device, bool):
        name = f"cuda:{device}"
    else:
        name = str(device)
    if name == "cpu:0":
        return "cpu"
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,9})?", name):
        raise ValueError(f"device={device!r} is neither 'cpu' nor a GPU such as 'cuda', 'cuda:0' or 0")
    return name


def open_gpu(name: str) -> _packhorse.Gpu | None:
    """The GPU of a name; None for host memory. `"cuda"` is torch's current GPU if torch uses one, else that of the process's
    local rank (`LOCAL_RANK`, `SLURM_LOCALID`, …), else the first."""
    if name == "cpu":
        return None
    if name != "cuda":
        return _packhorse.Gpu(int(name.removeprefix("cuda:")))
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return _packhorse.Gpu(torch.cuda.current_device())
    return _packhorse.Gpu()


def find_nvjpeg() -> None:
    """Loads nvJPEG from its Python package, if there is one, so that it is found. `PACKHORSE_NVJPEG` names another."""
    if "PACKHORSE_NVJPEG" in os.environ:
        return
    for folder, name in (("nvidia/nvjpeg/lib", "libnvjpeg.so.12"), ("nvidia/cu13/lib", "libnvjpeg.so.13")):
        for path in (os.path.join(place, folder, name) for place in sys.path):
            if os.path.exists(path):
                with contextlib.suppress(OSError):
                    ctypes.CDLL(path)
                    return


def stream_handle(stream: Any) -> int:
    """The handle of a stream: a number, or a stream of torch, CuPy or cuda.core; 1 is the default stream."""
    for attribute in ("cuda_stream", "ptr", "__cuda_stream__"):
        found = getattr(stream, attribute, None)
        if found is not None:
            # The protocol is a pair of its version and the handle.
            stream = found()[1] if attribute == "__cuda_stream__" else found
            break
    try:
        handle = int(stream)
    except (TypeError, ValueError):
        raise TypeError(f"{stream!r} is not a stream of CUDA: give its handle, or a stream of torch or CuPy") from None
    if handle < 0:
        raise ValueError(f"{handle} is not the handle of a stream")
    return handle or 1
