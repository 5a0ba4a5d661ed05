"""Hooks that turn a forward and a backward pass into factors of per-sequence gradients.

Parameters are frozen, so autograd computes only gradients of activations. A hook on each module
with a trained parameter records the module's input and the gradient of its output. For a linear
map these two are the gradient of every sequence: ∂/∂W = Σ_t grad_t ⊗ input_t.

Shapes: B sequences, T tokens, I values in, O values out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from midstep.influence.gradients.execution import fused
from midstep.influence.gradients.factors import EmbeddingFactor, Factor, OuterFactor, StoredFactor
from midstep.influence.gradients.sequences import Microbatch

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.tiles import Tile


class FactorRecord:
    """The factors recorded for one micro-batch, by parameter name."""

    def __init__(self, sequences: int, tokens: int) -> None:
        self.sequences, self.tokens = sequences, tokens
        self.factors: dict[str, list[Factor]] = defaultdict(list)
        self.reached: set[str] = set()
        """Parameters that got a gradient, also after their factors were dropped."""
        self.direction_products: dict[str, Tensor] = {}
        """[B] inner products of the head weight's gradient with directions, by label."""

    def add(self, name: str | None, factor: Factor | None) -> None:
        """Add the factor of one use of a parameter. A parameter without a name is not trained."""
        if name is not None and factor is not None:
            self.factors[name].append(factor)
            self.reached.add(name)

    def rows(self, tile: Tile, out_BRC: Tensor) -> None:
        """Write the gradients of a tile to `out_BRC`."""
        uses = self.factors.get(tile.name, [])
        # An unused expert, or a parameter outside of this micro-batch's graph.
        if not uses:
            out_BRC.zero_()
        for number, factor in enumerate(uses):
            factor.add_rows(out_BRC, tile, first=number == 0)

    def drop(self, names: Iterable[str]) -> None:
        """Delete the factors of these parameters."""
        for name in names:
            self.factors.pop(name, None)


class Recorder:
    """Hooks on every module that owns a trained parameter.

    Args:
        model: the model whose modules get hooks.
        trained: names of the parameters that count, by identity.
        exclude: modules that are recorded elsewhere, such as the split-off head.
    """

    def __init__(
        self,
        model: nn.Module,
        trained: Mapping[int, str],
        *,
        exclude: Iterable[nn.Module] = (),
    ) -> None:
        self.model, self.trained = model, trained
        self._excluded = set(exclude)

    @contextmanager
    def recording(self, record: FactorRecord) -> Iterator[None]:
        """Record into `record` while the block runs."""
        handles = []
        for module in self.model.modules():
            parameters = module.named_parameters(recurse=False)
            names = {
                key: self.trained[id(each)] for key, each in parameters if id(each) in self.trained
            }
            # A module with children would record them twice: the coverage probe sees that its
            # parameters are missing and computes them by autograd.
            if names and module not in self._excluded and not any(module.children()):
                hook = _recording_hook(names, record)
                handles.append(module.register_forward_hook(hook, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _recording_hook(names: dict[str, str], record: FactorRecord) -> Callable[..., Any]:
    def after_forward(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        usable = isinstance(output, torch.Tensor) and output.is_floating_point()
        # Without grad mode no backward pass follows: this is the first run of a replayed block.
        if not usable or not torch.is_grad_enabled():
            return None
        inputs = args[0] if args else next(iter(kwargs.values()), None)
        # Modules may be called by keyword; the first argument is then the input.
        if not isinstance(inputs, torch.Tensor) or not _can_record(module, args, kwargs):
            return None
        if isinstance(module, nn.Embedding):
            inputs, output = _expand_shared_output(inputs, output, record.sequences)
        # The first module of a frozen model has no graph; a leaf here makes one begin.
        if not output.requires_grad:
            output = output.detach().requires_grad_()
        record_use = _recording_function(module)
        module_input = inputs.detach()
        # A hook on the tensor, not on the module: backward hooks of modules break in-place changes
        # of the output, and autograd calls this one when the gradient is complete.
        output.register_hook(
            lambda grad: record_use(module, names, record, module_input, grad.detach())
        )
        return output

    return after_forward


def _can_record(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a recording function knows this call. Others are left to the coverage probe."""
    if isinstance(module, nn.Embedding):
        # OPT's positions are an Embedding whose input is the attention mask.
        return type(module).forward is nn.Embedding.forward
    # `_record_any` runs the module again with its first argument alone.
    return _recording_function(module) is not _record_any or len(args) + len(kwargs) == 1


def _expand_shared_output(ids: Tensor, output: Tensor, sequences: int) -> tuple[Tensor, Tensor]:
    """Give each sequence its own copy of position embeddings that the model computes once for all.

    Otherwise autograd would sum the gradients of all sequences before the hook sees them.
    """
    if output.dim() == 2 and sequences > 1 and ids.dim() == 1:
        ids, output = ids[None], output[None]
    if output.dim() == 3 and output.shape[0] == 1 and sequences > 1:
        ids, output = ids.expand(sequences, -1), output.expand(sequences, -1, -1)
    return ids, output


def _by_sequence(values: Tensor, record: FactorRecord) -> Tensor | None:
    """[B, T, X] of a module's values; None when the sequences cannot be separated."""
    if values.dim() >= 3 and values.shape[0] == record.sequences:
        return values.flatten(1, -2)
    if values.dim() == 2 and values.shape[0] == record.sequences * record.tokens:
        return values.view(record.sequences, record.tokens, -1)
    return None


@fused
def layer_norm_sums(inputs_BTC: Tensor, grads_BTC: Tensor, eps: float) -> Tensor:
    """[B, C] gradients of a LayerNorm's scale: Σ_t normalised input_t · grad_t."""
    normed = nn.functional.layer_norm(inputs_BTC, (inputs_BTC.shape[-1],), eps=eps)
    return (normed * grads_BTC).sum(1)


@fused
def rms_norm_sums(inputs: Tensor, grads: Tensor, eps: float | None) -> Tensor:
    """[B, C] gradients of an RMSNorm's scale: Σ_t normalised input_t · grad_t."""
    normed = nn.functional.rms_norm(inputs, (inputs.shape[-1],), eps=eps)
    return (normed * grads).flatten(1, -2).sum(1)


RecordFunction = Callable[[nn.Module, dict[str, str], FactorRecord, "Tensor", "Tensor"], None]


def _recording_function(module: nn.Module) -> RecordFunction:
    if isinstance(module, nn.Embedding):
        return _record_embedding
    if isinstance(module, nn.Linear) or _is_conv1d(module):
        return _record_linear
    if isinstance(module, nn.LayerNorm):
        return _record_layer_norm
    return _record_any


def _is_conv1d(module: nn.Module) -> bool:
    """Whether a module is the Conv1D of transformers (GPT-2): a linear map with weight [in, out].

    By name, because importing transformers here would cost every user its start time.
    """
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def _record_linear(
    module: nn.Module, names: dict[str, str], record: FactorRecord, inputs: Tensor, grads: Tensor
) -> None:
    inputs_BTI, grads_BTO = _by_sequence(inputs, record), _by_sequence(grads, record)
    if inputs_BTI is None or grads_BTO is None:
        return
    left, right = (inputs_BTI, grads_BTO) if _is_conv1d(module) else (grads_BTO, inputs_BTI)
    record.add(names.get("weight"), OuterFactor(left, right))
    _record_bias(names, record, grads_BTO)


def _record_bias(names: dict[str, str], record: FactorRecord, grads_BTO: Tensor) -> None:
    if "bias" in names:
        record.add(names["bias"], StoredFactor(grads_BTO.sum(1)))


def _record_embedding(
    module: nn.Module, names: dict[str, str], record: FactorRecord, inputs: Tensor, grads: Tensor
) -> None:
    grads_BTC = _by_sequence(grads, record)
    if grads_BTC is not None:
        ids_BT = inputs.reshape(grads_BTC.shape[:2])
        padding = module.padding_idx if isinstance(module, nn.Embedding) else None
        record.add(names.get("weight"), EmbeddingFactor(ids_BT, grads_BTC, padding))


def _record_layer_norm(
    module: nn.Module, names: dict[str, str], record: FactorRecord, inputs: Tensor, grads: Tensor
) -> None:
    # A norm over several axes is left to the coverage probe.
    if not isinstance(module, nn.LayerNorm) or len(module.normalized_shape) != 1:
        return
    inputs_BTC, grads_BTC = _by_sequence(inputs, record), _by_sequence(grads, record)
    if inputs_BTC is None or grads_BTC is None:
        return
    if "weight" in names:
        record.add(
            names["weight"], StoredFactor(layer_norm_sums(inputs_BTC, grads_BTC, module.eps))
        )
    _record_bias(names, record, grads_BTC)


def _record_any(
    module: nn.Module, names: dict[str, str], record: FactorRecord, inputs: Tensor, grads: Tensor
) -> None:
    """Any other module with one input tensor: run it again, with parameters for each sequence."""
    if inputs.dim() < 2 or inputs.shape[0] != record.sequences or len(grads) != len(inputs):
        return
    # Without its hooks: they would record this second run too.
    hooks, module._forward_hooks = module._forward_hooks, type(module._forward_hooks)()
    try:
        gradients = _broadcast_gradients(module, names, inputs, grads)
        if gradients is None:
            gradients = _loop_gradients(module, names, inputs, grads)
    finally:
        module._forward_hooks = hooks
    for key, each in gradients.items():
        record.add(names[key], StoredFactor(each))


def _broadcast_gradients(
    module: nn.Module, names: dict[str, str], inputs: Tensor, grads: Tensor
) -> dict[str, Tensor] | None:
    """Norms of unknown classes: parameter vectors that broadcast over tokens, one copy a sequence.

    One backward pass then gives the gradients of all sequences. None when the module does not fit.
    """
    parameters = dict(module.named_parameters(recurse=False))
    if set(parameters) != set(names) or any(each.dim() != 1 for each in parameters.values()):
        return None
    if isinstance(module, nn.RMSNorm):
        return {"weight": rms_norm_sums(inputs, grads, module.eps)}
    leading_shape = (len(inputs),) + (1,) * (inputs.dim() - 2)
    copies = {
        key: each.detach().expand(*leading_shape, -1).clone().requires_grad_()
        for key, each in parameters.items()
    }
    try:
        with torch.enable_grad():
            out = torch.func.functional_call(module, copies, (inputs,))
        if out.shape != grads.shape:
            return None
        parameter_grads = torch.autograd.grad(
            out, list(copies.values()), grads, materialize_grads=True
        )
    except RuntimeError:
        return None  # a fused kernel that takes only plain vectors; the loop below works too
    return {
        key: grad.reshape(len(inputs), -1)
        for key, grad in zip(copies, parameter_grads, strict=True)
    }


def _loop_gradients(
    module: nn.Module, names: dict[str, str], inputs: Tensor, grads: Tensor
) -> dict[str, Tensor]:
    """One backward pass of this module alone for each sequence: slow, but right for any module."""
    parameters = {
        key: each.detach().requires_grad_() for key, each in module.named_parameters(recurse=False)
    }
    counted = [parameters[key] for key in names]
    rows: list[tuple[Tensor, ...]] = []
    for index in range(len(inputs)):
        with torch.enable_grad():
            out = torch.func.functional_call(module, parameters, (inputs[index : index + 1],))
        rows.append(
            torch.autograd.grad(out, counted, grads[index : index + 1], materialize_grads=True)
        )
    return {
        key: torch.stack(each) for key, each in zip(names, zip(*rows, strict=True), strict=True)
    }


@dataclass
class RecordedBatch:
    """One batch with what its passes recorded; micro-batches of the longest sequences first."""

    microbatches: list[Microbatch]
    token_weights_NT: Tensor  # noqa: N815 - name ends in its shape
    """Weight of each token's log-probability in its sequence's score."""
    records: list[FactorRecord] = field(default_factory=list)
    logp: dict[int, Tensor] = field(default_factory=dict)
    """Token log-probabilities [B, R] by number of the micro-batch."""

    @property
    def row_order(self) -> list[int]:
        """Rows of the batch in the order of the micro-batches, in which kernels are computed."""
        return [row for each in self.microbatches for row in each.row_ids]

    def __len__(self) -> int:
        return sum(len(each) for each in self.microbatches)

    def begin(self) -> None:
        """Start a new pass with empty records."""
        self.records = [
            FactorRecord(len(each), each.input_ids.shape[1]) for each in self.microbatches
        ]

    def rows(self, tile: Tile, out_NRC: Tensor) -> None:
        """Write the gradients of a tile, of all sequences of this batch, to `out_NRC`."""
        start = 0
        for record in self.records:
            record.rows(tile, out_NRC[start : start + record.sequences])
            start += record.sequences

    def reaches(self, name: str) -> bool:
        """Whether a parameter got a gradient from any sequence of this batch."""
        return any(name in record.reached for record in self.records)

    def drop(self, names: Sequence[str]) -> None:
        """Delete the factors of these parameters in all records."""
        for record in self.records:
            record.drop(names)

    def log_pi(self) -> Tensor:
        """[N] log-probability of each response, in the batch's own order."""
        sums = [self.logp[index].sum(1) for index in range(len(self.microbatches))]
        # Back from the order of the micro-batches to that of the batch.
        batch_order = torch.tensor(self.row_order, device=sums[0].device).argsort()
        return torch.cat(sums)[batch_order]
