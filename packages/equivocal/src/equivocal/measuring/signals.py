"""The functions behind `equivocal suites signals` and `equivocal suites compare`.

`measure_signals`: the two signals of the noisy-channel account at every word.

    OUT/networks/, OUT/networks_without_noise/     networks of the suites' world, and without noise
    OUT/tables/, OUT/figures/, OUT/signals.toml

Exploratory. The signals are defined in `equivocal.measuring.noisy_channel`. The findings are stated
in the suite files; docs/suites.md says when they were written. For networks, the N400-like signal
is the Bayesian surprise, and the P600-like one the divergence from networks trained without noise.

`compare_suites`: runs of the same suites, named by recipe and folder, compared with each other and
with the published networks of 2018. It reads the results of `measure` and trains nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import pandas as pd

from equivocal.measuring import noisy_channel
from equivocal.measuring.measurement import SURPRISE, measure_words
from equivocal.measuring.suite import PARADIGMS, Suite, load_suite
from equivocal.network import TrainingSettings
from equivocal.network.settings import RECIPES
from equivocal.network.train_or_load import choose_training, train_or_load
from equivocal.result import Figures, Result, describe_run
from equivocal.store import read_table, read_toml
from equivocal.store.folders import refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.world import World
from equivocal.world.reweighting import remove_noise
from lastlayer.errors import UserError, join_names
from lastlayer.seeds import Seed

__all__ = ["SignalsResult", "SuiteComparison", "compare_suites", "measure_signals"]

IDEAL, NETWORKS = "ideal", "networks"
COLUMNS = ["comprehender", "network", "suite", "condition", "item", "position", "word", "signal"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SignalsResult(Result):
    """Both signals at every word.

    `tables` holds "words" (a row for each comprehender, sentence, word and signal) and "findings"
    (the predictions of the suites, and whether they hold for the ideal comprehender and networks).
    """

    def draw(self) -> Figures:
        """Draw the signals word by word."""
        from equivocal.measuring.figures import draw_signals

        return {"signals": draw_signals(noisy_channel.average_signals(self.tables["words"]))}


def measure_signals(
    out: str | Path = "runs/signals",
    *,
    suites: Sequence[str | Path] = (),
    quick: bool = False,
    networks: int | None = None,
    seed: Seed | None = None,
    training: TrainingSettings | None = None,
) -> SignalsResult:
    """Measure N400-like and P600-like signals at every word, for the ideal and for networks.

    Networks in the folder are reused.

    Parameters
    ----------
    out : str or Path
        Folder for networks, tables and figures.
    suites : sequence of str or Path
        Suite files of one world with noise; by default the two shipped suites of role reversals.
    quick : bool
        Two small networks of each kind, only to check that it works; do not report the results.
    networks : int, optional
        The number of networks to train, with noise and without; ten unless `quick`. With 0 only
        the ideal comprehender is measured.
    seed : int or numpy.random.Generator, optional
        The same seed gives the same networks.
    training : TrainingSettings, optional
        How networks are trained; replaces `quick`, `networks` and `seed`.

    Returns
    -------
    SignalsResult
        Already written to `out`.

    Raises
    ------
    UserError
        If the suites belong to several worlds or to one without noise, or the folder holds
        networks with other settings.
    """
    began, out = perf_counter(), Path(out)
    chosen = tuple(map(load_suite, map(Path, suites))) if suites else noisy_channel.load_reversals()
    world = _check_suites(chosen)
    alone = networks == 0 and training is None
    training = training or choose_training(networks or None, seed, quick=quick)
    with hold_folder(out):
        if not (out / "signals.toml").exists():
            refuse_foreign_files(out / "networks", ["tables", "figures"])
        found = {IDEAL: noisy_channel.measure_ideal(chosen)}
        if not alone:
            found[NETWORKS] = _measure_networks(world, chosen, training, out)
        parts = [_name_signals(words, name) for name, words in found.items()]
        judged = [
            noisy_channel.judge_signals(words, chosen).assign(comprehender=name)
            for name, words in found.items()
        ]
        findings = pd.concat(judged, ignore_index=True).drop(columns="measure")
        result = SignalsResult(
            name="signals",
            tables={"words": pd.concat(parts, ignore_index=True), "findings": findings},
            settings=describe_run(
                began,
                world=world.name,
                fingerprint=world.fingerprint,
                suites=[suite.name for suite in chosen],
                exploratory=True,
                networks=0 if alone else training.networks,
                training={} if alone else asdict(training),
            ),
            summary=tuple(_describe(findings)),
        )
        result.write(out)
    return result


def _measure_networks(
    world: World, suites: Sequence[Suite], training: TrainingSettings, out: Path
) -> pd.DataFrame:
    """Measure networks trained with the world's noise, with others trained without it."""
    run = train_or_load(world, training, out / "networks")
    silent = train_or_load(remove_noise(world), training, out / "networks_without_noise")
    surprise = measure_words(run.networks, suites, [SURPRISE]).assign(
        measure=noisy_channel.MEASURE_OF["N400"]
    )
    apart = noisy_channel.measure_divergence(run.networks, silent.networks, suites)
    return pd.concat([surprise, apart], ignore_index=True)


def _check_suites(suites: Sequence[Suite]) -> World:
    """Return the world of the suites; refuse several worlds, and one without noise."""
    worlds = {suite.world.fingerprint: suite.world for suite in suites}
    if len(worlds) > 1:
        names = join_names(world.name for world in worlds.values())
        raise UserError(f"suites must be of one world, got {names}; measure them one by one.")
    (world,) = worlds.values()
    if not world.has_noise:
        raise UserError(
            f"world {world.name!r} has no noise, so that what is inferred never departs from what "
            "is said; use suites of a world with [noise], such as `both_ways`."
        )
    return world


def _name_signals(words: pd.DataFrame, comprehender: str) -> pd.DataFrame:
    """Return the rows of one comprehender, with the names of signals in place of measures."""
    signal, network = words["measure"].map(noisy_channel.SIGNALS), words.get("network", "")
    named = words.assign(comprehender=comprehender, network=network, signal=signal)
    return named[[*COLUMNS, "value", "critical"]]


def _describe(findings: pd.DataFrame) -> list[str]:
    """Return a sentence for each comprehender on how many of its findings held."""
    lines = []
    for comprehender, own in findings.groupby("comprehender", sort=False):
        held = int((own["verdict"] == "held").sum())
        lost = own[own["verdict"] != "held"]
        rest = [f"{row['finding']!r} ({row['verdict']})" for row in lost.to_dict("records")]
        line = f"{comprehender}: {held} of {len(own)} findings hold in every item"
        lines.append(line + (f"; not so: {'; '.join(rest)}." if rest else "."))
    return [f"Exploratory: {lines[0]}", *lines[1:]]


@dataclass(frozen=True, kw_only=True, eq=False)
class SuiteComparison(Result):
    """Findings of several runs; `tables["compared"]` holds those with a ratio published in 2018."""

    def draw(self) -> Figures:
        """Draw the ratios of all runs and of 2018 in one figure."""
        from equivocal.measuring.figures import draw_comparison

        table = self.tables["compared"]
        known = set(table["suite"]) & set(PARADIGMS)
        return {"compared": draw_comparison(table, {s: load_suite(s).title for s in known})}


def compare_suites(folders: Sequence[str | Path], out: str | Path) -> SuiteComparison:
    """Compare runs of suites with each other and with 2018.

    Parameters
    ----------
    folders : sequence of str or Path
        Folders that `measure` has written to.
    out : str or Path
        Folder for tables/compared.csv and figures/compared.

    Returns
    -------
    SuiteComparison
        Its summary counts, for each run, the published directions that hold and the published
        ratios inside its 95 % interval over networks.

    Raises
    ------
    UserError
        If a folder holds no finished run, or one without published findings.
    """
    out = Path(out)
    found = pd.concat([_read_findings(Path(folder)) for folder in folders], ignore_index=True)
    runs = found.groupby("run", sort=False)
    if len(runs) < len(folders):
        raise UserError("two folders have the same name and recipe; rename one, or give it once.")
    summary = tuple(_count_agreement(str(run), own) for run, own in runs)
    settings = {"folders": [str(folder) for folder in folders]}
    tables = {"compared": found}
    result = SuiteComparison(name="compared", tables=tables, settings=settings, summary=summary)
    with hold_folder(out):
        result.write(out)
    return result


def _read_findings(folder: Path) -> pd.DataFrame:
    """Read those findings of a run that were published; name the run by its recipe and folder."""
    if not (folder / "suites.toml").is_file():
        raise UserError(
            f"{str(folder)!r} holds no finished run of suites; "
            f"`equivocal suites run --out {folder}` makes one."
        )
    training = read_toml(folder / "suites.toml").get("training", {})
    findings = read_table(folder / "tables" / "findings.csv")
    findings = findings[findings["published_ratio"].notna()]
    if findings.empty:
        raise UserError(f"no finding in {str(folder)!r} was published with a ratio; run others.")
    recipe = training.get("recipe", next(iter(RECIPES)))
    return findings.assign(run=f"{recipe} ({folder.resolve().name})")


def _count_agreement(run: str, findings: pd.DataFrame) -> str:
    total = len(findings)
    held = int((findings["effect"] > 0).sum())
    sure = int((findings["verdict"] == "held").sum())
    inside = int(
        findings["published_ratio"].between(findings["ratio_low"], findings["ratio_high"]).sum()
    )
    return (
        f"{run}: {held} of {total} published directions, {sure} of them held over networks and "
        f"items; {inside} of {total} published ratios lie inside the interval"
    )
