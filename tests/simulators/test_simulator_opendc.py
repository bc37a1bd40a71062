"""OpenDC: the replay against a brute-force oracle, the whole trace, and the trace's refusals."""

from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import parquet

from simulators import opendc
from simulators.cache import compare
from simulators.errors import SimulatorError
from simulators.isolation import run_isolated
from simulators.opendc.replay import Host, max_min_share, replay_host
from simulators.opendc.trace import Machine, find_trace, read_trace

BASELINE = Path(__file__).resolve().parents[2] / "whatif_jax" / "catalog" / "opendc.parquet"


@pytest.fixture(scope="module")
def whole(data):
    return run_isolated("simulators.opendc", opendc.STEPS, data)


def test_whole_trace_is_the_cached_file(whole):
    assert list(whole.columns) == list(opendc.TARGETS)
    assert len(opendc.TARGETS) == 22
    compare(whole, BASELINE, 1e-6)
    columns = whole.columns
    total = columns["cpu_usage_1019"] + columns["cpu_usage_1023"]
    assert np.allclose(columns["cpu_usage_host-0"], total)
    for host in ("host-0", "host-1"):
        usage = columns[f"cpu_usage_{host}"]
        assert np.allclose(columns[f"cpu_utilization_{host}"], usage / 48_000)
        assert np.allclose(columns[f"power_draw_{host}"], 200 + 200 * usage / 48_000)
        assert np.array_equal(columns[f"cpu_demand_{host}"], usage)  # nobody waits here
    both = columns["cpu_time_active_1026"] + columns["cpu_time_idle_1026"]
    assert np.allclose(both, 300)
    # 1052 adds to host-1 for a week in the month
    extra = columns["cpu_usage_host-1"] - columns["cpu_usage_1026"]
    assert extra[:4908].max() < 1e-9 < extra.max()
    assert all(steps <= 50 for steps in whole.record["idle_steps_after_last_fragment"].values())


def test_active_time_is_the_work_in_the_trace(whole, data):
    fragments = parquet.read_table(find_trace(data) / "fragments.parquet").to_pandas()
    for name in ("1019", "1023", "1026"):
        own = fragments[fragments.id == int(name)]
        work = (own.duration / 1000 * own.cpu_usage).sum() / 48_000
        assert whole.columns[f"cpu_time_active_{name}"].sum() == pytest.approx(work, rel=1e-9)


def test_max_min_share():
    shares = max_min_share(np.array([[2.0, 8, 10], [1, 2, 3], [9, 9, 9], [0, 20, 1]]), 15)
    assert shares.tolist() == [[2, 6.5, 6.5], [1, 2, 3], [5, 5, 5], [0, 14, 1]]


def machine(name: str, start: int, limit: float, *fragments: tuple[int, float]) -> Machine:
    durations, demand = zip(*fragments, strict=True)
    return Machine(name, start, 1, limit, 1, np.array(durations), np.array(demand, dtype=float))


@pytest.mark.parametrize("seed", range(6))
def test_replay_agrees_with_a_second_by_second_oracle(seed):
    random = np.random.default_rng(seed)
    host = Host(cores=2, core_speed=50.0)
    machines = [
        machine(
            str(number),
            int(random.integers(0, 900)) * 1000 * (number > 0),
            float(random.choice([40.0, 70.0, 1000.0])),
            *[
                (int(seconds) * 1000, float(usage))
                for seconds, usage in zip(
                    random.integers(1, 700, 8),
                    random.uniform(0, 90, 8).round(3),
                    strict=True,
                )
            ],
        )
        for number in range(3)
    ]
    steps = 12
    result, per_machine = replay_host(host, machines, steps)

    def demands(second: int) -> list[float]:
        found = []
        for item in machines:
            clock = item.start // 1000
            value = 0.0
            for milliseconds, usage in zip(item.durations, item.demand, strict=True):
                if clock <= second < clock + milliseconds // 1000:
                    value = float(usage)
                clock += milliseconds // 1000
            found.append(value)
        return found

    def shares(wanted: list[float]) -> list[float]:
        """Hand out capacity a little at a time, always to all who still want some."""
        wanted = [min(value, item.limit) for value, item in zip(wanted, machines, strict=True)]
        given, left = [0.0] * 3, host.capacity
        while left > 1e-12:
            hungry = [i for i in range(3) if wanted[i] - given[i] > 1e-12]
            if not hungry:
                break
            portion = min(left / len(hungry), min(wanted[i] - given[i] for i in hungry))
            for i in hungry:
                given[i] += portion
            left -= portion * len(hungry)
        return given

    active = np.zeros((steps, 3))
    for second in range(steps * 300):
        active[second // 300] += np.array(shares(demands(second))) / host.capacity
    for step in range(steps):
        at = demands((step + 1) * 300)
        used = shares(at)
        assert result["cpu_demand"][step] == pytest.approx(sum(at))
        assert result["cpu_usage"][step] == pytest.approx(sum(used))
        assert result["power_draw"][step] == pytest.approx(200 + 2 * sum(used))
        assert result["cpu_time_active"][step] == pytest.approx(active[step].sum())
        for number in range(3):
            one = per_machine[str(number)]
            assert one["cpu_demand"][step] == pytest.approx(at[number])
            assert one["cpu_usage"][step] == pytest.approx(used[number])
            assert one["cpu_time_active"][step] == pytest.approx(active[step, number])
    assert (result["cpu_usage"] <= host.capacity + 1e-9).all()


@pytest.fixture
def doctored(data, tmp_path):
    """Write a trace made from the real one, tasks and fragments as data frames."""

    def write(edit) -> Path:
        source, target = find_trace(data), tmp_path / "opendc"
        target.mkdir(exist_ok=True)
        frames = [
            parquet.read_table(source / f"{name}.parquet").to_pandas()
            for name in ("tasks", "fragments")
        ]
        for name, frame in zip(("tasks", "fragments"), edit(*frames), strict=True):
            table = arrow.Table.from_pandas(frame, preserve_index=False)
            parquet.write_table(table, target / f"{name}.parquet")
        return target

    return write


def first_half(tasks, fragments):
    own = fragments[fragments.id == 1019]
    return tasks, fragments.drop(own.index[len(own) // 2 :])


def spoiled(column, value):
    def edit(tasks, fragments):
        fragments = fragments.copy()
        fragments.loc[fragments.index[fragments.id == 1026][5], column] = value
        return tasks, fragments

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            first_half,
            r"fragments of 1019: end \d+ s early, .*a padded flat tail is not data",
        ),
        (
            lambda t, f: (
                t.assign(duration=t.duration.where(t.id != 1023, 10_000_000)),
                f,
            ),
            "trace of 1023: 10000 s long; expected 2592000 s, the run's length",
        ),
        (
            lambda t, f: (t[t.id != 1052], f),
            "tasks.parquet: 0 rows of 1052; expected one",
        ),
        (
            lambda t, f: (t, f[f.id != 1026]),
            "fragments of 1026: none, or a duration not above 0",
        ),
        (spoiled("duration", 0), "fragments of 1026: none, or a duration not above 0"),
        (
            spoiled("cpu_usage", float("nan")),
            "fragments of 1026: a cpu_usage below 0 or not fin",
        ),
        (
            spoiled("cpu_usage", -1.0),
            "fragments of 1026: a cpu_usage below 0 or not finite",
        ),
        (
            lambda t, f: (t, f.drop(columns="cpu_usage")),
            r"also columns \['cpu_usage'\]",
        ),
    ],
)
def test_trace_is_refused(doctored, edit, message):
    with pytest.raises(SimulatorError, match=message):
        read_trace(doctored(edit), opendc.STEPS)


def test_missing_trace_is_refused(tmp_path):
    with pytest.raises(SimulatorError, match=r"tasks.parquet does not exist; expected the trace"):
        find_trace(tmp_path)


def test_trace_shorter_than_a_longer_run_is_refused(data):
    with pytest.raises(SimulatorError, match="trace of 1019: 2592252 s long; expected 2700000 s"):
        read_trace(find_trace(data), 9000)
