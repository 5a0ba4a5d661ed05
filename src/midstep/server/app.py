"""The app: routes, refusals, the page, and the guard in front of it all."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute

from midstep.core.version import __version__
from midstep.server import (
    openapi,
    routes_breakpoints,
    routes_commands,
    routes_forces,
    routes_influence,
    routes_look,
    routes_rewind,
    routes_runs,
    routes_stream,
    routes_verbs,
    routes_watches,
)
from midstep.server.answers import StrictAnswer
from midstep.server.asked import declare_run_id
from midstep.server.guard import Guard, GuardConfig
from midstep.server.models import Health
from midstep.server.problems import REFUSALS, add_handlers
from midstep.server.run_table import RunTable
from midstep.server.static_files import STATIC, add_page
from midstep.server.stored_influence import InfluenceShelf
from midstep.server.stream import HubTable

__all__ = ["create_app"]


def create_app(runs: RunTable, *, guard: GuardConfig, static: Path = STATIC) -> FastAPI:
    """The guarded app over `runs`.

    >>> from midstep.server.tokens import Tokens
    >>> app = create_app(RunTable(), guard=GuardConfig(tokens=Tokens.fresh()))
    >>> app.title
    'midstep'
    """
    app = FastAPI(
        title="midstep",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        redirect_slashes=False,
        default_response_class=StrictAnswer,
        responses=REFUSALS,
        generate_unique_id_function=_operation_id,
    )
    app.state.runs, app.state.hubs = runs, HubTable()
    app.state.guard, app.state.static = guard, static
    app.state.influence = InfluenceShelf(runs)
    add_handlers(app)
    app.add_api_route("/api/v1/health", health, response_model=Health, tags=["health"])
    for topic in (routes_runs, routes_commands, routes_stream, routes_influence):
        _add(app, topic.router)
    for topic in (
        routes_verbs,
        routes_rewind,
        routes_forces,
        routes_look,
        routes_breakpoints,
        routes_watches,
    ):
        _add(app, topic.router, prefix="/api/v1/runs/{run_id}/debug", tag="debug")
        _add(app, topic.router, prefix="/debug", tag="short")
    add_page(app, static)
    openapi.install(app)
    app.add_middleware(Guard, config=guard)
    return app


def _add(app: FastAPI, router: APIRouter, *, prefix: str = "", tag: str | None = None) -> None:
    """Add the routes one by one, so that `app.routes` lists them all, for whoever walks it."""
    by_id = [Depends(declare_run_id)] if "{run_id}" in prefix else []
    for route in router.routes:
        assert isinstance(route, APIRoute)  # noqa: S101 - our routers hold nothing else
        app.add_api_route(
            prefix + route.path,
            route.endpoint,
            methods=sorted(route.methods or ()),
            response_model=route.response_model,
            response_class=route.response_class,
            status_code=route.status_code,
            responses=route.responses,
            tags=[*route.tags, *([tag] if tag else [])],
            dependencies=[*by_id, *route.dependencies],
        )


def _operation_id(route: APIRoute) -> str:
    """The handler's name; the short forms say so."""
    return f"short_{route.name}" if "short" in route.tags else route.name


def health() -> StrictAnswer:
    """An answer without run data."""
    return StrictAnswer({"status": "ok", "version": __version__})
