# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # The paper's story in twenty cells
#
# People who hear "during dinner, the pizza eats…" waver between what the syntax says and what makes
# sense. A trained network does not. This notebook follows the paper's solution, a posterior over
# the last layer, and shows what it depends on. Open it in Jupyter with jupytext.

# %%
from functools import partial

import matplotlib.pyplot as plt
import numpy as np

import equivocal
from equivocal.network import train

# %% [markdown]
# ## A world that is known exactly
#
# One file defines everything that can happen, so the truth after every word is known too.

# %%
world = equivocal.World.load("paper")
print(world.true_beliefs("during dinner, the woman eats", "patient").nlargest(3))

# %% [markdown]
# After "during dinner, the pizza" there is no truth: no sentence of this world begins like that.

# %%
try:
    world.true_beliefs("during dinner, the pizza eats", "agent")
except equivocal.UserError as error:
    print(error)

# %% [markdown]
# ## A sentence that makes sense
#
# A small network is enough to tell the story; without `run`, three networks with 100 units in each
# layer are asked. Posteriors are sampled when they are first needed, and cached.

# %%
train("paper", networks=1, hidden=30, gestalt=30).save("small")
ask = partial(equivocal.ask, run="small")
congruent = ask("during dinner, the woman eats the pizza")
print(congruent.summary)
congruent

# %% [markdown]
# ## Its reversal
#
# Word order makes the pizza the agent. The network has never encountered such an event.

# %%
reversal = ask("during dinner, the pizza eats the woman")
reversal

# %%
print(reversal.summary)

# %% [markdown]
# The trained network answers with certainty. How uncertain is the ensemble? The converged
# posterior is nearly as certain, since thousands of sentences leave little room for doubt.

# %%
for role, filler in (("agent", "woman"), ("agent", "pizza"), ("patient", "pizza")):
    belief = reversal.belief(-1, role, filler)
    print(f"{filler} as {role}: trained {belief.mle:.5f}, Bayesian {belief.bayes:.5f}")

# %% [markdown]
# ## Where the sampler stops
#
# The paper takes 17 steps; how far they lead is the sampler time τ. The ensemble starts at its
# prior, which is very uncertain, and moves to the posterior, which is not: the size of the effect
# depends on when the sampler is stopped.

# %%
steps = (0, 1, 3, 8, 17)
path = [ask("during dinner, the pizza eats the woman", step=step) for step in steps]
doubt = [answer.belief(-1, "agent", "pizza") for answer in path]
print({f"step {answer.step}": f"τ = {answer.time:.2g}" for answer in path})

# %%
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.fill_between(steps, [b.low for b in doubt], [b.high for b in doubt], alpha=0.3)
axes.plot(steps, [b.bayes for b in doubt], marker="o", label="ensemble")
axes.axhline(reversal.belief(-1, "agent", "pizza").mle, linestyle=":", label="trained network")
axes.axvline(17, color="grey", linewidth=0.8)
axes.set(xlabel="step of the paper's sampler", ylabel="the pizza as agent", yscale="log")
axes.legend()

# %% [markdown]
# ## What the prior does
#
# The wider the prior around the trained weights, the more room for uncertainty there is; at
# convergence the data leave little of it (`step=17` shows the paper's setting).

# %%
for variance in (0.01, 1.0, 5.0):
    answer = ask("during dinner, the pizza eats the woman", prior_variance=variance)
    belief = answer.belief(-1, "agent", "pizza")
    print(f"prior variance {variance:g}: {belief.bayes:.5f} [{belief.low:.5f}, {belief.high:.5f}]")

# %% [markdown]
# ## How much of the uncertainty is epistemic?
#
# The entropy of the mean answer, and the part of it that comes from disagreement in the ensemble.

# %%
for answer in (congruent, reversal):
    share = answer.epistemic.mean(axis=1) / answer.entropy.mean(axis=1)
    print(dict(zip(answer.words, np.round(share, 2).tolist(), strict=True)))
