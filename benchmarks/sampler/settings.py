"""How large each comparison is. Nothing that changes a number of a report lives outside this."""

from dataclasses import dataclass, replace

from equivocal.errors import UserError

__all__ = ["BenchSettings"]


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Sizes as the goals have them; `quick` is for seeing that everything runs."""

    rows: int = 10_000  # N
    outputs: int = 176  # K; of a network at most as many as it has
    features: int = 101  # D, where there is no network to take features from
    num_particles: int = 200  # J
    held_out: int = 1_000  # rows that predictions are compared on
    # (features, outputs) of the rows that plain Laplace is compared on
    laplace_sizes: tuple[tuple[int, int], ...] = ((65, 500), (257, 100), (513, 14))
    nuts_outputs: int = 3  # measured; the time for K outputs is extrapolated from them
    nuts_draws: int = 4_000  # over all chains
    nuts_warmup: int = 1_000  # per chain
    nuts_chains: int = 4
    literal_rows: int = 2_000
    literal_outputs: int = 16  # in one step of ours
    literal_repeats: int = 3
    linear_rows: tuple[int, ...] = (1_000, 10_000, 100_000)  # with the fewest outputs
    linear_outputs: tuple[int, ...] = (4, 16, 64)
    linear_fixed_rows: int = 10_000  # where outputs vary
    linear_steps: int = 5
    memory_budget: int = 1 << 30  # bytes
    seed: int = 0
    judged: bool = True  # goals are for these sizes; smaller runs are not held to them

    def __post_init__(self) -> None:
        if self.nuts_outputs < 1:
            raise UserError(f"nuts_outputs must be at least 1, got {self.nuts_outputs}.")

    @classmethod
    def quick(cls) -> "BenchSettings":
        """Everything once, in well under a minute."""
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
        """With a million rows, too."""
        return replace(cls(), linear_rows=(1_000, 10_000, 100_000, 1_000_000))
