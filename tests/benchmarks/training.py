"""Training at 1024 + 128: streams, the reference model's step and loop, and the closed form.

What is compared is measured in turn, several rounds over; medians are quoted, and of ratios the
median of the rounds' own: the machine's speed drifts, ratios of one round drift less.
"""

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from eval.forecasters import make_forecaster
from training.config import FitConfig
from training.data import open_stream
from training.fit import begin, fit, rows_of_devices
from training.logs import read_log
from training.step import make_step
from whatif_jax import (
    LEVELS,
    RandomisedStream,
    TaskStream,
    load_prior,
    load_suite,
    load_training_series,
    root_key,
)
from whatif_jax.evaluation.forecaster import forecast_batch
from whatif_jax.tasks.randomised.baseline import baseline_series
from whatif_jax.tasks.randomised.events import deviations
from whatif_jax.tasks.responses import gain_and_shift, moved

CONTEXT, HORIZON = BUCKET = 1024, 128
STREAM_BATCH = 256
CLOSED_FORM_BATCH, XGBOOST_BATCH = 64, 4
K = 5  # of the tasks that are forecast
HALF, WAITING = 0.5, 0.05  # goals: of the catalog's stream, of a step
NOT_COUNTED = 3  # first steps of the loop, which compile and fill it
HEAD = ["| what | ms | tasks/s | |", "|---|---|---|---|"]


def seconds(call: Callable[[], object]) -> float:
    """Wall seconds of one call, waiting for the device."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def in_turn(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every call in every round, after one that is not counted."""
    for call in calls.values():
        jax.block_until_ready(call())
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return times


def ratio(above: list[float], below: list[float]) -> float:
    """Median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def row(name: str, each: float, tasks: int, note: str = "") -> str:
    """A line of the table from seconds for some tasks."""
    return f"| {name} | {each * 1e3:,.1f} | {tasks / each:,.0f} | {note} |"


def against(goal: bool) -> str:
    """How a goal is told of."""
    return "reached" if goal else "missed"


def next_of(stream: TaskStream | RandomisedStream) -> Callable[[], object]:
    """A call that makes the next batch of a stream."""
    steps = iter(range(10**9))
    return lambda: stream.batch_at(next(steps)).task


def stream_rows(repeats: int) -> list[str]:
    """Both streams, and the randomised one's parts, each a program of its own."""
    size, steps = STREAM_BATCH, CONTEXT + HORIZON
    pool, prior = load_training_series(), load_prior()
    catalog = TaskStream(0, size, buckets=[BUCKET])
    randomised = RandomisedStream(0, size, buckets=[BUCKET])
    real = RandomisedStream(0, size, buckets=[BUCKET], pool=pool)
    held = real.pools[0]
    keys = jax.vmap(jax.random.fold_in, (None, 0))(root_key(0), jnp.arange(size, dtype=jnp.uint32))
    synthetic = jax.jit(jax.vmap(lambda key: baseline_series(key, steps, None, prior)))
    mixed = jax.jit(jax.vmap(lambda key: baseline_series(key, steps, held, prior)))
    compiled = {
        name: seconds(lambda stream=stream: stream.batch_at(0).task)
        for name, stream in (("catalog", catalog), ("randomised", randomised))
    }
    drawn = randomised.batch_at(0).drawn
    true = jnp.bool_(True)
    felt = jax.jit(jax.vmap(lambda one: deviations(one.events, steps, one.timing, true)[1]))(drawn)
    respond = jax.jit(
        jax.vmap(
            lambda one, felt: moved(one.response, *gain_and_shift(one.response, felt), one.baseline)
        )
    )
    times = in_turn(
        {
            "catalog": next_of(catalog),
            "randomised": next_of(randomised),
            "real": next_of(real),
            "series": lambda: synthetic(keys),
            "mixed": lambda: mixed(keys),
            "respond": lambda: respond(drawn, felt),
        },
        repeats,
    )
    each = {name: statistics.median(values) for name, values in times.items()}

    def speed(name: str) -> str:
        found = ratio(times["catalog"], times[name])
        return f"{found:.2f} of the catalog's; goal {HALF}, {against(found >= HALF)}"

    def share(name: str, whole: str) -> str:
        return f"{ratio(times[name], times[whole]):.0%} of it"

    rest = each["randomised"] - each["series"] - each["respond"]
    return [
        row(f"catalog's stream, batch {size}", each["catalog"], size),
        row(f"randomised stream, batch {size}", each["randomised"], size, speed("randomised")),
        row("- synthetic series", each["series"], size, share("series", "randomised")),
        row("- responses", each["respond"], size, share("respond", "randomised")),
        f"| - what is left: events, factors, covariates, hard cases | {rest * 1e3:,.1f} | | |",
        row(f"the same with real series, batch {size}", each["real"], size, speed("real")),
        row("- series and what augments them", each["mixed"], size, share("mixed", "real")),
        *(
            f"| compile the {name} stream's program | {took * 1e3:,.0f} | | tracing and first run "
            f"included |"
            for name, took in compiled.items()
        ),
    ]


def step_rows(repeats: int, size: str, batch_size: int) -> list[str]:
    """A step on data at hand, a batch of data alone, and the loop of `fit` that does both."""
    config = FitConfig(
        size=size, batch_size=batch_size, buckets=(BUCKET,), steps=repeats + NOT_COUNTED,
        validation_batches=1, suite_tasks=0, evaluate_every=10**6, save_every=10**6,
    )  # fmt: skip
    sharding = rows_of_devices()
    stream = open_stream(config, sharding=sharding)
    tasks = jax.block_until_ready(stream.batch_at(0).task)
    state, static, record = begin(config, sharding)
    step = make_step(static, config, sharding)
    share = np.float32(0.5)

    def one_step() -> object:
        nonlocal state
        state, report = step(state, tasks, share)
        return jax.device_get(report)

    compiled = seconds(one_step)
    times = in_turn({"data": next_of(stream), "step": one_step}, repeats)
    each = {name: statistics.median(values) for name, values in times.items()}
    with tempfile.TemporaryDirectory() as name:
        fit(config, Path(name), progress=False)
        log = read_log(Path(name) / "steps.csv")[NOT_COUNTED:]
    loop = statistics.median(line["seconds"] for line in log)
    waited = [line["waited"] for line in log]
    waiting = sum(waited) / sum(line["seconds"] for line in log)
    return [
        row(f"stream of `fit`, batch {batch_size}", each["data"], batch_size,
            f"{ratio(times['data'], times['step']):.1%} of a step"),
        row(f"step of `{size}`, {record.parameters:,} parameters, batch {batch_size}, data at hand",
            each["step"], batch_size),
        row(f"loop of `fit`: a step of {len(log)}", loop, batch_size,
            f"{loop / each['step']:.2f} of a step alone"),
        f"| - of it waiting for data | {statistics.median(waited) * 1e3:,.1f} | | {waiting:.1%} of "
        f"the time; goal under {WAITING:.0%}, {against(waiting < WAITING)} |",
        f"| compile the step's program | {compiled * 1e3:,.0f} | | tracing and first run included "
        f"|",
    ]  # fmt: skip


def closed_form_rows(repeats: int) -> list[str]:
    """A series by `scaling`, and by XGBoost where it is installed."""
    suite = load_suite("whatif-v1").where(context=CONTEXT, horizon=HORIZON, k=K)
    ids = suite.batch_ids(CLOSED_FORM_BATCH)[0]
    batches = {"scaling": suite.batch(ids)}
    forecasters = {"scaling": make_forecaster("scaling")}
    try:
        forecasters["xgboost"] = make_forecaster("xgboost")
        batches["xgboost"] = suite.batch(ids[:XGBOOST_BATCH])
    except ImportError:
        pass  # its row says so
    wall: dict[str, list[float]] = {name: [] for name in forecasters}
    busy: dict[str, list[float]] = {name: [] for name in forecasters}
    for count in range(repeats + 1):
        for name, forecaster in forecasters.items():
            before = time.process_time()
            _, took = forecast_batch(forecaster, batches[name], LEVELS)
            if count:  # the first one compiles
                wall[name].append(float(took.mean()))
                busy[name].append((time.process_time() - before) / batches[name].rows)
    rows = []
    for name, values in wall.items():
        processor = f"{statistics.median(busy[name]) * 1e3:.1f} ms of processor time"
        if name == "scaling" and "xgboost" in wall:
            processor += f"; {ratio(wall['xgboost'], values):.1f} times as fast as XGBoost"
        told = f"`{name}`, a series with K = {K}, batch {batches[name].rows}"
        rows.append(row(told, statistics.median(values), 1, processor))
    if "xgboost" not in wall:
        rows.append("| `xgboost` | | | not installed |")
    return rows


def run(repeats: int, size: str = "tiny", batch_size: int = 64) -> str:
    """Measure, and return the table as Markdown."""
    with tempfile.TemporaryDirectory() as empty:  # compile times are cold, but for the loop's own
        jax.config.update("jax_compilation_cache_dir", empty)
        rows = [
            *stream_rows(repeats),
            *step_rows(repeats, size, batch_size),
            *closed_form_rows(max(3, repeats // 3)),
        ]
    device = jax.devices()[0]
    lines = [
        f"# Training (context {CONTEXT}, horizon {HORIZON})",
        "",
        "`python -m tests.benchmarks training`",
        "",
        f"{platform.machine()}, {os.cpu_count()} CPU cores, {device.device_kind} device, JAX "
        f"{jax.__version__}, load {os.getloadavg()[0]:.1f} at the end. Medians of {repeats} "
        "rounds, what is compared in turn. One device makes a batch and takes a step one after the "
        "other, whatever of it the loop notes as waiting: what data cost in all is the loop's step "
        "against a step alone.",
        "",
        *HEAD,
        *rows,
    ]
    return "\n".join(lines) + "\n"
