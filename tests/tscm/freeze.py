"""Freezes the suites of episodes: `python -m tests.tscm.freeze`, in a checkout.

Computes every episode, and writes what `whatif_jax/tscm/suites.json` says of them (fingerprint of
the definition, SHA-256 of the values and redraws of each part, the platform), and a sample of
episodes to `tests/data/episodes.parquet`, which the tests make again. Takes minutes, compilation
most of them. `--sample` writes the sample alone.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from tqdm import tqdm

import whatif_jax.tscm
from whatif_jax.export.episode_rows import rows_of
from whatif_jax.files import write_whole
from whatif_jax.tscm import EpisodePart, EpisodeSuite, episode_suites, load_episode_suite
from whatif_jax.tscm.frozen import FROZEN_FILE, FrozenValues, frozen_values, platform_name

SAMPLE = Path(__file__).parents[1] / "data" / "episodes.parquet"
FROZEN = Path(whatif_jax.tscm.__file__).parent / FROZEN_FILE


def sampled() -> Iterator[tuple[EpisodeSuite, EpisodePart, list[int]]]:
    """Suite, part and numbers of the sample: the first and the last of every part."""
    for name in episode_suites():
        suite = load_episode_suite(name)
        for part in suite.parts:
            yield suite, part, [part.numbers[0], part.numbers[-1]]


def rows(suite: EpisodeSuite, part: EpisodePart, numbers: list[int]) -> pa.Table:
    """Rows of the sample, made anew."""
    table = rows_of(part, np.asarray(numbers), suite.episodes_of(numbers))
    return table.add_column(0, "suite", pa.array([suite.version] * len(numbers)))


def values_of(suite: EpisodeSuite, batch_size: int = 1024) -> dict[str, dict]:
    """By part: SHA-256 of the values, episodes, redraws; all of them computed."""
    found = {part.name: FrozenValues() for part in suite.parts}
    with tqdm(total=suite.episodes, unit="episode", desc=suite.version, disable=None) as bar:
        for part, numbers, episode in suite.batches(batch_size=batch_size):
            assert episode.finite.all(), f"{suite.version}: an episode left the limit"
            found[part.name].add(episode)
            bar.update(len(numbers))
    return {
        name: {
            "episodes": one.episodes, "redrawn": one.redrawn, "redraws": one.redraws,
            "values": one.hexdigest(),
        }
        for name, one in found.items()
    }  # fmt: skip


def main(only_sample: bool) -> None:
    """Write both files."""
    if not only_sample:
        write_whole(FROZEN, lambda at: at.write_text("{}\n"))  # else a change is refused
        frozen_values.cache_clear()
    tables = [rows(*one) for one in sampled()]
    table = pa.concat_tables(tables)
    series = ("x_obs", "x_int", "x_counterfactual")
    encoding = {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in series}
    strings = ["suite", "structure", "part"]
    options = {"compression": "zstd", "use_dictionary": strings, "column_encoding": encoding}
    table = table.replace_schema_metadata({"platform": platform_name()})
    write_whole(SAMPLE, lambda at: parquet.write_table(table, at, **options))
    print(f"{table.num_rows} episodes in {SAMPLE}, {SAMPLE.stat().st_size:,} bytes")
    if only_sample:
        return
    kept = {}
    for name in episode_suites():
        suite = load_episode_suite(name)
        parts = values_of(suite)
        kept[suite.version] = {
            "fingerprint": suite.fingerprint, "platform": platform_name(), "parts": parts,
        }  # fmt: skip
        for part, said in parts.items():
            print(f"{suite.version} {part}: {said['redrawn'] / said['episodes']:.2%} redrawn")
    write_whole(FROZEN, lambda at: at.write_text(json.dumps(kept, indent=1) + "\n"))


if __name__ == "__main__":
    main("--sample" in sys.argv[1:])
