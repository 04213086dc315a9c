"""The sizes of each comparison: everything that changes a number of a report."""

from dataclasses import dataclass, replace

from lastlayer.errors import UserError

__all__ = ["BenchSettings"]


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Sizes for which the goals are set; `quick` is a check that everything works."""

    rows: int = 10_000  # N
    outputs: int = 176  # K; at most as many as a network has
    features: int = 101  # D of made-up rows
    num_particles: int = 200  # J
    held_out: int = 1_000  # rows that predictions are compared on
    # (features, outputs) of the rows that plain Laplace is compared on
    laplace_sizes: tuple[tuple[int, int], ...] = ((65, 500), (257, 100), (513, 14))
    nuts_outputs: int = 3  # timed; the time for K outputs is extrapolated from them
    nuts_draws: int = 4_000  # over all chains
    nuts_warmup: int = 1_000  # per chain
    nuts_chains: int = 4
    literal_rows: int = 2_000
    literal_outputs: int = 16  # moved by one step of ours
    literal_repeats: int = 3
    linear_rows: tuple[int, ...] = (1_000, 10_000, 100_000)  # with the fewest outputs
    linear_outputs: tuple[int, ...] = (4, 16, 64)
    linear_fixed_rows: int = 10_000  # while outputs vary
    linear_steps: int = 5
    memory_budget: int = 1 << 30  # bytes
    seed: int = 0
    judged: bool = True  # goals are set for these sizes; smaller runs are not judged

    def __post_init__(self) -> None:
        if self.nuts_outputs < 1:
            raise UserError(f"nuts_outputs must be at least 1, got {self.nuts_outputs}.")

    @classmethod
    def quick(cls) -> "BenchSettings":
        """Return sizes that run everything once in well under a minute."""
        return cls(
            rows=400,
            outputs=6,
            features=11,
            num_particles=40,
            held_out=50,
            laplace_sizes=((11, 3),),
            nuts_outputs=1,
            nuts_draws=200,
            nuts_warmup=100,
            literal_rows=120,
            literal_outputs=2,
            literal_repeats=1,
            linear_rows=(500, 1_000),
            linear_outputs=(2,),
            linear_fixed_rows=500,
            linear_steps=2,
            judged=False,
        )

    @classmethod
    def full(cls) -> "BenchSettings":
        """Return sizes that include a million rows."""
        return replace(cls(), linear_rows=(1_000, 10_000, 100_000, 1_000_000))
