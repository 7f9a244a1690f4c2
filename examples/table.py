"""A table with text and gaps

Flats and their rents: which columns matter, and what the model thinks of them.

Real tables have text, truth values, gaps, and targets that are never negative. Frames of pandas,
polars or Arrow go into the estimators as they are. The first layer may see the standardised
columns, or each column by itself through an *embedding*, infinitely many periodic units, so that a
dip or a threshold in a single column can be learned. Leave-one-out chooses.

Needs `pip install "mnngp[experiments]"`.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from mnngp import MaxoutGPRegressor

# %%
# The table is made up, so that we know the truth: rents grow with the area, differ by district, and
# are a fifth lower for flats built between the wars and the nineties. The floor does not matter.
rng = np.random.default_rng(0)
n = 600
factors = {"north": 0.8, "south": 1.0, "harbour": 1.2, "old town": 1.5}
district = rng.choice(list(factors), n, p=[0.4, 0.3, 0.2, 0.1])
built = rng.integers(1890, 2024, n)
area = rng.gamma(9.0, 8.0, n).round()
dull = (built > 1918) & (built < 1995)
rent = 60.0 * area**0.75 * np.array([factors[one] for one in district]) * np.where(dull, 0.8, 1.0)
flats = pl.DataFrame(
    {
        "area": area,
        "district": district,
        "built": [year if rng.random() > 0.05 else None for year in built.tolist()],  # gaps
        "lift": rng.random(n) < 0.5,
        "floor": rng.integers(0, 7, n),
        "rent": (rent * rng.lognormal(0.0, 0.12, n)).round(),
    }
)
train, new = flats[:400], flats[400:]
print(train.head(3))

# %%
model = MaxoutGPRegressor(random_state=0).fit(train.drop("rent"), train["rent"])
print(f"R² {model.score(new.drop('rent'), new['rent']):.2f} on new flats; targets: {model.warp_}")
print(model.kernel_)

# %%
# `feature_relevance_` is the share that each column has in the mean squared gradient of the
# predictions. And the model can be asked about flats that do not exist: one of 70 m², of any year.
years = np.arange(1890, 2024)
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.8), width_ratios=[1, 1.7])
order = np.argsort(model.feature_relevance_)
left.barh(model.feature_names_in_[order], model.feature_relevance_[order], color="C0")
left.set(title="Relevance", xlabel="share of squared gradient")
for k, (place, factor) in enumerate(factors.items()):
    asked = pl.DataFrame({"built": years}).with_columns(
        area=pl.lit(70.0), district=pl.lit(place), lift=pl.lit(False), floor=pl.lit(2)
    )
    low, middle, high = model.predict_quantiles(asked.select(train.columns[:-1]), [0.1, 0.5, 0.9]).T
    right.fill_between(years, low, high, color=f"C{k}", alpha=0.18, lw=0)
    right.plot(years, middle, color=f"C{k}", label=place)
    truth = 60.0 * 70.0**0.75 * factor * np.where((years > 1918) & (years < 1995), 0.8, 1.0)
    right.plot(years, truth, color=f"C{k}", ls=":", lw=1.2)
right.set(title="Rent of 70 m² by year and district", xlabel="built", ylim=(0, None))
right.legend(ncols=2, loc="lower center")
plt.show()

# %%
# The cheap decades are found (dotted: the truth), as a dip and not as two steps: 400 noisy flats do
# not tell more. Floor and lift are nearly ignored. The intervals, for 80 % of new flats, grow with
# the rent, because the targets were recognised as skewed and positive, and warped by a logarithm.
# More: [Fit a table](../tables.md).
