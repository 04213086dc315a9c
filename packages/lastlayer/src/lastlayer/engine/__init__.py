"""How samplers run: rows in blocks, a plan within memory, a queue of outputs, devices and files."""
