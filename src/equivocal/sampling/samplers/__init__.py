"""One algorithm, one file: `init` builds a state and `step` advances it."""
