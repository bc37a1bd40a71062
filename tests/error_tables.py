"""Error tables made up for the tests of comparisons."""

import numpy as np
from hypothesis import strategies as st

from whatif_jax.comparison import ErrorTable

CONTEXTS = {"C1": 1024, "C2": 2048, "C3": 4096, "C4": 8192}


def table_of(errors: np.ndarray, models=None, **axes) -> ErrorTable:
    """A table of given errors [N, M]; axes not given are drawn, two tasks a pair."""
    errors = np.asarray(errors, np.float64)
    count, width = errors.shape
    rng = np.random.default_rng(7)
    pair = rng.choice(["C1", "C2", "C3", "C4"], count)
    drawn = {
        "system": rng.choice(["a", "b"], count).astype(object),
        "target": rng.choice(["t0", "t1", "t2"], count).astype(object),
        "k": rng.integers(1, 4, count).astype(np.int32),
        "context_pair": pair.astype(object),
        "context": np.array([CONTEXTS[name] for name in pair], np.int32),
        "event_length": rng.choice([32, 512], count).astype(np.int32),
        "n_events": rng.choice([1, 2, 16], count).astype(np.int32),
        "setting": rng.choice(["fewest", "most"], count).astype(object),
        "future": np.array(["replay", "novel"] * count, object)[:count],
        "pair_id": np.arange(count) // 2,
    }
    axes = {name: np.asarray(values) for name, values in axes.items()}
    return ErrorTable(
        models=tuple(models or ("naive", *(f"m{index}" for index in range(1, width)))),
        task_ids=np.arange(count),
        errors=errors,
        metric="wql",
        fingerprint="f",
        metric_version="1",
        axes={**drawn, **axes},
    )


def random_table(count=300, models=4, seed=0, **axes) -> ErrorTable:
    """Log-normal errors with ties, exact forecasts, infinite errors and ratios beyond the clip.

    The reference (naive) is positive and finite, which is all that fev can divide by.
    """
    rng = np.random.default_rng(seed)
    errors = np.exp(rng.normal(size=(count, 1)) + rng.normal(size=(count, models)))
    errors[rng.random(errors.shape) < 0.1] = 0.0
    errors[rng.random(errors.shape) < 0.05] = np.inf
    errors *= np.where(rng.random(errors.shape) < 0.1, 1e5, 1.0)
    errors[:, 0] = np.exp(rng.normal(size=count))
    tied = rng.random(errors.shape) < 0.15
    errors = np.where(tied, errors[:, :1], errors)
    return table_of(errors, **axes)


# zero, infinity and what lies between; ratios of these never overflow
any_error = st.one_of(st.just(0.0), st.just(np.inf), st.floats(1e-6, 1e6))
finite_error = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))


@st.composite
def error_tables(draw, element=any_error, least_models=2) -> ErrorTable:
    """Tables of up to 12 tasks and 5 models."""
    width = draw(st.integers(least_models, 5))
    rows = st.lists(st.lists(element, min_size=width, max_size=width), min_size=1, max_size=12)
    return table_of(np.array(draw(rows)))
