"""Prompt sets, rules, and advantages against a direct computation."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest
import torch

from midstep.core.errors import ConfigError, FormatError
from midstep.influence.sampling import (
    GSM8K,
    AdvantageConfig,
    Arithmetic,
    ArithmeticConfig,
    GSM8KConfig,
    RewardConfig,
    advantages_of,
    prompt_set,
    weights_of,
)
from midstep.influence.sampling.prompt_sets import Judgement, resolve_prompt
from midstep.influence.sampling.rewards import weighted_reward

REWARDS = [1.1, 0.0, 0.1, 1.1, 0.1, 0.1]
GROUPS = ["a", "b", "a", "a", "b", "b"]
LENGTHS = [3, 1, 4, 1, 5, 2]
REAL = Path(__file__).parents[4] / "shared" / "data" / "gsm8k"


def direct(scheme: str) -> tuple[list[float], list[float]]:
    """Advantages and weights written down as the papers do."""
    advantages, weights = [], []
    for at, reward in enumerate(REWARDS):
        group = [r for r, g in zip(REWARDS, GROUPS, strict=True) if g == GROUPS[at]]
        others = [r for k, r in enumerate(REWARDS) if GROUPS[k] == GROUPS[at] and k != at]
        if scheme == "grpo":
            advantage = (reward - statistics.mean(group)) / (statistics.stdev(group) + 1e-4)
            weight = advantage / LENGTHS[at] / 6
        elif scheme == "dr_grpo":
            advantage = reward - statistics.mean(group)
            weight = advantage / 8 / 6
        elif scheme == "rloo":
            advantage = reward - statistics.mean(others)
            weight = advantage / 6
        else:
            advantage = reward - 0.25
            weight = advantage / 6
        advantages.append(advantage)
        weights.append(weight)
    return advantages, weights


@pytest.mark.parametrize("scheme", ["grpo", "dr_grpo", "rloo", "reinforce"])
def test_advantages_and_weights_equal_a_direct_computation(scheme: str) -> None:
    config = AdvantageConfig(scheme=scheme, baseline=0.25)
    advantages = advantages_of(torch.tensor(REWARDS, dtype=torch.float64), GROUPS, config)
    weights = weights_of(advantages, LENGTHS, config, max_new_tokens=8)
    expected_advantages, expected_weights = direct(scheme)
    assert advantages.tolist() == pytest.approx(expected_advantages, abs=1e-14)
    assert weights.tolist() == pytest.approx(expected_weights, abs=1e-14)


def test_equal_rewards_give_zero_and_nan_is_refused() -> None:
    config = AdvantageConfig()
    assert advantages_of(torch.ones(4), ["a"] * 4, config).tolist() == [0.0] * 4
    with pytest.raises(ConfigError, match="NaN or infinite"):
        advantages_of(torch.tensor([1.0, math.nan]), ["a", "a"], config)
    with pytest.raises(ConfigError, match="scheme must be one of"):
        AdvantageConfig(scheme="ppo")


def test_arithmetic_problems_stand_once_in_one_split() -> None:
    problems = Arithmetic(ArithmeticConfig(largest=4, operations="+-*"))
    every = [
        problems.prompt(split, at) for split, n in problems.splits().items() for at in range(n)
    ]
    assert len({one.text for one in every}) == len(every) == 3 * 25
    for one in every:
        assert eval(one.text[:-1]) == int(one.answer)
        assert resolve_prompt(problems, one.split, one.global_prompt_id) == one


@pytest.mark.parametrize(
    ("response", "judged"),
    [
        ("20", (1, 1)),
        ("21", (1, 0)),
        (" 20", (0, 0)),
        ("020", (0, 0)),
        ("", (0, 0)),
        ("-0", (1, 0)),
    ],
)
def test_arithmetic_is_judged_exactly(response: str, judged: tuple[int, int]) -> None:
    problems = Arithmetic()
    prompt = problems.prompt("train", 0)
    response = response.replace("20", prompt.answer).replace("21", prompt.answer + "1")
    found = problems.judge(prompt, response)
    assert (found.format, found.answer) == judged
    assert weighted_reward(found, RewardConfig()) == pytest.approx(judged[0] * 0.1 + judged[1])


@pytest.fixture
def words(tmp_path: Path) -> GSM8K:
    (tmp_path / "train.jsonl").write_text(
        '{"question": "Two and 1,000?", "answer": "2+1000=<<2+1000=1002>>1002\\n#### 1,002"}\n\n'
    )
    return GSM8K(GSM8KConfig(path=str(tmp_path)))


def test_word_problem_carries_tags_answer_and_reference(words: GSM8K) -> None:
    prompt = words.prompt("train", 0)
    assert "<think>" in prompt.text
    assert "User: Two and 1,000?" in prompt.text
    assert prompt.reference == " <think> 2+1000=1002 </think> <answer> 1,002 </answer>"
    assert words.judge(prompt, prompt.reference) == Judgement(format=1.0, answer=1.0)
    assert resolve_prompt(words, "train", prompt.global_prompt_id) == prompt


@pytest.mark.parametrize(
    ("response", "judged"),
    [
        ("<think>a</think><answer>1002</answer>", (1, 1)),
        ("<think>a</think><answer>$1,002.00</answer>", (1, 1)),
        ("<answer>1002</answer>", (0, 1)),
        ("<think>a</think><answer>7</answer>", (1, 0)),
        ("<think>a</think><answer>2 or 1002</answer>", (1, 0)),
        ("<think>a</think><answer>1</answer><answer>1002</answer>", (0, 0)),
        ("1002", (0, 0)),
    ],
)
def test_word_problem_is_judged_by_its_tags(
    words: GSM8K, response: str, judged: tuple[int, int]
) -> None:
    found = words.judge(words.prompt("train", 0), response)
    assert (found.format, found.answer) == judged


def test_files_that_are_no_word_problems_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no GSM8K files"):
        prompt_set("gsm8k", path=str(tmp_path))
    file = tmp_path / "train.jsonl"
    for line, word in (
        ('{"question": "a"}', "line 1: keys"),
        ('{"question": "a", "answer": "7"}', "no '####'"),
        ("", "no problems"),
    ):
        file.write_text(line)
        with pytest.raises(FormatError, match=word):
            prompt_set("gsm8k", path=str(file))
    with pytest.raises(ConfigError, match="unexpected keyword argument 'big'"):
        prompt_set("arithmetic", big=1)
    with pytest.raises(ConfigError, match="no prompt set 'math'"):
        prompt_set("math")


def test_every_reference_of_the_real_set_is_judged_right() -> None:
    if not REAL.is_dir():
        pytest.skip(f"the GSM8K files are not at {REAL}")
    problems = GSM8K(GSM8KConfig(path=str(REAL)))
    assert dict(problems.splits()) == {"train": 7473, "test": 1319}
    for at in range(1319):
        prompt = problems.prompt("test", at)
        assert problems.judge(prompt, prompt.reference) == Judgement(format=1.0, answer=1.0)
