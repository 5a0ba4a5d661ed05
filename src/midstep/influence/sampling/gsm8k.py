"""GSM8K word problems (Cobbe et al. 2021) from local JSONL files, with tags for reasoning.

Each line has `question` and `answer`; the final answer follows after `####`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError
from midstep.influence.sampling.prompt_sets import Judgement, Prompt

TEMPLATE = (
    "A user asks a question and an assistant solves it. The assistant first thinks about the "
    "problem and then gives the answer. The thinking stands between <think> and </think>, the "
    "answer between <answer> and </answer>: <think> thinking </think> <answer> answer </answer>.\n"
    "User: {question}\nAssistant:"
)
_CALCULATION = re.compile(r"<<[^<>]*>>")
_FORM = re.compile(r"\s*<think>(.*?)</think>\s*<answer>(.*?)</answer>\s*", re.DOTALL)
_TAGS = ("<think>", "</think>", "<answer>", "</answer>")
_NUMBER = re.compile(r"-?[0-9][0-9,]*(?:\.[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class GSM8KConfig:
    """Settings of the prompt set."""

    path: str
    """Folder with train.jsonl and test.jsonl, or one JSONL file, which becomes `train`."""


class GSM8K:
    """Word problems in the form of DeepSeek-R1: reasoning and answer in tags."""

    name = "gsm8k"

    def __init__(self, config: GSM8KConfig) -> None:
        self.config = config
        self._problems = {
            split: _read_problems(file) for split, file in _find_files(Path(config.path)).items()
        }

    def splits(self) -> Mapping[str, int]:
        """The number of problems of each file."""
        return {split: len(problems) for split, problems in self._problems.items()}

    def prompt(self, split: str, index: int) -> Prompt:
        """The problem with this index. Its id contains a hash of the question."""
        question, solution = self._problems[split][index]
        reasoning, _, final = solution.rpartition("####")
        answer = final.strip()
        digest = hashlib.blake2b(question.encode(), digest_size=4).hexdigest()
        # Solutions contain calculator annotations such as <<48/2=24>>, which are not part of the
        # text.
        thinking = _CALCULATION.sub("", reasoning).strip()
        return Prompt(
            global_prompt_id=f"gsm8k-{split}-{index:05d}-{digest}",
            split=split,
            text=self.apply_template(question),
            answer=answer,
            reference=f" <think> {thinking} </think> <answer> {answer} </answer>",
            metadata={"question": question},
        )

    def apply_template(self, question: str) -> str:
        """The question with the instructions around it."""
        return TEMPLATE.replace("{question}", question.strip())

    def judge(self, prompt: Prompt, response: str) -> Judgement:
        """Form: each tag once, in order, no text outside. Answer: the one number in its tags."""
        answers = re.findall(r"<answer>(.*?)</answer>", response, re.DOTALL)
        is_well_formed = _FORM.fullmatch(response) is not None and all(
            response.count(tag) == 1 for tag in _TAGS
        )
        is_right = len(answers) == 1 and _same_number(answers[0], prompt.answer)
        return Judgement(format=float(is_well_formed), answer=float(is_right))


def _same_number(given: str, expected: str | None) -> bool:
    """Whether `given` contains exactly one number, and it is the expected one."""
    numbers: list[str] = _NUMBER.findall(given)
    if len(numbers) != 1 or expected is None:
        return False
    # Decimal, so that 0.1 equals 0.10 and 1,000 equals 1000 without rounding.
    try:
        return bool(Decimal(numbers[0].replace(",", "")) == Decimal(expected.replace(",", "")))
    except InvalidOperation:
        return str(numbers[0]) == expected


def _find_files(path: Path) -> dict[str, Path]:
    if path.is_file():
        return {"train": path}
    files = {
        split: path / f"{split}.jsonl"
        for split in ("train", "test")
        if (path / f"{split}.jsonl").is_file()
    }
    if not files:
        raise ConfigError(
            f"no GSM8K files at {path}; give a folder with train.jsonl or test.jsonl, lines with "
            "the keys question and answer (openai/grade-school-math has them)"
        )
    return files


def _read_problems(file: Path) -> list[tuple[str, str]]:
    problems = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        record = strict_json.loads(line)
        if not isinstance(record, dict) or not {"question", "answer"} <= record.keys():
            raise FormatError(f"{file}, line {number}: keys question and answer are needed")
        if "####" not in record["answer"]:
            raise FormatError(f"{file}, line {number}: the answer has no '####' before its number")
        problems.append((str(record["question"]), str(record["answer"])))
    if not problems:
        raise FormatError(f"{file} has no problems in it")
    return problems
