"""Fisher kernels of an optimizer step: which sequences change which answers, and a check of it.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.influence.gradients.sequences import SequenceBatch as SequenceBatch
    from midstep.influence.kernels.fisher import fisher_kernel as fisher_kernel
    from midstep.influence.kernels.fisher import per_sequence_gradients as per_sequence_gradients
    from midstep.influence.kernels.kernel_block import DeltaTerms as DeltaTerms
    from midstep.influence.kernels.kernel_block import KernelBlock as KernelBlock
    from midstep.influence.kernels.true_step import actual_change as actual_change
    from midstep.influence.kernels.true_step import check_learning_rates as check_learning_rates
    from midstep.influence.kernels.true_step import error_slope as error_slope
    from midstep.influence.kernels.true_step import log_probabilities as log_probabilities
    from midstep.influence.kernels.true_step import predicted_change as predicted_change
    from midstep.influence.optimizers.adam_state import AdamState as AdamState
    from midstep.influence.optimizers.adam_state import decay_groups as decay_groups
    from midstep.influence.study.plan import BatchRequest as BatchRequest
    from midstep.influence.study.plan import FisherKernelConfig as FisherKernelConfig
    from midstep.influence.study.plan import FisherKernelPlan as FisherKernelPlan
    from midstep.influence.study.results import FisherKernelResults as FisherKernelResults
    from midstep.influence.study.runner import FisherKernelRunner as FisherKernelRunner
    from midstep.influence.study.validation import validate as validate
    from midstep.influence.study.workspace import GradientCache as GradientCache
    from midstep.influence.study.workspace import KernelWorkspace as KernelWorkspace

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".gradients.sequences": "SequenceBatch",
        ".kernels.fisher": "fisher_kernel per_sequence_gradients",
        ".kernels.kernel_block": "DeltaTerms KernelBlock",
        ".kernels.true_step": "actual_change check_learning_rates error_slope log_probabilities "
        "predicted_change",
        ".optimizers.adam_state": "AdamState decay_groups",
        ".study.plan": "BatchRequest FisherKernelConfig FisherKernelPlan",
        ".study.results": "FisherKernelResults",
        ".study.runner": "FisherKernelRunner",
        ".study.validation": "validate",
        ".study.workspace": "GradientCache KernelWorkspace",
    },
)
