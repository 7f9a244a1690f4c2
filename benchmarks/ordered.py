"""The ordered phase on MNIST: the paper's failed cells (its figure 3), with the same accuracy at
every depth.

    python benchmarks/ordered.py --mnist DIR     DIR holds MNIST's four files

n = 1,000 training images, rank 2, bias variance 0.34, weight variance 0.1, noise 1e-10, accuracy on
5,000 test images. "Plain" is the Cholesky factorisation of K + noise with the paper's policy,
signal variance one, as anybody would write it. "Distance form" is the classifier, which differs in
two things and needs both. It finds its signal variance: with a signal of one the noise hides what
the images differ by from depth 9 on, and the distance form is exactly as poor as "plain". And it
factors distances: with the signal found variance, rounding ends the plain factorisation at depth
13. docs/guide.md, "The ordered phase", has all four for digits.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from inputs import read_idx
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mnngp import MaxoutGPClassifier, MaxoutKernel
from mnngp.kernels.evaluate import distances

DEPTHS = (1, 5, 9, 13, 21, 50, 100, 300)


def plain(
    kernel: MaxoutKernel, X: np.ndarray, y: np.ndarray, new: np.ndarray
) -> tuple[np.ndarray, float]:
    matrix, noise = kernel(X), 1e-10
    while True:
        try:
            factor = cho_factor(matrix + noise * np.eye(len(X)), lower=True)
            break
        except LinAlgError:
            noise *= 10.0
    return (kernel(new, X) @ cho_solve(factor, np.eye(10)[y] - 0.1)).argmax(axis=1), noise


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mnist", required=True, metavar="DIR")
    folder = Path(parser.parse_args().mnist)
    images, labels = (
        read_idx(folder, name) for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    )
    new, answers = (
        read_idx(folder, name)[:5000]
        for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    )
    X, y, new = (
        images[:1000].reshape(1000, -1).astype(float),
        labels[:1000],
        new.reshape(5000, -1).astype(float),
    )
    # "Lengths that differ": the standardised images times ½ … 1½, which no normalisation undoes.
    rows = [
        (part - part.mean(axis=1, keepdims=True)) / part.std(axis=1, keepdims=True)
        for part in (X, new)
    ]
    stretched = [part * np.linspace(0.5, 1.5, len(part))[:, None] for part in rows]
    lines = [
        "| depth | mean u | plain | distance form | lengths that differ: plain | distance form |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for depth in DEPTHS:
        kernel = MaxoutKernel(depth, 2, 0.1, 0.34)
        cells = []
        for train, test in (rows, stretched):
            predicted, _ = plain(kernel, train, y, test)
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # nothing may have to be added
                model = MaxoutGPClassifier(depth, 2, 0.1, 0.34, "nngp", 1e-10, normalize=None).fit(
                    train, y
                )
            cells += [np.mean(predicted == answers), model.score(test, answers)]
        u = distances(kernel.network, kernel.points(rows[0])[0])
        lines.append(
            f"| {depth} | {u.sum() / (u.size - len(u)):.0e} | "
            + " | ".join(f"{cell:.4f}" for cell in cells)
            + " |"
        )
        print(lines[-1], flush=True)
    (Path(__file__).parent / "results" / "ordered.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
