"""Scripts that a server may start: named where it was started, never by a request."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from midstep.core.errors import ConfigError
from midstep.session.run_header import without_secrets

EXAMPLE = '--allow-script "train.py --epochs 3"'


@dataclass(frozen=True, kw_only=True)
class AllowedScript:
    """A training script with its arguments, as `midstep run` takes them."""

    id: str
    """A hash of the title, so it says no more than the title does."""
    title: str
    """What the list shows: the name of the script without its folder, and the arguments without
    secrets."""
    target: str
    """The script as it was given, relative to `cwd`; the name of the module with `is_module`."""
    arguments: tuple[str, ...]
    """The script's own."""
    is_module: bool
    """Whether it is started as `python -m` does."""
    cwd: Path
    """The working directory of the process."""

    @property
    def name(self) -> str:
        """Name of a run that is given no other one."""
        last = self.target.rpartition(".")[2] if self.is_module else Path(self.target).stem
        return last.strip("-._") or "run"


def parse_script(text: str, cwd: Path, *, number: int = 1) -> AllowedScript:
    """The script of a command line such as `train.py --epochs 3` or `-m package.train`.

    Args:
        text: the command line, split as a shell does; nothing in it is expanded.
        cwd: the working directory of the process; the script is relative to it.
        number: tells scripts with the same title apart.

    Raises:
        ConfigError: there is no such script.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"cannot read the command line {text!r}: {error}") from None
    is_module = words[:1] == ["-m"]
    target, *arguments = words[is_module:] or [""]
    if not target:
        raise ConfigError(f"{text!r} names no script; write for example {EXAMPLE}")
    if not is_module and not (cwd / target).is_file():
        raise ConfigError(f"there is no script {target} in {cwd}; write for example {EXAMPLE}")
    shown = ["-m", target] if is_module else [Path(target).name]
    title = shlex.join([*shown, *without_secrets([target, *arguments])[1:]])
    digest = hashlib.blake2b(f"{number} {title}".encode("utf-8", "replace"), digest_size=10)
    return AllowedScript(
        id=digest.hexdigest(),
        title=title,
        target=target,
        arguments=tuple(arguments),
        is_module=is_module,
        cwd=cwd,
    )


def parse_scripts(texts: Iterable[str], cwd: Path) -> Mapping[str, AllowedScript]:
    """The scripts of a server by id, in the order in which they were given."""
    scripts: dict[str, AllowedScript] = {}
    for text in texts:
        script, number = parse_script(text, cwd), 1
        while script.id in scripts:
            number += 1
            script = parse_script(text, cwd, number=number)
        scripts[script.id] = script
    return scripts
