# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A world of your own in ten cells
#
# Write a world, look up what is true in it, train a network in it, and ask the network. Open this
# in Jupyter with jupytext.

# %%
from pathlib import Path

import equivocal
from equivocal.world import read_example

# %% [markdown]
# A world is one file of words, events and constructions. Start from the example and change it: here
# the mouse sometimes chases the cat.

# %%
chasers = "dog = 0.6, cat = 0.3, boy = 0.1"
text = read_example().replace(chasers, "dog = 0.5, cat = 0.3, mouse = 0.2")
rule = '{ when = { agent = "cat" }, then = "mouse" },'
text = text.replace(rule, rule + '{ when = { agent = "mouse" }, then = "cat" },')
Path("upside_down.toml").write_text(text.replace('name = "garden"', 'name = "upside down"'))
world = equivocal.World.load("upside_down.toml")
print([sentence.text for sentence in world.sentences[:5]])

# %% [markdown]
# The truth after every word is known exactly.

# %%
world.true_beliefs("the mouse chases", "patient").nlargest(2)

# %% [markdown]
# The first question trains three networks in this world and samples their posteriors.

# %%
answer = equivocal.ask("the mouse chases the cat on the lawn", world=world)
print(answer.summary)
answer

# %% [markdown]
# Sentences that describe no event of this world are answered too, with more uncertainty.

# %%
odd = equivocal.ask("the ball chases the dog", world=world)
print(odd.to_dataframe().query("position == 3 and role == 'agent'").nlargest(3, "bayes"))
odd
