"""Step data that is computed when it is read, from clones, in the reader's thread.

Up to ten steps a second of a running training are captured, and not all of them are read. Columns
are computed only for the steps that are read; the training pays for the clones alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class DeferredColumns(Mapping[str, Any]):
    """Columns computed by a pure function, which is called once, by the first reader.

    Args:
        work: gets `inputs` by name and returns the columns. It runs in any thread, so it must not
            use anything else, and must not change its inputs.
        inputs: detached tensors and plain values; the tensors are cloned when the step is shown.

    >>> pushed = DeferredColumns(lambda weight: {"norm": abs(weight)}, weight=-2.0)
    >>> pushed["norm"]
    2.0
    """

    def __init__(self, work: Callable[..., Mapping[str, Any]], /, **inputs: Any) -> None:
        self._work, self._inputs = work, inputs
        self._lock = threading.Lock()
        self._result: Mapping[str, Any] | None = None

    def clone_inputs(self, clone: Callable[[Any], Any]) -> DeferredColumns:
        """A copy with cloned inputs, not computed yet; with cloned columns if they are computed."""
        with self._lock:
            inputs, result = self._inputs, self._result
        copy = DeferredColumns(self._work, **{name: clone(held) for name, held in inputs.items()})
        if result is not None:  # a watch has read them, and the inputs are gone
            copy._result = clone(dict(result))
        return copy

    def _columns(self) -> Mapping[str, Any]:
        with self._lock:
            if self._result is None:
                self._result = self._compute()
                self._inputs = {}  # clones of tensors, perhaps large, and used once
            return self._result

    def _compute(self) -> Mapping[str, Any]:
        try:
            return self._work(**self._inputs)
        except Exception as error:  # noqa: BLE001 - a function of the user: the reader sees why
            why = f"<cannot be computed: {type(error).__name__}: {str(error)[:200]}>"
            return {"problem": why}

    def __getitem__(self, name: str) -> Any:
        return self._columns()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns())

    def __len__(self) -> int:
        return len(self._columns())
