"""`midstep runs start`, `recipes`, `terminate`: recipes as background processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.cli.runs.list_runs import (
    DEFAULT_SAVE_DIR,
    RunName,
    SaveDir,
    find_run,
    split_names,
)
from midstep.core.errors import ConfigError
from midstep.core.ids import new_command_id

if TYPE_CHECKING:
    from midstep.loops.recipe_settings import RecipeSetting
    from midstep.server.recipes.launcher import LaunchedRun, Launcher

BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def start(
    recipe: Annotated[
        str | None, typer.Argument(help="Name of the recipe; runs recipes lists them.")
    ] = None,
    script: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="A script of yours in place of a recipe: 'train.py --epochs 3'."
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting; may be repeated."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the run; the recipe's or script's if left out.")
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Pause before the first step.")] = False,
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
    as_json: AsJson = False,
) -> None:
    """Start a recipe, or a script of yours, in the background.

    It continues when this terminal is closed. A script runs as [bold]midstep run[/bold] runs it, in
    this folder; the command returns at its first optimizer step. Control it with
    [bold]midstep ctl[/bold]; [bold]midstep serve[/bold] shows its page.
    """
    from midstep.server.recipes.launcher import Launcher

    if (recipe is None) == (script is None):
        raise ConfigError(
            'name either a recipe (midstep runs recipes lists them) or --script "train.py --lr 0.1"'
        )
    launcher = Launcher(save_dir)
    try:
        if script is not None:
            launched = _start_script(launcher, script, given or [], name, paused=paused)
        else:
            launched = _start_recipe(launcher, recipe or "", given or [], name, paused=paused)
    finally:
        launcher.close()
    if as_json:
        print_json({"id": launched.run_id, "directory": str(launched.run_dir)})
        return
    screen = Screen()
    screen.print_line(f"run   {launched.run_id} in {launched.run_dir}")
    screen.print_line(f"look  midstep serve {save_dir}")


def _start_recipe(
    launcher: Launcher, recipe: str, given: list[str], name: str | None, *, paused: bool
) -> LaunchedRun:
    from midstep.loops.recipes import find_recipe
    from midstep.server.recipes.launcher import LaunchRequest

    values = _parse_settings(given, find_recipe(recipe).settings)
    return launcher.start(
        LaunchRequest(id=new_command_id(), recipe=recipe, settings=values, name=name, paused=paused)
    )


def _start_script(
    launcher: Launcher, script: str, given: list[str], name: str | None, *, paused: bool
) -> LaunchedRun:
    from midstep.server.recipes.allowed_scripts import parse_script

    if given:
        raise ConfigError("--set is for recipes; write the script's own arguments into --script")
    allowed = parse_script(script, Path.cwd())
    return launcher.start_script(allowed, new_command_id(), name=name, paused=paused)


def list_recipes(as_json: AsJson = False) -> None:
    """List the recipes that can be started by name, with every setting and what it does."""
    from dataclasses import asdict

    from midstep.loops.recipes import recipes

    if as_json:
        rows = [
            {
                **{name: getattr(recipe, name) for name in ("name", "title", "about")},
                "settings": [asdict(setting) for setting in recipe.settings],
            }
            for recipe in recipes().values()
        ]
        print_json(rows)
        return
    screen = Screen()
    for recipe in recipes().values():
        screen.print_line(f"{recipe.name}: {recipe.title}. {recipe.about}", style="bold")
        settings = [(f"  {each.name}", _format_setting(each)) for each in recipe.settings]
        screen.print_table(settings)


def terminate(
    run: RunName,
    kill: Annotated[
        bool,
        typer.Option("--kill", help="Send SIGKILL: ends at once, and the run records no end."),
    ] = False,
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
) -> None:
    """Send SIGTERM to the process of a run that [bold]midstep ctl stop[/bold] does not end.

    The run then stops at its next step boundary and records its end.
    """
    from midstep.server.recipes.end_process import end_process

    pid = end_process(find_run(run, save_dir), "kill" if kill else "terminate")
    Screen().print_line(f"sent {'SIGKILL' if kill else 'SIGTERM'} to process {pid}")


def _format_setting(setting: RecipeSetting) -> str:
    kind = " | ".join(setting.choices) if setting.choices else setting.kind
    least, most = setting.minimum, setting.maximum
    bounds = "" if least is None else f" from {least:,}" + ("" if most is None else f" to {most:,}")
    return f"{kind}{bounds}, default {setting.default}. {setting.about}"


def _parse_settings(given: list[str], settings: tuple[RecipeSetting, ...]) -> dict[str, Any]:
    """Parse each `NAME=VALUE` as the setting's own type; unknown names stay text."""
    kinds = {each.name: each.kind for each in settings}
    # The launcher refuses unknown names, so that page and terminal give the same error.
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set takes NAME=VALUE, for example --set steps=500; got {text!r}")
        values[name] = _parse_value(value, kinds.get(name, "text"))
    return values


def _parse_integers(text: str) -> list[int]:
    return [int(each) for each in split_names([text]) or []]


def _parse_value(text: str, kind: str) -> Any:
    if kind == "bool":
        return BOOLEANS.get(text.lower(), text)
    if text == "null":
        return None
    if kind == "words":
        return split_names([text]) or []
    readers: dict[str, Any] = {"int": int, "float": float, "ints": _parse_integers}
    try:
        return readers[kind](text) if kind in readers else text
    except ValueError:
        return text  # the check of the setting names the error
