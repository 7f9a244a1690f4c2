"""What benchmarks/features.py compares: networks behind several kinds of features, their sums and
averages, and features weighted by their relevance.

Every variant regresses on memberships (one for the class, zero for the others, less their mean) and
is rated alike: matrices of a mean variance of one, the noise by leave-one-out, and for log losses
a softmax with one temperature, which leave-one-out predictions have. Networks are found by the
estimators' own search, restricted to a kind of features.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from features_tables import Fold
from numpy.polynomial import Chebyshev
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from mnngp import MaxoutKernel
from mnngp.data import TableEncoder
from mnngp.estimators.features import Scaling
from mnngp.estimators.table_features import embedding_versions
from mnngp.inference.choice import Trial, choose
from mnngp.inference.observations import Observations
from mnngp.inference.posterior import Posterior
from mnngp.inference.scoring import Objective
from mnngp.inference.search_space import LENGTHSCALES, LINEAR, MaxoutSpace, with_parameters

NOISES = 10.0 ** np.arange(-7.0, 1.6, 0.25)
TRIALS = 24  # of a search among one kind of features
BUDGETS = (24, 32, 48)  # of the estimators' search
PRESENT = "search 24"  # their default
OF_OTHERS = 32  # trials of what might stand in the place of the estimators' search
SQUARED_ERROR = Objective(False)  # that of the estimators, for classes
TEMPERATURES = np.exp(np.linspace(0.0, 4.0, 9))
PENALTY = 0.3  # on logarithms of shares, over the number of rows; 0.05 was worse
POWERS = {"½": 0.5, "¼": 0.25}
# each variant, and what the page calls it
VARIANTS = {
    "standardised": "standardised columns",
    "columns": "embedding of columns",
    "ranks": "embedding of ranks",
    "embedding": "better of these two embeddings",
    "additive": "additive model of the embedding",
    "best of 3": "best of standardised, columns, ranks",
    "best of 4": "best of the three and the additive model",
    "sum of 2": "sum of two: standardised, better embedding",
    "sum of 3": "sum of three: standardised, columns, ranks",
    "sum of 2 and additive": "sum of two, with the additive model",
    "sum of 3 and additive": "sum of three, with the additive model",
    "best sum": "best of single network, sum of two, sum of three",
    "average of 2": "mean of predictions: standardised, better embedding",
    "average of best 2": "mean of predictions: best two of the three",
    "standardised r^½": "standardised columns times √r",
    "standardised r^¼": "standardised columns times ∜r",
    "standardised weights": "best of standardised columns, as they are and times √r or ∜r",
    "embedding r^½": "better embedding, features times √r",
    "embedding r^¼": "better embedding, features times ∜r",
    "embedding weights": "best of better embedding, as it is and times √r or ∜r",
    "embedding twice": "better embedding, features times ∜r, twice",
    "embedding descent": "better embedding, shares of features by descent",
    "search by log loss": "the estimators' search, by log loss",
    "search by accuracy": "the estimators' search, by accuracy",
    "search, mean of 3": "mean of predictions: best three of the estimators' search",
    "search, mean of 5": "mean of predictions: best five of the estimators' search",
    **{f"search {budget}": f"the estimators' search, {budget} trials" for budget in BUDGETS},
}


@dataclass(frozen=True)
class Part:
    """A kernel's matrices: of the training rows, and of test rows with them."""

    train: np.ndarray
    test: np.ndarray

    @staticmethod
    def of(kernel: Any, X: np.ndarray, X_test: np.ndarray) -> "Part":
        matrix = kernel(X)
        unit = np.trace(matrix) / len(matrix)
        return Part(matrix / unit, kernel(X_test, X) / unit)


@dataclass(frozen=True)
class Fit:
    """Memberships as a variant predicts them, less their means."""

    left_out: np.ndarray  # of each training row, by the others
    predicted: np.ndarray  # of the test rows
    error: float  # the mean square of what leave-one-out misses
    parts: tuple[Part, ...] = ()


def fitted(parts: Iterable[Part], Y: np.ndarray) -> Fit:
    """With the sum of kernels, each with the same share, and the noise that leave-one-out wants."""
    parts = tuple(parts)
    values, vectors = np.linalg.eigh(np.mean([part.train for part in parts], axis=0))
    shrunk = 1.0 / (np.maximum(values, 0.0)[:, None] + NOISES)
    precision = vectors**2 @ shrunk  # the diagonals of the inverses, (n, noises)
    few = shrunk[:, :, None] * (vectors.T @ Y)[:, None, :]
    alpha = (vectors @ few.reshape(len(Y), -1)).reshape(few.shape)
    missed = alpha / precision[:, :, None]
    errors = np.mean(missed**2, axis=(0, 2))
    best = int(np.argmin(errors))
    test = np.mean([part.test for part in parts], axis=0)
    return Fit(Y - missed[:, best], test @ alpha[:, best], float(errors[best]), parts)


def averaged(fits: Iterable[Fit], Y: np.ndarray) -> Fit:
    left_out, predicted = (
        np.mean(both, axis=0)
        for both in zip(*((fit.left_out, fit.predicted) for fit in fits), strict=True)
    )
    return Fit(left_out, predicted, float(np.mean((Y - left_out) ** 2)))


def log_loss(log_scale: float, memberships: np.ndarray, y: np.ndarray) -> float:
    """Of the softmax of memberships, which are divided by a temperature."""
    logits = np.exp(log_scale) * memberships
    return float(np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]))


@dataclass(frozen=True)
class ByLabels(Objective):
    """Kernels by what leave-one-out memberships say of the labels, in place of their errors."""

    mean: tuple[float, ...] = ()  # of the memberships
    measure: str = "log loss"  # with the best temperature; or the accuracy

    def scores(
        self, alpha: np.ndarray, precision: np.ndarray, ratios: np.ndarray, data: Observations
    ) -> np.ndarray:
        members = data.y + self.mean
        left_out = members[:, None, :] - alpha / precision[:, :, None]
        share = data.weight / data.weight.sum()
        losses = []
        for temperature in TEMPERATURES:
            logits = temperature * left_out
            of_label = np.einsum("nmc,nc->nm", logits, members)
            losses.append(share @ (logsumexp(logits, axis=2) - of_label))
        loss = np.min(losses, axis=0)
        if self.measure == "log loss":
            return -loss
        right = left_out.argmax(axis=2) == members.argmax(axis=1)[:, None]
        return share @ right - 1e-3 * loss  # which decides where as many are right


class Split:
    """A fold as numbers, in each version of its features."""

    def __init__(self, fold: Fold) -> None:
        encoder = TableEncoder().fit(fold.frame)
        self.X, self.X_test = (
            np.asarray(encoder.transform(part), dtype=float)
            for part in (fold.frame, fold.frame_test)
        )
        self.y, self.y_test = fold.y, fold.y_test
        self.groups = encoder.groups_
        classes = 1 + max(fold.y.max(), fold.y_test.max())
        members = np.eye(classes)[fold.y]
        self.mean = members.mean(axis=0)
        self.Y = members - self.mean
        curves = embedding_versions(self.X, None, self.groups)
        self.embeddings = {name: one.embedding for name, one in curves.items()}
        self.scalings = {LINEAR: Scaling.of("standard", self.X, None), **curves}
        distinct = Observations.of(self.X, self.Y)
        self.data = {
            name: replace(distinct, X=one(distinct.X)) for name, one in self.scalings.items()
        }

    def part(self, kernel: Any, features: str) -> Part:
        """Of a kernel behind one version of the features, or behind several side by side."""
        names = features.split(" + ")
        X, X_test = (
            np.hstack([self.scalings[name](rows) for name in names])
            for rows in (self.X, self.X_test)
        )
        return Part.of(kernel, X, X_test)

    def search(
        self, *versions: str, budget: int, objective: Objective = SQUARED_ERROR
    ) -> list[Trial]:
        """What the estimators' search finds among some versions of the features, the best first.

        One alone is not weighted on the way: that is compared by itself.
        """
        embeddings = {name: self.embeddings[name] for name in versions if name != LINEAR}
        space = MaxoutSpace({}, embeddings=embeddings, linear=LINEAR in versions)
        space.weighs = space.weighs and len(versions) > 1
        data = {name: self.data[name] for name in versions}
        return choose(data, space, objective, seed=0, budget=budget)

    def fit(self, trial: Trial) -> Fit:
        return fitted([self.part(trial.kernel, trial.features)], self.Y)

    def scores(self, fit: Fit) -> dict[str, float]:
        """What is measured of a variant."""
        left_out, predicted = fit.left_out + self.mean, fit.predicted + self.mean
        scale = minimize_scalar(
            lambda scale: log_loss(scale, left_out, self.y), bounds=(-2.0, 5.0), method="bounded"
        ).x
        members = np.eye(len(self.mean))[self.y_test]
        values = {
            "accuracy": float(np.mean(predicted.argmax(axis=1) == self.y_test)),
            "squared_error": float(np.mean((predicted - members) ** 2)),
            "log_loss": log_loss(scale, predicted, self.y_test),
            "left_out": fit.error,
        }
        return {name: float(f"{value:.5g}") for name, value in values.items()}


def best(*fits: Fit) -> Fit:
    """By leave-one-out."""
    return min(fits, key=lambda fit: fit.error)


def additive(split: Split) -> Fit:
    """A linear layer behind the embedding: its functions are sums of functions of one column."""
    fits = []
    for name, embedding in split.embeddings.items():
        for lengthscale in LENGTHSCALES:
            own = replace(embedding, lengthscale=lengthscale)
            kernel = MaxoutKernel(depth=1, rank=1, weight_var=1.0, bias_var=0.1, embedding=own)
            fits.append(fitted([split.part(kernel, name)], split.Y))
    return best(*fits)


# --- features weighted by relevance ---------------------------------------------------------------


def relevance(trial: Trial, data: Observations, blocks: list[np.ndarray]) -> np.ndarray:
    """The mean squared gradient of a network's fit in each block of columns: by how much it would
    vary in the first order if these alone were drawn anew from the training rows.
    """
    posterior = Posterior(trial.kernel, data.X, data.y, trial.noise_ratio / data.weight)
    gradient, share = posterior.gradient(data.X), data.weight / data.weight.sum()
    centred = data.X - share @ data.X
    return np.array(
        [
            np.einsum(
                "n,njt,jk,nkt->",
                share,
                gradient[:, block],
                (share[:, None] * centred[:, block]).T @ centred[:, block],
                gradient[:, block],
                optimize=True,
            )
            for block in blocks
        ]
    )


class Weights:
    """Features rescaled by powers of their relevance r in a first network, and another one chosen
    for them. An embedding's features are rescaled in its explicit map.
    """

    def __init__(self, split: Split, trial: Trial) -> None:
        scaling = split.scalings[trial.features]
        self.Y, self.data = split.Y, split.data[trial.features]
        self.rows = [self.data.X, scaling(split.X), scaling(split.X_test)]
        if trial.features == LINEAR:
            self.blocks = [np.arange(group.start, group.stop) for group in split.groups]
        else:
            embedding = trial.kernel.embedding
            self.blocks = embedding.blocks(split.X.shape[1])
            self.rows = [embedding(part) for part in self.rows]
            trial = replace(trial, kernel=with_parameters(trial.kernel, embedding=None))
        self.trial = trial

    def with_factors(self, factors: np.ndarray) -> tuple[Fit, Trial, np.ndarray]:
        """What is found behind features times these factors; with it the training rows."""
        each = np.ones(self.rows[0].shape[1])
        for block, own in zip(self.blocks, factors, strict=True):
            each[block] = own
        X, train, test = (part * each for part in self.rows)
        data = {LINEAR: replace(self.data, X=X)}
        trial = choose(data, MaxoutSpace({}), SQUARED_ERROR, seed=0, budget=TRIALS)[0]
        return fitted([Part.of(trial.kernel, train, test)], self.Y), trial, X

    def by_relevance(self, power: float, rounds: int = 1) -> Fit:
        """Times a power of r; in a second round, of r in the network that the first one found."""
        trial, X = self.trial, self.rows[0]
        for _ in range(rounds):
            r = np.maximum(relevance(trial, replace(self.data, X=X), self.blocks), 0.0)
            fit, trial, X = self.with_factors((r / (float(r.mean()) or 1.0)) ** power)
        return fit

    def by_descent(self, penalty: float) -> Fit:
        """Times the roots of shares that a descent of the leave-one-out error finds, for the first
        network and its noise, with a penalty on the squares of their logarithms.
        """
        X, weight, count = self.rows[0], self.data.weight, len(self.blocks)
        grams = np.stack([X[:, block] @ X[:, block].T for block in self.blocks]) / X.shape[1]
        series = as_series(self.trial.kernel)
        noise = np.diag(self.trial.noise_ratio / weight)
        Y = self.data.y / np.sqrt(np.mean(self.data.y**2))

        def error(logs: np.ndarray) -> tuple[float, np.ndarray]:
            shares = np.exp(logs) / np.mean(np.exp(logs))
            rho = np.clip(np.tensordot(shares, grams, 1), -1.0, 1.0)
            inverse = np.linalg.inv(series(rho) + noise)
            precision, alpha = np.diagonal(inverse), inverse @ Y
            missed = alpha / precision[:, None]
            pull = 2.0 * weight[:, None] * missed / (weight.sum() * Y.shape[1])
            of_alpha = (inverse @ (pull / precision[:, None])) @ alpha.T
            of_precision = (inverse * ((pull * alpha).sum(axis=1) / precision**2)) @ inverse
            of_matrix = (of_precision - 0.5 * (of_alpha + of_alpha.T)) * series.deriv()(rho)
            slopes = np.tensordot(grams, of_matrix, 2)
            away = logs - logs.mean()
            value = 0.5 * float(np.sum(pull * missed)) + penalty * float(away @ away) / len(X)
            slope = shares * (slopes - shares @ slopes / count) + 2.0 * penalty * away / len(X)
            return value, slope

        options = {"maxiter": 25}
        start, bounds = np.zeros(count), [(-6.0, 6.0)] * count
        logs = minimize(error, start, jac=True, bounds=bounds, options=options).x
        return self.with_factors(np.sqrt(np.exp(logs) / np.mean(np.exp(logs))))[0]


def as_series(kernel: Any) -> Chebyshev:
    """The kernel of rows of one length, by their inner product."""
    rho = np.cos(np.pi * (np.arange(61) + 0.5) / 61)
    circle = np.sqrt(2.0) * np.column_stack([rho, np.sqrt(1.0 - rho**2)])
    return Chebyshev.fit(rho, kernel([[np.sqrt(2.0), 0.0]], circle)[0], 60, domain=[-1.0, 1.0])


# --- all of them ----------------------------------------------------------------------------------


def compared(fold: Fold) -> dict[str, dict[str, float]]:
    """The scores of every variant."""
    split = Split(fold)
    Y = split.Y
    trials = {name: split.search(name, budget=TRIALS)[0] for name in split.scalings}
    alone = {name: split.fit(trial) for name, trial in trials.items()}
    standardised, columns, ranks = alone[LINEAR], alone["columns"], alone["ranks"]
    embedded = best(columns, ranks)
    sum_of_additive = additive(split)
    three = (standardised, columns, ranks)

    def sum_of(*fits: Fit) -> Fit:
        return fitted([part for fit in fits for part in fit.parts], Y)

    two_summed, three_summed = sum_of(standardised, embedded), sum_of(*three)
    version = "columns" if embedded is columns else "ranks"
    by_weights = {
        "standardised": Weights(split, trials[LINEAR]),
        "embedding": Weights(split, trials[version]),
    }
    of_standardised, of_embedded = (
        {title: one.by_relevance(power) for title, power in POWERS.items()}
        for one in by_weights.values()
    )
    fits = {
        "standardised": standardised,
        "columns": columns,
        "ranks": ranks,
        "embedding": embedded,
        "additive": sum_of_additive,
        "best of 3": best(*three),
        "best of 4": best(*three, sum_of_additive),
        "sum of 2": two_summed,
        "sum of 3": three_summed,
        "sum of 2 and additive": sum_of(standardised, embedded, sum_of_additive),
        "sum of 3 and additive": sum_of(*three, sum_of_additive),
        "best sum": best(*three, two_summed, three_summed),
        "average of 2": averaged((standardised, embedded), Y),
        "average of best 2": averaged(sorted(three, key=lambda fit: fit.error)[:2], Y),
        **{f"standardised r^{power}": fit for power, fit in of_standardised.items()},
        "standardised weights": best(standardised, *of_standardised.values()),
        **{f"embedding r^{power}": fit for power, fit in of_embedded.items()},
        "embedding weights": best(embedded, *of_embedded.values()),
        "embedding twice": by_weights["embedding"].by_relevance(POWERS["¼"], rounds=2),
        "embedding descent": by_weights["embedding"].by_descent(PENALTY),
    }
    own = {name: split.scores(fit) for name, fit in fits.items()} | searched(fold)
    return {name: own[name] for name in VARIANTS}


def searched(fold: Fold) -> dict[str, dict[str, float]]:
    """The scores of the estimators' own search, and of what may stand in its place."""
    split = Split(fold)
    trials = {budget: split.search(*split.scalings, budget=budget) for budget in BUDGETS}
    fits = {f"search {budget}": split.fit(own[0]) for budget, own in trials.items()}
    ahead = [split.fit(trial) for trial in trials[OF_OTHERS][:5]]
    fits |= {f"search, mean of {few}": averaged(ahead[:few], split.Y) for few in (3, 5)}
    for measure in ("log loss", "accuracy"):
        objective = ByLabels(False, mean=tuple(split.mean), measure=measure)
        own = split.search(*split.scalings, budget=OF_OTHERS, objective=objective)
        fits[f"search by {measure}"] = split.fit(own[0])
    return {name: split.scores(fit) for name, fit in fits.items()}
