"""The exceptions of midstep. Each is also a builtin, so a plain `except ValueError` works.

MidstepError
├── ConfigError (ValueError)          a setting or argument is wrong
│   └── ExpressionError               a breakpoint expression is not in the grammar
├── ControlError (RuntimeError)       a command was refused
├── StorageError (OSError)            a write failed; the old file is intact
│   └── RunHeldError                  another process writes this run directory
├── FormatError (ValueError)          a file is damaged or of an unknown version
├── DatasetError (AssertionError)     a dataset or a batch is wrong
├── ClientError (RuntimeError)        the server answered with an error, or not at all
│   └── UnclearRunError               several runs are live; its choices list them
└── MissingExtraError (ImportError)   an optional library is not installed

StopTraining (SystemExit) is none of them: it is raised at the boundary after a stop, under
`attach`, and must pass through an `except Exception` of the user's code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class MidstepError(Exception):
    """Base of everything midstep raises on purpose."""


class ConfigError(MidstepError, ValueError):
    """A setting or an argument is wrong; the message says what was expected."""


class ExpressionError(ConfigError):
    """A breakpoint expression is not in the checked grammar."""


class ControlError(MidstepError, RuntimeError):
    """A command was refused in the present state of the run."""


class StopTraining(SystemExit):
    """Raised at the boundary after a stop. The block of `attach` ends without an error then.

    Outside of a block, as after `start()`, it ends the script like `sys.exit`: without a traceback.

    Args:
        message: after how many steps.
        code: the exit code; a text is printed by the interpreter, which then exits with 1.

    >>> error = StopTraining("stopped after 3 steps")
    >>> str(error), error.code, isinstance(error, Exception)
    ('stopped after 3 steps', 0, False)
    """

    def __init__(self, message: str, code: int | str = 0) -> None:
        super().__init__(message)
        self.code = code


class StorageError(MidstepError, OSError):
    """A file could not be written; what was on disk before is intact."""


class RunHeldError(StorageError):
    """Another process already writes this run directory."""


class FormatError(MidstepError, ValueError):
    """A file is damaged, or of a version this midstep does not know."""


class DatasetError(MidstepError, AssertionError):
    """A dataset or a batch is wrong; the message names file or key, index and value.

    Args:
        message: what was checked and what to do next.
        problems: everything that is wrong, one line each.

    >>> print(DatasetError("config.json is wrong", ["n_neg is missing", "n_pairs is -1"]))
    config.json is wrong:
      n_neg is missing
      n_pairs is -1
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        lines = [f"{message}:", *problems] if problems else [message]
        super().__init__("\n  ".join(lines))
        self.problems = tuple(problems)

    @classmethod
    def raise_if(cls, message: str, problems: Iterable[str | None]) -> None:
        """Raise the error if there are problems; None among them stands for a passed check.

        >>> DatasetError.raise_if("config.json is wrong", [None, None])
        """
        wrong = [problem for problem in problems if problem is not None]
        if wrong:
            raise cls(message, wrong)


class ClientError(MidstepError, RuntimeError):
    """The server refused, or could not be reached.

    Args:
        message: what happened and what to do next.
        status: the HTTP status; None if there was no answer.
        word: the name of the error in the server's answer, for example `no_breakpoint`.
    """

    def __init__(self, message: str, *, status: int | None = None, word: str | None = None) -> None:
        super().__init__(message)
        self.status, self.word = status, word


class UnclearRunError(ClientError):
    """Several runs are live, and none of them was named.

    Args:
        message: what was requested, and how to name a run.
        choices: one line about each live run.
    """

    def __init__(self, message: str, choices: Sequence[str]) -> None:
        super().__init__("\n  ".join([message, *choices]))
        self.message, self.choices = message, tuple(choices)


class MissingExtraError(MidstepError, ImportError):
    """An optional library is missing; the message names the extra to install."""

    @classmethod
    def for_library(cls, library: str, extra: str) -> MissingExtraError:
        """The error for `library`, which the extra `extra` installs."""
        return cls(
            f"{library} is not installed. Install it with: pip install 'midstep[{extra}]', "
            f"or from a checkout: pip install -e '.[{extra}]'"
        )
