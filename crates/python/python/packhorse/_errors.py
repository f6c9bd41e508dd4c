"""Errors, by who must act on them."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Any error of packhorse.

    `kind` says who must act, `code` names the fault (both are in docs/errors.md), `message` says what happened and `hint`
    what to do. `input`, `sample`, `field` and `row` say where, as far as that is known.
    """

    kind: str = ""
    code: str = ""
    message: str = ""
    hint: str | None = None
    input: str | None = None
    sample: str | None = None
    field: str | None = None
    row: int | None = None

    def __init__(self, text: str = "", **facts: Any) -> None:
        super().__init__(text)
        self.__dict__.update(facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (type(self), str(self), dict(self.__dict__)))


def _again(kind: type[Error], text: str, facts: dict[str, Any]) -> Error:
    return kind(text, **facts)


class ContentError(Error, ValueError):
    """An input or a sample is bad: damaged, or not what it claims to be."""


class StorageError(Error, OSError):
    """Reading or writing failed: a full disk, a missing permission, a network. It may succeed later."""

    __str__ = Exception.__str__


class ChangedError(Error):
    """An input is not what it was when the dataset was planned."""


class ConfigError(Error, ValueError):
    """The request makes no sense as given."""


class MissingFileError(ConfigError, FileNotFoundError):
    """A file or folder that the request names does not exist."""

    __str__ = Exception.__str__


class StateError(ConfigError):
    """A state of another dataset, seed or shuffle; the message says which."""


class IncompleteError(Error):
    """The dataset is not whole: shards are missing or damaged."""


class LimitError(Error):
    """Something is larger than a limit that can be raised."""


class UnsupportedError(Error, NotImplementedError):
    """packhorse does not do this."""


class CancelledError(Error):
    """The work was stopped on request."""


class InternalError(Error, RuntimeError):
    """A defect of packhorse. Please report it."""
