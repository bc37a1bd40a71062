"""What a run keeps of what its forecaster declares, and a forecaster of one's own, end to end."""

import json
import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

from eval.results import load_run
from eval.run import declared_as, plan_run, run
from eval.run_files import RUN_FILE, DamagedRunError, ResultsError
from tests.command_lines import called, refused
from tests.eval.run_helpers import WHERE, WHERE_OPTIONS, around
from whatif_jax.evaluation import Declaration, DeclarationError

WITHOUT = {"left_out": ["epanet"], "budget": "90 minutes", "prior": 1}


class Declared:
    name = "declared"

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def __call__(self, *arguments):
        return around(*arguments)


def scored(forecaster, suite, folder):
    planned = plan_run(forecaster, suite, where=WHERE, sample=8, keep_forecasts=2)
    return run(forecaster, planned, folder, check=False, progress=False)


def test_a_run_keeps_what_its_forecaster_declares(suite, tmp_path):
    forecaster = Declared(trained_on="left-out-system", training=WITHOUT, informed="it knows K")
    found = scored(forecaster, suite, tmp_path)
    assert found.declared == Declaration("left-out-system", WITHOUT, "it knows K")
    about = json.loads((found.folder / RUN_FILE).read_text())
    assert about["declared"]["training"]["budget"] == "90 minutes"
    assert load_run(found.folder).declared == found.declared


def test_a_run_of_before_is_unknown_until_it_is_run_again(suite, tmp_path):
    found = scored(Declared(trained_on="nothing"), suite, tmp_path)
    path, bytes_ = found.folder / RUN_FILE, (found.folder / "scores.parquet").read_bytes()
    about = json.loads(path.read_text())
    del about["declared"]
    path.write_text(json.dumps(about))
    assert load_run(found.folder).declared == Declaration()
    again = scored(Declared(trained_on="nothing", informed="it knows K"), suite, tmp_path)
    assert again.declared == Declaration("nothing", {}, "it knows K")
    assert (found.folder / "scores.parquet").read_bytes() == bytes_
    # a user who says nothing takes nothing back
    assert scored(Declared(), suite, tmp_path).declared.trained_on == "nothing"
    with pytest.raises(ResultsError, match="trained_on: 'randomised', but .* declared 'nothing'"):
        scored(Declared(trained_on="randomised"), suite, tmp_path)
    path.write_text(path.read_text().replace('"nothing"', '"everything"'))
    with pytest.raises(DamagedRunError, match="everything"):
        load_run(found.folder)


def test_a_left_out_system_is_never_scored_together_with_others(suite):
    forecaster = Declared(trained_on="left-out-system", training=WITHOUT)
    with pytest.raises(ValueError, match="system: tasks of epanet, .*--where system=epanet"):
        plan_run(forecaster, suite)
    for where in ({"system": ["epanet"]}, {"system": ["sumo", "opendc"]}):
        plan_run(forecaster, suite, where=where)


def test_what_a_user_declares_of_a_silent_forecaster():
    silent, loud = Declared(), Declared(trained_on="nothing")
    given = declared_as(silent, "in-distribution", '{"systems": ["sumo"]}')
    assert given == Declaration("in-distribution", {"systems": ["sumo"]})
    assert declared_as(loud, None, None) == declared_as(loud, "nothing", None)
    with pytest.raises(ValueError, match="--trained-on: randomised; .* declares nothing"):
        declared_as(loud, "randomised", None)
    with pytest.raises(ValueError, match="--training: given without --trained-on"):
        declared_as(silent, None, "{}")
    with pytest.raises(ValueError, match=r"--training: '\[1\]'; expected a JSON object"):
        declared_as(silent, "randomised", "[1]")
    with pytest.raises(DeclarationError, match="trained_on: 'much'"):
        declared_as(silent, "much", None)


def test_ones_own_forecaster_enters_run_list_and_report_from_another_folder(tmp_path, monkeypatch):
    from eval.cli import app, main

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "my_model.py").write_text(
        textwrap.dedent(
            """
            import numpy as np

            class Mine:
                name, version = "mine", "2"
                trained_on, training = "randomised", {"prior": 1, "budget": "a minute"}
                informed = "it knows the levels"

                def __init__(self, spread):
                    self.settings = {"spread": spread}

                def __call__(self, history, covariates, horizon, levels):
                    width = self.settings["spread"] * np.abs(history[:, -1:, None])
                    steps = np.ones((1, horizon, 1))
                    return history[:, -1:, None] + width * (np.array(levels) - 0.5) * steps

            def make(spread=0.5):
                return Mine(spread)
            """
        )
    )
    few = [*WHERE_OPTIONS, "--sample=10", "--no-progress", "--results=out"]
    for model in (["--model=naive"], ["--model=my_model:make", "--set=spread=0.2"]):
        assert called(main, "eval", "run", *model, *few)[0] == 0
    said = CliRunner().invoke(app, ["list", "--results=out"]).stdout
    assert 'mine 2 {"spread":0.2}' in said and "trained on: randomised" in said
    assert "naive                    trained on: nothing" in said
    monkeypatch.setattr("eval.report.write.draw_figures", lambda *_: {})  # tested by themselves
    code, said = called(main, "eval", "report", "page", "--results=out", "--difference=naive")
    assert code == 0, said
    page = (tmp_path / "elsewhere" / "page" / "index.html").read_text("utf-8")
    text = (tmp_path / "elsewhere" / "page" / "leaderboard.md").read_text("utf-8")
    assert "† mine: informed: it knows the levels." in page and "a minute" in page
    assert "| mine † | zero-shot | 10 (" in text and "## Difference to naive" in text
    assert "## Quantile coverage" in text and np.char.count(text, "| mine † |") >= 4
    said = refused(main, "eval", "report", "page", "--results=out", "--difference=nive")
    assert "difference: 'nive'; expected" in said and "naive" in said
