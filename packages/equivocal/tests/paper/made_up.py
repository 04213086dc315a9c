"""Made-up data in the format of a study's files, for tests of figures."""

import numpy as np
import xarray as xr
from scipy.special import expit

ITEMS = {"breakfast": "egg", "dinner": "pizza", "morning": "tea"}
OTHERS = ["chess", "novel", "soup"]
UNITS = ["woman", *ITEMS.values(), *OTHERS, "eat"]
PROBES = ["situation", "agent", "action", "patient"]
HEARD = ("condition", "item", "position", "probe", "unit")
SUMMARY = ("sampler", "prior", "network", *HEARD)


def activations() -> xr.Dataset:
    """Return three items of four words in two conditions; the last congruent one has three."""
    rng, networks = np.random.default_rng(0), 3
    shape = (networks, 2, len(ITEMS), 4, len(PROBES), len(UNITS))
    logit = rng.normal(-3, 1, shape)
    logit[:, 0, 2, 3] = np.nan
    spread = np.array([[0.1, 1.0], [0.05, 0.5]]).reshape(2, 2, *[1] * len(shape))
    draws = expit(logit[..., None] + spread[..., None] * rng.normal(size=20))
    truth = expit(logit).mean(0)
    truth[1, :, 1:] = np.nan  # reversed words are impossible
    words = [[[f"at {item}", "woman", "eats", unit] for item, unit in ITEMS.items()],
             [[f"at {item}", unit, "eats", "woman"] for item, unit in ITEMS.items()]]  # fmt: skip
    words[0][2][3] = ""
    tracked = {
        "congruent": {item: {"agent": "woman", "patient": unit} for item, unit in ITEMS.items()},
        "reversal": {item: {"agent": unit, "patient": "woman"} for item, unit in ITEMS.items()},
    }
    summaries = {
        "mean": draws.mean(-1),
        "sd": draws.std(-1),
        "low": np.quantile(draws, 0.05, -1),
        "high": np.quantile(draws, 0.95, -1),
    }
    return xr.Dataset(
        {
            "mle": (("network", *HEARD), expit(logit)),
            **{name: (SUMMARY, values) for name, values in summaries.items()},
            "time": (
                ("sampler", "prior", "network", "unit"),
                np.full((2, 2, networks, len(UNITS)), 1e-3),
            ),
            "truth": (HEARD, truth),
            "critical": (("condition", "item"), [[3, 3, 2], [3, 3, 3]]),
        },
        coords={
            "sampler": ["paper", "converged"],
            "prior": [0.01, 1.0],
            "network": np.arange(networks),
            "condition": list(tracked),
            "item": list(ITEMS),
            "position": [1, 2, 3, 4],
            "probe": PROBES,
            "unit": UNITS,
            "non_relevant": [*ITEMS.values(), *OTHERS],
            "role": ["agent", "patient"],
            "tracked": (
                ("condition", "item", "role"),
                [[list(row.values()) for row in rows.values()] for rows in tracked.values()],
            ),
            "word": (("condition", "item", "position"), np.array(words)),
        },
        attrs={"study": "paper", "quick": "no", "central_prior": "1.0"},
    )


def path() -> xr.Dataset:
    """Return the path of a sampler for two networks; step 0 is its start."""
    rng = np.random.default_rng(1)
    time = np.concatenate([[0], np.geomspace(1e-4, 1, 30)]) * np.array([[1.0], [1.5]])
    names = ("indicated_agent", "indicated_patient")
    levels = {f"{e}_{n}": 1e-3 for e in ("mle", "converged") for n in names}
    return xr.Dataset(
        {
            "time": (("network", "step"), time),
            **{n: (("network", "step", "item"), rng.uniform(size=(2, 31, 3))) for n in names},
        },
        attrs={"paper_steps": 17, "stop_time": 0.0017, "condition": "reversal", **levels},
    )


def exact() -> xr.Dataset:
    """Return three networks and four questions; one mean of each is zero, NUTS has one network."""
    rng = np.random.default_rng(2)
    values = {}
    for name in ("exact", "paper", "converged", "nuts"):
        low, mean, high = np.sort(rng.uniform(size=(3, 3, 4)), axis=0)
        mean[:, 0] = low[:, 0] = 0.0
        if name == "nuts":
            low[1:] = mean[1:] = high[1:] = np.nan
        values |= {f"{name}_low": low, f"{name}_mean": mean, f"{name}_high": high}
    labels = ["congruent, a", "congruent, b", "reversal, a", "reversal, b"]
    return xr.Dataset(
        {name: (("network", "question"), value) for name, value in values.items()},
        coords={"network": [0, 1, 2], "question": labels},
    )
