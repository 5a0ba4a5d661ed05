"""`FisherKernelRunner`: from a checkpoint and a plan to results on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.facts import FactsWriter, last_attempt
from midstep.influence.fingerprints import BatchFingerprint, KernelFingerprint, kernel_fingerprint
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.kernel_inputs import trained_parameters
from midstep.influence.optimizers.optimizer_files import has_optimizer, load_optimizer
from midstep.influence.sampling.decoding import DecodingConfig
from midstep.influence.sampling.generated_batch import GeneratedBatch
from midstep.influence.sampling.sample_generator import SampleGenerator
from midstep.influence.study.gradient_views import GradientViews
from midstep.influence.study.plan import BatchRequest, FisherKernelConfig, FisherKernelPlan
from midstep.influence.study.results import (
    FisherKernelResults,
    RequestResult,
    SelfKernel,
    build_request_result,
    build_self_kernel,
    delta_by_term,
    with_other_advantages,
)
from midstep.influence.study.study_inputs import load_prompts, make_batch
from midstep.influence.study.study_stages import EventSink, PhaseLog, StudyFolder, StudyStages
from midstep.influence.study.workspace import KernelWorkspace, StepFactors
from midstep.influence.study.workspace_files import load_workspace, serialize_workspace

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import AdamW

Evaluation = (
    BatchRequest | GeneratedBatch | KernelWorkspace | Callable[[SampleGenerator], GeneratedBatch]
)
"""What can be evaluated: a request, records, the batch of a workspace, or a function that
makes a batch."""


class FisherKernelRunner:
    """Runs plans against one checkpoint.

    Args:
        config: checkpoint, optimizer state, prompt set, device, type.
        logger: receives a fact for each phase; None: `run` writes them into its folder.
    """

    def __init__(
        self, config: FisherKernelConfig | Mapping[str, Any], logger: EventSink | None = None
    ) -> None:
        self.config = (
            config
            if isinstance(config, FisherKernelConfig)
            else FisherKernelConfig.from_mapping(config)
        )
        self._log = PhaseLog(logger)

    @cached_property
    def generator(self) -> SampleGenerator:
        """The checkpoint's model and tokenizer with the prompt set, loaded when first needed."""
        config = self.config
        return SampleGenerator.from_checkpoint(
            config.checkpoint,
            load_prompts(config.prompt_set),
            device=config.device,
            dtype=config.dtype,
            decoding=DecodingConfig(
                max_new_tokens=config.max_new_tokens,
                temperature=config.temperature,
                microbatch=config.microbatch,
            ),
        )

    @cached_property
    def optimizer(self) -> AdamW:
        """The AdamW of the step, with its state bound by name, loaded when first needed.

        A parameter without state was frozen in the training or never got a gradient. It is frozen
        here too, so that it is left out.
        """
        model = self.generator.model.module
        optimizer = load_optimizer(self._state_source, model, order=self.config.optimizer_order)
        for parameter in model.parameters():
            if not optimizer.state.get(parameter):
                parameter.requires_grad_(False)  # noqa: FBT003 - its only argument
        return optimizer

    @property
    def _state_source(self) -> str:
        return self.config.optimizer_state or self.config.checkpoint

    @cached_property
    def _batch_fingerprint(self) -> BatchFingerprint:
        """Hashes of the weights and the tokenizer, computed once: hashing reads all weights."""
        return self.generator.fingerprint()

    def fingerprint(self, plan: FisherKernelPlan) -> KernelFingerprint:
        """The fingerprint of a workspace of this plan."""
        model = self.generator.model.module
        return kernel_fingerprint(
            model,
            self._optimizer_for(plan),
            weights=self._batch_fingerprint.weights,
            tokenizer=self._batch_fingerprint.tokenizer,
            dtype=plan.dtype,
            names=trained_parameters(model, plan.parameters).values(),
            preconditioner=plan.preconditioner,
        )

    def _optimizer_for(self, plan: FisherKernelPlan) -> AdamW | None:
        """The optimizer; None for sgd, which needs no state."""
        return None if plan.preconditioner == "sgd" else self.optimizer

    def _views(self, plan: FisherKernelPlan, batch: GeneratedBatch) -> GradientViews:
        """Views that compute gradients for an update and a plan."""
        has_state = self.config.optimizer_state is not None or has_optimizer(self._state_source)
        return GradientViews(
            self.generator.model.module,
            self._optimizer_for(plan),
            batch,
            plan,
            has_adam_state=has_state,
        )

    # -- the update -------------------------------------------------------------------------------

    def prepare_update_workspace(self, plan: FisherKernelPlan) -> KernelWorkspace:
        """Sample or load U, compute its kernel and norms, and bind it to the model."""
        return self.build_workspace(plan, self.sample(plan.update))

    def sample(self, request: BatchRequest) -> GeneratedBatch:
        """Sample or load the batch of a request."""
        with self._log.phase("sample", request=request.name):
            return make_batch(self.generator, request)

    def build_workspace(self, plan: FisherKernelPlan, batch: GeneratedBatch) -> KernelWorkspace:
        """The workspace of a given update."""
        _check_update(batch)
        with self._log.phase("update_kernel", sequences=len(batch)):
            return self._compute_workspace(plan, batch)

    def _compute_workspace(self, plan: FisherKernelPlan, batch: GeneratedBatch) -> KernelWorkspace:
        views = self._views(plan, batch)
        block = self._kernel(plan, views, batch, None, ("UU", "delta"))
        workspace = KernelWorkspace(
            batch=batch,
            plan=plan,
            fingerprint=self.fingerprint(plan),
            step=StepFactors(
                lr=block.lr,
                rate=block.rate,
                clip_factor=block.clip_factor,
                gradient_norm=block.gradient_norm,
            ),
            kernel_uu=block.k_uu.cpu(),
            delta_u=delta_by_term(block.delta_logpi_u, block.terms_u),
            norms=block.norms_u.cpu(),
            raw_norms=block.raw_norms_u.cpu(),
            coverage=dict(block.coverage),
            notes={
                "algorithm": block.plan.describe(),
                "slow_parameters": list(block.slow_parameters),
                "unused_parameters": list(block.unused_parameters),
                "frozen_parameters": [
                    name for name, one in views.model.named_parameters() if not one.requires_grad
                ],
            },
        )
        workspace.bind(views)
        if plan.algorithm == "resident":
            gradients = views.all_raw(batch)
            for at, sequence_id in enumerate(batch.sequence_ids):
                cache = workspace.caches[sequence_id]
                cache.resident = {name: rows[at] for name, rows in gradients.items()}
        return workspace

    def compute_self_kernel(
        self,
        workspace: KernelWorkspace,
        sequence_ids: Sequence[str] | None = None,
        capture_full: bool = False,
    ) -> SelfKernel:
        """K among sequences of U, and Σ_j K(t, t_j) A_j for each of them."""
        return build_self_kernel(workspace, sequence_ids, capture_full=capture_full)

    # -- questions --------------------------------------------------------------------------------

    def evaluate_batch(
        self,
        request: Evaluation,
        workspace: KernelWorkspace,
        capture_full: bool | None = None,
        advantages: Mapping[str, float] | Tensor | None = None,
    ) -> RequestResult:
        """How much the update changes each sequence of a batch, and its contributors.

        Args:
            request: what to evaluate.
            workspace: the update.
            capture_full: keep K(E,U); None: as the plan says.
            advantages: other advantages, by sequence id or one per sequence; the preconditioner
                stays that of the true update.
        """
        self._bind(workspace)
        batch, name, kind = self._resolve_batch(request, workspace)
        return self.evaluate_generated(
            batch, workspace, name=name, kind=kind, capture_full=capture_full, advantages=advantages
        )

    def evaluate_generated(
        self,
        batch: GeneratedBatch,
        workspace: KernelWorkspace,
        *,
        name: str,
        kind: str,
        capture_full: bool | None = None,
        advantages: Mapping[str, float] | Tensor | None = None,
    ) -> RequestResult:
        """As `evaluate_batch`, for a given batch."""
        views, plan = self._bind(workspace), workspace.plan
        full = plan.full_kernel if capture_full is None else capture_full
        with_kernel = full or plan.top_k > 0 or advantages is not None
        with self._log.phase("evaluate", request=name, sequences=len(batch)):
            want = ("EU", "delta") if with_kernel else ("delta",)
            block = self._kernel(plan, views, workspace.batch, batch, want)
        result = build_request_result(name, kind, batch, block, workspace, full=full)
        if block.norms_e is not None:
            workspace.add(batch, block.norms_e, block.raw_norms_e, name)
        if advantages is None:
            return result
        return with_other_advantages(result, block.k_eu.cpu(), workspace, advantages)

    def _resolve_batch(
        self, request: Evaluation, workspace: KernelWorkspace
    ) -> tuple[GeneratedBatch, str, str]:
        if isinstance(request, BatchRequest):
            return self.sample(request), request.name, request.kind
        if isinstance(request, KernelWorkspace):
            workspace.check_same(request)
            return request.batch, "workspace", "workspace"
        if isinstance(request, GeneratedBatch):
            given, here = request.fingerprint, self._batch_fingerprint
            difference = given.difference(here) if given is not None else None
            if difference is not None:
                raise ConfigError(
                    f"these records were made with another checkpoint: {difference}. Sample them "
                    "here, or score them again: runner.generator.rescore(batch)"
                )
            return request, "records", "records"
        return request(self.generator), "callback", "callback"

    def _kernel(
        self,
        plan: FisherKernelPlan,
        views: GradientViews,
        update: GeneratedBatch,
        evaluation: GeneratedBatch | None,
        want: Any,
    ) -> Any:
        """Compute blocks of the kernel as the plan says."""
        # `direction` and `jvp` compute Δ alone, so they serve only requests for Δ alone.
        algorithm: Any = plan.algorithm
        if algorithm in ("direction", "jvp") and want != ("delta",):
            algorithm = "auto"
        return fisher_kernel(
            views.computing_model,
            update,
            evaluation,
            optimizer=views.adam_state(),
            preconditioner=plan.preconditioner,
            weights=update.weights,
            want=want,
            algorithm=algorithm,
            microbatch=plan.microbatch,
            parameters=plan.parameters,
            lr=plan.lr,
            max_grad_norm=plan.max_grad_norm,
            announce=lambda line: self._log.note("planned", plan=line),
        )

    # -- on disk ----------------------------------------------------------------------------------

    def serialize_workspace(self, workspace: KernelWorkspace, path: str | os.PathLike[str]) -> Path:
        """Write a workspace. The folder must not exist yet."""
        return serialize_workspace(workspace, path)

    def load_workspace(self, path: str | os.PathLike[str]) -> KernelWorkspace:
        """Read a workspace and bind it to this runner's model, which must have its fingerprint."""
        workspace = load_workspace(path)
        self._bind(workspace)
        return workspace

    def _bind(self, workspace: KernelWorkspace) -> GradientViews:
        """The views of a workspace; if it has none, new ones after comparing fingerprints."""
        bound = workspace.views
        if bound is not None and bound.model is self.generator.model.module:
            return bound
        self.fingerprint(workspace.plan).check_same(
            workspace.fingerprint, "this checkpoint and the workspace"
        )
        views = self._views(workspace.plan, workspace.batch)
        workspace.bind(views)
        return views

    def run(self, plan: FisherKernelPlan) -> FisherKernelResults:
        """Run a plan. Finished stages of an interrupted run of the same plan are used again."""
        identity = {
            "plan": plan.to_json(),
            "runner": self.config.to_json(),
            "fingerprint": asdict(self.fingerprint(plan)),
        }
        folder = StudyFolder.open(self.config.outputs, plan.name, identity, datetime.now(UTC))
        previous_sink = self._log.sink
        # The facts writer locks the folder, so a second run of the same plan fails here.
        with FactsWriter(folder.path, attempt=last_attempt(folder.path) + 1) as facts:
            folder.clean()
            self._log.sink = previous_sink if previous_sink is not None else facts
            try:
                return StudyStages(self, plan, folder, self._log).run()
            finally:
                self._log.sink = previous_sink


def _check_update(batch: GeneratedBatch) -> None:
    if not bool(batch.weights.isfinite().all()):
        missing = next(one.sequence_id for one in batch if one.weight is None)
        raise ConfigError(
            f"{missing} of the update has no weight; use a request of kind 'update', which "
            "computes advantages, or a file saved from one"
        )
    if not bool(batch.weights.any()):
        raise ConfigError(
            "every advantage of the update is zero: all responses to a prompt had the same reward, "
            "so this step changes nothing. Sample more prompts or completions, another seed, or a "
            "higher temperature"
        )
