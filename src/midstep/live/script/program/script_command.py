"""`ScriptCommand`: what `midstep run` was given, and how the process of the script gets it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True, kw_only=True)
class ScriptCommand:
    """A script with its arguments, and the options that stood before it.

    >>> command = ScriptCommand(target="nets/train.py", arguments=("--lr", "0.1"))
    >>> command.name, ScriptCommand.from_json(command.as_json(), ["nets/train.py"]).save_dir
    ('train', 'outputs/runs')
    """

    target: str
    """Path of the script, or the name of the module with `is_module`."""
    arguments: tuple[str, ...] = ()
    """The script's own."""
    is_module: bool = False
    run_name: str | None = None
    save_dir: str = "outputs/runs"
    port: int | None = None
    has_page: bool = True
    starts_paused: bool = False
    parks: bool = False
    """Whether an exception of the script parks the run instead of ending the process."""
    keeps_console: bool = True
    """Whether what the script prints is kept with the run."""
    keeps_evidence: bool = True
    """Whether samples, layers and breakpoints of stops and of the end are kept with the run."""
    breakpoints: tuple[str, ...] = ()
    """Expressions of breakpoints that are set before the first step."""
    run_id: str | None = None
    """Id of the run, chosen by a launcher; None for a new one."""
    run_dir: str | None = None
    """Its directory, if a launcher has made it before."""
    answer_to: int | None = None
    """Descriptor on which a launcher waits for the run to exist."""

    @property
    def name(self) -> str:
        """Name of the run: the given one, or that of the script."""
        if self.run_name is not None:
            return self.run_name
        last = self.target.rpartition(".")[2] if self.is_module else Path(self.target).stem
        return last.strip("-._") or "run"

    def as_json(self) -> str:
        """The options as one argument; target and arguments follow as they are."""
        options = asdict(self)
        del options["target"], options["arguments"]
        return json.dumps(options)

    @classmethod
    def from_json(cls, options: str, argv: list[str]) -> ScriptCommand:
        """The command from `as_json`, and from the script with its arguments."""
        fields: dict[str, Any] = json.loads(options)
        fields["breakpoints"] = tuple(fields["breakpoints"])
        return cls(target=argv[0], arguments=tuple(argv[1:]), **fields)

    def for_people(self) -> list[str]:
        """The command line without the options, for the record of the run."""
        module = ["-m"] if self.is_module else []
        return ["midstep", "run", *module, self.target, *self.arguments]

    def python(self) -> list[str]:
        """The command line that runs the script without midstep."""
        module = ["-m"] if self.is_module else []
        return [sys.executable, *_interpreter_flags(), *module, self.target, *self.arguments]

    def start(self, *, flags: Sequence[str] | None = None) -> NoReturn:
        """Become the process of the script: a new interpreter that has loaded nothing else.

        Args:
            flags: options of Python; those of this process if None.
        """
        entry = [str(Path(__file__).with_name("process.py")), self.as_json()]
        options = _interpreter_flags() if flags is None else flags
        argv = [sys.executable, *options, *entry, self.target, *self.arguments]
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, argv)  # noqa: S606 - the interpreter that runs this

    def answer(self, **fields: Any) -> None:
        """Say to the launcher that the run exists, or why not; nothing without a launcher."""
        if self.answer_to is not None:
            from midstep.live.launch_answer import answer_launcher

            answer_launcher(self.answer_to, fields, Path(self.run_dir or ""))


def _interpreter_flags() -> list[str]:
    """The options of Python that this process was started with, such as `-O` or `-W error`."""
    flags = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv)]
    return flags[:-1] if flags[-1:] == ["-m"] else flags
