"""The route of what was kept of a run. View-only links get it: it has no printed text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from midstep.server.dependencies import declare_run_id
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.evidence_schemas import EvidenceOut
from midstep.server.runs.run_evidence import describe_evidence
from midstep.server.runs.run_file_routes import directory_of

router = APIRouter(
    prefix="/api/v1/runs/{run_id}", tags=["runs"], dependencies=[Depends(declare_run_id)]
)


@router.get("/evidence", response_model=EvidenceOut)
def evidence(folder: Annotated[Path, Depends(directory_of)]) -> Response:
    """Where the run stopped and why, and what was kept of each stop and of its end."""
    return StrictJsonResponse(describe_evidence(folder))
