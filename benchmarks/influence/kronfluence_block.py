"""The block that kronfluence's `identity` strategy gives: inner products of linear layers."""

from __future__ import annotations

import copy
import tempfile
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from midstep.influence.gradients.sequences import SequenceBatch

__all__ = ["identity_block", "linear_names"]


def linear_names(model: nn.Module) -> list[str]:
    """The linear layers of a model, without its head."""
    return [
        name
        for name, each in model.named_modules()
        if isinstance(each, nn.Linear) and name != "head"
    ]


class Rows(Dataset[dict[str, Tensor]]):
    """A batch as a data set of its rows."""

    def __init__(self, batch: SequenceBatch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"ids": self.batch.input_ids[index], "mask": self.batch.response_mask[index]}


def identity_block(model: nn.Module, update: SequenceBatch, evaluation: SequenceBatch) -> Tensor:
    """[nE, nU] inner products of the gradients of all linear layers but the head."""
    from kronfluence.analyzer import Analyzer, prepare_model  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from kronfluence.arguments import FactorArguments, ScoreArguments  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from kronfluence.task import Task  # type: ignore[import-not-found,import-untyped,unused-ignore]

    names = linear_names(model)

    class Likelihood(Task):  # type: ignore[misc]
        """Both losses are the negative log-probability of the response."""

        def compute_train_loss(self, batch: Any, model: nn.Module, sample: bool = False) -> Tensor:  # noqa: ARG002
            ids, mask = batch["ids"], batch["mask"]
            logp = model(ids)[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
            loss: Tensor = -(logp * mask[:, 1:]).sum()
            return loss

        def compute_measurement(self, batch: Any, model: nn.Module) -> Tensor:
            return self.compute_train_loss(batch, model)

        def get_influence_tracked_modules(self) -> list[str]:
            return names

    task = Likelihood()
    watched = prepare_model(model=copy.deepcopy(model), task=task)
    with tempfile.TemporaryDirectory() as folder:
        analyzer = Analyzer(
            analysis_name="block", model=watched, task=task, cpu=True, disable_tqdm=True,
            output_dir=folder, log_level=50,
        )  # fmt: skip
        analyzer.fit_all_factors(
            factors_name="plain", dataset=Rows(update), per_device_batch_size=len(update),
            factor_args=FactorArguments(strategy="identity"),
        )  # fmt: skip
        dtype = next(model.parameters()).dtype
        analyzer.compute_pairwise_scores(
            scores_name="block", factors_name="plain", query_dataset=Rows(evaluation),
            train_dataset=Rows(update), per_device_query_batch_size=len(evaluation),
            per_device_train_batch_size=len(update),
            score_args=ScoreArguments(
                per_sample_gradient_dtype=dtype, precondition_dtype=dtype, score_dtype=dtype
            ),
        )  # fmt: skip
        made = analyzer.load_pairwise_scores("block")
    block: Tensor = made["all_modules"].to(torch.float64)
    return block
