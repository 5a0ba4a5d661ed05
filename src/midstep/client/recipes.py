"""Recipes of a `midstep serve`: what can be started, and starting it."""

from __future__ import annotations

from typing import Any

from midstep.client.transport import Transport
from midstep.core.ids import new_command_id

__all__ = ["Recipes"]


class Recipes:
    """Trainings that a server starts by name; `client.recipes` is one of these.

    Args:
        transport: how the server is asked.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[dict[str, Any]]:
        """All recipes with their typed settings."""
        return list(self._transport.ask("GET", "/api/v1/recipes")["recipes"])

    def start(
        self, recipe: str, *, name: str | None = None, paused: bool = False, **settings: Any
    ) -> dict[str, Any]:
        """Start a run as a process of its own, and give back its row once it stands.

        Args:
            recipe: name of the recipe.
            name: what to call the run; the recipe's name when left out.
            paused: let it stand before its first step.
            **settings: of the recipe; defaults for those left out.
        """
        body: dict[str, Any] = {
            "recipe": recipe,
            "settings": settings,
            "paused": paused,
            "id": new_command_id(),
        }
        if name is not None:
            body["name"] = name
        return dict(self._transport.ask("POST", "/api/v1/runs", body=body))
