"""The real program's reader and runner, on parquet made here and a stand-in `bin/opendc`."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import parquet

from simulators import opendc
from simulators.cache import compare
from simulators.errors import SimulatorError
from simulators.isolation import run_isolated
from simulators.opendc import program
from simulators.opendc.trace import HOSTS, MACHINES, find_trace, read_trace
from simulators.recording import check_recording

BASELINE = Path(__file__).resolve().parents[2] / "whatif_jax" / "catalog" / "opendc.parquet"

# What the program does, in loops over the experiment's own JSON: it samples every 300 s until the
# last task ends, prints times in whole seconds, and adds a last sample of each task off the grid.
STAND_IN = """#!{python}
import json, sys
from pathlib import Path
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
assert sys.argv[1] == "run" and "--no-progress" in sys.argv and "--no-summary" in sys.argv
experiment = json.loads(Path(sys.argv[2]).read_text())
assert experiment["exportModels"] == [{{"exportInterval": "5 minutes"}}]
hosts = experiment["topologies"][0]["clusters"][0]["hosts"]
assert [host["name"] for host in hosts] == ["host-0", "host-1", "host-2", "host-3"]
assert all(host["cpu"] == {{"coreCount": 16, "coreSpeed": "3000 MHz"}} for host in hosts)
print("WARN is no warning of ours\\nWarning: something small")
if {exit}:
    sys.exit({exit})
output = Path(sys.argv[sys.argv.index("-o") + 1]) / "whatif" / "raw-output" / "0" / "seed=0"
output.mkdir(parents=True)
place = {{"1019": "host-0", "1023": "host-0", "1026": "host-1", "1052": "host-1"}}
tasks = {{task["name"]: task for task in experiment["workloads"][0]["tasks"]}}
ends = {{
    n: t["submissionTime"] + sum(f["duration"] for f in t["fragments"]) for n, t in tasks.items()
}}
rows = max(ends.values()) // 300000
stamps = 300000 * (np.arange(rows) + 1)
usage, active = {{}}, {{}}
for name, task in tasks.items():
    edges = task["submissionTime"] + np.cumsum([0] + [f["duration"] for f in task["fragments"]])
    values = np.array([0.0] + [f["cpuUsage"] for f in task["fragments"]] + [0.0])
    usage[name] = values[np.searchsorted(edges, stamps, side="right")]
    work = np.concatenate([[0], np.cumsum(np.diff(edges) * values[1:-1])])
    done = np.interp(np.concatenate([[0], stamps]), edges, work)
    active[name] = np.diff(done) / 1000 / 48000
def table(owners, extra):
    columns = {{}}
    for owner, used, busy, stamp in owners:
        n = len(stamp)
        part = dict(timestamp=stamp, cpu_capacity=np.full(n, 48000.0, np.float32),
            cpu_demand=used.astype(np.float32), cpu_usage=used.astype(np.float32),
            cpu_utilization=(used / 48000).astype(np.float32),
            cpu_time_active=np.round(busy).astype(np.int64),
            cpu_time_idle=np.round(300 - busy).astype(np.int64),
            cpu_time_steal=np.zeros(n, np.int64), cpu_time_lost=np.zeros(n, np.int64),
            power_draw=(200 + 200 * used / 48000).astype(np.float32))
        part.update(extra(owner, n))
        for key, value in part.items():
            columns.setdefault(key, []).extend(value)
    return pa.table(columns)
zero = np.zeros(rows)
per_host = {{h["name"]: [n for n in tasks if place[n] == h["name"]] for h in hosts}}
pq.write_table(table(
    [(h, sum((usage[n] for n in ns), zero), sum((active[n] for n in ns), zero), stamps)
     for h, ns in per_host.items()], lambda o, n: dict(host_name=[o] * n)), output / "host.parquet")
def task_rows(name):
    alive = stamps <= ends[name]
    last = lambda values: np.append(values[alive], 0.0)
    return name, last(usage[name]), last(active[name]), np.append(stamps[alive], ends[name])
pq.write_table(table([task_rows(n) for n in tasks],
    lambda o, n: dict(task_id=[o] * n, task_name=[o] * n, host_name=[place[o]] * (n - 1) + [""])),
    output / "task.parquet")
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """OPENDC_HOME with a stand-in program, and a java to find."""

    def make(exit_code: int = 0) -> Path:
        folder = tmp_path / "opendc-9.9"
        for name, text in {
            "opendc": STAND_IN.format(python=sys.executable, exit=exit_code),
            "java": "#!/bin/sh\n",
        }.items():
            path = folder / "bin" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        monkeypatch.setenv("OPENDC_HOME", str(folder))
        monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")
        return folder

    return make


@pytest.mark.slow
def test_program_gives_the_replay_columns(home, data):
    home()
    recording = run_isolated("simulators.opendc.program", opendc.STEPS, data, system="opendc")
    check_recording(recording, opendc.TARGETS, opendc.STEPS)
    assert (recording.simulator, recording.version) == ("OpenDC", "opendc-9.9")
    assert recording.warnings == ["Warning: something small"]
    assert recording.settings["engine"] == "program"
    # whole seconds round these nearly idle hosts to 0 and 1; everything else agrees
    assert set(recording.columns["cpu_time_active_host-1"]) <= {0.0, 1.0}
    compare(recording, BASELINE, 1e-5, opendc.program_slack)
    with pytest.raises(SimulatorError, match="opendc: cpu_time_active_host-0"):
        compare(recording, BASELINE, 1e-5)


@pytest.mark.slow
def test_program_that_fails_is_refused(home, data):
    home(exit_code=3)
    with pytest.raises(SimulatorError, match=r"opendc: program: exit 3: (?s:.*)something small"):
        run_isolated("simulators.opendc.program", opendc.STEPS, data, system="opendc")


def test_program_or_java_missing_is_refused(home, monkeypatch, tmp_path):
    folder = home()
    assert program.find_program() == folder / "bin" / "opendc"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SimulatorError, match="java: not found on PATH; expected Java 21"):
        program.find_program()
    (folder / "bin" / "opendc").chmod(0o644)
    monkeypatch.setenv("OPENDC_HOME", str(tmp_path))
    with pytest.raises(SimulatorError, match=r"OPENDC_HOME: no executable .*bin/opendc"):
        program.find_program()
    monkeypatch.delenv("OPENDC_HOME")
    with pytest.raises(SimulatorError, match="OPENDC_HOME: not set"):
        program.find_program()


STEPS = 40


@pytest.fixture(scope="module")
def machines(data):
    return read_trace(find_trace(data), STEPS)


@pytest.fixture
def output(tmp_path):
    """host.parquet and task.parquet of a 40-step run, changed before they are written."""

    def write(edit=lambda hosts, tasks: None) -> Path:
        stamps = (np.arange(STEPS) + 1) * 300_000

        def rows(key: str, owner: str, host: str) -> list[dict]:
            return [
                {
                    "timestamp": int(stamp),
                    key: owner,
                    "host_name": host,
                    "cpu_demand": 1.0,
                    "cpu_usage": 1.0,
                    "cpu_utilization": 0.5,
                    "cpu_time_active": 2,
                    "cpu_time_idle": 298,
                    "power_draw": 201.0,
                }
                for stamp in stamps
            ]

        hosts = [row for host in HOSTS for row in rows("host_name", host, host)]
        tasks = [
            row
            for host, names in HOSTS.items()
            for n in names
            for row in rows("task_name", n, host)
        ]
        edit(hosts, tasks)
        for name, table in (("host", hosts), ("task", tasks)):
            parquet.write_table(arrow.Table.from_pylist(table), tmp_path / f"{name}.parquet")
        return tmp_path

    return write


def test_reader_reads_rows_in_any_order(output, machines):
    owners = program.read_output(output(lambda h, t: (h.reverse(), t.reverse())), machines, STEPS)
    assert set(owners) == {"host-0", "host-1", "1019", "1023", "1026"}
    assert set(owners["host-0"]) == {
        "cpu_demand", "cpu_usage", "cpu_utilization", "cpu_time_active", "power_draw",
    }  # fmt: skip
    assert owners["1026"]["cpu_time_idle"].tolist() == [298.0] * STEPS


def test_reader_takes_the_first_rows_of_a_longer_output(output, machines):
    owners = program.read_output(output(), machines, STEPS - 10)
    assert len(owners["host-1"]["power_draw"]) == STEPS - 10


def drop(row):
    return lambda hosts, tasks: hosts.pop(row)


def change(row, **values):
    return lambda hosts, tasks: (hosts if row < STEPS else tasks)[row % STEPS].update(values)


def elsewhere(hosts, tasks):
    for row in tasks:
        row["host_name"] = "host-2" if row["task_name"] == "1052" else row["host_name"]


def without(column):
    return lambda hosts, tasks: [row.pop(column) for row in tasks]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (drop(5), "host.parquet, host-0: uneven timestamp 2100"),
        (drop(STEPS - 1), "host.parquet, host-0: 39 rows; expected 40 rows"),
        (lambda h, t: h.append(dict(h[STEPS - 1])), "host-0: repeated timestamp 12000"),
        (
            change(3, power_draw=float("nan")),
            "host-0: power_draw is nan at row 3; expected finite",
        ),
        (change(STEPS + 3, cpu_usage=float("inf")), "1019: cpu_usage is inf at row 3"),
        (elsewhere, r"task.parquet, 1052: on host \['host-2'\]; expected host-1"),
        (without("cpu_time_idle"), r"also columns \['cpu_time_idle'\]"),
        (without("task_name"), "also columns task_name and host_name"),
        (lambda h, t: h.clear(), "also columns"),
    ],
)
def test_reader_refuses(output, machines, edit, message):
    with pytest.raises(SimulatorError, match=message):
        program.read_output(output(edit), machines, STEPS)


def test_reader_refuses_no_file_and_two(output, machines, tmp_path):
    folder = output()
    (folder / "again").mkdir()
    (folder / "again" / "host.parquet").write_bytes((folder / "host.parquet").read_bytes())
    with pytest.raises(SimulatorError, match=r"host.parquet: 2 such files.*expected one"):
        program.read_output(folder, machines, STEPS)
    with pytest.raises(SimulatorError, match="0 such files"):
        program.read_output(folder / "nowhere", machines, STEPS)


def test_experiment_holds_the_four_machines(machines, tmp_path):
    experiment = json.loads(program.write_experiment(tmp_path, machines).read_text())
    tasks = experiment["workloads"][0]["tasks"]
    assert [task["name"] for task in tasks] == list(MACHINES)
    for task in tasks:
        own = machines[task["name"]]
        assert task["cpuCoreCount"] == 1
        assert task["cpuCapacity"] == own.limit
        assert sum(part["duration"] for part in task["fragments"]) == own.durations.sum()
    host = experiment["topologies"][0]["clusters"][0]["hosts"][1]
    assert host["cpuPowerModel"] == {
        "type": "linear", "idlePower": "200 Watts", "maxPower": "400 Watts",
    }  # fmt: skip
    assert host["memory"] == {"size": "64 GiB"}
