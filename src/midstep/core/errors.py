"""The one family of errors. Each is also a builtin, so plain `except ValueError` works.

MidstepError
├── ConfigError (ValueError)          a setting or argument is wrong
│   └── ExpressionError               a breakpoint expression is not in the grammar
├── ControlError (RuntimeError)       a verb or command was refused
│   └── StopTraining                  raised at the boundary after a stop, under `attach`
├── StorageError (OSError)            the disk said no; the old file is intact
│   └── RunHeldError                  another process writes this run directory
├── FormatError (ValueError)          a file is damaged or of an unknown version
├── DatasetError (AssertionError)     a dataset or a batch is not what it should be
├── ClientError (RuntimeError)        the server answered with an error, or not at all
│   └── UnclearRunError               several runs are live; its choices list them
└── MissingExtraError (ImportError)   an optional library is not installed
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "ClientError",
    "ConfigError",
    "ControlError",
    "DatasetError",
    "ExpressionError",
    "FormatError",
    "MidstepError",
    "MissingExtraError",
    "RunHeldError",
    "StopTraining",
    "StorageError",
    "UnclearRunError",
]


class MidstepError(Exception):
    """Base of everything midstep raises on purpose."""


class ConfigError(MidstepError, ValueError):
    """A setting or an argument is wrong; the message says what was expected."""


class ExpressionError(ConfigError):
    """A breakpoint expression is not in the checked grammar."""


class ControlError(MidstepError, RuntimeError):
    """A verb or command was refused in the present state."""


class StopTraining(ControlError):  # noqa: N818 - like StopIteration, it ends a loop
    """Raised at the boundary after a stop; `attach` swallows it when its block ends."""


class StorageError(MidstepError, OSError):
    """The disk refused; what was on disk before is intact."""


class RunHeldError(StorageError):
    """Another process already writes this run directory."""


class FormatError(MidstepError, ValueError):
    """A file is damaged, or of a version this midstep does not know."""


class DatasetError(MidstepError, AssertionError):
    """A dataset or a batch is not what it should be; names file or key, index and value.

    Args:
        message: what was looked at and what to do next.
        problems: each thing that is wrong; all of them are told.

    >>> print(DatasetError("config.json is wrong", ["n_neg is missing", "n_pairs is -1"]))
    config.json is wrong:
      n_neg is missing
      n_pairs is -1
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        told = [f"{message}:", *problems] if problems else [message]
        super().__init__("\n  ".join(told))
        self.problems = tuple(problems)


class ClientError(MidstepError, RuntimeError):
    """The server refused, or could not be reached.

    Args:
        message: what happened and what to do next.
        status: the HTTP status, or None when there was no answer.
        word: the server's short word for the refusal, for example `no_breakpoint`.
    """

    def __init__(self, message: str, *, status: int | None = None, word: str | None = None) -> None:
        super().__init__(message)
        self.status, self.word = status, word


class UnclearRunError(ClientError):
    """Several runs are live and it was not said which one is meant.

    Args:
        message: what was asked, and how to choose.
        choices: one line about each run there is.
    """

    def __init__(self, message: str, choices: Sequence[str]) -> None:
        super().__init__("\n  ".join([message, *choices]))
        self.message, self.choices = message, tuple(choices)


class MissingExtraError(MidstepError, ImportError):
    """An optional library is missing; the message names the extra to install."""

    @classmethod
    def of(cls, library: str, extra: str) -> MissingExtraError:
        """The error for `library`, which the extra `extra` would bring."""
        return cls(
            f"{library} is not installed. Install it with: pip install 'midstep[{extra}]', "
            f"or from a checkout: pip install -e '.[{extra}]'"
        )
