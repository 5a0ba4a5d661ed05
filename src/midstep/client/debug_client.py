"""The parts of a `Client` that debug one run: breakpoints, watches, forces."""

from __future__ import annotations

from typing import Any

from midstep.client.run_requests import RunRequests

Rows = list[dict[str, Any]]


class BreakpointsClient:
    """Breakpoints and rules of the run; `client.breakpoints` is one of these.

    Args:
        requests: sends the requests.
    """

    def __init__(self, requests: RunRequests) -> None:
        self._requests = requests

    def list(self) -> Rows:
        """Return all breakpoints, with the number of hits of each."""
        return list(self._requests.get(self._path()))

    def add(
        self, kind: str, *, enabled: bool = True, action: str = "pause", **settings: Any
    ) -> dict[str, Any]:
        """Add a breakpoint, for example `add("expression", expression="loss > 2")`.

        With `action="mark"` it does not pause the run. It records a fact when the condition
        begins to hold.
        """
        body = {"condition": {"kind": kind, **settings}, "enabled": enabled, "action": action}
        return dict(self._requests.send("POST", self._path(), body))

    def add_rule(
        self, rule: str, *, enabled: bool = True, action: str = "pause", **settings: Any
    ) -> dict[str, Any]:
        """Add a ready-made rule as a breakpoint: `add_rule("dead_relus", action="mark")`."""
        return self.add("rule", enabled=enabled, action=action, rule=rule, **settings)

    def rules(self) -> Rows:
        """Return the ready-made rules, with their limits and explanations."""
        return list(self._requests.get(self._requests.debug_path("rules")))

    def enable(self, breakpoint_id: int, enabled: bool = True) -> dict[str, Any]:
        """Switch a breakpoint on or off."""
        return dict(self._requests.send("PATCH", self._path(breakpoint_id), {"enabled": enabled}))

    def set_action(self, breakpoint_id: int, action: str) -> dict[str, Any]:
        """Let a breakpoint pause the run (`pause`), or only record a fact (`mark`)."""
        return dict(self._requests.send("PATCH", self._path(breakpoint_id), {"action": action}))

    def remove(self, breakpoint_id: int) -> None:
        """Remove a breakpoint."""
        self._requests.send("DELETE", self._path(breakpoint_id))

    def _path(self, breakpoint_id: int | None = None) -> str:
        base = self._requests.debug_path("breakpoints")
        return base if breakpoint_id is None else f"{base}/{int(breakpoint_id)}"


class WatchesClient:
    """Watched rows of tensors and their trajectories; `client.watches` is one of these.

    Args:
        requests: sends the requests.
    """

    def __init__(self, requests: RunRequests) -> None:
        self._requests = requests

    def list(self) -> dict[str, Any]:
        """Return the watched rows, and the names of the tensors that can be watched."""
        return dict(self._requests.get(self._requests.debug_path("watch")))

    def replace(self, *feature_ids: int, source: str | None = None) -> dict[str, Any]:
        """Watch these rows of one tensor instead of its others; nothing given: watch nothing.

        Args:
            *feature_ids: rows of the tensor.
            source: name of the tensor; the run's default if left out.
        """
        body = {"feature_ids": list(feature_ids), "source": source}
        return dict(self._requests.send("POST", self._requests.debug_path("watch"), body))

    def trajectories(self, *, points: int = 2000) -> dict[str, Any]:
        """Return at most `points` points of each row that is or was watched."""
        return dict(self._requests.get(self._requests.debug_path("trajectories"), points=points))

    def clear(self) -> None:
        """Delete all points; rows stay watched."""
        self._requests.send("POST", self._requests.debug_path("trajectories/clear"), {})


class ForcesClient:
    """What the last shown step did to the rows of a tensor; `client.forces` is one of these.

    Args:
        requests: sends the requests.
    """

    def __init__(self, requests: RunRequests) -> None:
        self._requests = requests

    def rows(self, tensor: str | None = None) -> dict[str, Any]:
        """Return both forces on every row of a tensor, and how many agree, fight or are neutral."""
        return dict(self._requests.get(self._requests.debug_path("forces"), tensor=tensor))

    def detail(self, feature: int, *, tensor: str | None = None) -> dict[str, Any]:
        """Return the change of one row in its parts: combined = grad_delta + som_delta."""
        path = self._requests.debug_path("step_data/force_detail")
        return dict(self._requests.get(path, feature=int(feature), tensor=tensor))

    def cosine_matrix(
        self,
        source: str = "weights",
        *,
        tensor: str | None = None,
        order: str = "id",
        full: bool = False,
    ) -> dict[str, Any]:
        """Return the cosines of all pairs of rows, averaged above 512 rows unless `full`.

        Args:
            source: `weights`, `som_targets` or `grad_delta`.
            tensor: name of the tensor; the run's default if left out.
            order: `id`, `cluster` or `metric:NAME`.
            full: all cells, up to 2,000 rows; larger ones travel as safetensors only.
        """
        path = self._requests.debug_path("cosine_matrix")
        flag = "true" if full else None
        return dict(self._requests.get(path, source=source, tensor=tensor, order=order, full=flag))
