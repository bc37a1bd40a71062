"""The card of exported episodes: what they are, what differs from DoTime's, how to read them.

References:
    DoTime (arXiv:2607.27263), dotime 0.2.0.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._types import Int
from ..tscm import EpisodePart, EpisodeSuite, structures
from ..tscm.frozen import frozen_values
from ..tscm.graphs import sizes_of
from .card import APACHE, column_table, table_of
from .episode_rows import EPISODE_COLUMNS, SCHEMA_COLUMNS, columns_of

__all__ = ["episode_card", "summary"]

_INTRODUCTION = """\
Episodes of temporal structural causal models. Each is a world drawn from a prior (a graph with
instantaneous and lagged edges, weights, mechanisms, noise), an intervention, and three runs: the
**factual** one (`x_obs`), one **under the intervention with noise of its own** (`x_int`), and the
**counterfactual** (`x_counterfactual`), which has the factual run's noise and equals it to the bit
before the onset. A query asks for the value of one column at one or several steps."""

_DIFFERENCES = """\
The generator follows the prior of DoTime (arXiv:2607.27263) and its package `dotime` 0.2.0; no
episode of theirs is in here, and scores are comparable in kind, not digit for digit. What differs:

- **No episode is zeroed.** Where a run left the prior's limit, the episode was drawn again under a
  key of its own; how often is in the column `redraws` and, by part, in `manifest.json`.
- **`y_true` is interventional** (level 2): the value of `x_int`, whose noise is not `x_obs`'s. The
  counterfactual answer (level 3) stands beside it, `y_counterfactual`; their releases have one or
  the other, by version.
- **Hidden variables are not released.** Named structures have the columns that the package's own
  baselines expect: treatment first, outcome last; a hidden node's column is there and is 0 in all
  runs (`hidden` says which). Graphs drawn at random have the columns of their visible nodes alone,
  and targets and queries count those.
- **`query_time` is a step**, counted from 0, in every suite (theirs have four encodings). The same
  rows stand in `metadata_json` as `query_time_idx`, which the loader prefers to its registry.
- **A query is never the treated variable**; where the graph lets it, the intervention reaches it.
- **Regimes' mechanisms read their parents**; the package's do not.
- **`intervention_json` has every step of the window.** Free profiles, and values that differ by
  target, are tensors [step][target].
- Columns from `x_counterfactual` on are ours; the package's loader leaves them out."""

_READING = """\
```python
folder = "/path/to/this/folder"

import pandas

# one shard; a list of all of them takes more memory than their files
episodes = pandas.read_parquet([f"{folder}/shard-0000.parquet"])
first = episodes.iloc[0]
shape = first["length"], first["n_vars"]
effect = (first["x_counterfactual"] - first["x_obs"]).reshape(shape)

import datasets

episodes = datasets.load_dataset("parquet", data_files=f"{folder}/shard-*.parquet", split="train")

import duckdb

shards = f"'{folder}/shard-*.parquet'"
tiers = duckdb.sql(f"select structure, tier, count(*) from {shards} group by all")
```

With the package, under any metadata:

```py
from dotime._release_io import read_suite
from dotime.benchmarks import SuiteMetadata

meta = SuiteMetadata("ours", "1.0.0", "", "", "", {count}, query_time_encoding="step")
suite = read_suite(meta, folder)
```

A forecaster gets `x_obs` before `onset`, the intervention and the query; what it may not see is
`x_int`, `x_counterfactual` and, where its evidence ends at the onset, the rest of `x_obs`.
`manifest.json` lists every file with its SHA-256, and the shards with the MD5 that the package
asks for; `croissant.json` describes them in the Croissant format."""


def summary(suite: EpisodeSuite, chosen: Int[np.ndarray, " n"]) -> str:
    """One sentence for catalogs."""
    part = "" if len(chosen) == suite.episodes else f" (a part of its {suite.episodes:,})"
    return (
        f"{len(chosen):,} episodes{part} of temporal causal worlds with interventional and "
        f"counterfactual truth; {suite.version}, fingerprint {suite.fingerprint}."
    )


def episode_card(suite: EpisodeSuite, chosen: Int[np.ndarray, " n"]) -> str:
    """The card as Markdown with the front matter of the Hugging Face Hub.

    Args:
        suite: of episodes.
        chosen: numbers of those exported.
    """
    whole = len(chosen) == suite.episodes
    title = suite.version if whole else f"A part of {suite.version}"
    front = [
        "---",
        f"pretty_name: {json.dumps(title)}",
        "license: apache-2.0",
        "task_categories:",
        "- time-series-forecasting",
        "tags:",
        "- time-series",
        "- causal-inference",
        "- interventions",
        "configs:",
        '- config_name: "default"',
        '  data_files: "shard-*.parquet"',
        "---",
    ]
    parts = [
        "\n".join(front),
        f"# {title}",
        summary(suite, chosen),
        _INTRODUCTION,
        "## Beside DoTime's suites",
        _DIFFERENCES,
        "## Licence",
        f"Apache License 2.0 ({APACHE}).",
        "## Reading it",
        _READING.replace("{count}", str(len(chosen))),
        "## Columns",
        "Those of the package:",
        column_table(SCHEMA_COLUMNS),
        "Ours:",
        column_table(EPISODE_COLUMNS[len(SCHEMA_COLUMNS) :]),
        "## Composition",
        _composition(suite, chosen),
        *_frozen(suite),
    ]
    return "\n\n".join(parts) + "\n"


def _composition(suite: EpisodeSuite, chosen: Int[np.ndarray, " n"]) -> str:
    rows = []
    for part in suite.parts:
        count = int(np.sum((chosen >= part.first) & (chosen < part.first + part.episodes)))
        tier = str(part.tier) if not part.windows else f"by window: {_windows(part)}"
        rows.append([f"`{part.name}`", f"{count:,}", tier, _columns(part), _asked(part)])
    head = ["part", "episodes", "tier", "columns", "asked for"]
    shares = ", ".join(suite.parts[0].prior.intervention.values)
    return (
        f"{suite.steps} steps each; seed {suite.seed}; episode n has the key "
        f"`fold_in(root_key({suite.seed}), n)`. Values of hard interventions: {shares}.\n\n"
        f"{table_of(head, rows)}"
    )


def _windows(part: EpisodePart) -> str:
    low, high = part.windows
    return f"below {low:g} of the span 1, below {high:g} 2, else 3"


def _columns(part: EpisodePart) -> str:
    layout = columns_of(part)
    if layout is not None:
        return " ".join(layout[1])
    regimes = max(part.prior.regimes.number)
    return f"up to {sizes_of(part.prior)[0]}" + (f", {regimes} regimes" if regimes > 1 else "")


def _asked(part: EpisodePart) -> str:
    said, extra = part.prior.query, 0
    if part.structure:
        extra = structures()[part.structure].offset
    words = {
        "onset": "after the onset",
        "window": "after the window",
        "end": "before the last step",
    }
    return f"{', '.join(str(offset + extra) for offset in said.offsets)} {words[said.since]}"


def _frozen(suite: EpisodeSuite) -> list[str]:
    """What the suite was frozen with, redraws among it."""
    kept: Mapping[str, Any] | None = frozen_values().get(suite.version)
    if kept is None:
        return []
    rows = [
        [f"`{name}`", f"{one['redrawn'] / one['episodes']:.2%}", f"`{one['values'][:16]}`"]
        for name, one in kept["parts"].items()
    ]
    return [
        "## Frozen values",
        f"On {kept['platform']}, all values of each part have this SHA-256 (its first digits); "
        f"elsewhere named structures differ by less than 1e-5, while chaotic worlds among the "
        f"others amplify rounding. Redrawn: episodes whose first draw left the limit.",
        table_of(["part", "redrawn", "values"], rows),
    ]
