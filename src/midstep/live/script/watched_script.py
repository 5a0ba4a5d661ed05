"""`WatchedScript`: what is changed while a script runs, and when the watching begins and ends."""

from __future__ import annotations

import logging
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from midstep.core.fault_guard import disable_on_error
from midstep.core.standard_streams import print_notice
from midstep.live.mode import current_mode
from midstep.live.script.patches.function_patches import Patches
from midstep.live.script.patches.import_hook import ImportHook
from midstep.live.script.patches.logged_scalars import SCALAR_SOURCES, take_scalars
from midstep.live.script.patches.script_settings import SETTING_SOURCES, ScriptSettings
from midstep.session.evidence.console_capture import ConsoleCapture, is_console_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from midstep.live.script.program.script_command import ScriptCommand
    from midstep.live.script.script_steps import ScriptSteps

log = logging.getLogger("midstep.live")


class WatchedScript:
    """A script and what midstep sees of it.

    The functions of a library are changed when the script imports it, and put back when the script
    ends, opens a run of its own, or forks.

    Args:
        command: the script, and the options of the run.
    """

    def __init__(self, command: ScriptCommand) -> None:
        self.command = command
        self.settings = ScriptSettings()
        """What the script was configured with."""
        self.steps: ScriptSteps | None = None
        """Counts the steps; None before the script has made an optimizer, and in the end."""
        self.console: ConsoleCapture | None = None
        """Captures what the script prints, from its begin on; the run writes it to its files."""
        self.compiles_functions = False
        """Whether the script compiles functions of its own: a hook inside would be compiled."""
        self._take_settings = disable_on_error(self.settings.add, "reading settings", log)
        self.patches = Patches()
        self._is_over = False
        self._hook = ImportHook(
            {
                name: disable_on_error(change, f"watching {name}", log)
                for name, change in self._changes().items()
            }
        )

    def _changes(self) -> dict[str, Callable[[ModuleType], object]]:
        return {
            "torch": self._change_torch,
            "torch.distributed.fsdp.sharded_grad_scaler": self._change_sharded_scaler,
            "torch.utils.data.dataloader": self._change_loaders,
            "midstep.session.run": self._notice_own_run,
            **dict.fromkeys(SETTING_SOURCES, self._change_settings),
            **dict.fromkeys(SCALAR_SOURCES, self._change_scalars),
        }

    def begin(self) -> None:
        """Wait for what the script imports. With MIDSTEP_MODE=off nothing is done."""
        if current_mode() != "off":
            if is_console_on(self.command.keeps_console):
                self.console = ConsoleCapture().begin()
            self._hook.install()
            os.register_at_fork(after_in_child=self._leave_fork)

    def _leave_fork(self) -> None:
        """In a forked child, such as a worker of a loader: run and page belong to the parent."""
        if self.steps is not None:
            self.steps.is_off = True  # hooks on modules are still called
        self._is_over, self.steps = True, None
        self._hook.remove()
        self.patches.undo()

    # -- changes of modules -----------------------------------------------------------------------

    def _change_torch(self, torch: ModuleType) -> None:
        from midstep.live.script.patches.torch_patches import watch_torch

        if not self._is_over:
            watch_torch(self, torch)

    def _change_sharded_scaler(self, module: ModuleType) -> None:
        from midstep.live.script.patches.torch_patches import watch_scale

        if not self._is_over:
            watch_scale(self, module.ShardedGradScaler)

    def _change_loaders(self, dataloader: ModuleType) -> None:
        from midstep.live.script.patches.torch_patches import watch_loaders

        if not self._is_over:
            watch_loaders(self, dataloader)

    def _change_settings(self, module: ModuleType) -> None:
        if not self._is_over:
            SETTING_SOURCES[module.__name__](self.patches, module, self._take_settings)

    def _change_scalars(self, module: ModuleType) -> None:
        if not self._is_over:
            take_scalars(self.patches, module, self._scalars_logged)

    def _scalars_logged(self, source: str, values: Mapping[str, Any]) -> None:
        """A tracker of the script got these; before the first step they are kept for it."""
        if self.steps is not None:
            self.steps.scalars_logged(source, values)

    def _notice_own_run(self, module: ModuleType) -> None:
        """A run that the script opens itself, by `attach` or `Session`, is the only one."""

        def wrap(usual: Any) -> Any:
            def init(run: Any, *arguments: Any, **named: Any) -> None:
                steps = self.steps
                is_own = not self._is_over and (steps is None or not steps.is_opening)
                if is_own:
                    console, self.console = self.console, None
                    if console is not None and named.get("console", True) is True:
                        named["console"] = console  # with what the script has printed so far
                    elif console is not None:
                        console.close()
                    self.step_aside()
                usual(run, *arguments, **named)
                if is_own:
                    self.command.answer(started=True, run_id=run.run_id, run_dir=str(run.dir))

            return init

        self.patches.replace(module.Run, "__init__", wrap)

    # -- begin and end ----------------------------------------------------------------------------

    def optimizer_made(self, optimizer: Any) -> None:
        """The script made an optimizer: from now on its steps are counted."""
        if self._is_over:
            return
        if self.steps is None:
            from midstep.live.script.script_steps import ScriptSteps

            self.steps = ScriptSteps(self)
        self.steps.optimizer_made(optimizer)

    def step_aside(self) -> None:
        """The script uses midstep itself: leave everything to it."""
        if not self._is_over:
            print_notice("the script opens a run itself, so `midstep run` does nothing more")
            self._finish(None)

    def leave(self) -> None:
        """Change no further module; the script continues as without midstep.

        What was changed is put back in the end: torch may be calling our hooks of all optimizers
        at this moment, and fails if one of them is removed then.
        """
        self._hook.remove()
        if self.console is not None and (self.steps is None or self.steps.run is None):
            self.console.close()  # else the run closes it, when all is recorded

    def end(self, error: BaseException | None) -> None:
        """The script is over; record how it ended.

        Args:
            error: what it raised, without our frames; None if it came to its end.
        """
        if self._is_over or current_mode() == "off":
            return
        had_torch, steps = "torch" in sys.modules, self.steps
        self._finish(error)
        if error is None and (steps is None or steps.run is None):
            why = (
                "no optimizer of torch.optim made a step in this process; those that it starts are "
                "not watched"
            )
            print_notice(f"there is no run: {why if had_torch else 'it imported no torch'}")

    def _finish(self, error: BaseException | None) -> None:
        self._is_over = True
        steps = self.steps
        self.leave()
        self.patches.undo()
        self.steps = None
        if steps is not None:
            steps.end(error)
