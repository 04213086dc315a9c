"""`equivocal ask` and `equivocal page`: ask about a sentence.

`ask` prints the beliefs after each word as tables of bars, and `page` writes a page for the browser
as one file that needs neither server nor internet.
"""

import json
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from equivocal import console
from equivocal.console import out, show_note
from equivocal.store.files import write_text_atomically
from lastlayer.errors import UserError

if TYPE_CHECKING:
    from equivocal.asking.answer import Answer, Belief
    from equivocal.asking.source import Source

BAR = 7  # characters
WORTH_A_LINE = 0.01  # fillers that are believed less and less probable are left out, unless heard
MEGABYTE = 1_000_000

WorldName = Annotated[
    str | None, typer.Option("--world", help="A world's name, or the path of a file [slips].")
]
RunFolder = Annotated[
    Path | None,
    typer.Option("--run", help="A folder of results; the networks in it are asked instead."),
]
NetworkNumber = Annotated[
    int | None, typer.Option("--network", min=0, help="One network of the run, from 0 [all].")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    # `ask` accepts extra words to explain that the quotes around a sentence were forgotten
    app.command(epilog=console.list_examples("ask"), context_settings={"allow_extra_args": True})(
        ask
    )
    app.command(epilog=console.list_examples("page"))(page)


def ask(
    context: typer.Context,
    sentence: Annotated[
        str | None,
        typer.Argument(help="Words of the world, in any order; the paper's pair unless given."),
    ] = None,
    compare: Annotated[str | None, typer.Option(help="A second sentence to compare with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    world: WorldName = None,
    run: RunFolder = None,
    network: NetworkNumber = None,
    prior_variance: Annotated[
        float | None,
        typer.Option(help="Prior variance around the trained weights: 0.01, 1 or 5 [1]."),
    ] = None,
    step: Annotated[
        str, typer.Option(help="`converged`, or a step of the paper's sampler, which stops at 17.")
    ] = "converged",
    top: Annotated[
        int,
        typer.Option(min=1, max=100, help="How many fillers above 1 % are listed for each role."),
    ] = 4,
) -> None:
    """Ask a sentence and see what networks and their ensembles believe after each word.

    Three networks each of the worlds `slips` and `paper` come with the package. For another world
    three are trained the first time and kept in your cache folder. `--english` asks any English
    sentence instead, with the options of `equivocal english ask`.
    """
    from equivocal.asking.listeners import Listeners, parse_sentence
    from equivocal.asking.source import PAPER_PAIR, Source

    if context.args:
        raise UserError(
            f"{context.args[0]!r:.80} is outside the sentence; put all words of a sentence "
            'in quotes, as in equivocal ask "the man eats the egg".'
        )
    if sentence is None:
        sentence, compare = PAPER_PAIR[0], compare or PAPER_PAIR[1]
    texts = [sentence] if compare is None else [sentence, compare]
    source = Source.choose(world=world, run=run, network=network)
    for text in texts:
        parse_sentence(source.world, text)  # before anything is trained for it
    listeners = Listeners(source)
    answers = [
        listeners.answer(
            text, prior_variance=prior_variance, step=int(step) if step.isdecimal() else step
        )
        for text in texts
    ]
    if as_json:
        content = answers[0].to_dict(top)
        if compare is not None:
            content["compare"] = answers[1].to_dict(top)
        out.file.write(json.dumps(content, ensure_ascii=False) + "\n")
        return
    for answer in answers:
        out.print(_render_answer(answer, top))
    show_note("ask", step=_explain_step(answers[0]))


def _render_answer(answer: "Answer", top: int) -> RenderableType:
    """Return the sentence, its summary and a table of beliefs for each word."""
    from equivocal.asking.source import CONVERGED
    from equivocal.asking.summary import describe_step

    tables = [_render_word(answer, position, top) for position in range(len(answer.words))]
    heading = Text(answer.sentence, style="underline")
    if answer.step != CONVERGED:
        heading.append(f" at {describe_step(answer.step, answer.time)}")
    return Group(heading, Text(answer.summary), *tables, Text())


def _explain_step(answer: "Answer") -> str:
    """Say where the sampler of an answer stood, and how to get another answer."""
    from equivocal.asking.source import CONVERGED, PAPER_STEP
    from equivocal.asking.summary import describe_step

    if answer.step == CONVERGED:
        return f"This is the converged posterior; the paper stops before, at --step {PAPER_STEP}."
    stops = ", where the paper stops" if answer.step == PAPER_STEP else ""
    return (
        f"This is {describe_step(answer.step, answer.time)} of the paper's sampler{stops}; the "
        f"posterior itself, --step {CONVERGED}, may answer otherwise."
    )


def _render_word(answer: "Answer", position: int, top: int) -> Table:
    """Return the beliefs after one word as a table."""
    from equivocal.asking.summary import format_percent

    table = Table(
        title=Text.assemble(
            (f"{position + 1} {answer.words[position]}", "bold"),
            f"  semantic update {answer.semantic_update[position]:.1f}, "
            f"uncertainty {answer.uncertainty[position]:.2f} "
            f"({format_percent(float(answer.epistemic_share[position]))} epistemic)",
        ),
        title_justify="left",
        title_style="",
        box=None,
        padding=(0, 1),
        show_header=position == 0,
    )
    table.add_column("", width=max(len(role) for role in answer.roles), no_wrap=True, style="dim")
    table.add_column("", width=11, no_wrap=True)
    table.add_column("trained", width=7, no_wrap=True)
    table.add_column("Bayesian", width=BAR + 15, no_wrap=True)
    table.add_column("warranted", width=14, no_wrap=True)
    table.add_column("truth", width=5)
    for role in answer.roles:
        listed = answer.beliefs(position, role, top)
        takes_part = role in answer.participants
        kept = [
            b
            for b in listed
            if (takes_part and b.said) or max(b.mle, b.bayes, b.truth or 0) >= WORTH_A_LINE
        ]
        for number, belief in enumerate(kept or listed[:1]):
            table.add_row(role if number == 0 else "", *_render_belief(belief))
    return table


def _render_belief(belief: "Belief") -> list[Text]:
    """Return the cells of one filler."""
    return [
        Text(belief.filler, style="bold" if belief.said else ""),
        Text(f"{belief.mle:.2f}", style="blue"),
        Text.assemble(
            (_draw_bar(belief.bayes), "dark_orange"),
            f" {belief.bayes:.2f} {belief.low:.2f}–{belief.high:.2f}",
        ),
        Text("{:.2f} {:.2f}–{:.2f}".format(*belief.warranted) if belief.warranted else ""),
        Text("" if belief.truth is None else f"{belief.truth:.2f}"),
    ]


def _draw_bar(share: float) -> str:
    """Draw a bar in eighths of a character.

    >>> _draw_bar(0.5)
    '███▌   '
    """
    if not out.encoding.startswith("utf"):
        return ("#" * round(share * BAR)).ljust(BAR)
    whole, rest = divmod(round(share * BAR * 8), 8)
    return ("█" * whole + ("" if rest == 0 else " ▏▎▍▌▋▊▉"[rest])).ljust(BAR)


def page(
    out_file: Annotated[
        Path, typer.Option("--out", help="The HTML file to write; an older one is replaced.")
    ] = Path("equivocal.html"),
    world: Annotated[
        list[str] | None,
        typer.Option(help="A world's name or file; may be repeated [those of the package]."),
    ] = None,
    run: RunFolder = None,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether to open it in the browser.")
    ] = True,
) -> None:
    """Write one HTML file that answers any sentence of its worlds in a browser, offline.

    It opens from disk, on a laptop or a phone, and fetches nothing: it contains the networks. For a
    world of your own, three are trained the first time and kept in your cache folder.
    """
    from equivocal.asking.page import build_page

    if out_file.suffix not in (".html", ".htm"):
        better = out_file / "page.html" if out_file.is_dir() else f"{out_file}.html"
        raise UserError(f"a page ends in .html, got {str(out_file)!r}; try {str(better)!r}.")
    text = build_page(_choose_sources(world or [], run))
    write_text_atomically(out_file, text)
    size = len(text.encode()) / MEGABYTE
    out.print(f"wrote {out_file} ({size:.1f} MB); open it in a browser", soft_wrap=True)
    if show:
        webbrowser.open(out_file.resolve().as_uri())


def _choose_sources(worlds: list[str], run: Path | None) -> list["Source"]:
    """Choose the networks of each world, in a folder if one is given; none twice."""
    from equivocal.asking.source import Source

    names: list[str | None] = [*worlds] or ([] if run is None else [None])
    sources = [Source.choose(world=name, run=run) for name in names]
    return list({source.world.name: source for source in sources}.values())
