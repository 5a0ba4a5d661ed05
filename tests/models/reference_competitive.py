"""The formulas of competitive learning once more: plain Python loops over plain floats.

Slow and obvious on purpose, written from the text of the contract, sharing no line with the code it
checks. Lists of lists of floats in, lists out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Matrix = list[list[float]]
Vector = list[float]
EPSILON = 1e-8


@dataclass
class Twin:
    """All quantities of one batch, under the contract's names."""

    neighbours: list[list[int]] = field(default_factory=list)
    strength: Matrix = field(default_factory=list)
    rank_score: Matrix = field(default_factory=list)
    coverage: Vector = field(default_factory=list)
    win_rate: Vector = field(default_factory=list)
    feature_novelty: Vector = field(default_factory=list)
    local_novelty: Matrix = field(default_factory=list)
    in_nbr: Matrix = field(default_factory=list)
    effective_win: Vector = field(default_factory=list)
    gradient_weight: Vector = field(default_factory=list)
    contender_weight: Vector = field(default_factory=list)
    attraction_weight: Vector = field(default_factory=list)
    mean_activation: Vector = field(default_factory=list)
    grad_mask: Matrix = field(default_factory=list)
    som_weight: Matrix = field(default_factory=list)
    som_targets: Matrix = field(default_factory=list)
    som_delta: Matrix = field(default_factory=list)
    grad_magnitude: Vector = field(default_factory=list)
    som_magnitude: Vector = field(default_factory=list)


def dot(a: Vector, b: Vector) -> float:
    total = 0.0
    for left, right in zip(a, b, strict=True):
        total += left * right
    return total


def cosine(a: Vector, b: Vector) -> float:
    return dot(a, b) / (math.sqrt(dot(a, a)) * math.sqrt(dot(b, b)) + EPSILON)


def sigmoid(value: float) -> float:
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))


def nearest(w: Matrix, k: int) -> list[list[int]]:
    found = []
    for f in range(len(w)):
        others = [g for g in range(len(w)) if g != f]
        others.sort(key=lambda g: -cosine(w[f], w[g]))
        found.append(others[:k])
    return found


def blank(rows: int, columns: int) -> Matrix:
    return [[0.0] * columns for _ in range(rows)]


def column_normalised(pull: Matrix) -> Matrix:
    made = blank(len(pull), len(pull[0]))
    for f in range(len(pull[0])):
        total = 0.0
        for b in range(len(pull)):
            total += pull[b][f]
        for b in range(len(pull)):
            made[b][f] = pull[b][f] / (total + EPSILON)
    return made


def targets_of(pull: Matrix, x: Matrix) -> Matrix:
    made = blank(len(pull[0]), len(x[0]))
    for f in range(len(pull[0])):
        for i in range(len(x[0])):
            for b in range(len(x)):
                made[f][i] += pull[b][f] * x[b][i]
    return made


def compete(x: Matrix, a: Matrix, w: Matrix, *, neighborhood_k: int, temperature: float) -> Twin:
    batch, features = len(x), len(w)
    twin = Twin(neighbours=nearest(w, neighborhood_k))
    twin.strength = [[abs(value) for value in row] for row in a]
    twin.rank_score = blank(batch, features)
    for b in range(batch):
        for f in range(features):
            rivals = [twin.strength[b][g] for g in twin.neighbours[f]]
            margin = twin.strength[b][f] - (max(rivals) if rivals else 0.0)
            twin.rank_score[b][f] = sigmoid(temperature * margin)
    twin.coverage = [sum(row) for row in twin.rank_score]
    for f in range(features):
        wins = sum(twin.rank_score[b][f] for b in range(batch))
        shared = sum(twin.rank_score[b][f] / (twin.coverage[b] + EPSILON) for b in range(batch))
        twin.win_rate.append(wins / batch)
        twin.feature_novelty.append(shared / (wins + EPSILON))
        twin.effective_win.append(twin.win_rate[f] * twin.feature_novelty[f])
        twin.mean_activation.append(sum(a[b][f] for b in range(batch)) / batch)
    twin.local_novelty, twin.in_nbr = blank(batch, features), blank(batch, features)
    for b in range(batch):
        winner = twin.rank_score[b].index(max(twin.rank_score[b]))
        for f in range(features):
            local_coverage = sum(twin.rank_score[b][g] for g in twin.neighbours[f])
            twin.local_novelty[b][f] = 1 / (local_coverage + 1)
            twin.in_nbr[b][f] = 1.0 if f in twin.neighbours[winner] else 0.0
    return twin


def finish(twin: Twin) -> Twin:
    for f in range(len(twin.win_rate)):
        twin.grad_magnitude.append(sum(row[f] for row in twin.grad_mask))
        twin.som_magnitude.append(sum(row[f] for row in twin.som_weight))
    return twin


def novelty(twin: Twin, x: Matrix, w: Matrix, som_lr: float) -> Twin:
    batch, features = len(x), len(w)
    r, n, ew, wr = twin.rank_score, twin.feature_novelty, twin.effective_win, twin.win_rate
    twin.gradient_weight = list(ew)
    cw = twin.contender_weight = [(1 - ew[f]) * wr[f] for f in range(features)]
    aw = twin.attraction_weight = [(1 - ew[f]) * (1 - wr[f]) for f in range(features)]
    local_pull, global_pull = blank(batch, features), blank(batch, features)
    twin.grad_mask, twin.som_weight = blank(batch, features), blank(batch, features)
    for b in range(batch):
        for f in range(features):
            twin.grad_mask[b][f] = r[b][f] * n[f] * twin.gradient_weight[f]
            local_pull[b][f] = (
                r[b][f] * twin.local_novelty[b][f] * (1 - n[f]) * twin.in_nbr[b][f] * cw[f]
            )
            global_pull[b][f] = (1 - r[b][f]) / (twin.coverage[b] + EPSILON) * aw[f]
    local_pull, global_pull = column_normalised(local_pull), column_normalised(global_pull)
    local_target, global_target = targets_of(local_pull, x), targets_of(global_pull, x)
    twin.som_targets, twin.som_delta = blank(features, len(x[0])), blank(features, len(x[0]))
    for f in range(features):
        for b in range(batch):
            twin.som_weight[b][f] = local_pull[b][f] * cw[f] + global_pull[b][f] * aw[f]
        for i in range(len(x[0])):
            blended = cw[f] * local_target[f][i] + aw[f] * global_target[f][i]
            twin.som_targets[f][i] = blended / (cw[f] + aw[f] + EPSILON)
            twin.som_delta[f][i] = som_lr * (twin.som_targets[f][i] - w[f][i])
    return finish(twin)


def rescue(twin: Twin, x: Matrix, w: Matrix, som_lr: float, rescue_k: int) -> Twin:
    batch, features = len(x), len(w)
    n, wr = twin.feature_novelty, twin.win_rate
    strength = [max(0.0, 1 - n[f]) for f in range(features)]
    twin.grad_mask = [list(row) for row in twin.rank_score]
    twin.gradient_weight = [1.0] * features
    twin.contender_weight = [strength[f] * wr[f] for f in range(features)]
    twin.attraction_weight = [strength[f] * (1 - wr[f]) for f in range(features)]
    winner_pull, rescue_pull = blank(batch, features), blank(batch, features)
    for f in range(features):
        affinity = [cosine(x[b], w[f]) for b in range(batch)]
        score = []
        for b in range(batch):
            winner_pull[b][f] = twin.rank_score[b][f] * twin.local_novelty[b][f]
            below = [other for other in range(batch) if (affinity[other], other) < (affinity[b], b)]
            rank = 1 + len(below)
            score.append(rank * 1 / (twin.coverage[b] + 1))
        best = sorted(range(batch), key=lambda b: -score[b])[:rescue_k]
        for b in best:
            rescue_pull[b][f] = 1 / len(best)
    winner_pull = column_normalised(winner_pull)
    winner_target, rescue_target = targets_of(winner_pull, x), targets_of(rescue_pull, x)
    twin.som_weight = blank(batch, features)
    twin.som_targets, twin.som_delta = blank(features, len(x[0])), blank(features, len(x[0]))
    for f in range(features):
        for b in range(batch):
            twin.som_weight[b][f] = (
                winner_pull[b][f] * twin.contender_weight[f]
                + rescue_pull[b][f] * twin.attraction_weight[f]
            )
        for i in range(len(x[0])):
            target = wr[f] * winner_target[f][i] + (1 - wr[f]) * rescue_target[f][i]
            twin.som_targets[f][i] = target
            twin.som_delta[f][i] = som_lr * strength[f] * (target - w[f][i])
    return finish(twin)


def neighborhood(twin: Twin, x: Matrix, w: Matrix) -> Twin:
    batch, features = len(x), len(w)
    twin.grad_mask = [[max(value, 0.1) for value in row] for row in twin.rank_score]
    twin.gradient_weight = [1.0] * features
    twin.contender_weight, twin.attraction_weight = [0.0] * features, [0.0] * features
    twin.som_weight = blank(batch, features)
    twin.som_targets = [list(row) for row in w]
    twin.som_delta = blank(features, len(x[0]))
    return finish(twin)


def balance(twin: Twin, x: Matrix, w: Matrix, som_lr: float, neighborhood_k: int) -> Twin:
    batch, features = len(x), len(w)
    share = 1 / (min(neighborhood_k, features - 1) + 1)
    lack = [min(1.0, max(-1.0, 1 - rate / share)) for rate in twin.win_rate]
    lack = [value - sum(lack) / features for value in lack]
    twin.grad_mask = [[1.0] * features for _ in range(batch)]
    twin.gradient_weight, twin.contender_weight = [1.0] * features, [0.0] * features
    twin.attraction_weight = [abs(value) for value in lack]
    twin.som_weight = [[abs(value) / batch for value in lack] for _ in range(batch)]
    twin.som_targets = [[(1 + lack[f]) * value for value in w[f]] for f in range(features)]
    twin.som_delta = [[som_lr * lack[f] * value for value in w[f]] for f in range(features)]
    return finish(twin)


# -- health -------------------------------------------------------------------------------------


def mean_pairwise_cosine(w: Matrix) -> float:
    lengths = [math.sqrt(dot(row, row)) for row in w]
    pairs = [(i, j) for i in range(len(w)) for j in range(len(w)) if i != j]
    found = [dot(w[i], w[j]) / (lengths[i] * lengths[j]) for i, j in pairs]
    return sum(found) / len(found) if found else 0.0


def gini(values: Vector) -> float:
    total = sum(values)
    if total == 0:
        return 0.0
    differences = sum(abs(a - b) for a in values for b in values)
    return differences / (2 * len(values) * total)


def effective_rank(singular_values: Vector) -> float:
    total = sum(singular_values)
    shares = [value / total for value in singular_values]
    return math.exp(-sum(share * math.log(share) for share in shares if share > 0))
