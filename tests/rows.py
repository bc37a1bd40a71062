"""Rows from the oracle's generator, as suites of the library."""

import numpy as np
import pyarrow as pa

from tests.oracle.drawn_numbers import draw_row
from whatif_jax.catalog import builtin_systems, load_system
from whatif_jax.suites import SCHEMA, Suite

FIELDS = ("history", "future", "future_baseline", "history_covariates", "future_covariates")


def random_rows(seed: int, count: int, systems=None, **axes) -> list[dict]:
    """Manifest rows drawn by the oracle: random system, target and whatever axes are not given."""
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        name = str(generator.choice(systems or builtin_systems()))
        targets = [target.name for target in load_system(name).targets if not target.constant]
        target = axes.get("target") or str(generator.choice(targets))
        others = {key: value for key, value in axes.items() if key != "target"}
        rows.append(draw_row(generator, name, target, task_id=number, **others))
    return rows


def as_suite(rows: list[dict]) -> Suite:
    """A suite of these rows."""
    names = sorted({row["system"] for row in rows}, key=builtin_systems().index)
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return Suite("rows", table, [load_system(name) for name in names])


def realized(suite: Suite, batch_size: int = 32) -> dict[int, dict[str, np.ndarray]]:
    """Every task of a suite by id, padding of covariates removed."""
    tasks = {}
    k = dict(zip(suite.column("task_id").tolist(), suite.column("k").tolist(), strict=True))
    for batch in suite.batches(batch_size):
        fields = batch.to_numpy()
        for row, task_id in enumerate(fields["task_id"].tolist()):
            task = {name: fields[name][row] for name in FIELDS}
            for name in ("history_covariates", "future_covariates"):
                task[name] = task[name][: k[task_id]]
            tasks[task_id] = task
    return tasks


def assert_close(found: dict, expected: dict, mean: float, rtol: float, atol: float, what) -> None:
    """|found - expected| <= rtol |expected| + atol * mean |y| (whatif-v1.md §8's float policy)."""
    for name in FIELDS:
        np.testing.assert_allclose(
            np.asarray(found[name], np.float64),
            expected[name],
            rtol=rtol,
            atol=atol * mean,
            err_msg=f"{name} of {what}",
        )
