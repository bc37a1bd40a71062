"""A written report of made-up results, and its page opened in headless Chromium."""

import json
import re
import shutil

import numpy as np
import polars as pl
import pytest

from eval.report.figures.drawing import save
from eval.report.write import write_report
from tests.eval.report.report_helpers import WINDOW, made_run, wait


class FewDrawn:
    """Draws one variant of each figure and copies it to the others: drawing all takes long.

    Which one is drawn goes round, so that every metric and reference is drawn for some figures.
    """

    def __init__(self):
        self.figures = []
        self.drawn = None

    def save(self, made, path, hidden=()):
        found = re.fullmatch("(.*)_(wql|wape)(?:_(naive|linear))?", path.name)
        if found is None:  # a figure without variants
            return save(made, path, hidden)
        name, metric, reference = found.groups()
        if name not in self.figures:
            self.figures.append(name)
        number = self.figures.index(name)
        variant = (("wql", "wape")[number % 2], ("naive", "linear")[number // 2 % 2])
        if self.drawn is None or (metric, reference or variant[1]) == variant:
            self.drawn = path
            return save(made, path, hidden)
        for ending in (".png", ".svg"):
            shutil.copy(self.drawn.with_suffix(ending), path.with_suffix(ending))
        return path.with_suffix(".svg").read_text("utf-8")


@pytest.fixture(scope="session")
def short(suite):
    """Tasks with a short context, so that those of the task browser are made quickly."""
    found = suite.where(context=1024)
    return found.take(np.sort(np.random.default_rng(0).choice(len(found), 400, replace=False)))


@pytest.fixture(scope="session")
def kept(short):
    """Both futures of two histories that the sample holds whole, one of a pressure of epanet."""
    table = pl.DataFrame(short.table.select(["task_id", "pair_id", "target"]))
    whole = table.filter(pl.len().over("pair_id") == 2)
    pressure = pl.col("target").str.starts_with("pressure_")
    pairs = [whole.filter(one)["pair_id"].min() for one in (pressure, ~pressure)]
    return tuple(sorted(whole.filter(pl.col("pair_id").is_in(pairs))["task_id"]))


@pytest.fixture(scope="session")
def report(short, kept, tmp_path_factory):
    sample = np.sort(np.random.default_rng(1).choice(len(short), 120, replace=False))
    runs = [
        made_run(short, "naive", quality=0, point=True, kept=kept),
        made_run(short, "linear", quality=0.4, point=True, kept=kept, seed=1),
        made_run(short, "chronos-2", quality=0.6, kept=kept, seed=2),
        made_run(short, "xgboost", quality=0.5, point=True, rows=sample, seed=3),
        made_run(short, "linear-paired-z", quality=0.55, point=True, seed=4),
        made_run(short, "linear-paired-all", quality=0.2, point=True, seed=5),
    ]
    out = tmp_path_factory.mktemp("report")
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eval.report.figures.save", FewDrawn().save)
        path = write_report(runs, short, out, resamples=40, progress=said.append)
    assert path == out / "index.html" and len(said) > 10
    return out


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
        "disable-background-networking", "disable-component-update", "disable-sync",
        "disable-dev-shm-usage", f"user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):  # fmt: skip
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    started.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WINDOW)
    yield started
    started.quit()


@pytest.fixture
def page(browser, report):
    """The page just opened; afterwards nothing was logged and nothing was asked of a network."""
    browser.get("about:blank")
    for log in ("browser", "performance"):  # what the browser does when it starts
        browser.get_log(log)
    browser.get((report / "index.html").as_uri())
    wait(browser, "return document.getElementById('task-chart').dataset.state === 'ready'")
    yield browser
    assert browser.get_log("browser") == []
    asked = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.add(message["params"]["request"]["url"].partition(":")[0])
    assert asked <= {"file", "data", "blob"}
