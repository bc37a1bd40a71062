"""Runs of the dotime package, written as an .npz: `python dotime_cases.py OUT`.

The package is on the path. Weights, graphs and noise of worlds that the package draws, made smaller
so that rounding is not amplified, and what it computes from them under every kind of intervention.
"""

import json
import sys

import numpy as np
import torch
from dotime.continuous.continuous_scm import ContinuousIntervention, InterventionKind
from dotime.continuous.tscm_sampler import ContinuousTSCMSampler
from dotime.interventions import InterventionSampler, InterventionSpec, InterventionType
from dotime.prior import DoTime
from dotime.tscm_sampler import TSCMSampler, TSCMStructure

NAMES = {
    "Identity": "linear", "Tanh": "tanh", "TanhX2": "tanh_square", "TanhReLU": "tanh_relu",
    "ReLU": "relu", "Sin": "sin", "Cos": "cos", "Abs": "abs", "Square": "square",
}  # fmt: skip
STEPS, BURN_IN = 40, 10


def world(scm):
    """Arrays of a discrete world, [lag, child, parent]."""
    order = scm._topo
    nodes, lags = len(order), scm._K
    edges, weights = np.zeros((2, lags + 1, nodes, nodes))
    for i, child in enumerate(order):
        made = scm.mechanisms[child]
        for j, parent in enumerate(order):
            if scm._G_0.has_edge(parent, child):
                edges[0, i, j] = 1
                weights[0, i, j] = made.weights_instant[parent].item()
            for k in range(lags):
                if scm._G_lags[k][j, i] > 0:
                    edges[k + 1, i, j] = 1
                    weights[k + 1, i, j] = made.weights_lagged[k][parent].item()
    bias = [scm.mechanisms[name].bias.item() for name in order]
    kinds = [NAMES[type(scm.mechanisms[name].activation).__name__] for name in order]
    return edges, weights, np.array(bias), kinds


def smaller(scm, size):
    with torch.no_grad():
        for made in scm.mechanisms.values():
            for parameter in made.parameters():
                parameter.mul_(size)


def discrete(cases, arrays, name, scm, spec):
    edges, weights, bias, kinds = world(scm)
    noise = scm.freeze_noise(STEPS + BURN_IN, generator=torch.Generator().manual_seed(1))
    values = np.zeros(STEPS)
    for t in spec.times:
        values[t] = spec.values(t) if callable(spec.values) else spec.values
    found = {
        "edges": edges, "weights": weights, "bias": bias, "values": values,
        "noise": np.stack([noise[node].numpy().ravel() for node in scm._topo], axis=1),
        "factual": scm.sample_observational(STEPS, burn_in=BURN_IN).numpy(),
        "acted": scm.sample_interventional(STEPS, spec, burn_in=BURN_IN).numpy(),
    }  # fmt: skip
    if max(np.abs(found[run]).max() for run in ("factual", "acted")) > 50.0:
        return False  # zeroed, clipped or about to be
    place = len(cases)
    arrays |= {f"{place}_{key}": array for key, array in found.items()}
    cases.append(
        {
            "name": name, "kinds": kinds, "targets": spec.targets, "onset": min(spec.times),
            "length": len(spec.times), "kind": spec.intervention_type.value,
        }
    )  # fmt: skip
    return True


def continuous(cases, arrays, structure):
    sampler = ContinuousTSCMSampler(structure)
    scm = sampler.sample(generator=torch.Generator().manual_seed(4))
    rng = np.random.default_rng(0)
    times = torch.tensor(
        np.cumsum(np.r_[0.0, rng.uniform(0.2, 1.0, STEPS - 1)]), dtype=torch.float32
    )
    noise = torch.tensor(rng.normal(size=((STEPS - 1) * 4, scm.n_vars)), dtype=torch.float32)
    target, onset, length = sampler.get_intervention_target(), 15, 8
    # just before the observations: the package compares sums of sub-steps with them
    start, end = float(times[onset]) - 1e-3, float(times[onset + length]) - 1e-3
    spec = ContinuousIntervention(target, start, end, InterventionKind.HARD, 1.7)
    weights = np.zeros((scm.n_vars, scm.n_vars))
    for child, made in enumerate(scm.mechanisms):
        for parent, weight in zip(made.parents, made.parent_weights, strict=True):
            weights[child, parent] = float(weight)
    dts = times[1:] - times[:-1]
    found = {
        "weights": weights, "times": times.numpy(), "noise": noise.numpy(),
        "decay": np.array([made.theta for made in scm.mechanisms]),
        "scale": np.array([made.sigma for made in scm.mechanisms]),
        "factual": scm.simulate(times, dts, noise=noise, num_substeps=4)[1].numpy(),
        "acted": scm.simulate(times, dts, spec, noise=noise, num_substeps=4)[1].numpy(),
    }  # fmt: skip
    place = len(cases)
    arrays |= {f"{place}_{key}": array for key, array in found.items()}
    cases.append(
        {
            "name": f"continuous {structure.value}",
            "target": target,
            "onset": onset,
            "length": length,
        }
    )


def main(out):
    torch.manual_seed(0)
    cases, arrays = [], {}
    for structure in TSCMStructure:
        for lagged in (True, False):
            sampler = TSCMSampler(structure, sigma_w=0.5, sigma_b=0.25, use_lagged_edges=lagged)
            scm = sampler.sample(torch.Generator().manual_seed(2))
            target = sampler.get_intervention_target()
            spec = InterventionSpec([target], [17], InterventionType.HARD, 2.5)
            discrete(cases, arrays, f"{structure.value} {lagged}", scm, spec)
    prior = DoTime(seed=3, chain_prob=0.0, regime_switching_prob=0.0)
    for place, activation in enumerate(prior.activations):
        generator = torch.Generator().manual_seed(place)
        while True:
            scm = prior.sample_scm()
            smaller(scm, 0.4)
            for made in scm.mechanisms.values():
                made.activation = activation
            kinds = np.eye(3)[place % 3]
            spec = InterventionSampler(len(scm._topo), STEPS, *kinds, generator=generator).sample()
            if discrete(cases, arrays, f"generic {type(activation).__name__}", scm, spec):
                break
    for structure in TSCMStructure:
        continuous(cases, arrays, structure)
    np.savez(out, cases=json.dumps(cases), **arrays)


main(sys.argv[1])
