"""`equivocal doctor`: print what `equivocal.doctor` finds; change here only how it is shown."""

import json
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from equivocal.cli.console import out

if TYPE_CHECKING:
    from equivocal.doctor import Finding

STYLES = {"ok": "green", "note": "yellow", "problem": "bold red"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check versions, devices, memory, folders and extras, with advice on every problem.

    Exit code 0: all is well, though optional parts may be missing; 1: something is wrong.
    """
    from equivocal.doctor import examine, is_well

    findings = examine()
    well = is_well(findings)
    if as_json:
        content = {"well": well, "findings": [asdict(finding) for finding in findings]}
        out.print(json.dumps(content, indent=1), soft_wrap=True)
    else:
        _print_findings(findings)
        out.print("\nall is well" if well else "\nsomething is wrong; see `problem` above")
    if not well:
        raise typer.Exit(1)


def _print_findings(findings: "list[Finding]") -> None:
    """Print the findings by section, each with its advice."""
    width = max(len(finding.name) for finding in findings)
    for section, entries in groupby(findings, key=lambda finding: finding.section):
        out.print(section, style="bold")
        for entry in entries:
            label = Text(f"  {entry.state:8}", STYLES[entry.state])
            out.print(label + f"{entry.name:{width}}  {entry.found}", soft_wrap=True)
            if entry.advice:
                out.print(f"  {'':8}{'':{width}}  → {entry.advice}", soft_wrap=True)
