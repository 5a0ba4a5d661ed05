"""A whole plan in its folder, stage by stage: what is there is taken over, the rest is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.core import strict_json
from midstep.core.moments import Moment
from midstep.core.storage import replace_bytes, replace_json
from midstep.influence.phases import PhaseLog
from midstep.influence.plan import BatchRequest, FisherKernelPlan
from midstep.influence.report import report_html
from midstep.influence.results import FisherKernelResults, RequestResult
from midstep.influence.results_file import results_json
from midstep.influence.run_folder import RunFolder
from midstep.influence.sampling.batch import GeneratedBatch
from midstep.influence.sampling.batch_files import load_batch, save_batch
from midstep.influence.validation import validate
from midstep.influence.workspace import KernelWorkspace
from midstep.influence.workspace_files import (
    batch_folder,
    load_request,
    save_request,
    serialize_workspace,
)

if TYPE_CHECKING:
    from pathlib import Path

    from midstep.influence.runner import FisherKernelRunner

__all__ = ["Study"]


class Study:
    """One run of a plan.

    Args:
        runner: does the work.
        plan: says what.
        folder: keeps it.
        log: gets a fact for each phase.
    """

    def __init__(
        self,
        runner: FisherKernelRunner,
        plan: FisherKernelPlan,
        folder: RunFolder,
        log: PhaseLog,
    ) -> None:
        self._runner, self._plan, self._folder, self._log = runner, plan, folder, log

    def run(self) -> FisherKernelResults:
        """All stages, then the report, then results.json."""
        self._log.note("started", moment=Moment.START, plan=self._plan.name)
        workspace = self._workspace()
        results = FisherKernelResults(
            workspace=workspace,
            requests=tuple(
                self._answer(at, request, workspace)
                for at, request in enumerate(self._plan.requests)
            ),
            self_kernel=(
                self._runner.compute_self_kernel(workspace) if self._plan.self_kernel else None
            ),
            validation=self._validation(workspace) if self._plan.validate_rates else None,
            config=self._runner.config.described(),
            directory=self._folder.path,
        )
        told = results_json(results)
        replace_bytes(self._folder.report_file, report_html(told, results).encode())
        # Last: its presence says that the run is finished.
        replace_json(self._folder.results_file, told)
        self._log.note("finished", moment=Moment.TRAIN_END, status="finished")
        return results

    def _workspace(self) -> KernelWorkspace:
        place = self._folder.workspace
        if place.exists():
            self._log.note("reused", stage="workspace")
            return self._runner.load_workspace(place)
        batch = self._batch(self._plan.update, place)
        workspace = self._runner.workspace_of(self._plan, batch)
        serialize_workspace(workspace, place)
        return workspace

    def _answer(self, at: int, request: BatchRequest, workspace: KernelWorkspace) -> RequestResult:
        place = self._folder.request(at, request.name)
        if place.exists():
            self._log.note("reused", stage=request.name)
            return load_request(place)
        batch = self._batch(request, place)
        result = self._runner.answer(batch, workspace, name=request.name, kind=request.kind)
        save_request(result, place)
        return result

    def _batch(self, request: BatchRequest, place: Path) -> GeneratedBatch:
        """Sampled once: what stands on a batch must never meet another one."""
        kept = batch_folder(place)
        if kept.exists():
            self._log.note("reused", stage=kept.name)
            return load_batch(kept)
        batch = self._runner.sample(request)
        save_batch(batch, kept)
        return batch

    def _validation(self, workspace: KernelWorkspace) -> Mapping[str, Any]:
        """Over the first request's sequences, or the update's own."""
        file = self._folder.validation
        if not file.exists():
            batch = None
            if self._plan.requests:
                batch = load_batch(
                    batch_folder(self._folder.request(0, self._plan.requests[0].name))
                )
            with self._log.phase("validate"):
                made = validate(workspace, batch, rates=self._plan.validate_rates)
            replace_json(file, made.described())
        told: Mapping[str, Any] = strict_json.loads(file.read_bytes())
        return told
