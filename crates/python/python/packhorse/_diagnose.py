"""What a training loop waits for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _packhorse
from ._batch import Batch
from ._device import find_nvjpeg
from ._loader import Loader
from ._tokens import TokenLoader


class Diagnosis:
    """What a loop waits for. `print` shows it as a table.

    * `bottleneck`: `"step"` (it is not the data), `"transfer"`, `"collate"`, `"decode"`, `"read"`, `"storage"`, `"loader"`,
      `"interference"`, `"processors"` or `"neighbours"`.
    * `costs`: the stages that cost time, in order, with the seconds that each adds to a step.
    * `cuts`: the loop served from memory at one stage after the other: steps per second as `median`, `low` and `high`.
    * `remedies`: what would help, the best first: steps per second `predicted`, and `observed` with `apply=True`.
    * `data`: all of it, as `packhorse diagnose --json` shows it.
    """

    def __init__(self, data: dict[str, Any], text: str) -> None:
        self.data = data
        self.bottleneck: str = data["bottleneck"]
        self.costs: list[dict[str, Any]] = data["costs"]
        self.notes: list[str] = data["notes"]
        self.cuts: dict[str, dict[str, Any]] = {cut["cut"]: cut for cut in data["cuts"]}
        self.remedies: list[dict[str, Any]] = data["remedies"]
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Diagnosis({self.bottleneck!r})"


def diagnose(
    loader: Loader | Iterable[Any],
    step: Callable[[Any], object],
    *,
    seconds: float = 30.0,
    rounds: int = 5,
    cold: bool = False,
    apply: bool = False,
) -> Diagnosis:
    """Finds what the loop `for batch in loader: step(batch)` waits for.

    A loader of packhorse is cut at each stage: on a GPU, `step` must end with a synchronization, or the time of its work there
    is not seen. Any other iterable, such as torch's `DataLoader`, is compared with batches in memory only.

    It takes about `seconds` in `rounds`; slow loops take longer. `cold` drops shards from the page cache first; with `apply`
    remedies are tried, and the best is taken, until it is not the data. The loader itself, its epoch and state stay as they are.
    """
    how = {"seconds": float(seconds), "rounds": rounds, "cold": cold, "apply": apply}
    if isinstance(loader, Loader):
        if loader._keep:
            raise ValueError("a loader with resident=True loads nothing: there is nothing to diagnose")
        settings = loader._settings | {"place": loader.place, "state": None}
        if loader._device != "cpu":
            find_nvjpeg()

        def call(batch: _packhorse.Batch) -> None:
            step(Batch(batch))

        found = _packhorse.diagnose(
            loader.dataset._ours, loader._described, settings, loader._open_gpu(), call, how
        )
    else:
        if hasattr(loader, "__next__"):
            raise TypeError("an iterator can be run once only: give what it is made from")
        # Loaders of tokens go on from where they are: each pass is that of another one.
        def begin() -> Iterator[Any]:
            return iter(loader._as_rank(loader.place, None) if isinstance(loader, TokenLoader) else loader)

        found = _packhorse.diagnose_iterable(begin, step, how)
    return Diagnosis(json.loads(found[0]), found[1])
