"""Packing, converting and checking datasets."""

from __future__ import annotations

import inspect
import itertools
import json
import operator
import os
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, SupportsIndex, TypeVar, Unpack

from . import _packhorse
from ._errors import MissingFileError
from ._settings import Path, Settings

Progress = Callable[[dict[str, Any]], object]
# What decides no byte: these belong to the session, not to the recipe.
_HOW = ("jobs", "memory", "replace", "verify")


class PackSettings(Settings, total=False):
    """The settings of `pack`, `append`, `convert` and `Writer`: docs/settings.md."""

    tokenizer: Path | None
    """Tokenize text with this tokenizer.json, .tiktoken vocabulary or SentencePiece .model"""


_Called = TypeVar("_Called", bound=Callable[..., Any])


def shows_settings(called: _Called) -> _Called:
    """Names the settings that a function takes as `**settings` in its signature, for `help()` and notebooks."""
    whole = inspect.signature(called)
    own = [one for one in whole.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    settings = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in PackSettings.__annotations__.items()
        if name not in whole.parameters
    ]
    called.__signature__ = whole.replace(parameters=[*own, *settings])  # type: ignore[attr-defined]
    return called


class Packed:
    """What was packed: `out`, `samples`, `shards`, `bytes`, `skipped`, `classes`, `counts` and the digest `root`."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.out: str = facts["out"]
        self.samples: int = facts["samples"]
        self.shards: int = facts["shards"]
        self.bytes: int = facts["bytes"]
        self.skipped: int = facts["skipped"]
        self.classes: list[str] = facts["classes"]
        self.counts: dict[str, int] = facts["counts"]
        self.splits: dict[str, int] = dict(facts.get("splits", []))
        self.root: str = facts["root"]

    def __repr__(self) -> str:
        return f"Packed(samples={self.samples}, shards={self.shards}, bytes={self.bytes}, out={self.out!r})"


class Verification:
    """What a check found: `whole`, `samples`, `shards`, `bytes` read, `damages` as (file, member, problem), and how many damaged
    files earlier repairs `quarantined`."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.samples: int = facts["samples"]
        self.shards: int = facts["shards"]
        self.bytes: int = facts["bytes"]
        self.repairable: bool = facts["repairable"]
        self.damages: list[tuple[str, str | None, str]] = [tuple(damage) for damage in facts["damages"]]
        self.quarantined: int = facts["quarantined"]

    @property
    def whole(self) -> bool:
        """Whether there is no damage."""
        return not self.damages

    def __bool__(self) -> bool:
        return self.whole

    def __repr__(self) -> str:
        return f"Verification(whole={self.whole}, samples={self.samples}, shards={self.shards}, damages={self.damages})"


class Repaired(int):
    """How many shards were packed again. `quarantined`: the damaged files that were replaced, which are kept, by their paths below
    the dataset's folder."""

    quarantined: list[str]

    def __new__(cls, facts: dict[str, Any]) -> Repaired:
        repaired = super().__new__(cls, facts["shards"])
        repaired.quarantined = facts["quarantined"]
        return repaired

    def __repr__(self) -> str:
        return f"Repaired({int(self)}, quarantined={self.quarantined})"


# What False says of settings that are not off where they are left out.
_OFF = {
    "parse_special": "no", "byte_shuffle": "off", "compression": "none", "index": "none", "decode": "never", "symlinks": "skip",
    "special": "none", "filter": "none",
}  # fmt: skip
_ON = {"parse_special": "yes", "byte_shuffle": "on"}


def split_settings(recipe: Mapping[str, Any]) -> tuple[list[tuple[str, list[str]]], dict[str, Any]]:
    """Settings of the recipe as names and texts, and those of the session. Errors: a name that is not a setting."""
    how = {name: recipe[name] for name in _HOW if recipe.get(name) is not None}
    how = {name: value for name, value in how.items() if value is not False or name in ("replace", "verify")}
    if "memory" in how:
        how["memory"] = text_of(how["memory"]) + ("B" if hasattr(how["memory"], "__index__") else "")
    if "verify" in how:
        if how["verify"] not in (True, False, "on", "off"):
            raise TypeError(f"verify is 'on' or 'off', not {how['verify']!r}")
        how["verify"] = how["verify"] in (True, "on")
    known = {name: (repeats, default) for name, repeats, default in _packhorse.settings()}
    settings = []
    for given, value in recipe.items():
        # `from` is a word of Python's own: `from_` stands for it.
        name = given.removesuffix("_")
        if name in _HOW:
            continue
        if name not in known:
            import difflib

            close = difflib.get_close_matches(name, [*known, *_HOW], 1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{name!r} is not a setting of packhorse{meant}")
        repeats, default = known[name]
        if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
            value = bool(value)
        if value is False and name not in _OFF and default is not None:
            raise TypeError(f"{name} can't be False: without a value it is {default!r}; docs/settings.md has the others")
        if value is None or value is False and name not in _OFF:
            continue
        texts = _texts(name, value)
        settings.append((name.replace("_", "-"), texts if repeats else [",".join(texts)]))
    return settings, how


def _texts(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [_ON.get(name, "true") if value else _OFF[name]]
    if isinstance(value, Mapping):
        sign = ":" if name == "schema" else "="
        return [f"{key}{sign}{text_of(part)}" for key, part in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike)):
        return [text_of(part) for part in value]
    if name == "shard_size" and isinstance(value, SupportsIndex):
        return [f"{operator.index(value)}B"]
    return [text_of(value)]


def text_of(value: Any) -> str:
    """A value as the text of a setting; those of a list with commas between them."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(text_of, value))
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)


@shows_settings
def pack(
    source: Path | Iterable[Path] | Iterable[Mapping[str, Any]],
    out: Path,
    to: str | None = None,
    *,
    progress: bool | Progress | None = None,
    **settings: Unpack[PackSettings],
) -> Packed:
    """Packs `source` into the dataset `out`, of the format `to`.

    `source` is a path or several (folders, files, datasets), also `s3://bucket/prefix` (or `gs://`, `az://`), and so may be `out`: then the settings are those of docs/settings.md, with `_` for
    `-`, and the same call continues after an interruption. Or it is an iterable of dictionaries, such as a generator: then
    samples are written in their order (see `Writer`), and an interrupted call leaves nothing and has to begin again.

    `progress=True` shows a bar (of tqdm, if installed); a function gets a dictionary of totals about ten times a second.
    `jobs`, `memory`, `replace` and `verify` are as the command's flags of these names.
    """
    paths, samples = _paths(source)
    if paths is None:
        from ._writer import Writer

        with Bar(progress) as told, Writer(out, to, **settings) as writer:
            said = time.monotonic()
            for sample in samples:
                writer.write(sample)
                if told is not None and time.monotonic() - said >= 0.1:
                    told(writer.totals)
                    said = time.monotonic()
            if told is not None:
                told(writer.totals)
        assert writer.packed is not None
        return writer.packed
    given, how = split_settings({"input": paths, "to": to, "out": os.fsdecode(out), **settings})
    with Bar(progress) as told:
        return Packed(json.loads(_packhorse.pack(given, how, told)))


_PATHS = (str, bytes, os.PathLike)


def _paths(source: Any) -> tuple[list[str] | None, Iterable[Any]]:
    """The paths that `source` names; None, and the samples, if it is an iterable of these."""
    from ._dataset import Dataset
    from ._loader import Loader

    if isinstance(source, (list, tuple)) and not source:
        raise ValueError("source is empty: there is nothing to pack")
    if isinstance(source, Dataset):
        # As dictionaries its samples would lose their types, classes and splits.
        if not source.is_whole:
            what = "source is a view, several datasets, a pattern, or was opened with settings"
            raise TypeError(f"{what}: pack the paths, or write it by `write_view` and pack that folder")
        return [source._place], ()
    if isinstance(source, Loader):
        raise TypeError("source is a loader, which gives batches: give the dataset")
    if isinstance(source, _PATHS):
        return [os.fsdecode(source)], ()
    if not isinstance(source, Iterable) or hasattr(source, "columns"):
        kind = type(source).__name__
        rows = ".to_dicts()" if hasattr(source, "to_dicts") else ".to_dict('records')" if hasattr(source, "to_dict") else None
        meant = f"; rows are dictionaries by {rows}" if rows else ""
        raise TypeError(f"source is of type {kind}: give a path, paths, or an iterable of dictionaries{meant}")
    parts = iter(source)
    first = list(itertools.islice(parts, 1))
    if any(isinstance(part, _PATHS) for part in first):
        return [os.fsdecode(part) for part in (*first, *parts)], ()
    return None, itertools.chain(first, parts)


@shows_settings
def append(
    place: Path, source: Path | Iterable[Path], *, progress: bool | Progress | None = None, **settings: Unpack[PackSettings]
) -> Packed:
    """Adds samples to the sealed dataset at `place`, as new shards after those that it has.

    Format, transforms, sizes, shuffle and splits are those of the dataset. How inputs are read is said again, as when it
    was packed (`labels`, `include`). The same call again resumes, or changes nothing. The counts of the result are those
    of the new shards; root digest, classes and splits those of the dataset.
    """
    _there(place)
    paths, _ = _paths(source)
    if paths is None:
        raise TypeError("append takes paths; write samples of a program with Writer, and append the dataset that it makes")
    given, how = split_settings({"input": paths, **settings})
    with Bar(progress) as told:
        return Packed(json.loads(_packhorse.append(os.fsdecode(place), given, how, told)))


@shows_settings
def convert(
    source: Path | Iterable[Path], out: Path, to: str, *, progress: bool | Progress | None = None, **settings: Unpack[PackSettings]
) -> Packed:
    """Packs datasets or files into another format: splits, classes, order and types stay. The same as `pack` of paths."""
    return pack(source, out, to, progress=progress, **settings)


@shows_settings
def tokenize(
    source: Path | Iterable[Path], out: Path, tokenizer: Path, *, progress: bool | Progress | None = None, **settings: Unpack[Settings]
) -> Packed:
    """Packs text (JSON lines, tables, files) into Megatron's token files with this tokenizer."""
    return pack(source, out, "tokens", progress=progress, tokenizer=tokenizer, **settings)


def verify(place: Path, *, full: bool = False, progress: bool | Progress | None = None, jobs: int | None = None) -> Verification:
    """Compares the sealed dataset at `place` with its manifest; with `full` every byte of it. Damage is a result, not an error."""
    _there(place)
    _, how = split_settings({"jobs": jobs})
    with Bar(progress) as told:
        return Verification(json.loads(_packhorse.verify(os.fsdecode(place), full, how, told)))


def repair(
    place: Path,
    *,
    progress: bool | Progress | None = None,
    jobs: int | None = None,
    moved: Mapping[Path, Path] | None = None,
) -> Repaired:
    """Packs the damaged shards of a dataset again from its inputs; returns how many. Damaged files are kept in `.quarantine` in its
    folder until `packhorse clean --quarantine` removes them. `moved` has the paths of inputs when the dataset was packed, with those
    that they have now."""
    _there(place)
    _, how = split_settings({"jobs": jobs})
    how["moved"] = [(os.fspath(old), os.fspath(new)) for old, new in (moved or {}).items()]
    with Bar(progress) as told:
        return Repaired(json.loads(_packhorse.repair(os.fsdecode(place), how, told)))


def stat(place: Path) -> dict[str, Any]:
    """Samples of an archive, and count and bytes of each of its fields. An opened table has `len` and `fields`."""
    _there(place)
    found: dict[str, Any] = json.loads(_packhorse.stat(os.fsdecode(place)))
    return {"samples": found["samples"], "fields": {name: tuple(part) for name, part in found["fields"].items()}}


def _there(place: Path) -> None:
    """Raises an error if there is nothing at the path `place`. A URL is checked by the command itself."""
    if "://" not in os.fsdecode(place) and not os.path.exists(place):
        text = f"{os.fsdecode(place)}: no such file or folder"
        facts = {"kind": "config", "code": "no-such-file", "message": "no such file or folder", "input": os.fsdecode(place)}
        raise MissingFileError(text, **facts)


class Bar:
    """Progress as the caller wants it: a function, a bar of tqdm, or none."""

    def __init__(self, progress: bool | Progress | None) -> None:
        self._bar: Any = None
        self._call = progress if callable(progress) else None
        if progress is not None and not isinstance(progress, bool) and self._call is None:
            raise TypeError(f"progress is {progress!r}: give True or a function")
        if progress is True:
            try:
                tqdm: Any = import_module("tqdm.auto")
            except ImportError:
                return
            self._bar = tqdm.tqdm(unit="B", unit_scale=True)
            self._call = self._show

    def _show(self, totals: dict[str, Any]) -> None:
        self._bar.total = totals["all_bytes"] or None
        self._bar.set_postfix(samples=totals["samples"], shards=totals["shards"], refresh=False)
        self._bar.update(totals["bytes"] - self._bar.n)

    def __enter__(self) -> Progress | None:
        return self._call

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
