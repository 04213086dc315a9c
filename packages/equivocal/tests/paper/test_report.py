"""The words of a report follow the tables, whatever they say; recorded runs are what was found."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scripts.record_runs import TARGET, record_runs

from equivocal.network import Run
from equivocal.paper.claims import (
    COLUMNS,
    FullRun,
    FullRuns,
    find_impossible_numbers,
    judge,
    load_full_runs,
)
from equivocal.paper.inference import Beliefs
from equivocal.paper.report import StudyResult, answer, count_verdicts, sort_by_reading, summarise
from equivocal.paper.study import Study
from equivocal.paper.tables import tabulate, tabulate_effects
from equivocal.report import VERDICTS, Report, Section
from lastlayer.errors import UserError
from tests.paper import made_up
from tests.paper.test_claims import EVIDENCE, UNUSED
from tests.paper.test_running import made
from tests.paper.test_statistics import make_dataset

OTHER = FullRun("other", "odd", 7, ("equivocal reproduce --preset other",), {})
RUNS = FullRuns((OTHER,), "equivocal multiverse --match", ())


@pytest.fixture(scope="module")
def study(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study with networks and stimuli but without tables, which each test makes up."""
    return made(tmp_path_factory.mktemp("summary"), small_run)


def make_result(
    study: Study,
    tables: dict[str, pd.DataFrame],
    truth: pd.DataFrame | None = None,
    runs: FullRuns = RUNS,
) -> StudyResult:
    beliefs = Beliefs(made_up.activations(), made_up.path(), None, None)
    return StudyResult(
        name="study",
        tables=tables,
        settings={},
        study=study,
        beliefs=beliefs,
        truth=truth,
        runs=runs,
    )


def describe(result: StudyResult) -> dict[str, Section]:
    """Return sections and appendix of the report by title; the first screen has no title."""
    first = "effect" if "claims" in result.tables else "activations_reversal"
    report: Report = result.describe([first])
    parts = {part.title: part for part in (*report.sections, *report.appendix)}
    about = [report.title, report.about, report.warning, report.question, *report.made]
    return {"": Section(title="", sentences=[*about, *report.answer]), **parts}


def make_tables(*, claims: bool = True, **effects: float) -> dict[str, pd.DataFrame]:
    dataset = make_dataset(**effects)
    tables = tabulate(dataset, without=UNUSED)
    if not claims:
        return tables
    own = judge(dataset, tables, EVIDENCE)
    for name in ("pairs", "all"):
        stopped, converged = own["verdict"], own["verdict_at_convergence"]
        verdicts = ("replicated",) * 2 if name == "pairs" else (stopped, converged)
        own[f"verdict_{name}"], own[f"verdict_{name}_converged"] = verdicts
    row = {"reading": "pairs", "num_particles": 50, "dropout_rate": 0.3, "network": 0}
    row |= {"time": 2e-3, "diverged": 0, "indicated_agent": 4e-4, "mle_agent": 8e-5}
    steps = [row | {"step_size": "automatic"}, row | {"step_size": "0.0001", "diverged": 3}]
    both = {"pairs": Beliefs(dataset, dataset, None, None)}
    others = {"impossible_numbers": find_impossible_numbers(), "effects": tabulate_effects(both)}
    return tables | {"claims": own, "steps": pd.DataFrame(steps), **others}


def test_claims_stand_under_their_verdicts(study: Study) -> None:
    """With the opposite effects the same claims change places, and the counts add up."""
    claim = "reversed words are more active in the Bayesian model than in the trained network"
    for effects, place in (({}, "What holds"), ({"indicated": -1.0}, "What does not hold")):
        tables = make_tables(**effects)
        lines = list(summarise(make_result(study, tables)))
        (line,) = (line for line in lines if f"\n  {claim}" in line)
        assert line.startswith(f"{place} (")
        counts = [int(n) for line in lines for n in re.findall(r"\((\d+) of 14", line)]
        assert sum(counts) == (tables["claims"]["kind"] == "result").sum() == 14
        results, earlier, ours = count_verdicts(tables["claims"]).split(" Of ")
        assert re.findall(r"\d+", results) == [*map(str, [14, *filter(None, counts)])]
        assert earlier.startswith("2 results of earlier work that it cites: ")
        assert ours.startswith("1 test of our own: ")


def test_what_verdicts_depend_on_is_said(study: Study) -> None:
    tables = make_tables()
    verdicts = dict(zip(tables["claims"]["id"], tables["claims"]["verdict"], strict=True))
    same = FullRun("same", "even", 7, ("one",), verdicts)
    apart = FullRun("apart", "odd", 7, ("two",), verdicts | {"large-priors": "not replicated"})
    runs = FullRuns((same, apart), "a command", ("No: none of 9.", "The nearest is far."))
    parts = describe(make_result(study, tables, runs=runs))
    depends = "\n".join(parts["What verdicts depend on"].sentences)
    alike = "he sampler's uncertainty is like that of Hamiltonian Monte Carlo"  # when converged
    assert f"t{alike} (replicated)" in depends
    assert "recipe “even” (7 networks, `one`), 0 of 16 verdicts differ." in depends
    assert (
        "recipe “odd” (7 networks, `two`), 1 of 16 verdicts differ: with priors of I and 5 I the "
        "two models differ (not replicated)." in depends
    )
    assert "2 are few" in depends
    said = parts["Which results hold?"].sentences[1]
    assert said.endswith("come out? No: none of 9. (`a command`, not this run.)")
    (found,) = (part for title, part in parts.items() if title.startswith("Does any specification"))
    assert found.sentences[1] == "The nearest is far."


def test_quick_runs_show_what_full_runs_found_and_no_verdicts_of_their_own(study: Study) -> None:
    tables = make_tables()  # everything is replicated
    verdicts = dict.fromkeys(tables["claims"]["id"], "not replicated")
    runs = FullRuns((FullRun("paper", "odd", 7, ("one",), verdicts),), "a command", ())
    quick = Study(study.settings.model_copy(update={"quick_run": True}), study.folder)
    result = make_result(quick, tables, make_truth(0.1, 0.3), runs)
    parts = describe(result)
    said = [*parts[""].sentences, *summarise(result)]
    assert "do not report" in parts[""].sentences[2]
    assert "A full run (`one`, 7 networks, recipe “odd”) found: Of 14 results" in str(said)
    assert "not holding: 14" in str(said)
    table = parts["Which results hold?"].table
    assert set(table["verdict of a full run, recipe odd"]) == {"not replicated"}
    for part in parts.values():
        assert not {"direction only", "replicated"} & set(map(str, part.table.values.ravel()))
        assert "the truth where" not in str(part.sentences)
    assert "What holds" not in str(said)
    full = describe(replace(result, study=study))
    assert "replicated" in set(full["Which results hold?"].table.values.ravel())


def test_a_study_without_claims_has_results_in_every_condition(study: Study) -> None:
    tables = make_tables(claims=False)
    stopped, converged, congruent, reversal = answer(make_result(study, tables))
    assert "reversal, indicated agent +0.0" in stopped
    assert converged.startswith("Clear changes at convergence")
    assert "congruent: indicated agent 0.95" in congruent
    assert "reversal: indicated agent 0.05" in reversal
    tables = make_tables(claims=False, indicated=0.0, non_relevant=0.0)
    assert answer(make_result(study, tables))[0].endswith("none of 3.")


def test_the_central_effect_is_told_with_its_size(study: Study) -> None:
    tables = make_tables()
    effects = tables["effects"].groupby(["reading", "estimate", "measure"])["activation"].mean()
    (said,) = (line for line in answer(make_result(study, tables)) if "makes the agent" in line)
    for name in (("", "mle"), ("pairs", "paper"), ("pairs", "converged")):
        assert f"{effects[(*name, 'indicated agent')]:.3g}" in said


def make_truth(paper: float, converged: float, noise: float = 0.001) -> pd.DataFrame:
    """Make errors of six networks in one item; the trained ones are 0.2 nats from the truth."""
    means = {"trained": 0.2, "paper": paper, "converged": converged, "cooled": 0.15, "half": 0.05}
    rng = np.random.default_rng(0)
    rows = [
        {
            "kind": kind,
            "condition": condition,
            "item": 15,
            "network": network,
            "kl": mean + noise * rng.normal() if condition == "reversal" else 0.01,
            "truth": 0.4768,
            "time": 0.002 if kind == "paper" else np.nan,
        }
        for kind, mean in means.items()
        for condition in ("congruent", "reversal")
        for network in range(6)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("errors", "ending"),
    [
        ((0.1, 0.3), "stops; at convergence it does not bring beliefs about reversals nearer"),
        ((0.1, 0.1), "nearer to the truth, where the sampler stops and at convergence alike."),
        ((0.3, 0.1), "weights does not bring beliefs about reversals nearer to the truth where"),
    ],
)
def test_sentences_on_the_truth_name_the_baselines(
    study: Study, errors: tuple[float, float], ending: str
) -> None:
    tables = make_tables()
    result = make_result(study, tables, make_truth(*errors))
    told = describe(result)["Is the doubt right, where there is a truth?"].sentences
    assert len(told) == 4
    assert "a probability of 0.477" in told[0]
    assert "6 trained networks, all of which heard one and the same corpus" in told[1]
    assert "are 0.2 nats from the truth" in told[1]
    assert "after 5 steps (τ = 0.002) of the paper's sampler" in told[1]
    assert "the answer ½ to every question is 0.0" in told[2]
    assert "logits divided by 1.2 are 0.1" in told[2]
    assert ending in told[3]
    assert answer(result)[-1] == told[3]
    noisy = answer(make_result(study, tables, make_truth(0.1, 0.3, noise=0.2)))[-1]
    assert "on average, but not reliably" in noisy


def test_recorded_runs_name_claims_and_verdicts_that_exist() -> None:
    runs, known = load_full_runs(), set(make_tables()["claims"]["id"])
    assert "paper_fast" in [run.study for run in runs.studies]
    for run in runs.studies:
        assert set(run.verdicts) <= known
        assert set(run.verdicts.values()) <= set(VERDICTS)
        assert run.commands[0].startswith("equivocal reproduce --preset")
        assert run not in runs.list_others(run.study)


@pytest.mark.parametrize("study", ["paper", "paper_fast"])
def test_recorded_tables_of_claims_have_the_recorded_verdicts(study: str) -> None:
    results = Path(__file__).resolve().parents[4] / "benchmarks" / "results"
    table = pd.read_csv(results / f"claims_{study}.csv", keep_default_na=False)
    (run,) = (run for run in load_full_runs().studies if run.study == study)
    assert list(table.columns)[: len(COLUMNS)] == COLUMNS
    assert dict(zip(table["id"], table["verdict"], strict=True)) == run.verdicts


def test_the_page_on_the_paper_has_the_recorded_verdicts() -> None:
    docs = Path(__file__).resolve().parents[4] / "docs"
    page = (docs / "explanations" / "paper.md").read_text(encoding="utf-8")
    table = page.partition("## Verdicts by recipe")[2].partition("\n## ")[0]
    head, _, *rows = re.findall(r"^\|(.+)\|$", table, re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    found = make_tables()["claims"].set_index("in_short")
    claims, kinds = found["id"], found["kind"]
    assert sorted(row[0] for row in cells) == sorted(claims.index)
    recorded = {f"recipe `{run.recipe}`": run.verdicts for run in load_full_runs().studies}
    columns = [name.strip() for name in head.split("|")][2:]
    assert set(columns) == set(recorded)
    for text, kind, *verdicts in cells:
        assert kind == kinds[text]
        assert verdicts == [recorded[name][claims[text]] for name in columns], text


def test_finished_runs_are_recorded_and_quick_ones_refused(study: Study, tmp_path: Path) -> None:
    target = tmp_path / "runs.toml"
    target.write_bytes(TARGET.read_bytes())
    make_tables()["claims"].to_csv(study.folder / "claims.csv", index=False)
    study.settings.change({"is_paper": True}).write(study.folder / "settings.toml")
    match = tmp_path / "match"
    match.mkdir()
    (match / "match.toml").write_text('answer = ["No: none.", "Nearest: far."]')
    record_runs([study.folder], match, target, tmp_path)
    written = (study.folder / "claims.csv").read_bytes()
    assert (tmp_path / "claims_garden.csv").read_bytes() == written
    runs = load_full_runs(target)
    assert [run.study for run in runs.studies] == ["paper_fast", "paper", "garden"]
    garden = runs.studies[-1]
    assert (garden.recipe, garden.networks) == ("fast", 2)
    assert garden.verdicts["bayes-reversed-higher"] == "replicated"
    assert runs.answer == ("No: none.", "Nearest: far.")
    assert target.read_text().startswith("# What full runs found.")
    quick = {"is_paper": True, "quick_run": True}
    study.settings.model_copy(update=quick).write(study.folder / "settings.toml")
    with pytest.raises(UserError, match="was a quick run; only full runs"):
        record_runs([study.folder], None, target)


def test_results_are_sorted_by_the_readings_under_which_they_hold(study: Study) -> None:
    """All hold with pairs; with all questions, as stopped and converged samplers say."""
    claims = make_tables(indicated=-1.0)["claims"]
    held = sort_by_reading(claims).set_axis(claims["id"])
    assert held["congruent-high"] == "all"
    assert held["bayes-reversed-higher"] == "some"
    assert held["accuracy"] == "–"
    none = claims.assign(verdict_pairs="direction only", verdict_pairs_converged="not replicated")
    tables = make_tables(indicated=-1.0) | {"claims": none}
    assert sort_by_reading(none).set_axis(none["id"])["bayes-reversed-higher"] == "none"
    counts = sort_by_reading(none[none["kind"] == "result"]).value_counts()
    said = answer(make_result(study, tables))[1]
    assert f"0 hold in all, {counts['some']} in some, {counts['none']} in none." in said
    parts = describe(make_result(study, make_tables(indicated=-1.0)))
    table = parts["Which results hold?"].table.set_index("claim")
    row = table.loc["congruent sentences are read with certainty"]
    assert list(row) == ["result", *["replicated"] * 4, "all"]


def test_the_first_page_names_the_paper_and_what_it_leaves_open(study: Study) -> None:
    said = "\n".join(describe(make_result(study, make_tables()))[""].sentences)
    for text in (
        *("Diksha Bhandari", "arXiv 2505.02590", "(consistent; the other is `printed`)"),
        *("a constant feature in ψ (yes)", "J = 10", "2 networks, recipe “fast”", "garden.csv: 2"),
    ):
        assert text in said
    assert re.search(r"Made \d{4}-\d\d-\d\d, equivocal \d", said)


def test_every_step_size_has_its_time_and_divergence_is_marked(study: Study) -> None:
    section = describe(make_result(study, make_tables()))["What do “17 steps” depend on?"]
    assert list(section.table.iloc[0]) == ["0.0004 (τ = 0.002)", "diverged (τ = 0.002)"]
    assert section.table.index.names == ["what N counts", "J", "ρ"]
    assert "trained networks have 8e-05 (agent)" in section.sentences[0]


def test_impossible_numbers_are_counted_with_the_likeliest_slip(study: Study) -> None:
    parts = describe(make_result(study, make_tables()))
    said = parts["What cannot be tested as printed?"].sentences[0]
    assert said.startswith("12 printed numbers")
    assert "6 of these p-values (6 of the trained networks) are possible" in said
    assert len(parts["tables/impossible_numbers.csv"].table) == 12
