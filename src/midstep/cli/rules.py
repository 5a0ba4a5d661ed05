"""`midstep ctl break rule` and `rules`: ready-made breakpoints, and what they mean."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from midstep.cli.target import Target, on_target
from midstep.core.errors import ConfigError

__all__ = ["add_rule_commands"]


def add_rule_commands(app: typer.Typer, words: Any) -> None:
    """Put both commands into `app`; `words` writes a breakpoint as a line."""

    @app.command("rule", epilog="Example: midstep ctl break rule dead_relus --mark")
    @on_target
    def add(
        target: Target,
        rule: Annotated[str, typer.Argument(help="Its name, as `break rules` shows it.")],
        mark: Annotated[
            bool, typer.Option("--mark", help="Only mark the run, do not stop it.")
        ] = False,
        limit: Annotated[float | None, typer.Option(help="In place of its own limit.")] = None,
        low: Annotated[float | None, typer.Option(help="The lower limit, of update_ratio.")] = None,
        window: Annotated[
            int | None, typer.Option(help="Measurements in a row, or steps compared.")
        ] = None,
        every: Annotated[int | None, typer.Option(help="Measure every so many steps.")] = None,
        layers: Annotated[
            str | None, typer.Option(help="Only layers whose name contains this.")
        ] = None,
        metric: Annotated[
            str | None, typer.Option(help="The scalar that overfitting looks at.")
        ] = None,
    ) -> None:
        """Add a ready-made rule; `midstep ctl break rules` lists them."""
        client = target.client()
        known = [each["rule"] for each in client.rules()]
        if rule not in known:
            raise ConfigError(f"there is no rule {rule}; there are {', '.join(known)}")
        given: dict[str, Any] = {
            "limit": limit,
            "low": low,
            "window": window,
            "every": every,
            "layers": layers,
            "metric": metric,
        }
        settings = {name: value for name, value in given.items() if value is not None}
        made = client.add_rule(rule, action="mark" if mark else "pause", **settings)
        target.answer(made, words(made))

    @app.command("rules", epilog="Example: midstep ctl break rules")
    @on_target
    def show(target: Target) -> None:
        """List the ready-made rules: what each looks for, and what a finding means."""
        found = target.client().rules()
        target.answer(found, "\n".join(_explained(each) for each in found))


def _explained(rule: dict[str, Any]) -> str:
    return f"{rule['rule']}\n  {rule['words']}\n  {rule['explanation']['means']}"
