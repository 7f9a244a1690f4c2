"""Mean ranks of several models over several sets, and which of them differ: Friedman's test,
Nemenyi's critical difference, and the picture of both (Demšar 2006, "Statistical comparisons of
classifiers over multiple data sets").
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

LEVEL = 0.05


@dataclass(frozen=True)
class Ranks:
    title: str
    models: list[str]
    mean: np.ndarray
    count: int  # of sets
    p_value: float  # Friedman's, that all models are the same
    critical_difference: float

    def alike(self) -> list[tuple[float, float]]:
        """The longest runs of mean ranks that the critical difference does not tell apart."""
        found: list[tuple[float, float]] = []
        values = np.sort(self.mean)
        for first in values:
            together = values[(values >= first) & (values <= first + self.critical_difference)]
            last = together[-1]
            # models of the same rank are a run, too
            if len(together) > 1 and not any(last <= end for _, end in found):
                found.append((first, last))
        return found


def nemenyi(models: int, sets: int) -> float:
    """By how much two mean ranks must differ (Demšar 2006, equation for CD, at 5 %)."""
    quantile = studentized_range.ppf(1.0 - LEVEL, models, np.inf) / np.sqrt(2.0)
    return float(quantile * np.sqrt(models * (models + 1) / (6.0 * sets)))


def ranked(title: str, models: list[str], losses: np.ndarray) -> Ranks:
    """Ranks of `losses`, a row for each model and a column for each set: the smallest is first."""
    count = losses.shape[1]
    # Friedman's test is of three and more
    p_value = float(friedmanchisquare(*losses).pvalue) if len(models) > 2 else np.nan
    return Ranks(
        title,
        models,
        rankdata(losses, axis=0).mean(axis=1),
        count,
        p_value,
        nemenyi(len(models), count),
    )


def draw(parts: list[Ranks], path: Path) -> None:
    """A line for each measure: models at their mean ranks, the critical difference above, and a bar
    over those that it does not tell apart.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    # Labels take a step each, on both sides of the line; bars stand between the line and them.
    step, bar = 0.34, 0.14
    depths = [(len(part.models) // 2 + 1) * step + len(part.alike()) * bar for part in parts]
    figure, axes = pyplot.subplots(
        len(parts),
        figsize=(8.0, sum(depths) + 1.15 * len(parts)),
        height_ratios=[depth + 1.15 for depth in depths],
        squeeze=False,
        layout="constrained",
    )
    for axis, part, depth in zip(axes[:, 0], parts, depths, strict=True):
        size, margin = len(part.models), 0.3 * (len(part.models) - 1)
        axis.set(xlim=(1 - margin, size + margin), ylim=(-depth - 0.25, 0.7))
        axis.axis("off")
        axis.plot([1, size], [0, 0], color="black", linewidth=1)
        for rank in range(1, size + 1):
            axis.plot([rank, rank], [0, 0.08], color="black", linewidth=1)
            axis.text(rank, 0.12, str(rank), ha="center", va="bottom", fontsize=9)
        axis.plot([1, 1 + part.critical_difference], [0.5, 0.5], color="black", linewidth=2)
        axis.text(
            1 + part.critical_difference + 0.05,
            0.5,
            f"critical difference {part.critical_difference:.2f}",
            va="center",
            fontsize=9,
        )
        axis.set_title(f"{part.title}: mean rank over {part.count} sets, 1 is best", fontsize=10)
        for level, (first, last) in enumerate(part.alike()):
            height = -0.1 - level * bar
            axis.plot(
                [first - 0.01 * size, last + 0.01 * size],
                [height, height],
                color="tab:blue",
                linewidth=4,
                solid_capstyle="butt",
            )
        order = np.argsort(part.mean, kind="stable")
        below = -0.1 - len(part.alike()) * bar
        half = (size + 1) // 2
        for place, index in enumerate(order):
            left = place < half
            # the outermost are nearest to the line, so that no label's line crosses another
            # (and on the right half a step lower: models of the same rank would share a line)
            height = below - step * (place if left else size - 0.5 - place) - 0.12
            edge = 1 - 0.04 * size if left else size + 0.04 * size
            axis.plot(
                [part.mean[index], part.mean[index], edge],
                [0, height, height],
                color="black",
                linewidth=0.8,
            )
            axis.text(
                edge - 0.05 if left else edge + 0.05,
                height,
                f"{part.models[index]} {part.mean[index]:.2f}",
                ha="right" if left else "left",
                va="center",
                fontsize=10,
            )
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
