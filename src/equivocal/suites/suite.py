"""A suite as data: a TOML file with its conditions and findings, a CSV file with its items.

    title = "Semantic incongruity"
    world = "sg2018"
    measure = "semantic_update"
    sources = ["Kutas & Hillyard (1980), Science 207, 203–205"]

    [conditions]                    # name = its name in the published data, or ""
    congruent = "high_cloze"
    incongruent = "violation"

    [[findings]]
    says = "an incongruent word moves the gestalt more than the expected one"
    larger = "incongruent"
    smaller = "congruent"

A finding that compares more than two conditions gives a `contrast` instead: weights that sum to
zero, whose weighted sum of means is predicted to be positive. A finding that does not come from the
suite's first source names its own `source`. The items are in `NAME.csv` beside `NAME.toml`, in the
format of `equivocal.world.items`, with a critical word in each row.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from equivocal.errors import UserError, did_you_mean, explain_validation, join_names
from equivocal.store import is_plain_name, read_toml, resolve_inside
from equivocal.study.settings import find_named_file
from equivocal.study.word_measures import check_measures
from equivocal.suites.published import check_published
from equivocal.world import World, list_shipped_worlds
from equivocal.world.items import Item, load_items

DATA = resources.files("equivocal.suites") / "data"
PARADIGMS = (  # in the order of the 2018 article's argument: sentences, single words, pairs, roles
    "semantic_incongruity",
    "cloze_probability",
    "categorical_relatedness",
    "sentence_position",
    "lexical_frequency",
    "semantic_priming",
    "associative_priming",
    "repetition_priming",
    "reversal_anomaly",
)


@dataclass(frozen=True)
class Finding:
    """What people showed: a contrast of conditions that the measure should make positive."""

    says: str
    contrast: dict[str, float]  # weight by condition; they sum to zero
    source: str  # in short: authors and year


@dataclass(frozen=True)
class Suite:
    """One paradigm: items in conditions, and what is expected of them."""

    name: str
    title: str
    world: World
    measure: str
    sources: tuple[str, ...]
    note: str  # where it departs from the study it follows
    conditions: dict[str, str]  # name: its name in the published data, or ""
    findings: tuple[Finding, ...]
    items: tuple[str, ...]
    rows: dict[tuple[str, str], Item]  # by condition and item

    @property
    def after(self) -> str:
        """The first source in short."""
        return _shorten(self.sources[0]) if self.sources else ""


class _FindingFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    says: str
    larger: str | None = None
    smaller: str | None = None
    contrast: dict[str, float] = {}
    source: str = ""


class _SuiteFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str
    world: str
    measure: str = "semantic_update"
    sources: list[str] = []
    note: str = ""
    conditions: dict[str, str]
    findings: list[_FindingFile]


def load_suite(name_or_path: str | Path) -> Suite:
    """Load a paradigm.

    Parameters
    ----------
    name_or_path : str or Path
        One of `PARADIGMS`, or the path of a TOML file of your own with its CSV file beside it.

    Raises
    ------
    UserError
        For any mistake in either file, with the file, the place and what to change.
    """
    path = find_named_file(name_or_path, DATA, "suite")
    file = _read_file(path)
    world = _load_world(path, file.world)
    items = load_items(
        path.with_suffix(".csv"), world, needs=("critical_word",), conditions=file.conditions
    )
    return Suite(
        name=path.stem,
        title=file.title,
        world=world,
        measure=file.measure,
        sources=tuple(file.sources),
        note=" ".join(file.note.split()),
        conditions=file.conditions,
        findings=tuple(_parse_finding(finding, file, path) for finding in file.findings),
        items=items.items,
        rows=items.rows,
    )


def _read_file(path: Path) -> _SuiteFile:
    try:
        file = _SuiteFile(**read_toml(path))
    except ValidationError as error:
        raise UserError(f"{path}: {explain_validation(error, _SuiteFile, 'key')}") from None
    if not is_plain_name(path.stem):
        raise UserError(f"{path}: figures are named after it; give it a shorter, plain name.")
    for name, what, least in (("conditions", "conditions", 2), ("findings", "finding", 1)):
        if len(getattr(file, name)) < least:
            raise UserError(f"{path}: a suite needs at least {least} {what}; add to [{name}].")
    check_measures([file.measure], f"{path}: ")
    for name, published in file.conditions.items():
        check_published(published, f"{path}, condition {name!r:.80}")
    return file


def _load_world(path: Path, name: str) -> World:
    if name in list_shipped_worlds():
        return _load_shipped_world(name)
    return World.load(resolve_inside(path.parent, name, f"{path}, world"))


@cache
def _load_shipped_world(name: str) -> World:
    return World.load(name)  # nine suites share one


def _parse_finding(finding: _FindingFile, file: _SuiteFile, path: Path) -> Finding:
    where = f"{path}, finding {finding.says!r:.80}"
    pair, weights = (finding.larger, finding.smaller), finding.contrast
    if (pair == (None, None)) == (not weights) or (None in pair and any(pair)):
        raise UserError(f"{where}: give larger and smaller, or a contrast, one of the two.")
    if finding.larger is not None and finding.smaller is not None:
        if finding.larger == finding.smaller:
            raise UserError(f"{where}: larger and smaller are the same; name two conditions.")
        weights = {finding.larger: 1.0, finding.smaller: -1.0}
    for name in weights:
        if name not in file.conditions:
            known = list(file.conditions)
            hint = did_you_mean(name, known) or f"; conditions are {join_names(known)}."
            raise UserError(f"{where}: unknown condition {name!r}{hint}")
    if not abs(sum(weights.values())) < 1e-9 or not any(weights.values()):  # NaN is refused too
        raise UserError(
            f"{where}: the weights of a contrast must sum to zero and must not all be zero."
        )
    source = _shorten(finding.source or next(iter(file.sources), ""))
    return Finding(finding.says, {name: w for name, w in weights.items() if w}, source)


def _shorten(source: str) -> str:
    """Return authors and year of a source, or all of it where they cannot be recognised."""
    authors, sign, _ = source.partition("),")
    return f"{authors})" if sign else source
