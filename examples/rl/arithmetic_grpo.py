"""Teach a small language model to add and subtract, then ask which samples taught it what.

    python examples/rl/arithmetic_grpo.py [--folder outputs/arithmetic] [--steps 100]
    midstep serve outputs

Offline and about a minute on two cores: a supervised warm-up (so that some answers are right and
rewards differ), a GRPO-style loop on rewards alone, then sample, predict and check one more step.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from midstep.core.random_streams import RandomStream
from midstep.influence.sampling import (
    AdvantageConfig,
    Arithmetic,
    ArithmeticConfig,
    CharacterTokenizer,
    DecodingConfig,
    GeneratedBatch,
    SampleGenerator,
    save_checkpoint,
)
from midstep.influence.study.plan import BatchRequest, FisherKernelConfig, FisherKernelPlan
from midstep.influence.study.runner import FisherKernelRunner
from midstep.models.causal_lm import CausalLM, CausalLMConfig

LARGEST = 9
NEW_TOKENS = 4


def log_pi(model: CausalLM, batch: GeneratedBatch) -> torch.Tensor:
    """The log π of each response, [N], with its graph."""
    logits = model(batch.input_ids, batch.attention_mask)[:, :-1]
    logs = logits.log_softmax(-1).gather(2, batch.input_ids[:, 1:, None])[..., 0]
    return (logs * batch.response_mask[:, 1:]).sum(1)


def warm_up(generator: SampleGenerator, model: CausalLM, steps: int) -> None:
    """Supervised: the reference answers, until about half of the answers are right."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    available = generator.prompts.splits()["train"]
    for step in range(steps):
        stream = RandomStream(step, "warm-up")
        places = [stream.integer(available, at=at) for at in range(64)]
        batch = generator.generate_from_prompt_ids(places, "train", responses="reference")
        (-log_pi(model, batch).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


def train(generator: SampleGenerator, model: CausalLM, steps: int) -> torch.optim.AdamW:
    """GRPO on the policy's own samples: one step a batch, so no ratio and no clipping of it."""
    optimizer = torch.optim.AdamW(model.named_parameters(), lr=3e-4, weight_decay=0.01)
    for step in range(steps):
        batch = generator.generate_update_batch(
            32, 16, "train", seed=step, advantage_cfg=AdvantageConfig(scheme="grpo")
        )
        if batch.diagnostics["all_advantages_zero"]:
            continue  # every group agreed: there is nothing to learn from
        (-(batch.weights.to(torch.float32) * log_pi(model, batch)).sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0 or step == steps - 1:
            right = sum(one.reward_parts["answer"] for one in batch) / len(batch)
            print(f"  step {step:3d}   answers right {100 * right:5.1f} %", flush=True)
    return optimizer


def accuracy(generator: SampleGenerator) -> float:
    """Share of the held-out problems answered right, one sample each."""
    count = generator.prompts.splits()["test"]
    batch = generator.generate_from_prompt_ids(list(range(count)), "test", seed=999)
    return sum(one.reward_parts["answer"] for one in batch) / count


def study(checkpoint: Path, outputs: Path) -> None:
    """Sample an update, predict what it does to held-out problems, and take the true step."""
    config = FisherKernelConfig(
        checkpoint=str(checkpoint),
        prompt_set={"name": "arithmetic", "largest": LARGEST},
        max_new_tokens=NEW_TOKENS,
        outputs=str(outputs),
    )
    plan = FisherKernelPlan(
        name="arithmetic",
        update=BatchRequest(
            kind="update",
            params={"batch_size_prompts": 16, "completions_per_prompt": 8, "seed": 4242},
        ),
        requests=(
            BatchRequest(
                kind="evaluation",
                params={"batch_size_prompts": 20, "with_replacement": False},
                responses="reference",
                name="right answers",
            ),
            BatchRequest(
                kind="custom_sequence", params={"prompt": "9+9=", "response": "18"}, name="nine"
            ),
        ),
        max_grad_norm=1.0,
        validate_rates=(3e-4, 1e-4, 3e-5, 1e-5),
    )
    runner = FisherKernelRunner(config)
    results = runner.run(plan)
    probe = results.request("nine")
    print(
        f"\n  log π(18 | 9+9=) will change by {probe.delta['total'][0].item():+.5f} nats, through"
    )
    for one in probe.contributors[0][:5]:
        record = results.workspace.batch.record(one.sequence_id)
        said = f"{record.prompt_text}{record.response_text}"
        print(
            f"    {one.contribution:+.6f}  {one.sequence_id}  {said:10s} A={record.advantage:+.2f}"
        )
    checked = results.validation or {}
    print("\n  predicted against a true AdamW step, on held-out right answers")
    for found in checked["rates"]:
        share, r = 100 * found["relative_error"], found["correlation"]
        print(f"    η={found['lr']:.0e}   error {share:7.3f} %   r={r:.6f}")
    print(f"    slope of the error {checked['slope']:.3f} (1: exact to first order)")
    print(f"\n  report: {results.directory / 'report.html'}")
    print(f"  on the page: midstep serve {outputs.parent}, then Influence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("outputs/arithmetic"))
    parser.add_argument("--results", type=Path, default=Path("outputs/influence"))
    parser.add_argument("--warm-up", type=int, default=250)
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args()
    start = time.monotonic()
    tokenizer = CharacterTokenizer("0123456789+-=")
    model = CausalLM(
        CausalLMConfig(vocab_size=tokenizer.vocab_size, width=64, layers=2, heads=4, context=16)
    )
    generator = SampleGenerator(
        model,
        tokenizer,
        Arithmetic(ArithmeticConfig(largest=LARGEST)),
        decoding=DecodingConfig(max_new_tokens=NEW_TOKENS, microbatch=512),
    )
    warm_up(generator, model, asked.warm_up)
    print(f"after the supervised warm-up   held-out {100 * accuracy(generator):.1f} %")
    optimizer = train(generator, model, asked.steps)
    print(f"after GRPO                     held-out {100 * accuracy(generator):.1f} %")
    name = f"step-{asked.steps}-{time.strftime('%Y%m%dT%H%M%S')}"
    asked.folder.mkdir(parents=True, exist_ok=True)
    checkpoint = save_checkpoint(asked.folder / name, model, tokenizer, optimizer)
    study(checkpoint, asked.results)
    print(f"  {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
