"""The task browser of the page, clicked through in headless Chromium."""

import json
import re

import numpy as np
import pytest

from tests.eval.report.report_helpers import WINDOW, futures, wait


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


def test_the_task_browser_opens_on_the_horizon_of_a_task_that_reads_well(page):
    data = json.loads(text_of(page, "task-data"))
    best = max(data["tasks"], key=lambda task: task["clarity"])
    ready(page, best["id"])
    horizon = best["axes"]["horizon"]
    assert view_of(page) == (-round(horizon / 2), horizon - 1)
    pressed = "return document.getElementById('zoom-horizon').getAttribute('aria-pressed')"
    assert page.execute_script(pressed) == "true"


def test_every_task_has_its_other_future(page, kept):
    tasks = {task["id"]: task for task in json.loads(text_of(page, "task-data"))["tasks"]}
    assert sorted(tasks) == list(kept)
    for number, task in tasks.items():
        type_id(page, number)
        ready(page, number)
        page.execute_script("document.getElementById('other').click()")
        wait(page, CHART + "return chart.dataset.task !== arguments[0]", str(number))
        other = tasks[int(page.execute_script(CHART + "return chart.dataset.task"))]
        ready(page, other["id"])
        assert other["axes"]["pair_id"] == task["axes"]["pair_id"]
        assert {task["axes"]["future"], other["axes"]["future"]} == {"replay", "novel"}


def test_a_response_that_runs_against_intuition_is_said_beside_the_task(page, kept):
    tasks = {task["id"]: task for task in json.loads(text_of(page, "task-data"))["tasks"]}
    for number, task in tasks.items():
        type_id(page, number)
        ready(page, number)
        pressure = task["axes"]["target"].startswith("pressure_")
        assert page.find_element("id", "task-note").is_displayed() == pressure
        assert ("More demand raises" in text_of(page, "task-note")) == pressure
    assert {task["axes"]["target"].startswith("pressure_") for task in tasks.values()} == {
        True,
        False,
    }


def test_the_task_browser_finds_tasks_and_reads_their_values(page, short, kept):
    truths = futures(short, kept)
    for number in kept:
        type_id(page, number)
        ready(page, number)
        axes = short.table.filter(np.isin(short.column("task_id"), [number])).to_pylist()[0]
        about = text_of(page, "task-about")
        assert axes["target"] in about and axes["future"] in about
        page.execute_script("document.getElementById('zoom-horizon').click()")
        first, last = view_of(page)
        assert -axes["context"] < first < 0 < last == axes["horizon"] - 1
        for panel, share in ((0, 0.8), (1, 0.6)):  # all panels have one cursor
            point_at(page, share, panel)
            read = text_of(page, "task-readout")
            step = int(re.match(r"step (\d+)", read).group(1))
            assert step == pytest.approx(first + share * (last - first), abs=1)
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
    counts = page.execute_script(
        CHART + "const canvas = chart.querySelector('canvas'); const seen = {};"
        "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        "for (let at = 0; at < data.length; at += 4) {"
        "const colour = data.slice(at, at + 3).join(); seen[colour] = (seen[colour] ?? 0) + 1; }"
        "return seen"
    )
    seen = np.array([[int(part) for part in colour.split(",")] for colour in counts])
    pixels = np.array(list(counts.values()))
    data = json.loads(text_of(page, "task-data"))
    colour = next(model["colour"] for model in data["models"] if model["name"] == "chronos-2")
    ink = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)])
    horizon, share = np.array([253, 241, 211]), 0x2B / 255
    for name, expected, least in (
        ("horizon", horizon, 50_000), ("truth", np.full(3, 17), 100),
        ("band", horizon + share * (ink - horizon), 2_000),
    ):  # fmt: skip
        near = np.abs(seen - expected).max(axis=1) <= 1
        assert pixels[near].sum() > least, name


def test_the_task_browser_zooms_by_wheel_keys_and_moves_by_drag(page):
    page.execute_script("document.getElementById('zoom-whole').click()")
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


def test_the_task_browser_steps_switches_models_and_names_what_it_lacks(page, short, kept):
    type_id(page, kept[0])
    ready(page, kept[0])
    for number in kept[1:]:
        page.execute_script("document.getElementById('next').click()")
        ready(page, number)
    assert page.execute_script("return document.getElementById('next').disabled")
    page.execute_script("document.getElementById('previous').click()")
    ready(page, kept[-2])
    pairs = dict(
        zip(
            short.column("task_id").tolist(),
            short.column("pair_id").tolist(),
            strict=True,
        )
    )
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
