"""A small stored result for the tests of server and page: the tiny model, no network."""

from __future__ import annotations

from pathlib import Path

from midstep.influence.sampling import CharacterTokenizer, save_checkpoint
from midstep.influence.study.plan import BatchRequest, FisherKernelConfig, FisherKernelPlan
from midstep.influence.study.runner import FisherKernelRunner
from tests.influence.small_lm import ALPHABET, adamw, small_model


def store_result(folder: Path, outputs: Path, *, prompts: int = 4, evaluated: int = 6) -> Path:
    """Run a plan on the tiny model and give the folder of its result.

    Args:
        folder: for the checkpoint.
        outputs: the folder `influence`.
        prompts: of the update, four responses each.
        evaluated: sequences of the first request.
    """
    model = small_model()
    optimizer = adamw(model, weight_decay=0.1)
    checkpoint = save_checkpoint(folder / "step-3", model, CharacterTokenizer(ALPHABET), optimizer)
    config = FisherKernelConfig(
        checkpoint=str(checkpoint),
        prompt_set={"name": "arithmetic", "largest": 9},
        max_new_tokens=6,
        outputs=str(outputs),
    )
    asked = {"batch_size_prompts": prompts, "completions_per_prompt": 4, "seed": 5}
    plan = FisherKernelPlan(
        name="small study",
        update=BatchRequest(kind="update", params={**asked, "reward_cfg": {"format_weight": 0.5}}),
        requests=(
            BatchRequest(
                kind="evaluation", params={"batch_size_prompts": evaluated, "seed": 1}, name="held"
            ),
            BatchRequest(
                kind="custom_sequence", params={"prompt": "9+9=", "response": "18"}, name="nine"
            ),
        ),
        top_k=4,
        validate_rates=(1e-3, 1e-4),
    )
    made = FisherKernelRunner(config).run(plan).directory
    assert made is not None
    return made
