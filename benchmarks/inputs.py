"""The inputs that both sides of a benchmark make for themselves."""

import gzip
from pathlib import Path

import numpy as np


def make_inputs(n: int, d: int, lengths: str) -> np.ndarray:
    """Gaussian points of unequal lengths, or each standardised by itself like the paper's
    images.
    """
    X = np.random.default_rng(0).normal(size=(n, d))
    if lengths == "unequal":
        return X * np.random.default_rng(1).uniform(0.5, 1.5, size=(n, 1))
    X -= X.mean(axis=1, keepdims=True)
    return X / X.std(axis=1, keepdims=True)


def read_idx(folder: Path, name: str) -> np.ndarray:
    """One of MNIST's files, compressed or not, in the format of its authors."""
    path = next((path for path in sorted(folder.rglob(f"{name}*")) if path.is_file()), None)
    if path is None:
        raise SystemExit(f"there is no {name} in {folder}")
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    shape = [int.from_bytes(raw[4 + 4 * k : 8 + 4 * k], "big") for k in range(raw[3])]
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def make_images(n: int, side: int, dtype: str) -> np.ndarray:
    """Images of three channels: noise, smoothed a little, so that neighbours are alike."""
    images = np.random.default_rng(0).normal(size=(n, side, side, 3))
    images += np.roll(images, 1, axis=1) + np.roll(images, 1, axis=2)
    return (images / np.sqrt(3.0)).astype(dtype)
