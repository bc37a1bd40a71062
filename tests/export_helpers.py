"""A small suite of two systems of our own, and what its tasks hold, made once a process."""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from whatif_jax.catalog import System, load_system
from whatif_jax.export import export
from whatif_jax.suites import SCHEMA, Suite, load_suite, write_manifest
from whatif_jax.suites.build import candidates
from whatif_jax.tasks.events import layout, layout_rules

BREWERY = Path(__file__).parent / "data" / "brewery.toml"
CONTEXTS = """contexts = [
  { name = "short", context = 512, horizon = 64, fewest_events = 1 },
  { name = "tiny", context = 256, horizon = 32, fewest_events = 1 },
]
"""
TINY = {"context": 256, "system": "brewery"}
# Not a divisor of what is exported, so that batches are padded; one size compiles once.
BATCH = 12
write = functools.partial(export, batch_size=BATCH)


@functools.cache
def folder() -> Path:
    """Two catalog files, their series, and the manifest `small.parquet` of their tasks."""
    at = Path(tempfile.mkdtemp(prefix="whatif-export-"))
    text = BREWERY.read_text("utf-8")
    text = text[: text.index("contexts = [")] + CONTEXTS
    for number, (name, step) in enumerate({"brewery": 60, "bakery": 1800}.items()):
        day = np.arange(2880) / (86400 / step) * 2 * np.pi + number
        noise = np.random.default_rng(number).normal(0, 0.1, (2, 2880))
        columns = {
            "cooling_power": np.float32(5 + np.sin(day) + noise[0]),
            "tank_temperature": np.float32(14 + 2 * np.cos(day) + noise[1]),
        }
        parquet.write_table(pa.table(columns), at / f"{name}.parquet")
        own = text.replace("brewery", name).replace("step_seconds = 60", f"step_seconds = {step}")
        (at / f"{name}.toml").write_text(own, "utf-8")
    rows: list[dict] = []
    for system in map(load_system, system_files(at)):
        draw(system, rows)
    write_manifest(pa.Table.from_pylist(rows, SCHEMA), at / "small.parquet", {})
    return at


def draw(system: System, rows: list[dict]) -> None:
    """Append a Replay and a Novel task of every candidate, drawn with NumPy and not verified."""
    random = np.random.default_rng(0)
    every = candidates(system)
    for pair in range(len(every)):
        name = system.targets[every.target[pair]].name
        k, n_events = int(every.k[pair]), int(every.n_events[pair])
        context, horizon = int(every.context[pair]), int(every.horizon[pair])
        length = int(every.event_length[pair])
        slots = layout(context, length, n_events, layout_rules(system))
        starts = [slots.slot_start + event * slots.slot_stride for event in range(n_events)]
        factors = random.choice([0.25, 0.5, 2, 4], (n_events, k)).tolist()
        window = int(random.integers(system.steps - context - horizon))
        for future, future_factors in (
            ("replay", factors[0]),
            ("novel", random.uniform(5, 12, k).tolist()),
        ):
            rows.append(
                {
                    "task_id": len(rows),
                    "pair_id": len(rows) // 2,
                    "system": system.name,
                    "target": name,
                    "k": k,
                    "context_pair": every.context_pair[pair],
                    "context": context,
                    "horizon": horizon,
                    "event_length": length,
                    "n_events": n_events,
                    "setting": every.setting[pair],
                    "future": future,
                    "window_start": window,
                    "event_starts": starts,
                    "covariates": list(system.target(name).covariates[:k]),
                    "factors": factors,
                    "future_factors": future_factors,
                }
            )


def system_files(at: Path) -> list[Path]:
    """The catalog files."""
    return [at / "brewery.toml", at / "bakery.toml"]


@functools.cache
def small_suite() -> Suite:
    """More than a hundred tasks of two systems and two shapes."""
    return load_suite(folder() / "small.parquet", systems=system_files(folder()))


@functools.cache
def expected() -> dict[int, dict]:
    """Every task by id: its manifest row, and its arrays without padding."""
    suite = small_suite()
    tasks = {row["task_id"]: row for row in suite.table.to_pylist()}
    for batch in suite.batches(32):
        arrays = batch.to_numpy()
        for place, task_id in enumerate(arrays["task_id"].tolist()):
            row = tasks[task_id]
            row["kind"] = row.pop("future")
            for name in ("history", "future", "future_baseline"):
                row[name] = arrays[name][place]
            for name in ("history_covariates", "future_covariates"):
                row[name] = arrays[name][place, : row["k"]]
            assert row["history"].shape == (row["context"],)
            assert row["future_covariates"].shape == (row["k"], row["horizon"])
    return tasks


def close(found, wanted) -> None:
    """Equal up to what another batch size may change in the last bit."""
    np.testing.assert_allclose(
        np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol=1e-6, atol=1e-6
    )


def tiny(rows: int = 16):
    """A few tasks of one shape."""
    return small_suite().where(**TINY).take(range(rows))


def files(at: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(at).as_posix(): path.read_bytes()
        for path in sorted(at.rglob("*"))
        if path.is_file()
    }
