"""The app: routes, error responses, the page, and the guard in front of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.routing import APIRoute

from midstep.client.token_proof import make_proof
from midstep.core.version import __version__
from midstep.server import openapi
from midstep.server.auth.guard import Guard, GuardConfig
from midstep.server.datasets import dataset_routes
from midstep.server.datasets.data_roots import DataRoots
from midstep.server.debug import (
    batched_requests,
    breakpoint_routes,
    command_routes,
    diagnosis_routes,
    subscription_routes,
    watch_routes,
)
from midstep.server.dependencies import declare_run_id
from midstep.server.forward.forward_requests import Forward
from midstep.server.influence import influence_routes
from midstep.server.influence.influence_store import InfluenceStore
from midstep.server.media import media_routes
from midstep.server.problems import ERROR_RESPONSES, add_handlers
from midstep.server.recipes import recipe_routes, script_routes
from midstep.server.recipes.allowed_scripts import AllowedScript
from midstep.server.recipes.launcher import Launcher
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs import run_file_routes, run_routes
from midstep.server.runs.run_catalog import Catalog, LiveCatalog, RootCatalog
from midstep.server.runs.run_table import RunTable
from midstep.server.schema_base import Health
from midstep.server.static_files import STATIC, add_page
from midstep.server.step_views import force_routes, step_routes
from midstep.server.stream import stream_routes
from midstep.server.stream.run_list_stream import RunListStream
from midstep.server.stream.run_stream import RunStreams
from midstep.server.sweeps import sweep_routes


def create_app(
    runs: RunTable,
    *,
    guard: GuardConfig,
    static: Path = STATIC,
    datasets: DataRoots | None = None,
    forward: RootCatalog | None = None,
    catalog: Catalog | None = None,
    launcher: Launcher | None = None,
    scripts: Mapping[str, AllowedScript] | None = None,
) -> FastAPI:
    """The guarded app that serves `runs`.

    Args:
        runs: the runs by id.
        guard: tokens, hosts and limits.
        static: the folder of the built page.
        datasets: folders with embedding datasets; none when left out.
        forward: the catalog of a folder; requests for its live runs go to their own processes.
        catalog: lists the runs; `runs` itself when left out.
        launcher: starts recipes and scripts; without one none can be started from the page.
        scripts: those that it may start, by id.

    >>> from midstep.server.auth.tokens import Tokens
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
        default_response_class=StrictJsonResponse,
        responses=ERROR_RESPONSES,
        generate_unique_id_function=_operation_id,
    )
    app.state.runs, app.state.run_streams = runs, RunStreams()
    app.state.guard, app.state.static = guard, static
    app.state.catalog = catalog or LiveCatalog(runs)
    app.state.launcher, app.state.scripts = launcher, scripts or {}
    app.state.influence, app.state.media = InfluenceStore(runs), media_routes.MediaReaders()
    app.state.datasets = datasets or DataRoots()
    add_handlers(app)
    app.add_api_route("/api/v1/health", health, response_model=Health, tags=["health"])
    # Starlette tries routes one by one, so those that an open page requests each second come first.
    of_one_run = (
        batched_requests.router,
        force_routes.router,
        step_routes.router,
        subscription_routes.router,
        command_routes.rewind_router,
        watch_routes.router,
        command_routes.router,
        breakpoint_routes.router,
        diagnosis_routes.router,
    )
    for router in of_one_run:
        _add(app, router, prefix="/api/v1/runs/{run_id}/debug", tag="debug")
    for router in (
        run_routes.router,
        run_file_routes.router,
        media_routes.router,
        recipe_routes.router,
        script_routes.router,
        sweep_routes.router,
        command_routes.log_router,
        stream_routes.router,
        influence_routes.router,
        dataset_routes.router,
    ):
        _add(app, router)
    for router in of_one_run:
        _add(app, router, prefix="/debug", tag="short")
    add_page(app, static)
    # `app.openapi()` returns our document; the guard serves it only with a token.
    app.openapi = lambda: openapi.document(app)  # type: ignore[method-assign]
    app.state.list_stream = None
    if forward is not None:
        closing = app.state.run_streams.closing
        app.state.list_stream = RunListStream(app.state.catalog, closing)
        app.add_middleware(Forward, catalog=forward, closing=closing)
    # Middleware added last runs first: nothing is forwarded before the guard has checked it.
    app.add_middleware(Guard, config=guard)
    return app


def _add(app: FastAPI, router: APIRouter, *, prefix: str = "", tag: str | None = None) -> None:
    """Add the routes of a router one by one."""
    # `include_router` would add one entry that hides its routes. The security tests walk
    # `app.routes` to try every route.
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
    """The name of the handler, with a prefix for the short addresses (`/debug/…`)."""
    return f"short_{route.name}" if "short" in route.tags else route.name


def health(
    request: Request,
    challenge: Annotated[
        str | None,
        Query(
            pattern="^[A-Za-z0-9_-]{16,128}$",
            description="A random text; the response proves that the server knows its tokens.",
        ),
    ] = None,
) -> StrictJsonResponse:
    """The version of the server, without run data. Open without a token."""
    tokens, host = request.app.state.guard.tokens, request.headers["host"]
    secrets = () if challenge is None else (tokens.control, tokens.viewer)
    proofs = [make_proof(secret, challenge or "", host) for secret in secrets]
    return StrictJsonResponse({"status": "ok", "version": __version__, "proofs": proofs})
