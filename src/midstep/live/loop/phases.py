"""`Phase`: long work between two steps, which the state shows under its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from types import TracebackType

    from midstep.control import DebugController


class Phase:
    """A block of `run.phase`. Blocks may be nested; the outer one is shown again after the inner.

    Args:
        controller: shows it; None when midstep is switched off.
        name: what the page and the terminal show.
        expect_s: seconds after which the run counts as not responding; 10 minutes if None.
    """

    def __init__(
        self, controller: DebugController | None, name: str, expect_s: float | None
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"run.phase needs a name such as 'eval', got {name!r}")
        if expect_s is not None and not expect_s > 0:
            raise ConfigError(f"expect_s must be more than 0 seconds, got {expect_s!r}")
        self._controller, self._name, self._expect_s = controller, name.strip(), expect_s
        self._before: dict[str, object] = {}

    def __enter__(self) -> None:
        if self._controller is not None:
            self._before = self._controller.status.begin_phase(self._name, self._expect_s)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._controller is not None:
            self._controller.status.describe(**self._before)
