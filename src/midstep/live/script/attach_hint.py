"""What `midstep run` cannot do, and the lines of code that can, with the names of the script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from midstep.live.script.script_names import ScriptNames

LOCALS = "midstep run cannot reach the local variables of the script; use midstep.attach in it"
"""Why a script cannot go back or be resumed."""


def attach_hint(
    script: str, names: ScriptNames, roots: Mapping[str, nn.Module], optimizer: Any
) -> list[str]:
    """Lines to print: the three lines that would add going back and resuming.

    Args:
        script: its path or name.
        names: those of its variables.
        roots: the modules that it trains.
        optimizer: the first one that steps.
    """
    model = next(iter(roots), "model")
    if len(roots) > 1:
        model = "{" + ", ".join(f'"{name}": {name}' for name in roots) + "}"
    stepper = names.optimizer_name(optimizer) or "optimizer"
    loader = names.loader_name()
    if loader is None:
        call, loop = f"{model}, {stepper}", "for step in run.steps(number_of_steps):"
    else:
        call, loop = f"{model}, {stepper}, {loader}", "for epoch in run.epochs(number_of_epochs):"
    return [
        "going back and resuming need the local variables of a script, which are out of reach; "
        f"these lines in {Path(script).name} add both:",
        "    import midstep",
        f"    with midstep.attach({call}) as run:",
        f"        {loop}",
    ]
