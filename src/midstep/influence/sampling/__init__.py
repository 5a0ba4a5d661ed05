"""Sampling: prompts, responses, rewards and advantages, with permanent ids."""

from midstep.influence.fingerprints import BatchFingerprint
from midstep.influence.sampling.arithmetic import Arithmetic, ArithmeticConfig
from midstep.influence.sampling.batch_files import load_batch, save_batch
from midstep.influence.sampling.decoding import DecodingConfig
from midstep.influence.sampling.generated_batch import GeneratedBatch, Provenance, SequenceRecord
from midstep.influence.sampling.gsm8k import GSM8K, GSM8KConfig
from midstep.influence.sampling.lm_checkpoints import load_checkpoint, save_checkpoint
from midstep.influence.sampling.prompt_sets import Prompt, PromptSet, prompt_set
from midstep.influence.sampling.rewards import (
    AdvantageConfig,
    RewardConfig,
    advantages_of,
    weights_of,
)
from midstep.influence.sampling.sample_generator import SampleGenerator
from midstep.influence.sampling.sequence_processor import SequenceProcessor
from midstep.influence.sampling.tokenizers import CharacterTokenizer, HuggingFaceTokenizer

__all__ = [
    "GSM8K",
    "AdvantageConfig",
    "Arithmetic",
    "ArithmeticConfig",
    "BatchFingerprint",
    "CharacterTokenizer",
    "DecodingConfig",
    "GSM8KConfig",
    "GeneratedBatch",
    "HuggingFaceTokenizer",
    "Prompt",
    "PromptSet",
    "Provenance",
    "RewardConfig",
    "SampleGenerator",
    "SequenceProcessor",
    "SequenceRecord",
    "advantages_of",
    "load_batch",
    "load_checkpoint",
    "prompt_set",
    "save_batch",
    "save_checkpoint",
    "weights_of",
]
