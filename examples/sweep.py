"""A sweep with its report

The paper's protocol on a small scale: what to run, what came out, one page to show.

To compare networks fairly one needs many of them, on several training sets, chosen by validation
images and judged by test images. A *sweep* is that as data: a protocol says what to run, a store
keeps each cell as soon as it is computed, and table and report are made from the store. Stop it at
any time, and it goes on where it was.

Needs `pip install "mnngp[experiments]"`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

from mnngp import data
from mnngp.experiments import comparison, report, runner, selection
from mnngp.experiments.protocol import Protocol
from mnngp.experiments.store import Store

# %%
# The protocol: networks of three ranks, six depths and seven weight variances, on three random
# training sets of 200 digits. On the command line it is a TOML file ([how](../experiments.md)).
weights = np.linspace(0.2, 2.0, 7).round(2).tolist()
protocol = Protocol.of(
    {
        "title": "Digits: depth, rank and weight variance",
        "data": {"name": "digits", "train": [200], "validation": 400, "repeats": 3},
        "family": [
            {
                "activation": "maxout",
                "rank": [2, 3, 4],
                "depth": [1, 2, 4, 8, 16, 32],
                "weight_var": weights,
                "bias_var": 0.1,
            },
            {"activation": "relu", "depth": [1, 4, 16], "weight_var": weights, "bias_var": 0.1},
        ],
    }
)

# %%
# Run it, and write the report: one HTML file with the table, the figures and what was run, which
# needs no network. Here both go to a folder that is thrown away; give them a place of their own.
with TemporaryDirectory() as folder, Store.begin(Path(folder) / "run.sqlite", protocol) as store:
    runner.run(protocol, store, data.load("digits"))
    results = store.results()
    page = report.write(store, Path(folder) / "report.html")
    print(f"{len(results)} cells, a report of {page.stat().st_size / 1e6:.1f} MB")
rows = selection.rows(results, protocol.repeats)
for line in comparison.lines(rows):
    print(f"{line.network:7} best {line.model}: test accuracy {line.ours.mean:.3f}")

# %%
# The same results as a picture: the mean validation accuracy of each network.
maxout = next(row for row in rows if row.activation == "maxout")
found = {
    (one.setting.rank, one.setting.depth, one.setting.weight_var): one.validation_accuracy
    for one in maxout.candidates
}
depths = [1, 2, 4, 8, 16, 32]
fig, axes = plt.subplots(1, 3, figsize=(7.2, 3.2), sharey=True)
for ax, rank in zip(axes, (2, 3, 4), strict=True):
    grid = np.array([[found.get((rank, d, w), np.nan) for w in weights] for d in depths])
    image = ax.imshow(grid, origin="lower", aspect="auto", vmin=0.92, vmax=0.97)
    best = np.unravel_index(np.nanargmax(grid), grid.shape)
    ax.plot(best[1], best[0], "*", ms=13, color="white", mec="C1")
    ax.set(title=f"rank {rank}", xlabel="weight variance")
    ax.set_xticks(range(0, 7, 2), weights[::2])
    ax.set_yticks(range(6), depths)
axes[0].set_ylabel("hidden layers")
fig.colorbar(image, ax=axes, label="validation accuracy", extend="min")
plt.show()

# %%
# Between shallow and deep, small and large weights there is little to choose: most of these
# networks do well, and the stars mark the best of many good ones. The dark corner, deep networks
# with small weights, is [the ordered phase](ordered.md), in which the paper's small noise of 1e-10
# is larger than all differences between inputs. [Results](../results.md) has the paper's whole
# grid.
