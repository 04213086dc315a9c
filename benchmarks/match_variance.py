"""The variance that each choice of the match explains, computed from results/matches.csv.

    python -m benchmarks.match_variance      writes results/match_variance.csv and its figure

The recorded table is older than the columns `free` and the logits. Which posteriors were drawn
freely follows from the design. Activations are not in the table, so ranks of the effect replace
logits: like logits, they are not dominated by the few specifications with very large effects.
"""

import io
from pathlib import Path

import pandas as pd

from benchmarks.machine import RESULTS
from equivocal.multiverse.designs import load_design
from equivocal.multiverse.figures import draw_variance_shares
from equivocal.multiverse.grid import SETTINGS, TRAINING
from equivocal.multiverse.run import compute_match_shares

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "multiverse" / "variance_shares.png"
OUTCOMES = ("effect_agent", "effect_patient", "rank_agent", "rank_patient", "met")


def read_matches() -> pd.DataFrame:
    """Read the recorded matches, with the column `free` and ranks of the effects."""
    design, table = load_design("match"), pd.read_csv(RESULTS / "matches.csv")
    chosen = [*TRAINING, *SETTINGS]
    points = pd.DataFrame([point.model_dump() for point in design.free])[chosen]
    free = set(
        pd.read_csv(io.StringIO(points.to_csv(index=False))).itertuples(index=False, name=None)
    )
    own = table[chosen].itertuples(index=False, name=None)
    ranks = {f"rank_{role}": table[f"effect_{role}"].rank() for role in ("agent", "patient")}
    table = table.assign(free=[row in free for row in own], **ranks)
    assert table.loc[table["free"], "key"].nunique() == len(free), "it is of another design"
    return table


def main() -> None:
    """Write the shares, and draw them."""
    shares = compute_match_shares(read_matches(), OUTCOMES)
    shares.to_csv(RESULTS / "match_variance.csv", index=False, float_format="%.6g")
    draw_variance_shares(shares).savefig(IMAGE)
    print(shares.to_string())


if __name__ == "__main__":
    main()
