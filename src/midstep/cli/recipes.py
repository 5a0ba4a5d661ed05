"""`midstep runs recipes|start|end`: trainings by name, each a process of its own."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.screen import Screen
from midstep.cli.wording import aligned
from midstep.core import strict_json
from midstep.core.errors import ConfigError
from midstep.core.ids import new_command_id

if TYPE_CHECKING:
    from midstep.loops.settings import Setting

__all__ = ["add_commands"]

_RUNS = Path("outputs/runs")
_SaveDir = Annotated[Path, typer.Option("--save-dir", help="Where the runs lie.")]
_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class How(StrEnum):
    """How a process is ended."""

    terminate = "terminate"
    kill = "kill"


def add_commands(app: typer.Typer) -> None:
    """Put the three commands into `midstep runs`."""
    app.command("recipes", epilog="Example: midstep runs recipes")(list_recipes)
    app.command(
        "start",
        epilog="Example: midstep runs start bcl --set condition=rescue --set steps=500 --paused",
    )(start)
    app.command("end", epilog="Example: midstep runs end k3v9 --how kill")(end)


def list_recipes(as_json: _Json = False) -> None:
    """List the recipes that can be started by name, with every setting and what it does."""
    from dataclasses import asdict

    from midstep.loops.registry import recipes

    if as_json:
        found = [
            {**asdict(each), "settings": [asdict(one) for one in each.settings]}
            for each in recipes().values()
        ]
        typer.echo(strict_json.dumps(found))
        return
    screen = Screen()
    for recipe in recipes().values():
        screen.say(f"{recipe.name}: {recipe.title}. {recipe.about}", style="bold")
        for line in aligned([(f"  {each.name}", _words(each)) for each in recipe.settings]):
            screen.say(line)


def start(
    recipe: Annotated[str, typer.Argument(help="Name of the recipe; `midstep runs recipes`.")],
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting; several if given."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the run.")] = None,
    paused: Annotated[
        bool, typer.Option("--paused", help="Stand before the first step until resumed.")
    ] = False,
    save_dir: _SaveDir = _RUNS,
    as_json: _Json = False,
) -> None:
    """Start a recipe in the background. It goes on when this terminal is closed.

    Control it with [bold]midstep ctl[/bold], look at it with [bold]midstep serve[/bold].
    """
    from midstep.loops.registry import find_recipe
    from midstep.server.launching import Launcher, Start

    settings = _parsed(given or [], find_recipe(recipe).settings)
    launcher = Launcher(save_dir)
    wanted = Start(id=new_command_id(), recipe=recipe, settings=settings, name=name, paused=paused)
    try:
        made = launcher.start(wanted)
    finally:
        launcher.close()
    if as_json:
        typer.echo(strict_json.dumps({"id": made.run_id, "directory": str(made.run_dir)}))
        return
    screen = Screen()
    screen.say(f"run   {made.run_id} in {made.run_dir}")
    screen.say(f"look  midstep serve {save_dir}")


def end(
    run: Annotated[str, typer.Argument(help="Id of the run, its start, or its directory.")],
    how: Annotated[
        How, typer.Option(help="terminate lets it write its end; kill does not ask.")
    ] = How.terminate,
    save_dir: _SaveDir = _RUNS,
) -> None:
    """Signal the process of a run that [bold]midstep ctl stop[/bold] does not end."""
    from midstep.cli.runs import find_run
    from midstep.server.ending import end_process

    pid = end_process(find_run(run, save_dir), how.value)
    Screen().say(f"{'asked' if how is How.terminate else 'told'} process {pid} to end")


def _words(setting: Setting) -> str:
    kind = " | ".join(setting.choices) if setting.choices else setting.kind
    least, most = setting.minimum, setting.maximum
    bounds = "" if least is None else f" from {least:,}" + ("" if most is None else f" to {most:,}")
    return f"{kind}{bounds}, default {setting.default}. {setting.about}"


def _parsed(given: list[str], settings: tuple[Setting, ...]) -> dict[str, Any]:
    """`NAME=VALUE` as the setting's own kind; what is unknown stays text, and is refused later."""
    kinds = {each.name: each.kind for each in settings}
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set takes NAME=VALUE, for example --set steps=500; got {text!r}")
        found[name] = _value(value, kinds.get(name, "text"))
    return found


def _value(text: str, kind: str) -> Any:
    if kind == "bool":
        return _WORDS.get(text.lower(), text)
    readers: dict[str, Any] = {"int": int, "float": float}
    try:
        return readers[kind](text) if kind in readers else text
    except ValueError:
        return text  # the setting's own check says what is wrong with it
