"""The written report: its files, and the switches and tables of its page in headless Chromium."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from eval.report.tables import shown
from eval.report.write import write_report
from tests.eval.report.report_helpers import WINDOW, futures, made_run, unpack, wait

PAGE = Path(__file__).parents[3] / "eval" / "report" / "page"

MODELS = ("naive", "linear", "chronos-2", "xgboost", "linear-paired-z", "linear-paired-all")
FORMATS = {"percent", "points", "share", "count", "number", "seconds"}


def read_csv(report, name):
    with (report / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_figures_come_as_png_and_svg_for_every_metric_and_reference(report):
    stems = {path.stem for path in (report / "figures").glob("*.svg")}
    assert stems == {path.stem for path in (report / "figures").glob("*.png")}
    names = ("leaderboard", "replay_novel", "by_system", "gap", "fewest_most", "skill_by_k",
             "skill_by_events", "skill_by_event_length", "skill_by_context",
             "difference_to_chronos_2")  # fmt: skip
    expected = {
        f"{name}_{metric}_{reference}"
        for name in names for metric in ("wql", "wape") for reference in ("naive", "linear")
    }  # fmt: skip
    # eight times the events need longer contexts than those of these tasks
    few = {one for one in expected if one.startswith("fewest_most")}
    assert expected - few <= stems <= expected | {"pairwise_wql", "pairwise_wape", "coverage"}
    files = {path.suffix for path in report.rglob("*") if path.is_file()}
    assert files == {".html", ".csv", ".md", ".png", ".svg"}  # nothing half-written is left


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


def test_tasks_of_the_page_are_the_suites(report, short, kept):
    page = (report / "index.html").read_text("utf-8")
    text = re.search(r'<script type="application/json" id="task-data">(.*?)</script>', page, re.S)
    tasks = {task["id"]: task for task in json.loads(text.group(1))["tasks"]}
    assert tuple(sorted(tasks)) == kept
    truths = futures(short, kept)
    for number, task in tasks.items():
        series = unpack(task["data"])
        truth = next(values for header, values in series if header["part"] == "truth")
        np.testing.assert_allclose(truth, truths[number], atol=1e-4 * np.abs(truths[number]).max())
        covariates = [header["name"] for header, _ in series if header["part"] == "covariate"]
        row = short.table.filter(np.isin(short.column("task_id"), [number])).to_pylist()[0]
        assert covariates == row["covariates"] and task["events"] == row["event_starts"]
        models = {header["model"] for header, _ in series if "model" in header}
        assert models == {"naive", "linear", "chronos-2"}


def test_a_report_without_forecasts_or_quantiles_says_so(short, tmp_path, monkeypatch):
    monkeypatch.setattr("eval.report.write.draw_figures", lambda *_: {})  # figures are tested above
    runs = [made_run(short, "naive", quality=0, point=True)]
    runs.append(made_run(short, "<b>model</b>", quality=0.4, point=True))
    page = write_report(runs, short, tmp_path, resamples=10).read_text("utf-8")
    assert "No run kept forecasts." in page and "Every model here gives a point forecast" in page
    assert "<b>model</b>" not in page and "&lt;b&gt;model&lt;/b&gt;" in page


# In the browser.


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
        assert values == sorted(values, reverse=descending) and len(values) == len(MODELS) - 1
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


def test_the_leaderboard_comes_first_and_the_findings_after_it(page):
    sections = page.execute_script(
        "return [...document.querySelectorAll('main > section')].map((one) => one.id)"
    )
    assert sections[:2] == ["leaderboard", "findings"]


DRAWN = """
const place = arguments[0];
return [...document.querySelectorAll('figure:has(.models) img')].flatMap((image) => {
  const svg = new DOMParser().parseFromString(atob(image.src.split(',')[1]), 'image/svg+xml');
  const style = svg.querySelector('style#hidden');
  if (!style) return [];  // `FewDrawn` puts other figures in place of some
  const lines = [...svg.querySelectorAll(`[id^="model${place}-"]`)];
  const seen = lines.filter((line) => !line.matches(style.textContent.split('{')[0]));
  return [[lines.length, seen.length]];
});
"""
LABELS = "[...document.querySelectorAll('.models')].at(-1).querySelectorAll('label')"


def test_no_verdict_covers_the_text_of_its_finding(page):
    edges = page.execute_script(
        "return [...document.querySelectorAll('.finding > summary')].map(each => ["
        "each.children[0].textContent, each.children[0].getBoundingClientRect().right, "
        "each.children[1].getBoundingClientRect().left])"
    )
    assert "cannot be computed" in {verdict for verdict, _, _ in edges}
    assert [edge for edge in edges if edge[1] > edge[2]] == []


def test_line_charts_draw_a_few_models_and_others_when_asked(page, report):
    names = page.execute_script(f"return [...{LABELS}].map((label) => label.textContent)")
    assert sorted(names) == sorted(MODELS)

    def check(drawn):
        for place, name in enumerate(names):
            found = page.execute_script(DRAWN, place)
            assert len(found) > 3
            for lines, seen in found:
                assert lines > 3 and seen == (lines if name in drawn else 0), name
        counts = (
            "return [...document.querySelectorAll('.models .count')].map((one) => one.textContent)"
        )
        assert set(page.execute_script(counts)) == {str(len(drawn))}

    few = set(MODELS) - {"linear-paired-all"}
    check(few)
    for name in ("linear-paired-all", "chronos-2"):
        page.execute_script(
            f"{LABELS}[arguments[0]].querySelector('input').click()", names.index(name)
        )
    check(set(MODELS) - {"chronos-2"})
    for wanted, models in (("all", set(MODELS)), ("few", few)):
        page.execute_script(f"document.querySelector('.models [data-draw={wanted}]').click()")
        check(models)
    files = [path.read_text("utf-8") for path in (report / "figures").glob("skill_by*.svg")]
    hidden = f'<style id="hidden">[id^="model{names.index("linear-paired-all")}-"]{{display:none}}'
    assert sum(hidden in text for text in files) > 3


def test_on_a_phone_only_figures_and_tables_scroll_sideways_and_their_text_can_be_read(page):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.execute_script(
            "document.querySelectorAll('details').forEach((one) => { one.open = true })"
        )
        wait(page, "return document.getElementById('task-chart').clientWidth < 390")
        assert page.execute_script("return document.scrollingElement.scrollWidth") <= 390
        outside = page.execute_script(
            "return [...document.querySelectorAll('main *')].filter((one) =>"
            "one.getBoundingClientRect().right > 391 && !one.closest('.scroll'))"
            ".map((one) => one.outerHTML.slice(0, 80))"
        )
        assert outside == []
        widths = page.execute_script(
            "return [...document.querySelectorAll('figure img:not([hidden])')]"
            ".map((one) => [one.clientWidth / one.naturalWidth, one.parentElement.clientWidth])"
        )
        assert widths and all(scale > 0.85 and box < 390 for scale, box in widths)
    finally:
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WINDOW)


def test_the_leaderboard_csv_is_beside_the_page(report):
    rows = read_csv(report, "leaderboard")
    assert {row["model"] for row in rows} == set(MODELS)
    assert Path(report / "index.html").stat().st_size < 8e6
