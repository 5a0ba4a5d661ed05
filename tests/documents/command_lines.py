"""Command lines as the documentation writes them, read by the parsers that would read them."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

from midstep.cli.main import app
from midstep.control.breakpoints.expression_grammar import compile_expression
from tests.documents.blocks import ROOT

EXTERNAL = {"cd", "curl", "export", "git", "jupyter", "pip", "ssh", "torchrun"}
"""Programs of others, whose arguments are not checked."""
VARIABLE = re.compile(r"^[A-Z_]+=\S*$")


class WrongCommandError(Exception):
    """A command that its parser refuses."""


def commands_of(code: str, *, is_session: bool) -> Iterator[list[str]]:
    """The commands of a block, each as its words; of a session only the lines after `$`."""
    for line in code.replace("\\\n", " ").splitlines():
        if is_session and not line.startswith("$ "):
            continue
        words = shlex.split(line.removeprefix("$ "), comments=True)
        yield from _split(words)


def _split(words: list[str]) -> Iterator[list[str]]:
    """The commands that `&&` joins, without variables before them."""
    command: list[str] = []
    for word in [*words, "&&"]:
        if word in {"&&", "&"}:
            if command:
                yield command
            command = []
        elif command or not VARIABLE.match(word):
            command.append(word)


def check(command: list[str]) -> None:
    """Check one command.

    Raises:
        WrongCommandError: its parser refuses it, or there is no such program or target.
    """
    program, *arguments = command
    if program in {"midstep", ".venv/bin/midstep"}:
        check_midstep(arguments)
    elif program == "midstep-train":
        check_midstep(["train", *arguments])
    elif program == "make":
        _check_make(arguments)
    elif program in {"python", ".venv/bin/python"}:
        _check_python(arguments)
    elif program in {".ci/run", ".venv/bin/pytest"} or program == ".":
        return
    elif program not in EXTERNAL:
        raise WrongCommandError(f"unknown program {program}")


def reaches_outside(command: list[str]) -> bool:
    """Whether it installs, downloads or connects, so that no test can run it."""
    program, *arguments = command
    if program == "midstep":
        return arguments[:2] == ["data", "fetch"] or "sentence:" in " ".join(arguments)
    return program == "make" or program in EXTERNAL - {"cd", "export"}


def check_midstep(arguments: list[str], *, with_required: bool = True) -> None:
    """Let the parser of the terminal read the arguments.

    Args:
        arguments: those after `midstep`.
        with_required: whether a missing argument is wrong, too.

    Raises:
        WrongCommandError: the parser refuses them.
    """
    words, command = "midstep", _root()
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        if name not in command.commands:
            raise WrongCommandError(f"{words} has no command {name}")
        words, command = f"{words} {name}", command.commands[name]
    if hasattr(command, "commands"):
        _check_options(command, arguments)
        return
    try:
        context = command.make_context(words, list(arguments))
    except Exception as error:  # typer brings classes of its own, which move between versions
        is_incomplete = type(error).__name__ in {"MissingParameter", "BadOptionUsage"}
        if is_incomplete and not with_required:
            return
        raise WrongCommandError(f"{words}: {error}") from error
    _check_conditions(words, context.params)


def _check_options(command: Any, arguments: list[str]) -> None:
    known = {"-h", "--help", *(name for each in command.params for name in each.opts)}
    if unknown := set(arguments) - known:
        raise WrongCommandError(f"unknown options {sorted(unknown)}")


def _check_conditions(words: str, parameters: dict[str, Any]) -> None:
    """Conditions are strings for the parser, and checked later by the run."""
    conditions = list(parameters.get("breakpoints") or [])
    if words == "midstep ctl break add" and parameters.get("expression"):
        conditions.append(parameters["expression"])
    for condition in conditions:
        compile_expression(condition)


def _check_make(arguments: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in arguments:
        name, equals, _ = word.partition("=")
        expected = rf"^{name} \?= " if equals else rf"^{name}:"
        if not re.search(expected, makefile, re.MULTILINE):
            raise WrongCommandError(f"make has no {word}")


def _check_python(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        if importlib.util.find_spec(arguments[1]) is None:
            raise WrongCommandError(f"no module {arguments[1]}")
    elif arguments[0].endswith(".py"):
        script = ROOT / arguments[0]
        # A script of the repository is named by its path; others are the reader's own.
        if "/" in arguments[0] and not script.is_file():
            raise WrongCommandError(f"no script {arguments[0]}")
    elif not arguments[0].startswith("-"):
        raise WrongCommandError(f"python {arguments[0]}")


@cache
def _root() -> Any:
    return typer.main.get_command(app)
