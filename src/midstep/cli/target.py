"""Which live run a `midstep ctl` command talks to, and how it answers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.screen import Screen

if TYPE_CHECKING:
    from midstep.client import Client

__all__ = ["Target", "on_target"]

_Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="MIDSTEP_URL",
        help="The address that the run printed; found through --save-dir when left out.",
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
    Path, typer.Option("--save-dir", help="Where the runs lie, to find the only live one.")
]
_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A live run and the way to answer the user."""

    url: str | None
    """Address of the server; None: the only live run under `save_dir`."""
    token: str | None
    """Bearer token; None: from the address or the state folder."""
    save_dir: Path
    """Outputs root."""
    as_json: bool
    """Whether to answer for programs."""

    def client(self) -> Client:
        """A client of that run."""
        from midstep.client import Client
        from midstep.client.finding import token_of

        if self.url is None:
            return Client.find(self.save_dir, who="cli")
        known = self.token is not None or "#token=" in self.url
        return Client(self.url, self.token if known else token_of(self.save_dir), who="cli")

    def answer(self, value: Any, words: str | Callable[[Screen], None]) -> None:
        """`value` as JSON, or `words` for people: a line, or what draws on a screen."""
        from midstep.core import strict_json

        if self.as_json:
            typer.echo(strict_json.dumps(value))
        elif callable(words):
            words(Screen())
        else:
            Screen().say(words)


def on_target(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `target` as its first argument, and the four options that choose it."""

    @functools.wraps(command)
    def with_options(
        *,
        url: str | None,
        token: str | None,
        save_dir: Path,
        as_json: bool,
        **own: Any,
    ) -> None:
        command(Target(url=url, token=token, save_dir=save_dir, as_json=as_json), **own)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    shared = [
        _option("url", _Url, None),
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
