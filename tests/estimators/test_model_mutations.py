"""A thousand mutated model files: each is refused, or predicts, or says why not."""

import contextlib
import math
import time
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_linnerud

import mnngp
from mnngp import (
    GELU,
    LeakyReLU,
    Maxout,
    MaxoutGPClassifier,
    MaxoutGPRegressor,
    MaxoutKernel,
    NetworkKernel,
)
from mnngp.errors import MnngpError, ModelFileError
from tests.estimators.model_files import (
    LABELS,
    NAMES,
    QUICK,
    X,
    replaced,
    rewritten,
    with_value,
)

GIVEN = (2, 2, 1.0, 0.1, "nngp", 0.1)
LAYERS = [Maxout(3), LeakyReLU(0.1), GELU()]


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Files of all kinds, each with points and the predictions of its model there."""
    rng = np.random.default_rng(0)
    inputs, targets = load_linnerud(return_X_y=True)
    many = rng.normal(size=(300, 2))
    models = {
        "chosen": (MaxoutGPRegressor(**QUICK), X[:60, :3], X[:60, 3]),
        "factor of 361 kB": (MaxoutGPRegressor(*GIVEN), many, np.sin(many[:, 0])),
        "float32": (
            MaxoutGPRegressor(*GIVEN, dtype="float32", normalize="sphere"),
            X[::3, :3],
            X[::3, 3],
        ),
        "without a factor": (
            MaxoutGPRegressor(2, 2, (1.0, 0.9, 0.8), 0.1, "ntk", 0.1, solver="cg"),
            many[:80],
            many[:80, 0],
        ),
        "several targets": (MaxoutGPRegressor(*GIVEN[:5], normalize=None), inputs / 100.0, targets),
        "strings": (
            MaxoutGPClassifier(*GIVEN),
            pd.DataFrame(X[::4], columns=list("abcd")),
            NAMES.astype(object)[LABELS[::4]],
        ),
        "two classes": (MaxoutGPClassifier(*GIVEN, solver="cg"), X[:99:3], LABELS[:99:3]),
        "given kernel": (
            MaxoutGPRegressor(kernel=NetworkKernel(LAYERS, [1.0, 0.9, 0.8, 1.1], 0.2), **QUICK),
            X[:40, :3],
            X[:40, 3],
        ),
        "weighted classes": (
            MaxoutGPClassifier(
                kernel=MaxoutKernel(2, 3, weight_var_bounds="fixed", bias_var_bounds=(0.1, 1.0)),
                class_weight={0: 1.0, 1: 2.5, 2: 0.5},
                **QUICK,
            ),
            X[::4],
            LABELS[::4],
        ),
    }
    files = {}
    for name, (model, points, y) in models.items():
        path = tmp_path_factory.mktemp("originals") / "m"
        model.fit(points, y)
        if name in ("chosen", "strings"):
            assert model.loo_.__class__  # the precision is in the file
            model.process_.posterior.precision()
        model.save(path)
        files[name] = path.read_bytes(), points[:3], answers(mnngp.load(path), points[:3])
        for mine, theirs in zip(answers(model, points[:3]), files[name][2], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert any(len(data) > 300_000 for data, _, _ in files.values())
    return files


def answers(model, points):
    if hasattr(model, "classes_"):
        return [model.predict(points), model.predict_proba(points)]
    return list(model.predict(points, return_std=True))


def damaged(data, rng):
    """A file as a bad disk, a bad line or an editor leaves it."""
    changed = bytearray(data)
    # Most of a file is numbers of arrays. The rest of it deserves as many changes: headers, names,
    # the directory.
    signs = [
        data.find(sign, int(rng.integers(len(data))))
        for sign in (b"PK", b"NUMPY", b"model.json", b'"')
    ]
    place = (
        int(rng.integers(len(data)))
        if rng.random() < 0.3
        else max(0, int(rng.choice(signs)) + int(rng.integers(-8, 120)))
    )
    place, length = min(place, len(data) - 1), int(rng.integers(1, 200))
    how = rng.choice(
        ["bit", "byte", "bytes", "zeros", "swap", "cut", "lose", "repeat"],
        p=[0.3, 0.3, 0.1, 0.06, 0.06, 0.06, 0.06, 0.06],
    )
    if how == "bit":
        changed[place] ^= 1 << int(rng.integers(8))
    elif how == "byte":
        changed[place] = int(rng.integers(256))
    elif how == "bytes":
        changed[place : place + 8] = rng.bytes(8)
    elif how == "zeros":
        changed[place : place + length] = bytes(length)
    elif how == "swap":
        other = int(rng.integers(len(data)))
        changed[place], changed[other] = changed[other], changed[place]
    elif how == "cut":
        del changed[place:]
    elif how == "lose":
        del changed[place : place + length]
    else:
        changed[place:place] = changed[place : place + length]
    return bytes(changed)


def test_damaged_files(originals, tmp_path):
    """600 of the 1,000 mutated files: each is refused, or it has the same predictions to the last
    bit.
    """
    rng, path, refused = np.random.default_rng(1), tmp_path / "m", 0
    names = list(originals)
    for number in range(600):
        data, points, expected = originals[names[number % len(names)]]
        path.write_bytes(damaged(data, rng))
        try:
            model = mnngp.load(path)
        except ModelFileError:
            refused += 1
            continue
        for value, right in zip(answers(model, points), expected, strict=True):
            np.testing.assert_array_equal(value, right)
    assert 400 < refused < 600  # some are in time stamps


def test_the_header_of_a_large_array(originals, tmp_path):
    """Too large for the archive's own checksum to be reached before NumPy parses the header: our
    digest must be there first.
    """
    data, path, rng = originals["factor of 361 kB"][0], tmp_path / "m", np.random.default_rng(3)
    start = data.index(b"\x93NUMPY", data.index(b"factor.npy"))
    for place in range(start, start + 128):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(ModelFileError, match="damaged"):
            mnngp.load(path)


ODD_VALUES = (
    10**7,
    10**12,
    2**63,
    10**4000,
    -1,
    0,
    1,
    2,
    True,
    False,
    None,
    "",
    "4",
    "NaN",
    "-Infinity",
    "x" * 2000,
    "\ud800",
    1.5,
    -0.0,
    1e-320,
    1e308,
    -1e308,
    math.nan,
    math.inf,
    -math.inf,
    [],
    [1],
    [[1.0]],
    [1.0, math.nan, -2.0],
    [None] * 50,
    {},
    {"a": 1},
    {"depth": 10**9},
    "float32",
    "float64",
    "ntk",
    "sphere",
    "cg",
    "fixed",
    "Tanh",
    "TabulatedMaxout",
    "NetworkKernel",
    "balanced",
    [[0, 1.0], [0, math.nan]],
    {"class": "Maxout", "rank": 10**12},
    {"class": "LeakyReLU", "negative_slope": 1e300},
    [{"class": "ReLU"}],
    [{"class": "Tanh"}] * 2000,
    "i8",
    "(2,)f8",
    "O",
)


def numbers(a):
    return np.zeros(a.shape) if a.dtype.kind == "U" else a.astype(float)


ODD_ARRAYS = (
    lambda a, rng: a[:-1],
    lambda a, rng: np.concatenate([a, a]),
    lambda a, rng: a[..., None],
    lambda a, rng: a.reshape(-1),
    lambda a, rng: a[:0],
    lambda a, rng: np.array(1.0),
    lambda a, rng: np.asfortranarray(a),
    lambda a, rng: rng.permutation(a),
    lambda a, rng: a.astype("<U8"),
    lambda a, rng: a.astype("<U8").astype("S8"),
    lambda a, rng: np.zeros(
        a.shape,
        rng.choice(
            ["<f8", "<f4", "<f2", ">f8", "<i8", "<i4", "|b1", "<c16", "<M8[s]", "<U3", "|V4"]
        ),
    ),
    lambda a, rng: np.full(
        a.shape,
        rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-320, 1e308, 1e-300, 1e150, 1.0, 0.5]),
    ),
    lambda a, rng: with_value(
        rng.choice([np.nan, np.inf, -1.0, 0.0, 1e-320, 1e300]), rng.integers(a.size)
    )(numbers(a)),
    lambda a, rng: rng.normal(size=a.shape),
    lambda a, rng: rng.integers(0, 2**62, size=a.shape),
    lambda a, rng: np.frombuffer(rng.bytes(a.nbytes), a.dtype).reshape(a.shape),
)


def leaves(header):
    """Every place in the header: the thing that holds it, and its key."""
    found = []
    for key in header if isinstance(header, dict) else range(len(header)):
        found.append((header, key))
        if isinstance(header[key], dict | list):
            found += leaves(header[key])
    return found


def forged(header, members, rng):
    """What somebody who knows the format could write: the digests fit."""
    if rng.random() < 0.5:
        where, key = (entries := leaves(header))[rng.integers(len(entries))]
        if rng.random() < 0.1:
            del where[key]
        else:
            where[key] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
        return
    names = [name for name in members if name.endswith(".npy")]
    name = names[rng.integers(len(names))].removesuffix(".npy")
    with np.errstate(all="ignore"):
        replaced(
            name,
            lambda a: ODD_ARRAYS[rng.integers(len(ODD_ARRAYS))](a, rng) if a.size else np.ones(3),
        )(header, members)


def test_forged_files(originals, tmp_path):
    """The other 400: each is refused, or predicts, or says in our words why not; soon, and in
    memory of the file's size.
    """
    rng, path, refused = np.random.default_rng(2), tmp_path / "m", 0
    names = list(originals)
    tracemalloc.start()
    try:
        for number in range(400):
            data, points, _ = originals[names[number % len(names)]]
            path.write_bytes(rewritten(data, lambda header, members: forged(header, members, rng)))
            before, began = tracemalloc.get_traced_memory()[0], time.process_time()
            tracemalloc.reset_peak()
            try:
                model = mnngp.load(path)
            except ModelFileError:
                refused += 1
                model = None
            assert tracemalloc.get_traced_memory()[1] - before < len(data) + (4 << 20)
            if model is not None:
                # Numbers that no fit gives may overflow, and a system with them need not have a
                # solution.
                with contextlib.suppress(MnngpError), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    assert [len(value) for value in answers(model, np.asarray(points))] == [3, 3]
                assert tracemalloc.get_traced_memory()[1] - before < 2 * len(data) + (32 << 20)
            assert time.process_time() - began < 10.0
    finally:
        tracemalloc.stop()
    assert 200 < refused < 390
