"""Estimates made up so that what comes out is known."""

import numpy as np
import pyarrow as pa

from eval.tscm.cases import case_suites
from eval.tscm.results import COLUMNS, Estimates
from whatif_jax.tscm import EpisodePart, EpisodeSuite, load_prior

EPISODES = 40  # of a part


def suite(name, parts, version="", episodes=EPISODES):
    """A suite of some structures; nothing is drawn from it."""
    prior = {"continuous": load_prior("continuous")}
    made = [
        EpisodePart(
            one, one, place % 3 + 1, prior.get(name) or load_prior(one), place * episodes, episodes
        )
        for place, one in enumerate(parts)
    ]
    return EpisodeSuite(name, version or f"{name}-v1", 1, 200, tuple(made))


IDENTIFIABILITY = suite("identifiability", ["back_door", "observed_confounder", "bow_graph"])
OBSERVED = suite(
    "identifiability",
    ["back_door", "observed_confounder", "bow_graph"],
    "identifiability-v1+observed_normal",
)
CONTINUOUS = suite("continuous", ["back_door", "front_door"])
SUITES = [IDENTIFIABILITY, OBSERVED, *case_suites(EPISODES), CONTINUOUS]
FITS = {"back_door": {"back_door", "observed_confounder"}}
NAMES = ("zero", "mean", "regression", "back_door", "instrument", "oracle")


def truth(of, rng):
    """Rows of a suite, with its truths."""
    rows = []
    for part in of.parts:
        offsets = np.array(part.prior.query.offsets)
        number = np.repeat(np.arange(part.episodes), len(offsets)) + part.first
        offset = np.tile(offsets, part.episodes)
        size = 2.0 * np.exp(-offset / 4.0)  # it decays
        effect = size * rng.choice([-1.0, 1.0], len(number)) * rng.uniform(0.5, 1.5, len(number))
        if part.structure == "observed_confounder":
            effect = 0.0 * effect
        factual = rng.standard_normal(len(number)).astype(np.float32)
        rows.append(
            {
                "episode": number, "part": [part.name] * len(number),
                "structure": [part.structure] * len(number), "tier": [part.tier] * len(number),
                "regimes": [1] * len(number), "offset": offset, "factual": factual,
                "counterfactual": (factual + effect).astype(np.float32),
                "interventional": rng.standard_normal(len(number)) + effect,
            }
        )  # fmt: skip
    joined = {key: np.concatenate([np.asarray(row[key]) for row in rows]) for key in rows[0]}
    joined["effect"] = joined["counterfactual"] - joined["factual"]
    return joined


def answers(name, of, rows, rng):
    """What a baseline says: value, value in this very run, effect."""
    count = len(rows["episode"])
    none = np.zeros(count)
    mean = rng.normal(0.5, 0.01, count) * (1.0 if of is OBSERVED else 4.0)
    noise = 0.1 * rng.standard_normal(count)
    fits = np.isin(rows["structure"], list(FITS["back_door"]))
    return {
        "zero": (none, none, none),
        "mean": (mean, mean, none),
        "regression": (mean + 1.0, mean + 1.0, rows["effect"] + 1.0 + noise),
        "back_door": (np.where(fits, mean + 0.2, mean),) * 2 + (np.where(fits, noise, 0.0),),
        "instrument": (mean + 0.5, mean + 0.5, rows["effect"] + noise),
        "oracle": (rows["interventional"], rows["counterfactual"], rows["effect"]),
    }[name]


def estimates(of, names=NAMES, evidence="before", seed=0):
    """Of several baselines on one suite."""
    rows = truth(of, np.random.default_rng(seed))
    found = []
    for name in names:
        value, own, effect = answers(name, of, rows, np.random.default_rng(seed + 1))
        columns = rows | {
            "estimated_interventional": value, "estimated_counterfactual": own,
            "estimated_effect": effect,
        }  # fmt: skip
        table = pa.table(
            {
                field.name: pa.array(columns[field.name]).cast(field.type, safe=False)
                for field in COLUMNS
            },
            schema=COLUMNS,
        )
        about = {"label": name.capitalize(), "trained_on": "nothing",
                 "fits": sorted(FITS.get(name, {part.structure for part in of.parts}))}  # fmt: skip
        found.append(Estimates(of.version, evidence, name, about, table))
    return found


def everything(evidence="before"):
    """All suites."""
    return [one for of in SUITES for one in estimates(of, evidence=evidence)]
