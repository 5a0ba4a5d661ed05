"""Which live run a `midstep ctl` command controls, and how its answer is printed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.output.screen import Screen, print_json
from midstep.core.errors import ClientError

if TYPE_CHECKING:
    from midstep.client import Client

_Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="MIDSTEP_URL",
        help="The address that the run printed; found below --save-dir if left out.",
    ),
]
_Run = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="NAME",
        help="Which run, if several are live: its name, id or directory, or the start of one.",
    ),
]
_Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="MIDSTEP_TOKEN",
        help="The token, if the address has none; read from your state folder if left out.",
    ),
]
_SaveDir = Annotated[
    Path, typer.Option("--save-dir", help="Folder of the runs, to find the live one.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print the answer as one line of JSON.")]


@dataclass(frozen=True, kw_only=True)
class RunOption:
    """The live run that the options choose, and how to print an answer."""

    url: str | None
    """Address of the server; None: that of a live run below `save_dir`."""
    run: str | None
    """Name, id or directory of the run, or the start of one; None: the only live one."""
    token: str | None
    """Bearer token; None: from the address or the state folder."""
    save_dir: Path
    """Folder of the runs."""
    as_json: bool
    """Whether to print JSON instead of text."""

    def client(self) -> Client:
        """Return a client of that run."""
        from midstep.client import Client
        from midstep.client.run_finder import read_token

        if self.url is None:
            return Client.find(self.save_dir, run=self.run, who="cli")
        token = self.token
        if token is None and "#token=" not in self.url:
            token = read_token(self.save_dir)
        client = Client(self.url, token, who="cli")
        if self.run is not None:
            client.choose(self.run)
        return client

    def answer(self, value: Any, text: str | Callable[[Screen], None]) -> None:
        """Print `value` as JSON if `--json` is given, else `text`, or what `text` prints."""
        if self.as_json:
            print_json(value)
        elif callable(text):
            text(Screen())
        else:
            Screen().print_line(text)


@contextmanager
def reword_error(word: str, message: str) -> Iterator[None]:
    """Replace the message of one kind of refusal, so that it names commands and not routes."""
    try:
        yield
    except ClientError as error:
        if error.word != word:
            raise
        raise ClientError(message, status=error.status, word=word) from error


def with_run_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the five options that choose a run; the command gets them as its first argument."""

    @functools.wraps(command)
    def with_options(
        *,
        url: str | None,
        run: str | None,
        token: str | None,
        save_dir: Path,
        as_json: bool,
        **arguments: Any,
    ) -> None:
        target = RunOption(url=url, run=run, token=token, save_dir=save_dir, as_json=as_json)
        command(target, **arguments)

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    ]
    shared = [
        keyword_parameter("url", _Url, None),
        keyword_parameter("run", _Run, None),
        keyword_parameter("token", _Token, None),
        keyword_parameter("save_dir", _SaveDir, Path("outputs/runs")),
        keyword_parameter("as_json", _Json, default=False),
    ]
    with_options.__signature__ = inspect.Signature(parameters + shared)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters + shared}
    del with_options.__wrapped__  # else typer reads the signature of `command`
    return with_options


def keyword_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a parameter of a signature that is built for typer."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
