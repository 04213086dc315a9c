"""The samplers beside NUTS, which is slow and exact, on the same questions."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from equivocal.report.readings import COLOUR_OF, NAME_OF
from equivocal.report.style import COLOURS, publication_style

__all__ = ["nuts_figure"]

FLOOR = 1e-10  # logit axes end here
TICKS = (1e-9, 1e-7, 1e-5, 1e-3, 0.05, 0.5, 0.95, 0.999)
MARKERS = {"nuts": "s", "paper": "D", "converged": "o"}


def nuts_figure(nuts: xr.Dataset) -> Figure:
    """Means and widths of 90 % intervals against those of NUTS; below, every question by itself."""
    (dim,) = nuts["nuts_mean"].dims
    labels = [str(label) for label in nuts[dim].values]
    names = [str(v).removesuffix("_mean") for v in nuts.data_vars if str(v).endswith("_mean")]
    rows = 0.22 * len(labels) + 0.5
    with publication_style():
        figure = Figure(figsize=(7, 4 + rows))
        grid = figure.add_gridspec(2, 2, height_ratios=(3, rows))
        means, widths = (figure.add_subplot(grid[0, i]) for i in range(2))
        each = figure.add_subplot(grid[1, :])
        for name in names:
            if name != "nuts":
                _against(means, widths, nuts, name)
        for number, name in enumerate(names):
            shift = (number - (len(names) - 1) / 2) * 0.24
            _intervals(each, nuts, name, shift)
        means.set(xscale="logit", yscale="logit", title="posterior mean")
        widths.set(xscale="log", yscale="log", title="width of 90 % interval")
        for axes in (means, widths):
            axes.set(xlabel="NUTS", ylabel="sampler", box_aspect=1)
        each.set(xscale="logit", xlabel="activation", ylim=(len(labels) - 0.5, -0.5))
        each.set_yticks(range(len(labels)), labels, fontsize=7.5)
        means.axline((0.5, 0.5), (0.6, 0.6), color="0.6", lw=0.8, zorder=0)
        widths.axline((0.1, 0.1), (0.2, 0.2), color="0.6", lw=0.8, zorder=0)
        for axis in (means.xaxis, means.yaxis, each.xaxis):
            _plain_ticks(axis)
        means.tick_params(axis="x", labelrotation=45)
        handles, shown = each.get_legend_handles_labels()
        note = "below: points are posterior means, lines 90 % intervals"
        figure.legend(handles, shown, loc="outside lower center", ncols=3, title=note)
        return figure


def _against(means: Axes, widths: Axes, nuts: xr.Dataset, name: str) -> None:
    colour, marker = COLOUR_OF.get(name, COLOURS[3]), MARKERS.get(name, "^")
    mean = (_inside(nuts[f"{which}_mean"]) for which in ("nuts", name))
    means.plot(*mean, marker, color=colour, ms=4, alpha=0.7)
    width = (nuts[f"{which}_high"] - nuts[f"{which}_low"] for which in ("nuts", name))
    shown = (np.maximum(values, FLOOR) for values in width)
    widths.plot(*shown, marker, color=colour, ms=4, alpha=0.7)


def _intervals(axes: Axes, nuts: xr.Dataset, name: str, shift: float) -> None:
    mean, low, high = (_inside(nuts[f"{name}_{what}"]) for what in ("mean", "low", "high"))
    place, colour = np.arange(len(mean)) + shift, COLOUR_OF.get(name, COLOURS[3])
    axes.hlines(place, low, high, color=colour, lw=1.2)
    marker = MARKERS.get(name, "^")
    axes.plot(mean, place, marker, ms=3, color=colour, label=NAME_OF.get(name, name))


def _inside(values: xr.DataArray) -> np.ndarray:
    """Away from 0 and 1, which a logit axis cannot show."""
    clipped: np.ndarray = np.clip(values.values, FLOOR, 1 - FLOOR)
    return clipped


def _plain_ticks(axis: Axis) -> None:
    axis.set_major_locator(FixedLocator(TICKS))
    axis.set_minor_locator(FixedLocator([]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_tick_params(labelsize=7.5)
