"""Run a plan in its folder, stage by stage. Stages that are on disk are not computed again.

Each stage is a folder or file that appears as a whole, so a killed run leaves no partial stage.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.files.atomic_folders import remove_temporary_folders
from midstep.core.files.storage import make_folder, remove_temporaries, replace_bytes, replace_json
from midstep.core.ids import slug
from midstep.core.moments import Moment
from midstep.influence.sampling.batch_files import load_batch, save_batch
from midstep.influence.sampling.generated_batch import GeneratedBatch
from midstep.influence.study.plan import BatchRequest, FisherKernelPlan
from midstep.influence.study.report import report_html
from midstep.influence.study.results import FisherKernelResults, RequestResult
from midstep.influence.study.results_file import results_json
from midstep.influence.study.validation import validate
from midstep.influence.study.workspace import KernelWorkspace
from midstep.influence.study.workspace_files import (
    batch_folder,
    load_request,
    save_request,
    serialize_workspace,
)

if TYPE_CHECKING:
    from midstep.influence.study.runner import FisherKernelRunner


class StudyFolder:
    """Paths of the parts of a run.

    Args:
        path: the existing folder of the run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan_file, self.results_file = path / "plan.json", path / "results.json"
        self.report_file, self.workspace = path / "report.html", path / "workspace"
        self.validation = path / "validation.json"

    @classmethod
    def open(
        cls, outputs: str | os.PathLike[str], name: str, identity: Mapping[str, Any], now: datetime
    ) -> StudyFolder:
        """The newest unfinished folder with the same plan and checkpoint, or a new one."""
        root = make_folder(outputs)
        plain = strict_json.loads(strict_json.dumps(identity))
        # Names begin with the time, so the newest comes first.
        for path in sorted(root.iterdir(), reverse=True):
            folder = cls(path)
            if folder._is_unfinished(plain):
                return folder
        stem = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}_{slug(name)}"
        # Two studies may start within one second.
        number, path = 1, root / stem
        while path.exists():
            number += 1
            path = root / f"{stem}-{number}"
        folder = cls(make_folder(path))
        make_folder(path / "requests")
        replace_json(folder.plan_file, plain)
        return folder

    def _is_unfinished(self, identity: Mapping[str, Any]) -> bool:
        if self.results_file.exists() or not self.plan_file.is_file():
            return False
        try:
            return bool(strict_json.loads(self.plan_file.read_bytes()) == identity)
        except (FormatError, OSError):  # not a plan of ours, or unreadable: not to be continued
            return False

    def clean(self) -> None:
        """Remove files that a killed run left half-written.

        The caller must hold the folder's lock.
        """
        for folder in (self.path, make_folder(self.path / "requests")):
            remove_temporary_folders(folder)
            remove_temporaries(folder)

    def request_folder(self, at: int, name: str) -> Path:
        """The folder of a request's result."""
        return self.path / "requests" / f"{at:03d}_{slug(name)}"


class EventSink(Protocol):
    """Receives facts: the writer of a run, or any `Sink`."""

    def event(self, moment: Moment, **fields: Any) -> object:
        """Write a record."""


class PhaseLog:
    """Writes the phases of a run to a sink.

    Args:
        sink: receives the facts; None: nothing is written.
    """

    def __init__(self, sink: EventSink | None) -> None:
        self.sink = sink

    def note(self, phase: str, *, moment: Moment = Moment.INTERVENTION, **fields: Any) -> None:
        """Write a fact about a phase."""
        if self.sink is not None:
            self.sink.event(moment, who="influence", kind="phase", phase=phase, **fields)

    @contextmanager
    def phase(self, name: str, **fields: Any) -> Iterator[None]:
        """A phase, written with its duration when it ends without an error."""
        start = time.monotonic()
        yield
        self.note(name, seconds=round(time.monotonic() - start, 6), **fields)


class StudyStages:
    """One run of a plan.

    Args:
        runner: computes the stages.
        plan: says which stages.
        folder: stores them.
        log: receives a fact for each phase.
    """

    def __init__(
        self,
        runner: FisherKernelRunner,
        plan: FisherKernelPlan,
        folder: StudyFolder,
        log: PhaseLog,
    ) -> None:
        self._runner, self._plan, self._folder, self._log = runner, plan, folder, log

    def run(self) -> FisherKernelResults:
        """Run all stages, then write the report, then results.json."""
        self._log.note("started", moment=Moment.START, plan=self._plan.name)
        workspace = self._workspace()
        requests = tuple(
            self._evaluate(at, request, workspace) for at, request in enumerate(self._plan.requests)
        )
        # Validation over the sequences of the first request, or of the update.
        validated = requests[0].batch if requests else None
        results = FisherKernelResults(
            workspace=workspace,
            requests=requests,
            self_kernel=(
                self._runner.compute_self_kernel(workspace) if self._plan.self_kernel else None
            ),
            validation=self._validation(workspace, validated)
            if self._plan.validate_rates
            else None,
            config=self._runner.config.to_json(),
            directory=self._folder.path,
        )
        document = results_json(results)
        replace_bytes(self._folder.report_file, report_html(document, results).encode())
        # Last: its presence means that the run is finished.
        replace_json(self._folder.results_file, document)
        self._log.note("finished", moment=Moment.TRAIN_END, status="finished")
        return results

    def _workspace(self) -> KernelWorkspace:
        folder = self._folder.workspace
        if folder.exists():
            self._log.note("reused", stage="workspace")
            return self._runner.load_workspace(folder)
        batch = self._batch(self._plan.update, folder)
        workspace = self._runner.build_workspace(self._plan, batch)
        serialize_workspace(workspace, folder)
        return workspace

    def _evaluate(
        self, at: int, request: BatchRequest, workspace: KernelWorkspace
    ) -> RequestResult:
        folder = self._folder.request_folder(at, request.name)
        if folder.exists():
            self._log.note("reused", stage=request.name)
            return load_request(folder)
        batch = self._batch(request, folder)
        result = self._runner.evaluate_generated(
            batch, workspace, name=request.name, kind=request.kind
        )
        save_request(result, folder)
        return result

    def _batch(self, request: BatchRequest, result_folder: Path) -> GeneratedBatch:
        """The stored batch of a request, or a new one that is stored at once.

        Results belong to one batch, so a continued run must not sample another.
        """
        folder = batch_folder(result_folder)
        if folder.exists():
            self._log.note("reused", stage=folder.name)
            return load_batch(folder)
        batch = self._runner.sample(request)
        save_batch(batch, folder)
        return batch

    def _validation(
        self, workspace: KernelWorkspace, batch: GeneratedBatch | None
    ) -> Mapping[str, Any]:
        file = self._folder.validation
        if not file.exists():
            with self._log.phase("validate"):
                validation = validate(workspace, batch, rates=self._plan.validate_rates)
            replace_json(file, validation.to_json())
        stored: Mapping[str, Any] = strict_json.loads(file.read_bytes())
        return stored
