"""The oracle's layouts, tasks, verification and checks of drawn numbers (whatif-v1.md)."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.oracle import layout as layouts
from tests.oracle import reference, tables
from tests.oracle.drawn_numbers import check_drawn_numbers, check_pair, draw_row

MOST = {  # nominal context -> events of 32, 64, 128, 256 and 512 steps
    1024: [8, 4, 2, 2, 2],  # 593.92 steps for events and gaps
    2048: [16, 8, 4, 4, 2],  # 1187.84
    4096: [32, 16, 8, 8, 4],  # 2375.68
    8192: [64, 32, 16, 16, 8],  # 4751.36
    7328: [64, 32, 16, 8, 8],  # 4250.24
    7776: [64, 32, 16, 8, 8],  # 4510.08
}


def test_axes():
    """whatif-v1.md §5's contexts, horizons, lengths, K and event counts."""
    shared = {"C1": (1024, 128), "C2": (2048, 256), "C3": (4096, 384)}
    largest = {name: system.contexts["C4"] for name, system in tables.SYSTEMS.items()}
    assert all(system.contexts.items() >= shared.items() for system in tables.SYSTEMS.values())
    assert largest == {
        "opendc": (7328, 864),
        "gridlabd": (8192, 512),
        "epanet": (8192, 512),
        "sumo": (7776, 864),
    }
    pools = {name: system.pool for name, system in tables.SYSTEMS.items()}
    assert pools.pop("epanet") == (2, 4, 6, 8)
    assert set(pools.values()) == {(0.1, 0.25, 0.5, 2, 4, 6, 8)}
    assert layouts.EVENT_LENGTHS == (32, 64, 128, 256, 512)
    assert layouts.COVARIATE_COUNTS == (1, 2, 3, 4, 5)
    for nominal, counts in MOST.items():
        found = [layouts.events_in("C1", nominal, length, "most") for length in (32, 64, 128, 256)]
        assert [*found, layouts.most_events(nominal, 512)] == counts
    fewest = [layouts.events_in(pair, 1024, 32, "fewest") for pair in layouts.PAIRS]
    assert fewest == [1, 1, 1, 2]
    # 2*288/0.58 = 993.1
    assert [layouts.most_events(context, 256) for context in (993, 994)] == [1, 2]
    assert [reference.context_for(context, 512, 2) for context in (1875, 1877)] == [1876, 1877]


def test_layout_facts():
    """whatif-v1.md §5's printed facts."""
    assert reference.context_for(1024, 512, 2) == 1876
    assert reference.context_for(7328, 512, 8) == 7504
    for system in tables.SYSTEMS.values():
        grown, tasks = set(), 0
        for pair, (nominal, horizon) in system.contexts.items():
            for length in layouts.EVENT_LENGTHS:
                counts = [layouts.events_in(pair, nominal, length, s) for s in layouts.SETTINGS]
                assert counts[0] < counts[1] <= 64 and counts[1].bit_count() == 1
                tasks += len(counts) * len(layouts.FUTURES) * len(layouts.COVARIATE_COUNTS)
                for count in counts:
                    context = reference.context_for(nominal, length, count)
                    assert context + horizon <= system.steps
                    starts = reference.layout(context, length, count)
                    assert starts[0] == math.floor(Fraction(4, 10) * context)
                    assert starts[-1] + length + 32 <= context - Fraction(2, 100) * context
                    assert len(set(np.diff(starts))) <= 1
                    if context != nominal:
                        grown.add((pair, length, count, context))
        assert tasks == 400
        extra = {("C4", 512, 8, 7504)} if system.name == "opendc" else set()
        assert grown == {("C1", 512, 2, 1876)} | extra
    # prefix 409, end buffer 21, spare 1024-409-21-2*96 = 402: stride 96 + 201
    assert reference.layout(1024, 64, 2) == [409, 706]
    assert reference.layout(1876, 512, 2) == [750, 1294]
    with pytest.raises(ValueError, match="do not fit"):
        reference.layout(1024, 512, 2)


def small_row(system, target, covariates, factors, future_factors, **columns):
    """A row on 20 + 4 steps from step 3, with events of 4 steps at 8 and 14."""
    return {
        "system": system,
        "target": target,
        "covariates": covariates,
        "k": len(covariates),
        "context": 20,
        "horizon": 4,
        "event_length": 4,
        "window_start": 3,
        "event_starts": [8, 14][: len(factors)],
        "n_events": len(factors),
        "factors": factors,
        "future_factors": future_factors,
        **columns,
    }


def test_reference_task_of_steps():
    """y = 1..40, ybar = 20.5: total_load is f*y + 1.025*(f-1)."""
    series = np.arange(1, 41, dtype=np.float32)
    row = small_row("gridlabd", "total_load", ["nominal_power"], [[4.0], [0.5]], [8.0])
    task = reference.reference_task(row, series)
    assert all(values.dtype == np.float64 for values in task.values())
    history = np.arange(4.0, 24)
    history[8:12] = [51.075, 55.075, 59.075, 63.075]
    history[14:18] = [8.4875, 8.9875, 9.4875, 9.9875]
    np.testing.assert_allclose(task["history"], history, rtol=1e-14)
    np.testing.assert_array_equal(task["future_baseline"], [24, 25, 26, 27])
    np.testing.assert_allclose(task["future"], [199.175, 207.175, 215.175, 223.175], rtol=1e-14)
    covariate = np.full((1, 20), 10.0)
    covariate[0, 8:12], covariate[0, 14:18] = 40, 5
    np.testing.assert_array_equal(task["history_covariates"], covariate)
    np.testing.assert_array_equal(task["future_covariates"], np.full((1, 4), 80.0))


def test_reference_task_of_bells():
    """Bells take L = l in the history and L = horizon in the future; a step among them holds."""
    series = np.full(40, 10.0)
    names = ["sigma", "accel"]
    row = small_row("sumo", "CO2_abs_edge_e2c", names, [[4.0, 2.0]], [8.0, 0.5], horizon=12)
    task = reference.reference_task(row, series)
    # l = 4: ((t-1.5)/(4/6))^2/2 = 2.53125, 0.28125; L = 12: 3.78125, 2.53125, ..., 0.03125
    short = [1 + 3 * math.exp(-power) for power in (2.53125, 0.28125, 0.28125, 2.53125)]
    half = [3.78125, 2.53125, 1.53125, 0.78125, 0.28125, 0.03125]
    long = [1 + 7 * math.exp(-power) for power in half + half[::-1]]
    history = np.tile([[0.5], [2.6]], 20)
    history[0, 8:12], history[1, 8:12] = 0.5 * np.array(short), 5.2
    np.testing.assert_allclose(task["history_covariates"], history, rtol=1e-14)
    future = [0.5 * np.array(long), np.full(12, 1.3)]
    np.testing.assert_allclose(task["future_covariates"], future, rtol=1e-14)

    def response(f, other):
        s = 1 / (1 + 0.5 * (math.log(f) + abs(math.log(other))))
        return 10 * f**1.2 * (1 + s * 0.15 * (other**0.3 - 1))

    np.testing.assert_allclose(task["history"][8:12], [response(f, 2.0) for f in short], rtol=1e-13)
    np.testing.assert_allclose(task["future"], [response(f, 0.5) for f in long], rtol=1e-13)
    np.testing.assert_array_equal(np.delete(task["history"], range(8, 12)), np.full(16, 10.0))


def test_verification():
    series = np.arange(1, 41, dtype=float)
    names = ["coreCount_host-0"]
    row = small_row("opendc", "cpu_utilization_host-0", names, [[4.0], [0.1]], [0.5])
    history, future, effects = reference.verify(row, series)
    assert (history, future) == (True, True)
    assert effects == pytest.approx([0.75, 1, 1])  # 1/f - 1 is 9 and 1: at most 1 counts
    assert reference.verify(row, np.ones(40)) == (False, False, [0, 0, 0])  # constant: out
    series[1] = 1
    assert reference.verify(row, series)[:2] == (True, True)
    series[11:13], series[24:26] = 0, 0  # two of four steps of event 0 and of the future
    assert reference.verify(row, series)[2] == pytest.approx([0.75, 1, 1])  # dead: left out
    series[11:15] = 0  # nothing left
    assert reference.verify(row, series)[:2] == (False, True)


def test_verification_of_small_baselines():
    """A small y that moves counts as 1, and a small move as what it is."""
    series = np.arange(1, 41, dtype=float)
    names = ["heat_fraction"]
    row = small_row("gridlabd", "air_temperature", names, [[2.0]], [2.0])
    series[11:15] = [0, 0.003, 29, 58]  # tol 0.004; the shift is 14.5
    assert reference.verify(row, series)[2][0] == pytest.approx((1 + 1 + 0.5 + 0.25) / 4)
    series[:], series[-1] = 144, 145
    assert reference.verify(row, series)[:2] == (True, True)  # 14.5 of 144: 10.07%
    series[11:15] = 146
    assert reference.verify(row, series)[:2] == (False, True)  # 14.5 of 146: 9.93%


def test_verification_of_epanet():
    """A dead step counts as 0, and a history without flow at a step fails."""
    series = np.arange(1, 41, dtype=float)
    row = small_row("epanet", "flowrate_9", ["pump_9_setting"], [[8.0]], [8.0])
    row["covariates"] = ["pipe_10_diameter"]  # a step in place of the bell: same response
    assert reference.verify(row, series) == (True, True, [1.0, 1.0])
    for small, passes in ((0.00399, False), (0.00401, True)):  # tol 0.004
        series[11] = small
        assert reference.verify(row, series) == (passes, True, [1.0, 1.0])
    series[[11, 23, 24, 25]] = 0
    assert reference.verify(row, series) == (False, True, [0.75, 0.25])


AXES = [(system, target) for system in tables.SYSTEMS for target in tables.SYSTEMS[system].targets]


@pytest.mark.parametrize(("system", "target"), AXES)
def test_drawn_rows_pass(system, target):
    generator = np.random.default_rng(len(target))
    everything = len(tables.SYSTEMS[system].covariates)
    for future in layouts.FUTURES:
        row = draw_row(generator, system, target, future=future)
        assert check_drawn_numbers(row) == []
        row = draw_row(generator, system, target, k=everything, future=future, context_pair="C2")
        assert check_drawn_numbers(row, largest_k=everything) == []
        task = reference.reference_task(row, generator.uniform(1, 2, tables.SYSTEMS[system].steps))
        assert task["history_covariates"].shape == (everything, row["context"])
        assert all(np.isfinite(values).all() for values in task.values())


@pytest.mark.parametrize("system", tables.SYSTEMS)
def test_events_at_once(system):
    """Both plain forms of a task give the same values."""
    generator = np.random.default_rng(3)
    series = generator.uniform(1, 2, tables.SYSTEMS[system].steps).astype(np.float32)
    for target in tables.SYSTEMS[system].targets:
        row = draw_row(generator, system, target)
        one = reference.reference_task(row, series)
        other = reference.reference_task_at_once(row, series)
        assert one.keys() == other.keys()
        for name, values in one.items():
            np.testing.assert_allclose(other[name], values, rtol=1e-13)


DOCTORED = [
    ({"system": "nosuch"}, "unknown"),
    ({"target": "pressure_10"}, "not of sumo"),
    ({"k": 6}, "k is 6"),
    ({"event_length": 33}, "event_length"),
    ({"covariates": ["minGap", "tau", "accel"]}, "covariates"),
    ({"covariates": ["tau", "minGap", "decel"]}, "covariates"),
    ({"factors": [[4.0, 4.0, 0.5]]}, "1 events, not 2"),
    ({"factors": [[4.0, 4.0, 0.5], [4.0, 4.0]]}, "3 covariates"),
    ({"future_factors": [4.0]}, "future_factors"),
    ({"setting": "fewest"}, "n_events"),
    ({"horizon": 128}, "horizon"),
    ({"context": 2049}, "context"),
    ({"event_starts": [819, 1360]}, "event_starts"),
    ({"window_start": 6337}, "window_start"),
    ({"window_start": -1}, "window_start"),
    ({"factors": [[4.0, 4.0, 0.5], [4.0, 4.0, 0.3]]}, "not in the pool"),
    ({"factors": [[4.0, 4.0, 0.5], [4.0, 4.0, 2.0]]}, "both up and down"),
    ({"future_factors": [4.0, 0.25, 0.5]}, "not those of one history event"),
    ({"future": "novel", "future_factors": [12.9, 0.01, 0.1]}, "tau"),
    ({"future": "novel", "future_factors": [0.1, 0.06, 10.0]}, "minGap"),
    ({"future": "novel", "future_factors": [0.1, 0.03, 8.9]}, "accel"),
    ({"future": "novel", "future_factors": [0.126, 0.03, 10.0]}, "tau"),
]


def good_row():
    """A SUMO flow: tau and minGap inverse, accel direct; the first event pushes down."""
    row = draw_row(
        np.random.default_rng(0),
        "sumo",
        "flow_loop_e_0_near",
        k=3,
        context_pair="C2",
        event_length=512,
        setting="most",
    )
    factors = [[4.0, 4.0, 0.5], [0.25, 0.10000000149011612, 4.0]]
    return row | {"factors": factors, "future": "replay", "future_factors": factors[1]}


@pytest.mark.parametrize(("change", "problem"), DOCTORED, ids=lambda value: str(value)[:40])
def test_doctored_rows_fail(change, problem):
    row = good_row()
    assert check_drawn_numbers(row) == []
    novel = {"future": "novel", "future_factors": [0.125, 0.01, 9.0]}  # edges of the ranges
    assert check_drawn_numbers(row | novel) == []
    problems = check_drawn_numbers(row | change)
    assert any(problem in text for text in problems)


def test_novel_ranges():
    """The base factor 1 counts as seen; the ranges end at +12 and at half."""
    row = good_row() | {"factors": [[4.0, 4.0, 0.5]] * 2, "future": "novel"}
    passes = [[0.1, 0.1, 6.0], [0.5, 0.5, 13.0]]  # of direct 0.5: 1 + [5, 12]; of 4: 1*[.1, .5]
    fails = [[0.09, 0.1, 6.0], [0.1, 0.51, 6.0], [0.1, 0.1, 5.99], [0.1, 0.1, 13.01]]
    for future_factors in passes:
        assert check_drawn_numbers(row | {"future_factors": future_factors}) == []
    for future_factors in fails:
        assert len(check_drawn_numbers(row | {"future_factors": future_factors})) == 1


def test_events_that_go_up_only():
    row = draw_row(np.random.default_rng(0), "gridlabd", "is_AUX_on", k=2, future="replay")
    down = row | {"factors": [[0.5, 0.5]] * row["n_events"], "future_factors": [0.5, 0.5]}
    assert check_drawn_numbers(row) == []
    assert any("up only" in problem for problem in check_drawn_numbers(down))


def test_drawn_pairs():
    for system, target in AXES:
        replay, novel = (
            draw_row(np.random.default_rng(5), system, target, future=future)
            for future in layouts.FUTURES
        )
        assert check_pair(replay, novel) == []


def test_pairs():
    row = good_row()
    novel = row | {"task_id": 1, "future": "novel", "future_factors": [0.125, 0.01, 9.0]}
    assert check_pair(row, novel) == []
    assert check_pair(novel, row) != []
    assert check_pair(row, novel | {"window_start": row["window_start"] + 1}) != []
    other = [row["factors"][1], row["factors"][0]]
    assert check_pair(row, novel | {"factors": other}) == ["factors differs within the pair"]
