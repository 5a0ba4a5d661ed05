"""Which live run a `midstep ctl` command talks to, and how it answers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.output.screen import Screen
from midstep.core.errors import ClientError

if TYPE_CHECKING:
    from midstep.client import Client

__all__ = ["RunOption", "reword_error", "with_run_option"]

_Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="MIDSTEP_URL",
        help="The address that the run printed; found through --save-dir when left out.",
    ),
]
_Run = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="NAME",
        help="Which run, where several are live: its name, id or directory, or the start of one.",
    ),
]
_Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="MIDSTEP_TOKEN",
        help="The token, where the address has none; read from your state folder when left out.",
    ),
]
_SaveDir = Annotated[
    Path, typer.Option("--save-dir", help="Where the runs lie, to find the live one.")
]
_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]


@dataclass(frozen=True, kw_only=True)
class RunOption:
    """A live run and the way to answer the user."""

    url: str | None
    """Address of the server; None: that of a live run under `save_dir`."""
    run: str | None
    """Name, id or directory of the run, or the start of one; None: the only live one."""
    token: str | None
    """Bearer token; None: from the address or the state folder."""
    save_dir: Path
    """Outputs root."""
    as_json: bool
    """Whether to answer for programs."""

    def client(self) -> Client:
        """A client of that run."""
        from midstep.client import Client
        from midstep.client.run_finder import read_token

        if self.url is None:
            return Client.find(self.save_dir, run=self.run, who="cli")
        known = self.token is not None or "#token=" in self.url
        client = Client(self.url, self.token if known else read_token(self.save_dir), who="cli")
        if self.run is not None:
            client.choose(self.run)
        return client

    def answer(self, value: Any, words: str | Callable[[Screen], None]) -> None:
        """`value` as JSON, or `words` for people: a line, or what draws on a screen."""
        from midstep.core import strict_json

        if self.as_json:
            typer.echo(strict_json.dumps(value))
        elif callable(words):
            words(Screen())
        else:
            Screen().print_line(words)


@contextmanager
def reword_error(word: str, message: str) -> Iterator[None]:
    """A refusal that the server calls `word` is told with `message`, which names commands."""
    try:
        yield
    except ClientError as error:
        if error.word != word:
            raise
        raise ClientError(message, status=error.status, word=word) from error


def with_run_option(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `target` as its first argument, and the five options that choose it."""

    @functools.wraps(command)
    def with_options(
        *,
        url: str | None,
        run: str | None,
        token: str | None,
        save_dir: Path,
        as_json: bool,
        **own: Any,
    ) -> None:
        target = RunOption(url=url, run=run, token=token, save_dir=save_dir, as_json=as_json)
        command(target, **own)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    shared = [
        _option("url", _Url, None),
        _option("run", _Run, None),
        _option("token", _Token, None),
        _option("save_dir", _SaveDir, Path("outputs/runs")),
        _option("as_json", _Json, default=False),
    ]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    with_options.__signature__ = inspect.Signature(parameters + shared)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters + shared}
    del with_options.__wrapped__  # typer would read the inner one
    return with_options


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
