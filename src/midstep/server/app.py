"""The app: routes, refusals, the page, and the guard in front of it all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.routing import APIRoute

from midstep.client.proof import proof
from midstep.core.version import __version__
from midstep.server import (
    openapi,
    routes_breakpoints,
    routes_commands,
    routes_curves,
    routes_datasets,
    routes_forces,
    routes_influence,
    routes_keeping,
    routes_look,
    routes_recipes,
    routes_rewind,
    routes_run_files,
    routes_runs,
    routes_stream,
    routes_together,
    routes_verbs,
    routes_watches,
)
from midstep.server.answers import StrictAnswer
from midstep.server.asked import declare_run_id
from midstep.server.catalog import Catalog, LiveCatalog
from midstep.server.data_roots import DataRoots
from midstep.server.forward import Forward, RunPlaces
from midstep.server.guard import Guard, GuardConfig
from midstep.server.launching import Launcher
from midstep.server.list_stream import ListHub
from midstep.server.models import Health
from midstep.server.problems import REFUSALS, add_handlers
from midstep.server.run_table import RunTable
from midstep.server.static_files import STATIC, add_page
from midstep.server.stored_influence import InfluenceShelf
from midstep.server.stream import HubTable

__all__ = ["create_app"]


def create_app(
    runs: RunTable,
    *,
    guard: GuardConfig,
    static: Path = STATIC,
    datasets: DataRoots | None = None,
    forward: RunPlaces | None = None,
    catalog: Catalog | None = None,
    launcher: Launcher | None = None,
) -> FastAPI:
    """The guarded app over `runs`, and over the datasets of the folders that were named.

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
    app.state.catalog = catalog or LiveCatalog(runs)
    app.state.launcher = launcher
    app.state.influence = InfluenceShelf(runs)
    app.state.datasets = datasets or DataRoots()
    add_handlers(app)
    app.add_api_route("/api/v1/health", health, response_model=Health, tags=["health"])
    # Routes are tried one by one: what an open page asks for all the time comes first.
    looked_into = (
        routes_together,
        routes_forces,
        routes_look,
        routes_rewind,
        routes_watches,
        routes_verbs,
        routes_breakpoints,
    )
    for topic in looked_into:
        _add(app, topic.router, prefix="/api/v1/runs/{run_id}/debug", tag="debug")
    for topic in (
        routes_runs,
        routes_curves,
        routes_run_files,
        routes_keeping,
        routes_recipes,
        routes_commands,
        routes_stream,
        routes_influence,
        routes_datasets,
    ):
        _add(app, topic.router)
    for topic in looked_into:
        _add(app, topic.router, prefix="/debug", tag="short")
    add_page(app, static)
    openapi.install(app)
    app.state.list_hub = None
    if forward is not None:
        app.state.list_hub = ListHub(app.state.catalog, app.state.hubs.closing)
        app.add_middleware(Forward, places=forward, closing=app.state.hubs.closing)
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


def health(
    request: Request,
    challenge: Annotated[
        str | None,
        Query(
            pattern="^[A-Za-z0-9_-]{16,128}$",
            description="A fresh number; the answer proves that the server knows its tokens.",
        ),
    ] = None,
) -> StrictAnswer:
    """An answer without run data."""
    tokens, host = request.app.state.guard.tokens, request.headers["host"]
    secrets = () if challenge is None else (tokens.control, tokens.viewer)
    proofs = [proof(secret, challenge or "", host) for secret in secrets]
    return StrictAnswer({"status": "ok", "version": __version__, "proofs": proofs})
