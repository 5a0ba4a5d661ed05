"""`rebuild_model`: the model of a composed run from its recorded settings, without its loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.core.field_checks import read_dataclass
from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.adversarial import AdversarialAutoencoder, Discriminator
from midstep.models.autoencoder.autoencoder import Autoencoder
from midstep.models.autoencoder.builders import build_from_config
from midstep.models.autoencoder.part_configs import DiscriminatorConfig, ModelConfig
from midstep.models.classifier import Classifier
from midstep.models.classifier_config import ClassifierConfig
from midstep.models.linear_autoencoder import LinearAutoencoder, LinearAutoencoderConfig

if TYPE_CHECKING:
    from torch import nn

Settings = Mapping[str, Any]


def rebuild_model(settings: Settings, spec: SampleSpec) -> nn.Module:
    """A model whose weights load from the checkpoints of the run.

    >>> spec = SampleSpec(kind="vector", features=6, classes=2)
    >>> settings = {"loop": {"name": "mlp", "hidden_dims": [4], "dropout": 0.0}}
    >>> sum(weight.numel() for weight in rebuild_model(settings, spec).parameters())
    38

    Args:
        settings: those in `.hydra/config.yaml` of the run.
        spec: of the data of the run.

    Raises:
        ConfigError: the loop is of another package; only that package can build its model.
    """
    name = settings["loop"]["name"]
    if name not in _MODELS:
        raise ConfigError(
            f"the model of loop={name} cannot be rebuilt here; the package that adds the loop "
            f"builds it (here: {', '.join(_MODELS)})"
        )
    return _MODELS[name](settings, spec)


def _autoencoder(settings: Settings, spec: SampleSpec) -> Autoencoder:
    parts = {name: each for name, each in settings["phase1"].items() if name != "trainer"}
    return build_from_config(read_dataclass(ModelConfig, parts, path="phase1"), spec)


def _adversarial(settings: Settings, spec: SampleSpec) -> AdversarialAutoencoder:
    given = settings["loop"]["discriminator"]
    config = read_dataclass(DiscriminatorConfig, given, path="loop.discriminator")
    return AdversarialAutoencoder(_autoencoder(settings, spec), Discriminator(config, spec))


def _classifier(settings: Settings, spec: SampleSpec) -> Classifier:
    own = {name: value for name, value in settings["loop"].items() if name != "name"}
    return Classifier(spec, read_dataclass(ClassifierConfig, own, path="loop"))


def _linear(settings: Settings, spec: SampleSpec) -> LinearAutoencoder:
    config = LinearAutoencoderConfig(
        inputs=spec.channels * spec.height * spec.width,
        hidden=settings["loop"]["hidden"],
        seed=settings["phase1"]["trainer"]["seed"],
    )
    return LinearAutoencoder(config)


_MODELS: Mapping[str, Callable[[Settings, SampleSpec], nn.Module]] = {
    "ae": _autoencoder,
    "diffusion_ae": _autoencoder,
    "gan_ae": _adversarial,
    "mlp": _classifier,
    "bcl": _linear,
}
