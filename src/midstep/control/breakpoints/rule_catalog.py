"""The catalog of rules: ready-made breakpoints for common failures of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from midstep.control.breakpoints.layer_report import Measure
from midstep.control.setting_checks import check_integer, check_number, check_text
from midstep.core.errors import ConfigError

MAX_WINDOW = 1_000_000
"""Rules keep a window in memory, so it is bounded."""


@dataclass(frozen=True, kw_only=True)
class RuleSettings:
    """The settings of a rule. None as a default means that the rule does not take it."""

    limit: float | None = None
    """The main limit; see the rule for its meaning."""
    low: float | None = None
    """The lower limit of a rule with two limits."""
    window: int | None = None
    """Measurements in a row for which it must hold, or steps that are compared."""
    every: int | None = None
    """Steps between two measurements."""
    layers: str | None = None
    """Only layers whose name contains this."""
    metric: str | None = None
    """Name of the logged scalar that is checked."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is None:
                continue
            if name in ("limit", "low"):
                check_number(f"{name} of a rule", value, least=0)
            elif name in ("window", "every"):
                check_integer(f"{name} of a rule", value, least=1, most=MAX_WINDOW)
            else:
                check_text(f"{name} of a rule", value)

    def with_overrides(self, given: Mapping[str, Any], rule: str) -> RuleSettings:
        """These defaults, with the given settings instead of them."""
        taken = sorted(name for name, default in asdict(self).items() if default is not None)
        for name in given:
            if name not in (*taken, "layers"):
                raise ConfigError(f"rule {rule!r} takes no {name}; it takes {taken}")
        return replace(self, **given)


@dataclass(frozen=True, kw_only=True)
class RuleSpec:
    """One rule: condition, default settings, explanation."""

    name: str
    title: str
    """A heading, such as `Vanishing gradients`."""
    condition: str
    """The condition in words, with `{limit}`, `{low}`, `{window}` and `{metric}` to fill in."""
    defaults: RuleSettings
    means: str
    """What a finding means, for a reader who sees it for the first time."""
    causes: tuple[str, ...]
    """What usually causes it, most frequent first."""
    advice: tuple[str, ...]
    """What to try."""
    measures: frozenset[Measure] = frozenset()
    """What it needs measured inside the model."""
    reads_loss: bool = False
    """Whether it needs the loss of each step."""

    def scalars(self, settings: RuleSettings) -> frozenset[str]:
        """Names of the scalars it needs."""
        named = frozenset() if settings.metric is None else frozenset({settings.metric})
        return named | {"loss"} if self.reads_loss else named

    def words(self, settings: RuleSettings) -> str:
        """The condition in words with these settings filled in."""
        values = asdict(settings)
        text = self.condition.format(
            **{
                k: f"{v:,}" if isinstance(v, int) else f"{v:g}" if isinstance(v, float) else v
                for k, v in values.items()
            }
        )
        return text if settings.layers is None else f"{text}, in {settings.layers}"

    def describe(self) -> dict[str, Any]:
        """The rule as JSON: name, words, defaults, explanation."""
        return {
            "rule": self.name,
            "title": self.title,
            "words": self.words(self.defaults),
            "defaults": asdict(self.defaults),
            "needs_model": bool(self.measures),
            "explanation": self.explain(),
        }

    def explain(self) -> dict[str, Any]:
        """Title and explanation as JSON."""
        return {name: getattr(self, name) for name in ("title", "means", "causes", "advice")}


_SPECS: tuple[RuleSpec, ...] = (
    RuleSpec(
        name="vanishing_gradients",
        title="Vanishing gradients",
        condition="gradient of a layer < {limit} × the largest layer's, {window} times in a row",
        defaults=RuleSettings(limit=1e-4, window=3, every=10),
        measures=frozenset({"gradients"}),
        means=(
            "This layer gets almost no gradient compared with the others, so it hardly "
            "learns. Gradients are compared by their root mean square."
        ),
        causes=(
            "many sigmoid or tanh layers in a row",
            "weights that start too small",
            "a deep stack without skip connections or normalisation",
        ),
        advice=(
            "use ReLU or GELU in place of sigmoid and tanh",
            "initialise with the gain of the activation (Kaiming, Xavier)",
            "add skip connections or layer normalisation",
        ),
    ),
    RuleSpec(
        name="exploding_gradients",
        title="Exploding gradients",
        condition="gradient norm of a layer > {limit} × its weights, or a hundred times its median",
        # Every step: a spike lasts for one step only.
        defaults=RuleSettings(limit=1000.0, window=20, every=1),
        measures=frozenset({"gradients"}),
        means=(
            "The gradient of this layer is so large that one step may undo what the model has "
            "learned."
        ),
        causes=(
            "a learning rate that is too high",
            "no gradient clipping in a recurrent or very deep model",
            "a broken sample: an outlier, a wrong scale, a wrong label",
            "a loss that is summed instead of averaged",
        ),
        advice=(
            "look at the samples of this step",
            "clip with torch.nn.utils.clip_grad_norm_",
            "lower the learning rate, or warm it up",
        ),
    ),
    RuleSpec(
        name="dead_relus",
        title="Dead ReLUs",
        condition="share of dead units in a ReLU layer > {limit}, {window} times in a row",
        # A unit is dead if it was zero in the last eight measurements, so `window` is short.
        defaults=RuleSettings(limit=0.5, window=2, every=10),
        measures=frozenset({"activations"}),
        means=(
            "Units of this layer were zero for every sample of the last measurements. They "
            "get no gradient and do not change any more."
        ),
        causes=(
            "a learning rate so high that biases became very negative",
            "inputs that are not centred",
            "an initial bias that is strongly negative",
        ),
        advice=(
            "lower the learning rate",
            "use LeakyReLU or GELU",
            "normalise the inputs, or put normalisation before the ReLU",
        ),
    ),
    RuleSpec(
        name="saturated_activations",
        title="Saturated activations",
        condition="share of saturated elements in a layer > {limit}, {window} times in a row",
        defaults=RuleSettings(limit=0.8, window=3, every=10),
        measures=frozenset({"activations"}),
        means=(
            "Most outputs of this sigmoid or tanh are close to its limits, where the gradient "
            "is almost zero: the layers before it learn slowly or not at all. The last "
            "activation of a model is not checked, because it is meant to saturate."
        ),
        causes=(
            "weights that are or have become too large",
            "inputs with a large scale",
        ),
        advice=(
            "scale the inputs to unit variance",
            "use weight decay, or initialise smaller",
            "put normalisation before the activation",
        ),
    ),
    RuleSpec(
        name="loss_not_falling",
        title="Loss is not falling",
        condition="mean loss of the last {window} steps fell by less than {limit} of its height",
        # No `every`: the loss of each step is logged anyway, and the noise of single batches
        # averages out over 250 steps.
        defaults=RuleSettings(limit=1e-3, window=500),
        reads_loss=True,
        means=(
            "The mean loss of the second half of the window is not lower than that of the "
            "first: the loss is flat, it rises, or the training has converged."
        ),
        causes=(
            "a learning rate that is far too low or too high",
            "labels that do not belong to the inputs, for example shuffled ones",
            "an optimizer with parameters of another model",
            "a training that has converged",
        ),
        advice=(
            "try to overfit a single batch: if that fails, the code has a bug",
            "change the learning rate by a factor of ten, up and down",
            "look at the batch: do inputs and labels match",
        ),
    ),
    RuleSpec(
        name="unchanged_weights",
        title="Unchanged weights",
        condition="a parameter did not change by one bit, {window} times in a row",
        defaults=RuleSettings(window=3, every=10),
        measures=frozenset({"gradients", "updates"}),
        means="This parameter requires gradients, but the optimizer does not change it.",
        causes=(
            "the optimizer was made before the layer, or from other parameters",
            "the loss does not depend on the layer",
            "updates that are too small for half precision",
        ),
        advice=(
            "compare the optimizer's parameters with model.parameters()",
            "freeze it with requires_grad_(False) if that is what you want",
            "keep weights in 32 bits",
        ),
    ),
    RuleSpec(
        name="all_zero_tensors",
        title="All-zero tensors",
        condition="all of a weight, its gradient or an output is zero, {window} times in a row",
        defaults=RuleSettings(window=3, every=10),
        measures=frozenset({"gradients", "activations"}),
        means="Every element of this tensor is exactly zero, so no signal passes through it.",
        causes=(
            "a mask, a gate or a loss weight that is zero everywhere",
            "a layer whose units are all dead",
            "weights that start at zero",
        ),
        advice=(
            "check what it is multiplied with",
            "check the layer before it, which is often the cause",
            "initialise at random, unless zero is intended, as in a residual branch",
        ),
    ),
    RuleSpec(
        name="nonfinite_layer",
        title="Not finite",
        condition="an output, a gradient or a weight is NaN or infinite",
        # Every step: one step later NaN is in all layers, and its origin is lost.
        defaults=RuleSettings(every=1),
        measures=frozenset({"gradients", "activations"}),
        means=(
            "NaN or infinity appeared in this layer first. It spreads to all weights within "
            "one or two steps."
        ),
        causes=(
            "a logarithm, a division or a root of zero",
            "numbers too large for half precision",
            "a sample that contains NaN",
            "a learning rate that is too high",
        ),
        advice=(
            "look at the samples of this step",
            "add a small number inside the logarithm or the root",
            "go back some steps and single-step to it",
        ),
    ),
    RuleSpec(
        name="update_ratio",
        title="Update ratio out of range",
        condition="update ÷ weight of a layer outside {low} to {limit}, {window} times in a row",
        # Updates need a clone of the weights, so they are not measured in every step.
        defaults=RuleSettings(limit=0.3, low=1e-7, window=3, every=10),
        measures=frozenset({"gradients", "updates"}),
        means=(
            "A step changes this layer by much more or much less than usual; about a "
            "thousandth of its norm is common."
        ),
        causes=(
            "a learning rate that does not suit this layer",
            "initial weights that are far too small or too large",
            "a learning rate schedule that has ended",
        ),
        advice=(
            "change the learning rate, or give this layer a group of its own",
            "compare the norms of all layers",
        ),
    ),
    RuleSpec(
        name="overfitting",
        title="Overfitting",
        condition="{metric} > {limit} above its best while the training loss falls, {window} times",
        defaults=RuleSettings(limit=0.05, window=3, metric="val_loss"),
        reads_loss=True,
        means=(
            "The validation loss rises while the training loss still falls: the model "
            "memorises the training samples."
        ),
        causes=(
            "more parameters than the data can determine",
            "too many epochs",
            "no augmentation, dropout or weight decay",
        ),
        advice=(
            "go back to the step with the best validation",
            "add regularisation or data",
            "stop earlier",
        ),
    ),
)

RULES: dict[str, RuleSpec] = {spec.name: spec for spec in _SPECS}
"""Every rule by name."""
