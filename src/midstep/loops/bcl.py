"""The recipe `demo`: the linear autoencoder on digits, with or without competing features.

The conditions differ only in what is attached to the encoder: control (nothing), neighborhood (a
mask on the gradient), novelty and rescue (a mask and a pull), balance (a pull on the length of a
feature alone).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from midstep.control import Field, Level, Panel, Sort, Status
from midstep.core.moments import Moment
from midstep.data.sources.digits import SIDE
from midstep.loops.autoencoder_training import AutoencoderTraining, TrainingResult, hidden_units
from midstep.loops.bcl_config import BclConfig, Condition
from midstep.loops.bcl_health import FeatureHealth, FeatureHealthMonitor, competition_metrics
from midstep.models.competitive import BCL
from midstep.models.competitive.settings import DEAD_BELOW, WINNER_ABOVE
from midstep.session.hooks import LayerNorms

if TYPE_CHECKING:
    import torch

    from midstep.control import DebugController
    from midstep.data.sources.digits import Digits
    from midstep.session import Run, Session
    from midstep.session.fit.fit_loop import StepRecord

SOURCE = "encoder.weight"
TABLE = Panel(
    kind="table",
    title="Metrics",
    source=SOURCE,
    shape=(SIDE, SIDE),
    sort=Sort(field="win_rate", descending=True),
    fields={
        "win_rate": Field(label="Win rate"),
        "feature_novelty": Field(label="Novelty"),
        "mean_activation": Field(label="Activation"),
        "fraction_active": Field(label="Active"),
        "grad_norm": Field(label="Gradient"),
        "weight_norm": Field(label="Weight"),
    },
    status=Status(
        field="win_rate",
        levels=(
            Level(below=DEAD_BELOW, word="dead", tone="bad"),
            Level(above=WINNER_ABOVE, word="winner", tone="good"),
        ),
        otherwise=Level(word="contender", tone="warn"),
    ),
)
"""How the page shows features without a competition."""
COMPETITION_TABLE = replace(
    TABLE,
    fields={
        "win_rate": Field(label="Win rate"),
        "grad_magnitude": Field(label="Gradient"),
        "som_magnitude": Field(label="SOM"),
        "feature_novelty": Field(label="Novelty"),
        "effective_win": Field(label="Eff. win"),
        "gradient_weight": Field(label="Grad. w"),
        "contender_weight": Field(label="Cont. w"),
        "attraction_weight": Field(label="Attr. w"),
        "mean_activation": Field(label="Activation"),
    },
)
"""How the page shows the metrics of competing features."""


@dataclass(frozen=True, kw_only=True)
class BclResult(TrainingResult):
    """The end of a training."""

    condition: Condition
    """Condition of the training."""
    seed: int
    """Seed of the training."""
    health: FeatureHealth
    """The features at the end."""


class BclTraining(AutoencoderTraining):
    """Model, optimizer, data and competition of one run.

    >>> training = BclTraining(BclConfig(steps=3))
    >>> training.bcl.describe()["variant"]
    'novelty'
    """

    def __init__(self, config: BclConfig, digits: tuple[Digits, Digits] | None = None) -> None:
        super().__init__(config.training, digits)
        self.recipe = config
        gated = config.condition != "control"
        self.bcl = BCL(self.model.encoder, config.competition) if gated else None
        self._monitor = FeatureHealthMonitor(
            self.model, self.validation.images, config.competition, gated=gated
        )
        height, width = self.digits.images.shape[-2:]
        self.table = replace(TABLE, shape=(height, width))
        """How the page shows features, in the shape of an image."""
        self.competition_table = replace(COMPETITION_TABLE, shape=(height, width))
        self._fault_reported = False
        if gated:
            self.feature_keys = ("bcl_metrics", "bcl_tensors")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the run's header records."""
        return {"recipe": "demo", **asdict(self.recipe)}

    def declare_sources(self, run: Run) -> None:
        """Declare the tensor that the page shows by default, and what else changes it."""
        run.controller.watches.add_source(SOURCE, lambda: self.model.encoder.weight, default=True)
        if self.bcl is None:
            run.controller.weight_changes.declare_extra_update(SOURCE, metrics_key="features")
        else:
            run.controller.weight_changes.declare_extra_update(
                SOURCE,
                delta_key="bcl_tensors.som_delta",
                target_key="bcl_tensors.som_targets",
                metrics_key="bcl_metrics",
            )

    def extra_state(self) -> dict[str, Any]:
        """State of the training besides model and optimizer."""
        state: dict[str, Any] = {"health": self._monitor}
        return state if self.bcl is None else {**state, "bcl": self.bcl}

    def install(self, session: Session) -> None:
        """Add the examination of the features, and show tensors of the competition on request."""
        super().install(session)
        control, training = session.controller, session.trainer
        session.after_step(lambda _model: self._examine(training.step + 1))
        if self.bcl is not None:
            # Keeping the tensors in every step would cost 1 %: their memory is freed later.
            # Repeated steps are not shown.
            self.bcl.wants_tensors = lambda: (
                control.captures.shows("bcl_tensors") and not training.replaying
            )

    def begin(self, session: Session) -> None:
        """Hide the norms of layers: the metrics of the features replace them."""
        session.run.hide(LayerNorms.key)
        data = session.controller.captures.data
        for key in self.feature_keys:
            data.offer(
                key, {"features": self.table, "bcl_metrics": self.competition_table}.get(key)
            )
        self.declare_sources(session.run)

    def train(self, run: Run) -> BclResult:
        """Train to the last step, or until the run is stopped."""
        result = super().train(run)
        return BclResult(
            **asdict(result),
            condition=self.recipe.condition,
            seed=self.recipe.seed,
            health=self._record_end(run, result.steps),
        )

    def run_to_end(self, run: Run) -> BclResult:
        """Train in `run`, and record how it ended."""
        return cast("BclResult", super().run_to_end(run))

    def _examine(self, step: int) -> None:
        """Measure the features every `health_every` steps.

        Also in steps that a rewind repeats: velocity is measured against the examination before.
        """
        if step % self.recipe.health_every == 0:
            self._monitor.examine(step)

    def step_ended(self, session: Session, record: StepRecord) -> None:
        """Capture what the session does not know, including the competition."""
        super().step_ended(session, record)
        run = session.run
        fault = None if self.bcl is None else self.bcl.fault
        # Once: the competition switched itself off, and stays off.
        if fault is not None and not self._fault_reported:
            self._fault_reported = True
            run.event(Moment.INTERVENTION, who="system", kind="hook_off", hook="bcl", why=fault)
        health = self._monitor.last
        if health is not None and health.step == record.step:
            run.log(**health.metrics)
            run.event(Moment.STEP, **health.as_fact())

    def capture_features(self, control: DebugController, images: torch.Tensor) -> None:
        """Capture the metrics of the competition; nothing for a batch that it skipped."""
        bcl = self.bcl
        if bcl is None:
            # Columns of features without a competition, and their results in a hypothetical one.
            metrics = partial(competition_metrics, config=self.recipe.competition)
            features = partial(hidden_units, self.model, images, metrics)
            control.capture_step_data("features", features, panel=self.table)
            return
        if step_metrics := bcl.get_step_metrics():
            control.capture_step_data("bcl_metrics", step_metrics, panel=self.competition_table)
        if tensors := bcl.last_tensors():
            control.capture_step_data("bcl_tensors", tensors)

    def _record_end(self, run: Run, step: int) -> FeatureHealth:
        """Measure the features at the end, and record them unless the last step did."""
        previous = self._monitor.last
        health = self._monitor.examine(step)
        if health is not previous:
            run.log_finished(**health.metrics)
            run.event(Moment.STEP, **health.as_fact())
        return health
