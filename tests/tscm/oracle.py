"""Worlds in NumPy float64, written from the paper's recursion, node by node and step by step."""

import math

import numpy as np

from whatif_jax.tscm.names import MECHANISMS

PLAIN = {
    "linear": lambda u: u,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "square": lambda u: u * u,
    "relu": lambda u: np.maximum(u, 0.0),
    "tanh_square": lambda u: np.tanh(u * u),
    "tanh_relu": lambda u: np.tanh(np.maximum(u, 0.0)),
}


def run(scm, noise, intervention=None, burn_in=0, regimes=None):
    """[T, N] of a discrete world; `regimes` are the regimes of all steps."""
    edges, weights, bias, number = (
        np.asarray(leaf, np.float64) for leaf in (scm.edges, scm.weights, scm.bias, scm.mechanism)
    )
    values = np.asarray(noise.values, np.float64)
    total, nodes = values.shape
    found = np.zeros((total, nodes))
    for t in range(total):
        regime = 0 if regimes is None else int(regimes[t])
        for i in range(nodes):
            u, any_parent = bias[regime, i], False
            for lag in range(edges.shape[1]):
                for j in range(nodes):
                    if edges[regime, lag, i, j] and t >= lag:
                        u += weights[regime, lag, i, j] * found[t - lag, j]
                        any_parent = True
            made = PLAIN[MECHANISMS[int(number[regime, i])]](u) if any_parent else 0.0
            found[t, i] = own = made + values[t, i]
            if intervention is not None:
                step = t - burn_in
                targets = [int(x) for x in intervention.targets]
                if step >= 0 and bool(intervention.active[step]) and i in targets:
                    value = float(intervention.values[step, targets.index(i)])
                    found[t, i] = value if bool(intervention.hard) else own + value
    return found[burn_in:]


def regimes_of(scm, shares):
    """Regimes of all steps from uniform numbers."""
    count, chances = int(scm.regimes), np.asarray(scm.transition, np.float64)
    found = []
    for t, share in enumerate(np.asarray(shares, np.float64)):
        row = np.full(count, 1.0 / count) if t == 0 else chances[found[-1], :count]
        found.append(min(int(np.sum(share >= np.cumsum(row)[:-1])), count - 1))
    return found


def path(scm, noise, times, intervention, substeps):
    """[T, N] of a continuous world."""
    weights = np.where(np.asarray(scm.edges), np.asarray(scm.weights), 0.0)[0, 0].astype(float)
    decay, scale = np.asarray(scm.decay, float), np.asarray(scm.scale, float)
    z = np.asarray(noise, float).reshape(len(times), substeps, -1)
    now, found = np.zeros(len(decay)), []
    for t in range(len(times)):
        gap = 0.0 if t == 0 else (float(times[t]) - float(times[t - 1])) / substeps
        for part, eps in enumerate(z[t]):
            at = t if part == substeps - 1 else t - 1  # the observation whose intervention holds
            held, drift = {}, weights @ now - decay * now
            for slot, target in enumerate(np.asarray(intervention.targets)):
                if target >= 0 and at >= 0 and bool(intervention.active[at]):
                    value = float(intervention.values[at, slot])
                    if bool(intervention.hard):
                        held[target] = value
                    else:
                        drift[target] += value
            now = now + drift * gap + scale * math.sqrt(gap) * eps
            for target, value in held.items():
                now[target] = value
        found.append(now)
    return np.array(found)
