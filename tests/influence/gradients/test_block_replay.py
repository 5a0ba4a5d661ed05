"""What a block may leave out when it runs again, and what it may not."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from midstep.influence.gradients.block_replay import skip_linear, skippable_linears
from midstep.influence.gradients.model_parts import find_model_parts
from midstep.influence.gradients.tiles import Tile
from midstep.influence.optimizers.adam_state import AdamState
from midstep.influence.optimizers.preconditioners import make_preconditioner
from tests.influence.tiny_models import stepped_optimizer, tiny

IDS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])


class Scaled(nn.Module):
    """A trained scale: its own gradient needs the values it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((6,), 0.5))

    def forward(self, values):
        return self.scale * values


class Block(nn.Module):
    def __init__(self, after) -> None:
        super().__init__()
        self.up, self.down, self.after = nn.Linear(6, 9), nn.Linear(9, 6), after()

    def forward(self, stream):
        return stream + self.after(self.down(self.up(stream).tanh()))


class Model(nn.Module):
    def __init__(self, after) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.blocks = nn.ModuleList(Block(after) for _ in range(2))
        self.head = nn.Linear(6, 11, bias=False)

    def hidden(self, ids):
        stream = self.embedding(ids)
        for block in self.blocks:
            stream = block(stream)
        return stream

    def forward(self, ids):
        return self.head(self.hidden(ids))


def parts_of(after) -> tuple[nn.Module, list[nn.Linear | None]]:
    torch.manual_seed(0)
    model = Model(after)
    model.requires_grad_(requires_grad=False)
    return model, skippable_linears(find_model_parts(model, IDS), IDS)


def test_the_last_linear_map_before_the_stream_is_left_out() -> None:
    model, parts = parts_of(nn.Identity)
    assert parts == [block.down for block in model.blocks]


@pytest.mark.parametrize(
    "after",
    [
        Scaled,
        nn.Tanh,
        partial(nn.LayerNorm, 6),
        partial(nn.RMSNorm, 6, elementwise_affine=False),
        partial(nn.Hardtanh, -0.01, 0.01),
    ],
)
def test_nothing_is_left_out_where_its_values_are_read(after) -> None:
    assert parts_of(after)[1] == [None, None]


def test_the_input_gradient_is_that_of_the_whole_map() -> None:
    module, inputs = nn.Linear(5, 3).double(), torch.randn(2, 4, 5, dtype=torch.float64)
    grads = torch.randn(2, 4, 3, dtype=torch.float64)
    found = []
    for left_out in (None, module):
        leaf = inputs.clone().requires_grad_()
        with skip_linear(left_out):
            made = module(leaf)
        torch.autograd.backward(made, grads)
        found.append(leaf.grad)
    assert torch.allclose(found[0], found[1], rtol=1e-12, atol=0)
    assert module(inputs).abs().sum() > 0, "the map is itself again afterwards"


def test_numbers_for_the_gpu_kernel_make_the_same_diagonal() -> None:
    model = tiny("gpt2")
    state = AdamState.from_optimizer(stepped_optimizer(model), model)
    name, parameter = next((n, p) for n, p in model.named_parameters() if p.dim() == 2)
    step = make_preconditioner("adam_post", state, [n for n, _ in model.named_parameters()])
    step.clip_factor = 0.7
    columns = parameter.shape[0]
    tile = Tile(name, 1, 0, 3, columns, parameter.dtype, parameter.device, transposed=True)
    gradient = torch.randn(3, columns, dtype=parameter.dtype)
    numbers = step.adam_tile(tile)
    clipped = numbers.clip_factor * gradient.flatten()
    after = numbers.beta2 * numbers.second_RC.flatten() + (1 - numbers.beta2) * clipped.square()
    diagonal = numbers.scale / ((after / numbers.corrected).sqrt() + numbers.eps)
    true = step.diagonal(tile, gradient).flatten()
    assert torch.allclose(diagonal, true, rtol=1e-12, atol=0)
