"""Generation at C2, K = 5: the library, the oracle's NumPy loop and copy bandwidth, side by side.

Everything is measured in turn in one process, several rounds over, and the median of each is
quoted: the machine's speed drifts, ratios of one round drift less.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from tests.benchmarks.waits import export_rows, startup_rows
from tests.oracle.reference import reference_task, reference_task_at_once
from whatif_jax import TaskStream, load_suite
from whatif_jax.catalog.series import read_series
from whatif_jax.tasks.task import realize_batch

BATCHES = (64, 256, 1024)
COPY_BYTES = 256 * 2**20
LOOP_TASKS = 40
# What was found once, with JAX 0.10.2 and glibc 2.36, in processor time on two busy cores.
NOTES = """\
Why bells cost twice what steps do: more than half of the processor's time (15 of 29 us a task) goes
into the responses, 17 logarithms and exponentials at each of 641 positions a task, about 1 ns each.
A bucket has positions for the longest events among its tasks; 44% of them are padding, which the
loop does not compute. Less padding needs more buckets, each of them a program to compile. Without
a secondary's second logarithm all of it would be 6% faster.

Why batches of 1,024 are slower a task than those of 256: glibc maps every array above 32 MiB anew
and gives it back when it is freed. So each call meets fresh pages: 25,700 page faults with bells,
10,500 with steps, more than half of its processor time. A process that is started with
`MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=4294967296` keeps its pages: 31 instead of 81 us a task
with bells, 12 instead of 31 with steps, the same as in batches of 256. glibc reads both when a
process starts, so the library cannot set them."""


def seconds(call: Callable[[], object]) -> float:
    """Wall seconds of one call, waiting for the device."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def run(repeats: int) -> str:
    """Measure, and return the table as Markdown."""
    jax.config.update("jax_enable_compilation_cache", False)  # compile times are cold ones
    suite = load_suite("whatif-v1").where(context_pair="C2", k=5)
    systems = suite.systems
    groups = {}
    for rows in map(suite.rows_of, suite.batch_ids(len(suite))):
        groups[suite.specs(rows[:1]).bucket] = rows
    share = {key: len(rows) / len(suite) for key, rows in groups.items()}

    calls: dict[str, Callable[[], object]] = {}
    compile_seconds, bytes_a_task = {}, 0
    for size in BATCHES:
        for key, rows in groups.items():
            picked = np.random.default_rng(0).choice(rows, size, replace=len(rows) < size)
            specs = suite.specs(picked)
            first = seconds(lambda specs=specs: realize_batch(specs, systems))
            compile_seconds.setdefault(key, first)
            task = realize_batch(specs, systems)
            bytes_a_task = sum(leaf.nbytes for leaf in jax.tree.leaves(task)) / size
            calls[f"jax {size} {key}"] = lambda specs=specs: realize_batch(specs, systems)
    stream = TaskStream(0, 256, buckets=[(2048, 256)], k=(5,), systems=systems)
    steps = iter(range(10**9))
    jax.block_until_ready(stream.batch_at(next(steps)))
    calls["stream"] = lambda: stream.batch_at(next(steps)).task

    rows = suite.take(
        np.random.default_rng(1).choice(len(suite), LOOP_TASKS, replace=False)
    ).table.to_pylist()
    series = {
        (row["system"], row["target"]): systems.series(
            systems.row(row["system"], row["target"])
        ).astype(np.float64)
        for row in rows
    }
    for name, reference in (("loop", reference_task), ("loop at once", reference_task_at_once)):
        calls[name] = lambda reference=reference: [
            reference(row, series[row["system"], row["target"]]) for row in rows
        ]
    source = np.ones(COPY_BYTES // 4, np.float32)
    destination = np.empty_like(source)
    calls["copy"] = lambda: np.copyto(destination, source)

    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
    median = {name: statistics.median(values) for name, values in times.items()}

    copy = COPY_BYTES / median["copy"]
    loop = median["loop"] / LOOP_TASKS
    at_once = median["loop at once"] / LOOP_TASKS
    lines = [
        "# Generation at C2 (context 2048, horizon 256), K = 5",
        "",
        f"Tasks of whatif-v1, {len(suite):,} of them, {bytes_a_task / 1e3:.1f} kB each as float32; "
        f"{platform.machine()}, {os.cpu_count()} CPU cores, "
        f"{jax.devices()[0].device_kind} device, JAX {jax.__version__}, load "
        f"{os.getloadavg()[0]:.1f} at the end. Medians of {repeats} rounds, all rows in turn.",
        "",
        "| what | tasks/s | us a task | bytes written, of copy | times the loop | "
        "times the faster loop |",
        "|---|---|---|---|---|---|",
    ]

    def row(name: str, each: float) -> str:
        return (
            f"| {name} | {1 / each:,.0f} | {each * 1e6:.1f} | {bytes_a_task / each / copy:.1%} | "
            f"{loop / each:.1f} | {at_once / each:.1f} |"
        )

    for size in BATCHES:
        each = sum(share[key] * median[f"jax {size} {key}"] / size for key in groups)
        lines.append(row(f"jit + vmap, batch {size}, the suite's mix", each))
        for key in groups:
            kind = "with bells" if key.shaped else "steps only"
            lines.append(row(f"- {kind} ({share[key]:.0%})", median[f"jax {size} {key}"] / size))
    lines += [
        row("stream: draw, verify, realize, batch 256", median["stream"] / 256),
        row("NumPy float64, loop over events", loop),
        row("NumPy float64, a task's events at once", at_once),
        "",
        *NOTES.splitlines(),
        "",
        f"Copy bandwidth (NumPy copy of {COPY_BYTES >> 20} MiB, bytes written): "
        f"{copy / 1e9:.1f} GB/s.",
        "",
        *startup_rows(),
    ]
    for system in load_suite("whatif-v1").catalog:
        took = min(seconds(lambda system=system: read_series(system)) for _ in range(5))
        lines.append(f"| read the baseline file of {system.name} | {took:.3f} |")
    for key, took in compile_seconds.items():
        kind = "with bells" if key.shaped else "steps only"
        lines.append(f"| compile one bucket, {kind}, tracing and first run included | {took:.1f} |")
    lines += ["", *export_rows()]
    return "\n".join(lines) + "\n"
