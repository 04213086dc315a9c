"""`equivocal ask` as people and programs call it, with a real cache folder."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from needs import needs
from tests.cli.commands import COMMAND, fails, run, run_process

SENTENCE = "The dog chases the cat on the lawn"


@pytest.fixture(scope="module")
def garden_folder(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A world of one's own and an empty cache; the first question trains."""

    def make(folder: Path) -> None:
        assert run("world", "new", "garden.toml", cwd=folder).returncode == 0
        arguments = ("ask", SENTENCE, "--world", "garden.toml")
        result = run(*arguments, cwd=folder, EQUIVOCAL_CACHE="cache")
        assert result.returncode == 0, result.stderr
        (folder / "printed").write_text(result.stdout)
        (folder / "said").write_text(result.stderr)

    return made_once("ask-garden", make)


@pytest.fixture
def first(garden_folder: Path) -> tuple[str, str]:
    """What the first question printed, and said on standard error."""
    return (garden_folder / "printed").read_text(), (garden_folder / "said").read_text()


def asked(folder: Path, *arguments: str) -> tuple[str, str]:
    result = run("ask", *arguments, "--world", "garden.toml", cwd=folder, EQUIVOCAL_CACHE="cache")
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr


def test_first_question_trains_and_says_where_it_is_kept(
    first: tuple[str, str], garden_folder: Path
) -> None:
    printed, said = first
    assert "the default networks of world garden are trained once" in said
    assert "training 3 networks" in said
    assert "posterior for prior variance 1 is computed once" in said
    assert "paper's sampler" not in said  # its path is computed when it is asked for
    assert "cache/garden-" in said
    assert len(list((garden_folder / "cache").iterdir())) == 1
    for word in ("1 dog", "2 chases", "3 cat", "4 on lawn"):
        assert word in printed
    assert "semantic update" in printed
    assert "epistemic" in printed
    assert "Reads: the dog chases the cat" in printed
    assert printed.startswith(SENTENCE)  # the answer comes first
    note = " ".join(printed.split())
    assert note.endswith("This is the converged posterior; the paper stops before, at --step 17.")


def test_json_is_one_object(first: tuple[str, str], garden_folder: Path) -> None:
    printed, _ = asked(garden_folder, SENTENCE, "--json", "--compare", "the cat chases the dog")
    content = json.loads(printed)
    assert [word["word"] for word in content["words"]] == ["dog", "chases", "cat", "on lawn"]
    assert set(content["words"][0]["roles"]) == {"agent", "action", "patient", "place"}
    belief = content["words"][2]["roles"]["patient"][0]
    assert belief["filler"] == "cat"
    assert belief["low"] <= belief["bayes"] <= 1
    assert len(content["networks"]) == 3  # so that doubt between networks is known
    assert content["compare"]["sentence"] == "the cat chases the dog"


@pytest.mark.parametrize(
    ("variables", "bar"), [({"PYTHONIOENCODING": "ascii"}, "####"), ({}, "████")]
)
def test_bars_are_drawn_with_what_the_terminal_has(
    first: tuple[str, str], garden_folder: Path, variables: dict[str, str], bar: str
) -> None:
    result = (run_process if variables else run)(
        *("ask", "the dog chases", "--world", "garden.toml"),
        cwd=garden_folder,
        EQUIVOCAL_CACHE="cache",
        **variables,
    )
    assert result.returncode == 0, result.stderr
    assert bar in result.stdout


def test_a_full_disk_is_said_in_one_sentence(first: tuple[str, str], garden_folder: Path) -> None:
    needs("linux")  # for /dev/full
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*COMMAND, "ask", "the dog", "--world", "garden.toml", "--json"],
            cwd=garden_folder,
            env=os.environ | {"EQUIVOCAL_CACHE": "cache"},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr.startswith("error: cannot write: No space left on device")
    assert "Traceback" not in result.stderr


def test_the_time_stands_beside_the_step_of_the_paper() -> None:
    """As the files of the package have it, for each prior variance; none of it needs sampling."""
    for variance, time in ((1.0, "0.0011"), (0.01, "0.18")):
        chosen = ("ask", "the man eats", "--prior-variance", str(variance), "--step", "17")
        printed = " ".join(run(*chosen).stdout.split())
        assert printed.startswith(f"the man eats at step 17 (τ = {time}) Reads: ")
        assert f"This is step 17 (τ = {time}) of the paper's sampler, where the paper" in printed


def test_all_networks_of_a_folder_answer(first: tuple[str, str], garden_folder: Path) -> None:
    """The cache is a folder of results, too."""
    (own,) = (garden_folder / "cache").glob("garden-*/run")
    options = ("ask", "the dog chases the cat", "--run", str(own.parent), "--json")
    result = run(*options, cwd=garden_folder, EQUIVOCAL_CACHE="cache")
    assert result.returncode == 0, result.stderr
    content = json.loads(result.stdout)
    assert content["network"] == f"the 3 networks in {own.parent}"
    assert [
        len(part["networks"]) for part in content["words"][-1]["readings"][0]["parts"].values()
    ] == [3, 3, 3]
    assert content["step"] == "converged"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["the dgo chases"], "unknown word 'dgo': did you mean 'dog'?"),
        ([""], "is empty"),
        (["the cat is chased"], "for passives, ask another one, such as --world sg2018"),
        (["the", "dog"], "quotes"),
        (["the dog", "--step", "later"], "step 'later' is not available; choose from 0, 1"),
        (["the dog", "--prior-variance", "2"], "choose from 0.01, 1, 5"),
    ],
)
def test_mistakes_are_explained(
    first: tuple[str, str],
    garden_folder: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(garden_folder / "cache"))
    said = fails("ask", *arguments, "--world", "garden.toml", cwd=garden_folder)
    assert message in said
    assert "\n" not in said
