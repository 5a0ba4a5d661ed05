"""Fisher kernels of an optimizer step: which sequences moved which answers, and was it so.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.influence.batches import SequenceBatch
    from midstep.influence.block import DeltaTerms, KernelBlock
    from midstep.influence.kernels import fisher_kernel, kernel_blocks, per_sequence_gradients
    from midstep.influence.optimizer_state import AdamState, decay_groups
    from midstep.influence.plan import BatchRequest, FisherKernelConfig, FisherKernelPlan
    from midstep.influence.results import FisherKernelResults
    from midstep.influence.runner import FisherKernelRunner
    from midstep.influence.step_check import (
        actual_change,
        check_learning_rates,
        error_slope,
        log_probabilities,
        predicted_change,
    )
    from midstep.influence.validation import validate
    from midstep.influence.workspace import GradientCache, KernelWorkspace

__all__ = [
    "AdamState",
    "BatchRequest",
    "DeltaTerms",
    "FisherKernelConfig",
    "FisherKernelPlan",
    "FisherKernelResults",
    "FisherKernelRunner",
    "GradientCache",
    "KernelBlock",
    "KernelWorkspace",
    "SequenceBatch",
    "actual_change",
    "check_learning_rates",
    "decay_groups",
    "error_slope",
    "fisher_kernel",
    "kernel_blocks",
    "log_probabilities",
    "per_sequence_gradients",
    "predicted_change",
    "validate",
]

_HOME = {
    "AdamState": ".optimizer_state",
    "BatchRequest": ".plan",
    "DeltaTerms": ".block",
    "FisherKernelConfig": ".plan",
    "FisherKernelPlan": ".plan",
    "FisherKernelResults": ".results",
    "FisherKernelRunner": ".runner",
    "GradientCache": ".workspace",
    "KernelBlock": ".block",
    "KernelWorkspace": ".workspace",
    "SequenceBatch": ".batches",
    "actual_change": ".step_check",
    "check_learning_rates": ".step_check",
    "decay_groups": ".optimizer_state",
    "error_slope": ".step_check",
    "fisher_kernel": ".kernels",
    "kernel_blocks": ".kernels",
    "log_probabilities": ".step_check",
    "per_sequence_gradients": ".kernels",
    "predicted_change": ".step_check",
    "validate": ".validation",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
