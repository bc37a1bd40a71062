"""Made-up results that the tests of the report and of the paper share."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def part(suite):
    """6,000 tasks of every kind."""
    rows = np.sort(np.random.default_rng(0).choice(len(suite), 6000, replace=False))
    return suite.take(rows)


@pytest.fixture(scope="session")
def runs(part):
    """naive, linear, ridge and chronos-2 on all tasks; a tuned linear and xgboost on samples."""
    from tests.eval.report.report_helpers import made_run, with_wql

    draw = np.random.default_rng(1)
    sample = np.sort(draw.choice(len(part), 1500, replace=False))
    smaller = np.sort(draw.choice(sample, 900, replace=False))
    linear = made_run(part, "linear", quality=0.4, point=True, seed=1)
    # ridge's errors are linear's, but twice as large on Novel futures of sumo
    far = (part.column("system") == "sumo") & (part.column("future") == "novel")
    ridge = made_run(part, "ridge", quality=0.4, point=True, seed=1, settings={"alpha": 10.0})
    found = [
        made_run(part, "naive", quality=0, point=True),
        linear,
        with_wql(ridge, np.where(far, 2, 1) * linear.scores["wql"].to_numpy()),
        made_run(part, "chronos-2", quality=0.6, seed=2),
        made_run(part, "linear-paired-z-s", quality=0.5, point=True, rows=smaller, seed=3),
        made_run(part, "xgboost", quality=0.5, point=True, rows=sample, seed=4),
    ]
    return {run.name: run for run in found}


@pytest.fixture(scope="session")
def comparison(runs, part):
    """All of them, against naive and linear."""
    from tests.eval.report.report_helpers import compare

    return compare(runs.values(), part)


@pytest.fixture(scope="session")
def tables(comparison):
    """The report's tables of them."""
    from eval.report.tables import report_tables

    return report_tables(comparison)
