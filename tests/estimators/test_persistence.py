"""Model files: the same predictions after a round trip, and clear errors for files that are not
what they should be.
"""

import contextlib
import hashlib
import io
import json
import math
import os
import pickle
import time
import tracemalloc
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_linnerud

import mnngp
from mnngp import MaxoutGPClassifier, MaxoutGPRegressor, MaxoutKernel
from mnngp.errors import InputError, MnngpError, ModelFileError

X, LABELS = load_iris(return_X_y=True)
QUICK = {"max_trials": 3, "random_state": 0}


@pytest.fixture(scope="module")
def small_model():
    return MaxoutGPRegressor(**QUICK).fit(X[:, :3], X[:, 3])


@pytest.fixture
def saved(tmp_path, small_model):
    path = tmp_path / "model.mnngp"
    small_model.save(path)
    return path


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("normalize", ["standard", "sphere", None])
def test_regressor_round_trip(tmp_path, dtype, normalize):
    inputs, y = load_linnerud(return_X_y=True)
    model = MaxoutGPRegressor(
        **QUICK, dtype=dtype, normalize=normalize, weight_var=[0.3, 0.4, 0.5], depth=2
    ).fit(inputs, y)
    model.save(tmp_path / "m")
    again = mnngp.load(str(tmp_path / "m"))
    for method in (
        lambda m: m.predict(inputs),
        lambda m: m.predict(inputs, return_std=True)[1],
        lambda m: m.predict(inputs, return_cov=True)[1],
        lambda m: m.sample_y(inputs, 2),
        lambda m: m.loo_.mean,
        lambda m: m.log_marginal_likelihood_,
        lambda m: m.noise_var_,
        lambda m: m.signal_var_,
    ):
        np.testing.assert_array_equal(method(again), method(model))
    assert again.report_ == model.report_
    assert again.kernel_ == model.kernel_
    assert again.get_params() == {**model.get_params(), "weight_var": [0.3, 0.4, 0.5]}
    assert [trial["score"] for trial in again.trials_] == [
        trial["score"] for trial in model.trials_
    ]


NAMES = np.array(["a", "bb", "c"])


DAYS = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[D]")


@pytest.mark.parametrize(
    "labels", [LABELS, NAMES[LABELS], NAMES.astype(object)[LABELS], LABELS > 0, DAYS[LABELS]]
)
def test_classifier_round_trip(tmp_path, labels):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = MaxoutGPClassifier(**QUICK).fit(frame, labels)
    model.save(tmp_path / "m")
    again = mnngp.load(tmp_path / "m")
    for name in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(again, name)(frame), getattr(model, name)(frame))
    assert again.classes_.dtype == model.classes_.dtype
    assert again.loo_.log_loss == model.loo_.log_loss
    np.testing.assert_array_equal(again.feature_names_in_, model.feature_names_in_)
    again.save(tmp_path / "again")  # a loaded model is a model
    np.testing.assert_array_equal(
        mnngp.load(tmp_path / "again").predict_proba(frame), model.predict_proba(frame)
    )
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(again)).predict(frame), model.predict(frame)
    )


def test_ordered_phase_round_trip(tmp_path):
    model = MaxoutGPClassifier(21, 2, 0.1, 0.34, "nngp", 1e-10).fit(X, LABELS)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(
        mnngp.load(tmp_path / "m").predict_proba(X), model.predict_proba(X)
    )


def rewrite(path, change, compression=zipfile.ZIP_STORED):
    """Change the header, with a digest that fits: what somebody who knows the format could do."""
    path.write_bytes(rewritten(path.read_bytes(), change, compression))


def rewritten(data, change, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["model.json"])
    change(header, members)
    members["model.json"] = json.dumps(header).encode()
    members["model.sha256"] = hashlib.sha256(members["model.json"]).hexdigest().encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, part in members.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def test_truncated(saved):
    data = saved.read_bytes()
    for length in (0, 10, len(data) // 2, len(data) - 1):
        saved.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="not a model file, or is cut off"):
            mnngp.load(saved)


def test_every_changed_byte_is_noticed(saved):
    data = saved.read_bytes()
    expected = mnngp.load(saved).predict(X[:, :3])
    for position in np.random.default_rng(0).integers(0, len(data), size=60):
        changed = bytearray(data)
        changed[position] ^= 0x10
        saved.write_bytes(bytes(changed))
        # noticed, or a byte (in a time stamp of the archive) that changes nothing
        with contextlib.suppress(ModelFileError):
            np.testing.assert_array_equal(mnngp.load(saved).predict(X[:, :3]), expected)


def test_a_changed_array_is_noticed(saved):
    def change(header, members):
        data = bytearray(members["alpha.npy"])
        data[-1] ^= 1
        members["alpha.npy"] = bytes(data)

    rewrite(saved, change)
    with pytest.raises(
        ModelFileError, match="was changed or damaged: alpha does not match its digest"
    ):
        mnngp.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda h, m: h.update(version=2, mnngp="9.0"),
            r"has version 2 of the format \(written by mnngp '9.0'\).*install a newer one",
        ),
        (lambda h, m: h.update(format="other"), "its format is not 'mnngp-model'"),
        (
            lambda h, m: h.update({"class": "os.system"}),
            "a model of class 'os.system' is not known",
        ),
        (lambda h, m: h.update({"class": ["MaxoutGPRegressor"]}), "class must be of type str, got"),
        (
            lambda h, m: h["kernel"].update(rank=-1),
            r"kernel\.rank must be a whole number from 1 to 1,000,000 in a model file, got -1",
        ),
        (
            lambda h, m: h["kernel"].update(depth=10**7),
            r"kernel\.depth must be a whole number from 1 to 10,000 in a.*, got 10000000",
        ),
        (
            lambda h, m: h["kernel"].update(depth=10**12),
            r"kernel\.depth must be .* from 1 to "
            r"10,000 .*, got 1000000000000",
        ),
        (
            lambda h, m: h["kernel"].update(depth=10**4000),
            r"kernel\.depth must be .* from 1 to "
            r"10,000 .*, got 1000.* …",
        ),
        (
            lambda h, m: h["kernel"].update(weight_var=1e201),
            r"kernel\.weight_var must be a finite number above 0 and at most 1e\+200",
        ),
        (
            lambda h, m: h["kernel"].update(bias_var=[0.1]),
            r"kernel\.bias_var must be one number, "
            r"or \d numbers",
        ),
        (
            lambda h, m: h["kernel"].update(dtype="f8," * 3),
            r"kernel\.dtype must be 'float64' or "
            r"'float32'",
        ),
        (lambda h, m: h["kernel"].update(other=1), "kernel must have the keys depth, rank"),
        (
            lambda h, m: h["parameters"].update(depth=10**7),
            r"parameters\.depth must be a whole "
            r"number from 1 to 10,000",
        ),
        (
            lambda h, m: h["parameters"].update(evil=1),
            "a MaxoutGPRegressor has no parameter 'evil'",
        ),
        (
            lambda h, m: h["parameters"].update(weight_var=[[1.0], [2.0, 3.0]]),
            r"parameters\.weight_var\[0\] must be a number",
        ),
        (
            lambda h, m: h["parameters"].update(random_state=-1),
            r"parameters\.random_state must be "
            r"a whole number from 0",
        ),
        (
            lambda h, m: h.update(contraction=0.0),
            "contraction must be a finite number at least 2.2.*e-308 and at most 1, got 0.0",
        ),
        (
            lambda h, m: h.update(signal_var="NaN"),
            "signal_var must be a finite number above 0, got 'NaN'",
        ),
        (lambda h, m: h.update(noise=-1.0), "noise must be a finite number at least 0, got -1.0"),
        (
            lambda h, m: h.update(noise=float("nan")),
            "noise must be a finite number at least 0, got nan",
        ),
        (
            lambda h, m: h.update(rows=10**12),
            r"below rows = 1000000000000, which with 150 rows .* "
            r"is at most 1,150,000",
        ),
        (lambda h, m: h.update(rows=149), "below rows = 149"),
        (
            lambda h, m: h["trials"][0].update(depth=10**7),
            r"trials\[0\]\.depth must be a whole "
            r"number from 0 to 10,000",
        ),
        (
            lambda h, m: h["trials"][0].update(score=[[1]]),
            r"trials\[0\]\.score\[0\] must be a "
            r"number, a short text",
        ),
        (
            lambda h, m: h["report"].update(attempts="1"),
            r"report\.attempts must be of type int, "
            r"got '1'",
        ),
        (lambda h, m: h["report"].pop("condition"), r"report\.condition is missing"),
        (
            lambda h, m: h.update(feature_names=["a", "b"]),
            "feature_names must be 3 names or none, got 2",
        ),
        (lambda h, m: h.update(feature_names=[1, 2, 3]), "feature_names must be texts"),
        (lambda h, m: h.update(table=[]), "table must be of type"),
        (lambda h, m: h.update(flat=None), "a regressor must say whether its targets are flat"),
        (lambda h, m: h.pop("kernel"), "kernel is missing in model.json"),
        (lambda h, m: h["arrays"].pop("factor"), "the array factor is missing"),
        (lambda h, m: m.pop("factor.npy"), "factor.npy is missing"),
        (lambda h, m: m.update({"precision.npy": b""}), "precision.npy is not in its header"),
        (
            lambda h, m: h.update(noise=1e308) or replaced("unit", with_value(1e10))(h, m),
            "noise must be finite in the units",
        ),
        (
            lambda h, m: h["arrays"].update(classes="0"),
            "the array 'classes' is none that such a model has",
        ),
        (lambda h, m: h.update(factored=False), "the array 'factor' is none that such a model has"),
    ],
)
def test_headers_that_do_not_fit(saved, change, message):
    rewrite(saved, change)
    began = time.process_time()
    with pytest.raises(ModelFileError, match=message):
        mnngp.load(saved)
    assert time.process_time() - began < 1.0  # of a processor, busy or not; 5 ms


def replaced(name, array):
    """A change of the file: one array is another, with its digest."""

    def change(header, members):
        buffer = io.BytesIO()
        np.save(buffer, array(np.load(io.BytesIO(members[f"{name}.npy"]))))
        members[f"{name}.npy"] = buffer.getvalue()
        header["arrays"][name] = hashlib.sha256(buffer.getvalue()).hexdigest()

    return change


def with_value(value, where=0):
    def change(array):
        array = array.copy()
        array.flat[where] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "alpha",
            lambda a: np.zeros((3, 1)),
            r"alpha must have the shape \(\d+, 1\), got \(3, 1\)",
        ),
        ("alpha", lambda a: a[:, 0], r"alpha must have the shape \(\d+, 1\), got \(\d+,\)"),
        (
            "alpha",
            lambda a: a.astype(np.float32),
            "alpha cannot be an array of float32, it must be one of float64",
        ),
        ("alpha", lambda a: a.astype(">f8"), "alpha cannot be an array of >f8"),
        ("directions", lambda a: a[:, :0], "directions must not be empty"),
        (
            "directions",
            with_value(2.0),
            r"directions must be finite and from -1.001 to 1.001, got "
            r"values from .* to 2.0",
        ),
        (
            "scaling_mean",
            with_value(np.nan),
            "scaling_mean must be finite, got values from nan to nan",
        ),
        ("scaling_mean", lambda a: a[:2], r"scaling_mean must have the shape \(3,\), got \(2,\)"),
        (
            "scaling_scale",
            with_value(0.0),
            "scaling_scale must be finite and above zero, got values from 0.0",
        ),
        (
            "scaling_scale",
            with_value(np.nan),
            "scaling_scale must be finite and above zero, got values from nan",
        ),
        (
            "scaling_scale",
            lambda a: a[:, None],
            r"scaling_scale must have the shape \(3,\), got "
            r"\(3, 1\)",
        ),
        (
            "square_lengths",
            with_value(-1.0),
            "square_lengths must be finite and not negative, got values from -1.0",
        ),
        ("y", with_value(np.inf), "y must be finite, got values from .* to inf"),
        ("weight", with_value(0.0), "weight must be finite and above zero, got values from 0.0"),
        ("part", with_value(-1.0), "part must be finite and above zero"),
        ("within", with_value(-1.0), "within must be finite and not negative"),
        ("noise_var", with_value(-1.0), "noise_var must be finite and not negative"),
        ("deviation", with_value(0.0), "deviation must be finite and above zero"),
        ("beta", with_value(np.nan), "beta must be finite"),
        ("t", with_value(np.nan), "t must be finite"),
        ("offset", with_value(1e200), r"offset must be finite and from -1e\+154 to 1e\+154"),
        ("unit", with_value(1e200), "unit must be finite and above zero"),
        ("factor", with_value(np.nan, 7), "factor must be finite"),
        ("factor", np.asfortranarray, "factor must be by rows"),
        ("factor", with_value(0.0, 1), "the diagonal of factor must be finite and above zero"),
        ("row", lambda a: a[::-1], "rows must be numbers that ascend"),
        ("row", with_value(1), "rows must be numbers that ascend"),
        ("row", with_value(10**9, -1), "rows must be numbers that ascend, below rows = 150"),
        ("row", with_value(-1), "row must be finite and not negative, got values from -1"),
        ("place", with_value(-1), "place must be finite and not negative, got values from -1"),
        ("place", with_value(10**9), "rows must belong to .* places"),
        ("place", np.zeros_like, "rows must belong to .* none must have no row"),
        ("row_weight", with_value(0.0), "row_weight must be finite and above zero"),
        (
            "row_y",
            lambda a: np.hstack([a, a]),
            r"row_y must have the shape \(150, 1\), got \(150, "
            r"2\)",
        ),
    ],
)
def test_arrays_that_do_not_fit(saved, name, change, message):
    rewrite(saved, replaced(name, change))
    with pytest.raises(ModelFileError, match=message):
        mnngp.load(saved)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        b"[]",
        b'"mnngp-model"',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"format": ' + b"1" * 5000 + b"}",
        b'{"format": "mnngp-model", "version": ' + b"[" * 900 + b"]" * 900 + b"}",
        b"1" * 100,
    ],
)
def test_headers_that_are_no_headers(saved, text):
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    archive_of(
        saved,
        ({**members, "model.json": text, "model.sha256": hashlib.sha256(text).hexdigest()}).items(),
    )
    with pytest.raises(ModelFileError, match="does not hold a model that can be read"):
        mnngp.load(saved)


@pytest.fixture(scope="module")
def small_classifier():
    model = MaxoutGPClassifier(1, 2, 1.0, 0.1, "nngp", 0.1).fit(
        X[::5], NAMES.astype(object)[LABELS[::5]]
    )
    assert len(model.loo_.prediction) == 30  # and with it the precision
    return model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replaced("classes", lambda c: c[:2]), r"classes must have the shape \(3,\), got \(2,\)"),
        (
            replaced("classes", lambda c: c[::-1]),
            "classes must be in ascending order, each label once",
        ),
        (
            replaced("classes", lambda c: c[[0, 0, 1]]),
            "classes must be in ascending order, each label once",
        ),
        (
            replaced("classes", lambda c: np.array([0.0, 1.0, np.nan])),
            "classes must be finite, got nan",
        ),
        (
            replaced("classes", lambda c: np.arange(3)),
            "classes must be texts if they are objects, got int64",
        ),
        (
            replaced("classes", lambda c: np.arange(3) + 0j),
            "classes cannot be an array of complex128",
        ),
        (
            replaced("classes", lambda c: np.array([1, 2, 0xFFFFFFFF], np.uint32).view("<U1")),
            "got bytes that are none",
        ),
        (
            replaced("classes", lambda c: np.array([0, 1, 2], np.uint8).view(bool)),
            "got bytes that are none",
        ),
        (replaced("precision", with_value(np.nan)), "precision must be finite"),
        (
            lambda h, m: h["calibration"].update(sharpness="Infinity"),
            "calibration.sharpness must be a finite number above 0",
        ),
        (
            lambda h, m: h["calibration"].update(unit=0.0),
            "calibration.unit must be a finite number above 0",
        ),
        (
            lambda h, m: h["calibration"].update(floor=2.0),
            "calibration.floor must be a finite number at least 0 and at most 1",
        ),
        (lambda h, m: h.pop("calibration"), "calibration must have the keys"),
        (lambda h, m: h.update(classes_are_objects=1), "classes_are_objects must be true or false"),
    ],
)
def test_classifiers_that_do_not_fit(tmp_path, small_classifier, change, message):
    small_classifier.save(tmp_path / "m")
    rewrite(tmp_path / "m", change)
    with pytest.raises(ModelFileError, match=message):
        mnngp.load(tmp_path / "m")


def test_the_json_is_strict(tmp_path):
    """Everything given: nothing was tried, so the trial has no score. Files of before, with
    -Infinity in them, are read as well.
    """
    model = MaxoutGPRegressor(1, 2, 1.0, 0.1, "nngp", 0.1).fit(X[:20, :3], X[:20, 3])
    path = tmp_path / "m"
    model.save(path)

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("model.json"), parse_constant=refuse)
    assert header["trials"][0]["score"] == "-Infinity"
    assert mnngp.load(path).trials_ == model.trials_
    assert model.trials_[0]["score"] == -math.inf
    rewrite(path, lambda h, m: h["trials"][0].update(score=-math.inf, noise_ratio=math.nan))
    with zipfile.ZipFile(path) as archive:
        assert b"-Infinity," in archive.read("model.json")
    again = mnngp.load(path)
    assert again.trials_[0]["score"] == -math.inf
    assert math.isnan(again.trials_[0]["noise_ratio"])


def test_what_could_not_be_read_is_not_written(tmp_path, saved):
    before = saved.read_bytes()

    def attempt(message, **state):
        model = mnngp.load(saved)
        vars(model).update(state)
        with pytest.raises(InputError, match=f"the model cannot be saved: {message}"):
            model.save(saved)
        assert saved.read_bytes() == before

    attempt(
        "kernel.depth must be a whole number from 1 to 10,000 in a model file, got 10001",
        kernel_=MaxoutKernel(10_001, 2),
    )
    attempt("parameters.depth must be a whole number", depth=10**6)
    attempt("noise must be a finite number at least 0, got 'NaN'", _noise=math.nan)
    attempt("unit must be finite and above zero", _unit=np.array([np.inf]))
    attempt("rows must be numbers that ascend", _n_rows=10**9)
    attempt("the header must be numbers, texts", _table={"median": math.nan})
    attempt("the header must take at most 67,108,864 bytes", _table={"notes": "x" * (1 << 26)})
    model = MaxoutGPClassifier(1, 2, 1.0, 0.1, "nngp", 0.1).fit(
        X[:80], np.array(["a\0", "b"], dtype=object)[LABELS[:80]]
    )
    with pytest.raises(InputError, match="labels must not end in NUL"):
        model.save(tmp_path / "nul")


def test_memory(tmp_path):
    """Reading holds each array once, writing only a piece. Measured: 1.01 of a factor of 200 MB,
    and 17 MB, NumPy's own buffer.
    """
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    model = MaxoutGPRegressor(1, 2, 1.0, 0.1, "nngp", 0.1).fit(rows, rows[:, 0])
    size = model._posterior.inverse.packed.memory.nbytes
    tracemalloc.start()
    try:
        model.save(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 0.6 * size
        del model
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        again = mnngp.load(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] - before < 1.1 * size
    finally:
        tracemalloc.stop()
    assert again.predict(rows[:2]).shape == (2,)


def npy(shape, data, descr="<f8"):
    """A member in NumPy's format, whatever it claims."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue() + data


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (
            npy((1 << 40,), b"\0" * 64),
            r"alpha of the shape \(1099511627776,\) must take "
            r"8796093022208 bytes, got 64",
        ),
        (npy((2,), b"\0" * 64), r"alpha of the shape \(2,\) must take 16 bytes, got 64"),
        (npy((-1, -8), b"\0" * 64), r"alpha must have a shape that can be, .* got \(-1, -8\)"),
        (npy((8,), b"\0" * 64, "<i8"), "alpha cannot be an array of int64"),
        (npy((8,), b"\0" * 64)[:20], "alpha is no array in NumPy's format: ValueError: EOF"),
        (
            b"\x93NUMPY\x09\x00" + bytes(64),
            r"alpha must be in version 1.0 of NumPy's format, got "
            r"\(9, 0\)",
        ),
        (b"alpha", "alpha is no array in NumPy's format: ValueError"),
        (
            npy((8,), b"\0" * 64).replace(b"(8,), }", b"(8,),  "),
            "alpha is no array in NumPy's format: .*Error",
        ),
        (
            npy((8,), b"\0" * 64).replace(b"(8,), }", b"(8,)\\0}"),
            "alpha is no array in NumPy's format: .*Error",
        ),
        (
            npy((8,), b"\0" * 64).replace(b" }   ", b"-----"),
            "alpha is no array in NumPy's format: .*Error",
        ),
        (npy((8,), b"\0" * 64, [("a", "<f8")]), "alpha cannot be an array of "),
        (npy((8,), b"", "<U0"), "alpha cannot be an array of <U0"),
        (
            npy((1 << 18,), bytes(1 << 21)),
            r"alpha must take \d,\d{3} bytes and a header, got "
            r"2,097,280",
        ),
    ],
    ids=[
        "huge",
        "long",
        "negative",
        "integers",
        "cut off",
        "newer",
        "no header",
        "TokenError",
        "SyntaxError",
        "signs",
        "fields",
        "no width",
        "not read",
    ],
)
def test_arrays_that_are_not_what_they_claim(saved, member, message):
    def change(header, members):
        members["alpha.npy"] = member
        header["arrays"]["alpha"] = hashlib.sha256(member).hexdigest()

    rewrite(saved, change)
    with pytest.raises(ModelFileError, match=message):
        mnngp.load(saved)


def test_a_small_file_does_not_take_much_memory(saved):
    """Compressed, a gigabyte of zeros is a megabyte; and a directory can promise any length."""
    data = saved.read_bytes()
    zeros = npy((1 << 20,), bytes(1 << 23))

    def change(header, members):
        members["alpha.npy"] = zeros
        header["arrays"]["alpha"] = hashlib.sha256(zeros).hexdigest()

    rewrite(saved, change, zipfile.ZIP_DEFLATED)
    with pytest.raises(
        ModelFileError,
        match=r"is not as it was written: \w+\.\w+ is compressed or "
        r"encrypted",
    ):
        mnngp.load(saved)
    saved.write_bytes(data)
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("more", "")  # so that the directory is written again
        archive.getinfo("alpha.npy").file_size = archive.getinfo("alpha.npy").compress_size = (
            1 << 40
        )
    with pytest.raises(ModelFileError, match="its parts are larger than the file"):
        mnngp.load(saved)


def test_a_directory_that_leads_nowhere(saved):
    data = bytearray(saved.read_bytes())
    data[-3] ^= 0x80  # of the place where the archive's directory begins
    saved.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"is not as it was written: .* overlap"):
        mnngp.load(saved)


def archive_of(path, members):
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in members:
            archive.writestr(name, data)


def test_archives_that_nobody_wrote(saved):
    data = saved.read_bytes()
    with zipfile.ZipFile(saved) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
        place = archive.getinfo("alpha.npy").header_offset
    for name in ("../evil.npy", "/etc/evil", "alpha.npy/", "model.JSON", "evil.npy"):
        archive_of(saved, [*members, (name, b"")])
        with pytest.raises(
            ModelFileError, match=r"has a part .* which this mnngp .* does not know"
        ):
            mnngp.load(saved)
    for name in ("alpha.npy", "model.json"):
        archive_of(saved, [*members, (name, dict(members)[name])])
        with pytest.raises(ModelFileError, match="two parts of the same name"):
            mnngp.load(saved)

    def directory(change):
        """With another entry of alpha in the directory; the parts are as they were."""
        saved.write_bytes(data)
        with zipfile.ZipFile(saved, "a") as archive:
            change(archive.getinfo("alpha.npy"))
            archive._didModify = True
        with pytest.raises(ModelFileError) as caught:
            mnngp.load(saved)
        return str(caught.value)

    assert "encrypted" in directory(lambda member: setattr(member, "flag_bits", 1))
    assert "zip file version" in directory(
        lambda member: (
            setattr(member, "create_version", 99) or setattr(member, "extract_version", 99)
        )
    )
    assert "overlap" in directory(lambda member: setattr(member, "header_offset", place - 30))
    assert "overlap" in directory(lambda member: setattr(member, "header_offset", 1 << 40))
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, 99):
        assert "is compressed" in directory(
            lambda member, method=method: setattr(member, "compress_type", method)
        )
    assert "cut off or damaged" in directory(lambda member: setattr(member, "CRC", 1))


def test_a_file_of_holes(saved):
    """A part that claims a gigabyte, and has it: in a file with a hole, which takes no room on the
    disk.
    """
    with zipfile.ZipFile(saved) as archive:
        members = [
            (name, archive.read(name)) for name in archive.namelist() if name != "factor.npy"
        ]
    archive_of(saved, [*members, ("factor.npy", b"")])
    size = 1 << 30
    with open(saved, "r+b") as file, zipfile.ZipFile(file, "a") as archive:
        member = archive.getinfo("factor.npy")
        member.file_size = member.compress_size = size
        archive.start_dir += size  # where the directory is written
        archive._didModify = True
    assert saved.stat().st_size > size
    tracemalloc.start()
    try:
        with pytest.raises(
            ModelFileError,
            match=r"factor must take [\d,]+ bytes and a header, got "
            r"1,073,741,824",
        ):
            mnngp.load(saved)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


class Bomb:
    """Runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_inside_is_not_opened(saved, tmp_path):
    bomb = Bomb(tmp_path / "exploded")

    def change(header, members):
        buffer = io.BytesIO()
        np.save(buffer, np.array([bomb], dtype=object), allow_pickle=True)
        members["alpha.npy"] = buffer.getvalue()
        header["arrays"]["alpha"] = hashlib.sha256(buffer.getvalue()).hexdigest()

    rewrite(saved, change)
    with pytest.raises(ModelFileError, match="alpha cannot be an array of object"):
        mnngp.load(saved)
    assert not bomb.path.exists()
    saved.write_bytes(pickle.dumps(bomb))
    with pytest.raises(ModelFileError, match="not a model file"):
        mnngp.load(saved)
    assert not bomb.path.exists()


def test_other_archives(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(ModelFileError, match=r"model\.json is missing"):
        mnngp.load(path)
    with pytest.raises(FileNotFoundError):
        mnngp.load(tmp_path / "nothing")


def test_writing_is_atomic(saved, monkeypatch):
    before = saved.read_bytes()
    model = MaxoutGPRegressor(**QUICK).fit(X[:, :2], X[:, 3])

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == ["model.mnngp"]
    monkeypatch.undo()
    model.save(saved)
    assert mnngp.load(saved).n_features_in_ == 2


def test_where_it_cannot_be_written(tmp_path):
    model = MaxoutGPRegressor(**QUICK).fit(X[:, :2], X[:, 3])
    with pytest.raises(InputError, match="is a folder; name a file to write"):
        model.save(tmp_path)
    with pytest.raises(InputError, match=r"cannot be written: the folder .* does not exist"):
        model.save(tmp_path / "no" / "where")

    class Own(MaxoutGPRegressor):
        pass

    with pytest.raises(
        InputError,
        match="only a MaxoutGPClassifier or a MaxoutGPRegressor itself can be saved, got Own",
    ):
        Own(**QUICK).fit(X[:, :2], X[:, 3]).save(tmp_path / "own")


# --- mutated files --------------------------------------------------------------------------------

GIVEN = (2, 2, 1.0, 0.1, "nngp", 0.1)


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
    }
    files = {}
    for name, (model, points, y) in models.items():
        path = tmp_path_factory.mktemp("originals") / "m"
        model.fit(points, y)
        if name in ("chosen", "strings"):
            assert model.loo_.__class__  # the precision is in the file
            model._posterior.precision()
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
        where, key = (places := leaves(header))[rng.integers(len(places))]
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
