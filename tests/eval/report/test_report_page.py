"""The written report: its files, and its page clicked through in headless Chromium."""

import csv
import json
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from eval.report.figures.drawing import save
from eval.report.tables import shown
from eval.report.write import write_report
from tests.eval.report.report_helpers import futures, made_run, unpack

PAGE = Path(__file__).parents[3] / "eval" / "report" / "page"

WINDOW = {"width": 1366, "height": 768, "deviceScaleFactor": 1, "mobile": False}
FORMATS = {"percent", "points", "share", "count", "number", "seconds"}


class FewDrawn:
    """Draws one variant of each figure and copies it to the others: drawing all takes long.

    Which one is drawn goes round, so that every metric and reference is drawn for some figures.
    """

    def __init__(self):
        self.figures = []
        self.drawn = None

    def save(self, made, path):
        name, metric, reference = re.fullmatch(
            "(.*)_(wql|wape)(?:_(naive|linear))?", path.name
        ).groups()
        if name not in self.figures:
            self.figures.append(name)
        number = self.figures.index(name)
        variant = (("wql", "wape")[number % 2], ("naive", "linear")[number // 2 % 2])
        if self.drawn is None or (metric, reference or variant[1]) == variant:
            self.drawn = path
            return save(made, path)
        for ending in (".png", ".svg"):
            shutil.copy(self.drawn.with_suffix(ending), path.with_suffix(ending))
        return path.with_suffix(".svg").read_text("utf-8")


@pytest.fixture(scope="module")
def part(suite):
    """Tasks with a short context, so that those of the task browser are made quickly."""
    short = suite.where(context=1024)
    return short.take(np.sort(np.random.default_rng(0).choice(len(short), 400, replace=False)))


@pytest.fixture(scope="module")
def kept(part):
    """Both futures of one history where the sample has them, and two tasks more."""
    pairs, ids = part.column("pair_id"), part.column("task_id")
    twice = next(one for one in np.unique(pairs) if (pairs == one).sum() == 2)
    both = ids[pairs == twice].tolist()
    return tuple(sorted({*both, *ids[:2].tolist()}))


@pytest.fixture(scope="module")
def report(part, kept, tmp_path_factory):
    sample = np.sort(np.random.default_rng(1).choice(len(part), 120, replace=False))
    runs = [
        made_run(part, "naive", quality=0, point=True, kept=kept),
        made_run(part, "linear", quality=0.4, point=True, kept=kept, seed=1),
        made_run(part, "chronos-2", quality=0.6, kept=kept, seed=2),
        made_run(part, "xgboost", quality=0.5, point=True, rows=sample, seed=3),
    ]
    out = tmp_path_factory.mktemp("report")
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eval.report.figures.save", FewDrawn().save)
        path = write_report(runs, part, out, resamples=40, progress=said.append)
    assert path == out / "index.html" and len(said) > 10
    return out


def read_csv(report, name):
    with (report / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_figures_come_as_png_and_svg_for_every_metric_and_reference(report):
    stems = {path.stem for path in (report / "figures").glob("*.svg")}
    assert stems == {path.stem for path in (report / "figures").glob("*.png")}
    names = ("leaderboard", "replay_novel", "by_system", "gap", "fewest_most", "skill_by_k",
             "skill_by_events", "skill_by_event_length", "skill_by_context")  # fmt: skip
    expected = {
        f"{name}_{metric}_{reference}"
        for name in names for metric in ("wql", "wape") for reference in ("naive", "linear")
    }  # fmt: skip
    # eight times the events need longer contexts than those of these tasks
    few = {one for one in expected if one.startswith("fewest_most")}
    assert expected - few <= stems <= expected | {"pairwise_wql", "pairwise_wape"}
    files = {path.suffix for path in report.rglob("*") if path.is_file()}
    assert files == {".html", ".csv", ".png", ".svg"}  # nothing half-written is left


def test_the_page_refers_to_nothing_outside_itself(report):
    page = (report / "index.html").read_text("utf-8")
    pictures = re.findall(r'<img [^>]*src="([^"]{22})', page)
    assert pictures and set(pictures) == {"data:image/svg+xml;bas"}
    bare = re.sub(r'src="data:[^"]*"', "", page)
    bare = bare.replace("/*! https://github.com/leeoniya/uPlot", "")  # where a comment says it is
    assert not re.search(r"https?://|@import|url\(|<link [^>]*href=\"(?!data:)|src=", bare)


def test_the_plotting_script_comes_with_its_licence_and_version(report):
    script = (PAGE / "vendor" / "uPlot.iife.min.js").read_text("utf-8")
    version = re.match(r"/\*! https://github.com/leeoniya/uPlot \(v([\d.]+)\) \*/", script).group(1)
    assert f"uPlot {version}" in (PAGE.parents[2] / "NOTICE").read_text("utf-8")
    licence = (PAGE / "vendor" / "uPlot.LICENSE").read_text("utf-8")
    page = (report / "index.html").read_text("utf-8")
    assert script in page and licence in page
    assert "MIT License" in licence and "Leon Sorokin" in licence


def test_tasks_of_the_page_are_the_suites(report, part, kept):
    page = (report / "index.html").read_text("utf-8")
    text = re.search(r'<script type="application/json" id="task-data">(.*?)</script>', page, re.S)
    tasks = {task["id"]: task for task in json.loads(text.group(1))["tasks"]}
    assert tuple(sorted(tasks)) == kept
    truths = futures(part, kept)
    for number, task in tasks.items():
        series = unpack(task["data"])
        truth = next(values for header, values in series if header["part"] == "truth")
        np.testing.assert_allclose(truth, truths[number], atol=1e-4 * np.abs(truths[number]).max())
        covariates = [header["name"] for header, _ in series if header["part"] == "covariate"]
        row = part.table.filter(np.isin(part.column("task_id"), [number])).to_pylist()[0]
        assert covariates == row["covariates"] and task["events"] == row["event_starts"]
        models = {header["model"] for header, _ in series if "model" in header}
        assert models == {"naive", "linear", "chronos-2"}


def test_a_report_without_forecasts_or_quantiles_says_so(part, tmp_path, monkeypatch):
    monkeypatch.setattr("eval.report.write.draw_figures", lambda *_: {})  # figures are tested above
    runs = [made_run(part, "naive", quality=0, point=True)]
    runs.append(made_run(part, "<b>model</b>", quality=0.4, point=True))
    page = write_report(runs, part, tmp_path, resamples=10).read_text("utf-8")
    assert "No run kept forecasts." in page and "Every model here gives a point forecast" in page
    assert "<b>model</b>" not in page and "&lt;b&gt;model&lt;/b&gt;" in page


# In the browser.


@pytest.fixture(scope="module")
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


def wait(browser, script, *arguments):
    end = time.monotonic() + 20
    while not browser.execute_script(script, *arguments):
        assert time.monotonic() < end, script
        time.sleep(0.05)


def choose(page, switch, value):
    page.execute_script(
        "document.querySelector(`#${arguments[0]} input[value=${arguments[1]}]`)"
        ".parentElement.querySelector('span').click()",
        switch, value,
    )  # fmt: skip


VISIBLE = """
return [...document.querySelectorAll(`table[data-table="${arguments[0]}"]`)]
  .filter((table) => !table.closest('[hidden]'))
  .map((table) => [...table.tBodies[0].rows].map((row) =>
    [...row.cells].map((cell) => {
      const [first, second] = cell.childNodes;
      const text = first && first.nodeName === 'svg' ? second : first;
      return [cell.dataset.key, text ? text.textContent : ''];
    })))
"""


@pytest.mark.parametrize("metric", ["wql", "wape"])
@pytest.mark.parametrize("reference", ["naive", "linear"])
def test_every_switch_shows_the_numbers_of_the_csv_files(page, report, metric, reference):
    choose(page, "metric", metric)
    choose(page, "reference", reference)
    page.execute_script(
        "document.querySelectorAll('details').forEach((one) => { one.open = true })"
    )
    checked = 0
    for path in sorted((report / "tables").glob("*.csv")):
        rows = read_csv(report, path.stem)
        rows = [row for row in rows if row.get("metric", metric) == metric
                and row.get("reference", reference) == reference]  # fmt: skip
        found = page.execute_script(VISIBLE, path.stem)
        if path.stem == "findings" or not rows:  # the findings are shown as a list
            continue
        assert len(found) == 1, path.stem
        assert len(found[0]) == len(rows), path.stem
        for cells, row in zip(found[0], rows, strict=True):
            for key, text in cells:
                assert agrees(text, row[key]), (path.stem, key, text, row[key])
                checked += 1
    assert checked > 500
    for figure in page.find_elements("css selector", "figure"):
        images = [one for one in figure.find_elements("tag name", "img") if one.is_displayed()]
        assert len(images) == 1
        shown_for = [images[0].get_attribute(f"data-{one}") for one in ("metric", "reference")]
        assert shown_for[0] in (metric, None) and shown_for[1] in (reference, None)
        assert page.execute_script("return arguments[0].naturalWidth", images[0]) > 500


def agrees(text, value):
    """Whether a cell shows a value of the CSV in one of the ways numbers are shown."""
    if text in (value, shown(None, "text")):
        return text == value or value == ""
    if not re.fullmatch(r"[-+\d.e]+|inf", value):
        return False
    number = float(value)
    ways = {shown(number, kind) for kind in FORMATS if kind != "count" or number.is_integer()}
    return text in ways


def test_the_leaderboard_shows_both_intervals_below_its_skills(page, report):
    rows = {row["model"]: row for row in read_csv(report, "leaderboard")
            if row["reference"] == "naive"}  # fmt: skip
    cells = page.execute_script(
        "return [...document.querySelectorAll("
        "'div[data-reference=naive] > [data-table=leaderboard] td[data-key=wql_skill]')]"
        ".map((cell) => [cell.parentElement.cells[0].dataset.value,"
        "...[...cell.querySelectorAll('.ci')].map((one) => [one.className, one.textContent])])"
    )
    assert len(cells) == len(rows)
    for name, *spans in cells:
        expected = []
        for kind, by in (("ci", "pair"), ("ci wide", "target")):
            ends = [float(rows[name][f"wql_skill_{by}_{end}"]) for end in ("low", "high")]
            expected.append([kind, " to ".join(shown(end, "percent") for end in ends)])
        assert spans == expected


def test_columns_sort_by_value_and_means_stay_last(page):
    table = "document.querySelector('.scroll:not([hidden]) > [data-table=gap]')"
    header = table + ".querySelector('th[data-column=\"%d\"]')"
    page.execute_script(
        "document.querySelectorAll('details').forEach((one) => { one.open = true })"
    )
    read = (
        f"return [...{table}.tBodies[0].rows]"
        ".map((row) => [row.cells[0].dataset.value, row.cells[1].dataset.value])"
    )
    for descending in (True, False):
        page.execute_script(header % 1 + ".click()")
        rows = page.execute_script(read)
        assert rows[-1][0] == "mean over models"
        values = [float(value) for _, value in rows[:-1]]
        assert values == sorted(values, reverse=descending) and len(values) == 3
    page.execute_script(header % 0 + ".click()")
    names = [name for name, _ in page.execute_script(read)[:-1]]
    assert names == sorted(names)


def test_the_page_fits_a_laptop_and_its_contents_lead_to_sections(page):
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    links = page.execute_script(
        "return [...document.querySelectorAll('nav a')].map((link) => link.hash.slice(1))"
    )
    assert len(links) >= 14 and len(set(links)) == len(links)
    for link in links:
        assert page.execute_script("return document.getElementById(arguments[0]) !== null", link)
    top = "return document.querySelector('nav').getBoundingClientRect().top"
    page.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
    page.execute_script("document.getElementById('effects').scrollIntoView()")
    assert 0 <= page.execute_script(top) < 120
    wait(page, "return document.querySelector('nav a.here').hash === '#effects'")


def ready(page, number):
    wait(
        page,
        "const chart = document.getElementById('task-chart');"
        "return chart.dataset.state === 'ready' && chart.dataset.task === arguments[0]",
        str(number),
    )


def type_id(page, text):
    page.execute_script(
        "const input = document.getElementById('task-id'); input.value = arguments[0];"
        "input.dispatchEvent(new Event('change'))",
        str(text),
    )


CHART = "const chart = document.getElementById('task-chart');"


def text_of(page, name):
    return page.execute_script("return document.getElementById(arguments[0]).textContent", name)


def view_of(page):
    """First and last step drawn."""
    found = page.execute_script(CHART + "return [chart.dataset.first, chart.dataset.last]")
    return tuple(float(one) for one in found)


def point_at(page, share, panel=0):
    """Move the pointer to a share of the width of one panel."""
    page.execute_script(
        CHART + "const over = chart.querySelectorAll('.u-over')[arguments[1]];"
        "over.scrollIntoView({ block: 'center' });"
        "const box = over.getBoundingClientRect();"
        "over.dispatchEvent(new MouseEvent('mousemove', { bubbles: true,"
        "clientX: box.left + arguments[0] * box.width, clientY: box.top + 20 }))",
        share, panel,
    )  # fmt: skip
    wait(page, "return document.getElementById('task-readout').textContent.startsWith('step')")


def test_the_task_browser_finds_tasks_and_reads_their_values(page, part, kept):
    truths = futures(part, kept)
    for number in kept:
        type_id(page, number)
        ready(page, number)
        axes = part.table.filter(np.isin(part.column("task_id"), [number])).to_pylist()[0]
        about = text_of(page, "task-about")
        assert axes["target"] in about and axes["future"] in about
        page.execute_script("document.getElementById('zoom-horizon').click()")
        first, last = view_of(page)
        assert -axes["context"] < first < 0 < last == axes["horizon"] - 1
        for panel in (0, 1):  # all panels have one cursor
            point_at(page, 0.8, panel)
            read = text_of(page, "task-readout")
            step = int(re.match(r"step (\d+)", read).group(1))
            assert step == pytest.approx(first + 0.8 * (last - first), abs=1)
            value = float(re.search(r"truth ([^ ]+)", read).group(1).replace(",", "")
                          .replace("\N{MINUS SIGN}", "-"))  # fmt: skip
            largest = float(np.abs(truths[number]).max())
            assert value == pytest.approx(float(truths[number][step]), rel=1e-3, abs=1e-4 * largest)
            assert "chronos-2" in read and axes["covariates"][0] in read
        page.execute_script("document.getElementById('zoom-whole').click()")
        assert view_of(page) == (-axes["context"], axes["horizon"] - 1)
        panels = "return document.querySelectorAll('#task-chart .uplot').length"
        assert page.execute_script(panels) == 1 + len(axes["covariates"])


def test_the_task_browser_draws_horizon_truth_and_bands(page):
    page.execute_script("document.getElementById('zoom-horizon').click()")
    # once: Chromium warns of reading a canvas back often
    colours = page.execute_script(
        CHART + "const canvas = chart.querySelector('canvas');"
        "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        "const seen = new Set(); for (let at = 0; at < data.length; at += 4)"
        "seen.add(data[at] + ',' + data[at + 1] + ',' + data[at + 2]); return [...seen]"
    )
    seen = np.array([[int(part) for part in one.split(",")] for one in colours])
    data = json.loads(text_of(page, "task-data"))
    colour = next(model["colour"] for model in data["models"] if model["name"] == "chronos-2")
    ink = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)])
    horizon, share = np.array([253, 241, 211]), 0x2B / 255
    for expected in (horizon, np.full(3, 17), horizon + share * (ink - horizon)):
        assert np.abs(seen - expected).max(axis=1).min() <= 1, expected


def test_the_task_browser_zooms_by_wheel_keys_and_moves_by_drag(page):
    whole = view_of(page)
    event = (
        CHART + "const box = chart.querySelector('.u-over').getBoundingClientRect();"
        "const at = (share) => ({ bubbles: true, cancelable: true,"
        "clientX: box.left + share * box.width, clientY: box.top + 20 });"
    )
    wheel = event + "chart.dispatchEvent(new WheelEvent('wheel', { ...at(0.25), deltaY: %d }))"
    page.execute_script(wheel % -1)
    near = view_of(page)
    size = whole[1] - whole[0]
    assert near[1] - near[0] == pytest.approx(0.8 * size, abs=0.1)
    # the step under the pointer stays there
    assert near[0] + 0.25 * 0.8 * size == pytest.approx(whole[0] + 0.25 * size, abs=2)
    key = CHART + "chart.dispatchEvent(new KeyboardEvent('keydown', { key: '%s' }))"
    page.execute_script(key % "ArrowRight")
    moved = view_of(page)
    assert moved[0] - near[0] == pytest.approx(0.08 * size, abs=0.1)
    assert moved[1] - near[1] == pytest.approx(0.08 * size, abs=0.1)
    page.execute_script(
        event + "chart.dispatchEvent(new PointerEvent('pointerdown', at(0.5)));"
        "chart.dispatchEvent(new PointerEvent('pointermove', at(0.6)));"
        "chart.dispatchEvent(new PointerEvent('pointerup', at(0.6)));"
        "chart.dispatchEvent(new PointerEvent('pointermove', at(0.9)))"
    )
    dragged = view_of(page)
    assert dragged[0] - moved[0] == pytest.approx(-0.08 * size, abs=2)
    page.execute_script(key % "+")
    closer = view_of(page)
    assert closer[1] - closer[0] == pytest.approx(0.64 * size, abs=0.1)
    for _ in range(40):
        page.execute_script(key % "+")
    first, last = view_of(page)
    assert last - first == pytest.approx(12, abs=0.02)  # no closer
    for _ in range(60):
        page.execute_script(wheel % 1)
    assert view_of(page) == whole  # no farther


def test_the_task_browser_fits_a_narrower_window(page):
    size = {"width": 900, "height": 768, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        wait(page, CHART + "return chart.querySelector('canvas').clientWidth === chart.clientWidth")
        assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WINDOW)


def test_the_task_browser_steps_switches_models_and_names_what_it_lacks(page, part, kept):
    for number in kept[1:]:
        page.execute_script("document.getElementById('next').click()")
        ready(page, number)
    assert page.execute_script("return document.getElementById('next').disabled")
    page.execute_script("document.getElementById('previous').click()")
    ready(page, kept[-2])
    pairs = dict(zip(part.column("task_id").tolist(), part.column("pair_id").tolist(), strict=True))
    number, other = next((a, b) for a in kept for b in kept if a != b and pairs[a] == pairs[b])
    type_id(page, number)
    ready(page, number)
    page.execute_script("document.getElementById('other').click()")
    ready(page, other)
    boxes = "document.querySelectorAll('#task-models input')"
    states = page.execute_script(f"return [...{boxes}].map((one) => [one.checked, one.disabled])")
    assert states.count([True, False]) == 3
    picture = "return document.querySelector('#task-chart canvas').toDataURL()"
    before = page.execute_script(picture)
    page.execute_script(f"[...{boxes}].filter((one) => one.checked).forEach((one) => one.click())")
    without = page.execute_script(picture)
    assert without != before
    page.execute_script(f"[...{boxes}].filter((one) => !one.disabled)[0].click()")
    assert page.execute_script(picture) != without
    type_id(page, "123456789")
    error = page.find_element("id", "task-error")
    assert error.is_displayed() and "was not kept" in error.text
    type_id(page, number)
    ready(page, number)
    assert not error.is_displayed()


def test_the_leaderboard_csv_is_beside_the_page(report):
    rows = read_csv(report, "leaderboard")
    assert {row["model"] for row in rows} == {"naive", "linear", "chronos-2", "xgboost"}
    assert Path(report / "index.html").stat().st_size < 8e6
