"""A prompt set of sums and differences: generated, with exact answers, no file needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, require
from midstep.core.random_streams import RandomStream
from midstep.influence.sampling.prompt_sets import Judgement, Prompt

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")


@dataclass(frozen=True, kw_only=True)
class ArithmeticConfig:
    """Settings of the prompt set."""

    largest: int = 19
    """Operands go from 0 to this."""
    operations: str = "+-"
    """Signs in use, out of + - *."""
    test_share: float = 0.1
    """Share of the problems in the split `test`."""
    seed: int = 0
    """Seed of the order of the problems. Ids of prompts depend on it."""

    def __post_init__(self) -> None:
        require(at_least("largest", self.largest, 1))
        if not self.operations or set(self.operations) - set("+-*"):
            raise ConfigError(f"operations must be some of + - *, got {self.operations!r}")
        if not 0 < self.test_share < 1:
            raise ConfigError(f"test_share must be between 0 and 1, got {self.test_share}")


class Arithmetic:
    """All problems of two operands, each in exactly one split.

    >>> problem = Arithmetic(ArithmeticConfig()).prompt("train", 0)
    >>> problem.global_prompt_id, problem.text, problem.answer
    ('arithmetic-train-00000-5+3', '5+3=', '8')
    """

    name = "arithmetic"

    def __init__(self, config: ArithmeticConfig | None = None) -> None:
        self.config = config or ArithmeticConfig()

    @cached_property
    def _problems(self) -> dict[str, list[str]]:
        operands = range(self.config.largest + 1)
        signs = dict.fromkeys(self.config.operations)
        problems = [f"{a}{sign}{b}" for sign in signs for a in operands for b in operands]
        stream = RandomStream(self.config.seed, "arithmetic.order")
        order = sorted(range(len(problems)), key=stream.bits)
        test_count = max(1, round(self.config.test_share * len(problems)))
        return {
            "train": [problems[at] for at in order[test_count:]],
            "test": [problems[at] for at in order[:test_count]],
        }

    def splits(self) -> Mapping[str, int]:
        """The number of problems of `train` and `test`."""
        return {split: len(problems) for split, problems in self._problems.items()}

    def prompt(self, split: str, index: int) -> Prompt:
        """The problem with this index in the split."""
        problem = self._problems[split][index]
        answer = str(_solve(problem))
        return Prompt(
            global_prompt_id=f"arithmetic-{split}-{index:05d}-{problem}",
            split=split,
            text=self.apply_template(problem),
            answer=answer,
            reference=answer,
            metadata={"question": problem},
        )

    def apply_template(self, question: str) -> str:
        """A problem followed by an equals sign."""
        bare = question.strip()
        return bare if bare.endswith("=") else f"{bare}="

    def judge(self, prompt: Prompt, response: str) -> Judgement:
        """The form is right for a number alone, the answer for the right number."""
        is_number = _NUMBER.fullmatch(response) is not None
        return Judgement(
            format=float(is_number), answer=float(is_number and response == prompt.answer)
        )


def _solve(problem: str) -> int:
    match = re.fullmatch(r"(\d+)([-+*])(\d+)", problem)
    if match is None:
        raise ConfigError(f"{problem!r} is not a problem of two operands, such as 3+4")
    first, second = int(match[1]), int(match[3])
    return {"+": first + second, "-": first - second, "*": first * second}[match[2]]
