# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A figure for a talk in ten minutes
#
# Does a comprehender that doubts come nearer to the truth? We take a sentence whose true reading is
# known exactly, ask the three networks that come with the package, train a fourth of our own, and
# draw what all of them believe beside the truth. Open this in Jupyter with jupytext. Only the
# fourth network takes time, a minute or two.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import equivocal
from equivocal.figure_style import COLOURS
from equivocal.network import train

# %% [markdown]
# ## The truth
#
# In the world `slips` pizzas eat people, rarely, and speakers exchange agent and patient, rarely.
# Whoever hears "during dinner, the pizza eats the woman" has to weigh the two: was it meant as it
# was said, or said the wrong way round? Bayes' rule answers with a few numbers of the world file.

# %%
rare, slip = 0.01, 0.02  # how often a pizza eats, and how often a speaker exchanges the two
meant = rare * 0.5 * 0.5 * (1 - slip)  # a woman, not a man; at dinner, not at breakfast; no slip
slipped = (1 - 4 * rare) * 0.4 * 0.5 * 0.7 * slip  # a woman; at dinner; pizza, not soup; a slip
by_hand = meant / (meant + slipped)

world = equivocal.World.load("slips")
REVERSAL = "during dinner, the pizza eats the woman"
CONGRUENT = "during dinner, the woman eats the pizza"
FIRST = {REVERSAL: "pizza", CONGRUENT: "woman"}  # the noun that word order makes the agent
exact = {text: float(world.true_beliefs(text, "agent")[noun]) for text, noun in FIRST.items()}
print(f"the pizza is the agent with probability {exact[REVERSAL]:.3f}; by hand {by_hand:.3f}")

# %% [markdown]
# ## Three listeners
#
# They have heard 10,000 sentences of this world each, and were never told that number. The answer
# is the mean over three ensembles of last layers; `answer.networks` has each network alone.

# %%
answer = equivocal.ask(REVERSAL, world="slips")
print(answer.summary)
answer

# %% [markdown]
# ## A fourth of our own
#
# Trained in the same world, from another start and on other sentences. For a study, train more of
# them.

# %%
train("slips", networks=1, seed=1).save("runs/talk")

# %% [markdown]
# ## What they believe
#
# Three answers of each network: as trained; where the paper stops its sampler, after 17 steps, with
# the sampler time τ that it has reached; and with the converged posterior. An ensemble has a mean
# and an interval that holds 90 % of it.

# %%
paper = equivocal.ask(REVERSAL, world="slips", step=17)
KINDS = ["as trained", f"17 steps, τ = {paper.time:.2g}", "converged"]
rows = []
for sentence, noun in FIRST.items():
    for kind, step in zip(KINDS[1:], (17, "converged"), strict=True):
        ours = equivocal.ask(sentence, run="runs/talk", step=step)
        answers = [*equivocal.ask(sentence, world="slips", step=step).networks, ours]
        for network, one in enumerate(answers):
            belief = one.belief(-1, "agent", noun)
            rows.append((sentence, network, kind, belief.bayes, belief.low, belief.high))
            if kind == "converged":
                rows.append((sentence, network, KINDS[0], *3 * [belief.mle]))
columns = ["sentence", "network", "kind", "belief", "low", "high"]
table = pd.DataFrame(rows, columns=columns)
table.pivot_table(index=["sentence", "network"], columns="kind", values="belief")[KINDS]

# %% [markdown]
# How far are they from the truth? Compare the rows: what doubt gains on one sentence it may lose on
# the other.

# %%
table["distance"] = (table["belief"] - table["sentence"].map(exact)).abs()
distances = table.pivot_table(index="sentence", columns="kind", values="distance")[KINDS]
print(distances.round(3).to_string())

# %% [markdown]
# ## The figure
#
# Large type, few words, a dot for each network with its interval, and the truth as a line. Four
# networks and one sentence are an illustration; `equivocal doubt --world slips` measures 80
# sentences, with more networks.

# %%
plt.rcParams |= {"font.size": 18, "axes.spines.top": False, "axes.spines.right": False}
figure, panels = plt.subplots(1, 2, figsize=(13.33, 7.5), sharey=True, layout="constrained")
for axes, (sentence, truth) in zip(panels, exact.items(), strict=True):
    axes.axhline(truth, color="black", linewidth=2)
    axes.text(0.45, truth + 0.01, f"truth {truth:.2f}", ha="center", va="bottom")
    for place, (kind, colour) in enumerate(zip(KINDS, COLOURS[:3], strict=True)):
        own = table[(table["sentence"] == sentence) & (table["kind"] == kind)]
        spread = place + 0.12 * (own["network"] - 1.5)
        axes.vlines(spread, own["low"], own["high"], color=colour, alpha=0.5, linewidth=3)
        axes.scatter(spread, own["belief"], s=170, color=colour, edgecolor="white", zorder=3)
    axes.set(title=f"“{sentence}”".replace("during dinner, ", "… "), xlim=(-0.5, 2.5))
    axes.set(ylim=(-0.03, 1.09), xticks=range(3))
    axes.set_xticklabels([kind.replace(", ", "\n") for kind in KINDS])
panels[0].set_ylabel("belief that the first noun acts")
figure.suptitle("“During dinner …”: what four networks believe, and what is true")
for kind in ("png", "svg"):
    figure.savefig(Path("runs/talk") / f"talk.{kind}", dpi=150)
print("saved runs/talk/talk.png and talk.svg")
