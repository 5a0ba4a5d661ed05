"""Step data that is computed when somebody reads it, from clones, in the reader's thread.

A run that goes on is captured ten times a second and read less often: what takes a while to compute
is then computed for the steps that are read, and costs the training only the clones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class DeferredColumns(Mapping[str, Any]):
    """Columns that a pure function gives, called once, by whoever reads the first of them.

    Args:
        work: gets `inputs` by name and gives the columns; it may run in any thread, so it touches
            nothing else, and changes nothing that it is given.
        inputs: tensors, detached, and plain values; the tensors are cloned when the step is shown.

    >>> pushed = DeferredColumns(lambda weight: {"norm": abs(weight)}, weight=-2.0)
    >>> pushed["norm"]
    2.0
    """

    def __init__(self, work: Callable[..., Mapping[str, Any]], /, **inputs: Any) -> None:
        self._work, self._inputs = work, inputs
        self._lock = threading.Lock()
        self._result: Mapping[str, Any] | None = None

    def clone_inputs(self, clone: Callable[[Any], Any]) -> DeferredColumns:
        """The same of inputs of its own, not computed yet."""
        return DeferredColumns(
            self._work, **{name: clone(held) for name, held in self._inputs.items()}
        )

    def _columns(self) -> Mapping[str, Any]:
        with self._lock:
            if self._result is None:
                self._result = self._compute()
                self._inputs = {}  # they may be large, and nobody needs them any more
            return self._result

    def _compute(self) -> Mapping[str, Any]:
        try:
            return self._work(**self._inputs)
        except Exception as error:  # noqa: BLE001 - a function of the user's: who reads is told
            why = f"<cannot be computed: {type(error).__name__}: {str(error)[:200]}>"
            return {"problem": why}

    def __getitem__(self, name: str) -> Any:
        return self._columns()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns())

    def __len__(self) -> int:
        return len(self._columns())
