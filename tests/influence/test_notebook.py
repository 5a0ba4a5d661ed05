"""Plots show the numbers they were given."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("matplotlib")

from midstep.core.errors import ConfigError
from midstep.influence import notebook
from midstep.influence.sampling import CharacterTokenizer, save_checkpoint
from midstep.influence.study.plan import BatchRequest, FisherKernelConfig, FisherKernelPlan
from midstep.influence.study.runner import FisherKernelRunner
from midstep.influence.study.validation import validate
from tests.influence.small_lm import ALPHABET, adamw, small_model

PARAMS = {
    "batch_size_prompts": 3,
    "completions_per_prompt": 2,
    "advantage_cfg": {"scheme": "reinforce", "baseline": 0.5},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("plots")
    model = small_model(torch.float64)
    place = save_checkpoint(folder / "lm", model, CharacterTokenizer(ALPHABET), adamw(model))
    config = FisherKernelConfig(
        checkpoint=str(place), max_new_tokens=5, outputs=str(folder / "outputs")
    )
    plan = FisherKernelPlan(
        update=BatchRequest(kind="update", params=PARAMS),
        requests=(BatchRequest(kind="evaluation", params={"batch_size_prompts": 4}, name="E"),),
    )
    return FisherKernelRunner(config).run(plan)


def test_heatmaps_hold_the_kernels(results) -> None:
    evaluated = notebook.plot_kernel(results.request("E")).images[0].get_array()
    assert torch.equal(torch.tensor(evaluated), results.request("E").kernel_eu)
    update = notebook.plot_kernel(results.workspace).images[0].get_array()
    assert torch.equal(torch.tensor(update), results.workspace.kernel_uu)
    with pytest.raises(ConfigError, match="kept no kernel"):
        notebook.plot_kernel(object())


def test_distributions_and_bars_hold_every_sequence(results) -> None:
    drawn = notebook.plot_delta_distribution(results.request("E"))
    assert sum(bar.get_height() for bar in drawn.patches) == 4
    assert len(notebook.plot_norms(results.workspace).collections[0].get_offsets()) == 6
    one = results.request("E").batch.sequence_ids[0]
    bars = notebook.plot_contributors(results, "E", one).patches
    sizes = [bar.get_width() for bar in bars]
    assert sizes[::-1] == [each.contribution for each in results.request("E").contributors[0]]


def test_validation_plot_stands_at_the_smallest_rate(results) -> None:
    found = validate(results.workspace, rates=(1e-4, 1e-5))
    points = notebook.plot_validation(found).collections[0].get_offsets()
    assert points[:, 0].tolist() == found.rates[1].predicted.tolist()
