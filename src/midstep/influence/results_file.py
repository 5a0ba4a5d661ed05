"""results.json: everything a page or a notebook shows, as strict JSON."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.version import __version__
from midstep.influence.plan import FisherKernelPlan
from midstep.influence.results import FisherKernelResults, self_kernel_of
from midstep.influence.results_reader import FORMAT, read_results_json
from midstep.influence.workspace import KernelWorkspace
from midstep.influence.workspace_files import load_request, load_workspace

__all__ = ["load_results", "results_json"]

_SLICE = 4096
"""Kernels of at most so many entries stand in the JSON too; larger ones only in their arrays."""


def results_json(results: FisherKernelResults) -> dict[str, Any]:
    """The content of results.json."""
    workspace = results.workspace
    told = {
        "format": FORMAT,
        "midstep": __version__,
        "name": workspace.plan.name,
        "step": workspace.fingerprint.optimizer_step,
        "config": dict(results.config),
        "plan": workspace.plan.described(),
        "fingerprint": asdict(workspace.fingerprint),
        "update": _update(workspace),
        "self_kernel": results.self_kernel.described() if results.self_kernel else None,
        "requests": [
            {
                **one.described(workspace.batch, workspace.norms),
                "kernel_eu": _slice(one.kernel_eu),
            }
            for one in results.requests
        ],
        "validation": results.validation,
    }
    plain: dict[str, Any] = strict_json.plain(told)
    return plain


def _update(workspace: KernelWorkspace) -> dict[str, Any]:
    return {
        "sampling": dict(workspace.batch.diagnostics),
        "step": asdict(workspace.step),
        "coverage": dict(workspace.coverage),
        "notes": dict(workspace.notes),
        "kernel_uu": _slice(workspace.kernel_uu),
        "sequences": [_sequence(workspace, at) for at in range(len(workspace.batch))],
    }


def _sequence(workspace: KernelWorkspace, at: int) -> dict[str, Any]:
    record = workspace.batch.records[at]
    return {
        "sequence_id": record.sequence_id,
        "global_prompt_id": record.provenance.global_prompt_id,
        "prompt": record.prompt_text,
        "response": record.response_text,
        "reward": record.reward,
        "advantage": record.advantage,
        "normaliser": record.normaliser,
        "weight": record.weight,
        "logprob": record.logprob,
        "entropy": sum(record.entropies) / len(record.entropies),
        "norm": workspace.norms[at].item(),
        "raw_norm": workspace.raw_norms[at].item(),
        "delta": {name: values[at].item() for name, values in workspace.delta_u.items()},
    }


def _slice(kernel: Any) -> Any:
    return kernel if kernel is not None and kernel.numel() <= _SLICE else None


def load_results(directory: str | os.PathLike[str]) -> FisherKernelResults:
    """The results of a finished run with all arrays; what-if works, new questions need a runner."""
    folder = Path(directory)
    told = read_results_json(folder)
    workspace = load_workspace(folder / "workspace")
    plan: FisherKernelPlan = workspace.plan
    places = sorted(one for one in (folder / "requests").iterdir() if one.suffix != ".batch")
    return FisherKernelResults(
        workspace=workspace,
        requests=tuple(load_request(place) for place in places),
        self_kernel=self_kernel_of(workspace, capture_full=False) if plan.self_kernel else None,
        validation=told["validation"],
        config=told["config"],
        directory=folder,
    )
