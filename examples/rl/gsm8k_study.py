"""One GRPO-style update of a local language model on GSM8K: sampled, predicted, checked.

    python examples/rl/gsm8k_study.py --model FOLDER --gsm8k FOLDER
    midstep serve outputs

The model is a folder that transformers can load (extra `hf`), for example SmolLM2-135M-Instruct;
the other folder holds train.jsonl and test.jsonl. A few supervised steps on reference solutions
come first: they give Adam its state and show the model the tags that the reward asks for. The model
goes to `--out`, the study to `--results`, which `midstep serve` of the folder above it shows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from midstep.influence.sampling import (
    DecodingConfig,
    GeneratedBatch,
    SampleGenerator,
    prompt_set,
    save_batch,
)
from midstep.influence.study.plan import BatchRequest, FisherKernelConfig, FisherKernelPlan
from midstep.influence.study.runner import FisherKernelRunner

TRIES = 6


def reference_batches(generator: SampleGenerator, count: int, size: int) -> list[GeneratedBatch]:
    """Batches of the shortest reference solutions, which are the cheapest to learn from."""
    prompts = generator.prompts
    places = range(min(400, prompts.splits()["train"]))
    lengths = {at: len(prompts.prompt("train", at).reference or "") for at in places}
    shortest = sorted(lengths, key=lambda at: lengths[at])[: count * size]
    return [
        generator.generate_from_prompt_ids(shortest[at::count], "train", responses="reference")
        for at in range(count)
    ]


def warm_up(model: Any, batches: list[GeneratedBatch], rate: float) -> torch.optim.AdamW:
    """Supervised steps on whole solutions; the optimizer knows its parameters by name."""
    optimizer = torch.optim.AdamW(model.named_parameters(), lr=rate, weight_decay=0.01)
    for number, batch in enumerate(batches):
        logits = model(batch.input_ids, attention_mask=batch.attention_mask.long()).logits[:, :-1]
        targets = batch.input_ids[:, 1:].masked_fill(~batch.response_mask[:, 1:], -100)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"  warm-up {number + 1}/{len(batches)}   loss {loss.item():.3f}", flush=True)
    return optimizer


def sampled_update(generator: SampleGenerator, prompts: int, completions: int) -> GeneratedBatch:
    """The first update in which some group of responses disagrees."""
    for seed in range(TRIES):
        batch = generator.generate_update_batch(prompts, completions, "train", seed=seed)
        print(f"  seed {seed}   mean reward {batch.diagnostics['mean_reward']:.3f}", flush=True)
        if not batch.diagnostics["all_advantages_zero"]:
            return batch
    raise SystemExit(f"no group disagreed in {TRIES} batches: warm up longer, or sample more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--gsm8k", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("outputs/gsm8k"))
    parser.add_argument("--results", type=Path, default=Path("outputs/influence"))
    parser.add_argument("--warm-up", type=int, default=12)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--completions", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=96)
    asked = parser.parse_args()

    decoding = DecodingConfig(max_new_tokens=asked.new_tokens, temperature=0.8)
    questions = {"name": "gsm8k", "path": str(asked.gsm8k)}
    generator = SampleGenerator.from_checkpoint(
        asked.model, prompt_set(**questions), decoding=decoding
    )
    model: Any = generator.model.module
    optimizer = warm_up(model, reference_batches(generator, asked.warm_up, 4), asked.rate)
    checkpoint = asked.out / "model"
    model.save_pretrained(checkpoint)
    generator.tokenizer.tokenizer.save_pretrained(checkpoint)  # type: ignore[attr-defined]
    torch.save(optimizer.state_dict(), checkpoint / "optimizer.pt")
    update = sampled_update(generator, asked.prompts, asked.completions)
    number = len(list(asked.out.glob("update-*")))
    place = save_batch(update, asked.out / f"update-{number}")

    config = FisherKernelConfig(
        checkpoint=str(checkpoint),
        optimizer_state=str(checkpoint / "optimizer.pt"),
        prompt_set=questions,
        max_new_tokens=asked.new_tokens,
        temperature=0.8,
        outputs=str(asked.results),
    )
    plan = FisherKernelPlan(
        name="gsm8k",
        update=BatchRequest(kind="from_file", params={"path": str(place)}),
        requests=(
            BatchRequest(
                kind="evaluation", params={"batch_size_prompts": 8}, responses="reference"
            ),
        ),
        validate_rates=(1e-5, 1e-6, 1e-7),
    )
    results = FisherKernelRunner(config).run(plan)
    for one in (results.validation or {})["rates"]:
        error, r = float(one["relative_error"]), float(one["correlation"])
        print(f"  η={float(one['lr']):.0e}   error {100 * error:.3f} %   r={r:.6f}")
    print(f"  report: {results.directory}/report.html")
    print(f"  on the page: midstep serve {asked.results.parent}, then Influence")


if __name__ == "__main__":
    main()
