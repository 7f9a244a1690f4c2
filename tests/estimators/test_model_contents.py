"""Model files whose header or arrays are not what they should be: clear errors, and soon."""

import hashlib
import time
import zipfile

import numpy as np
import pandas as pd
import pytest

import mnngp
from mnngp import (
    Embedding,
    Maxout,
    MaxoutGPClassifier,
    MaxoutGPRegressor,
    MaxoutKernel,
    NetworkKernel,
    Tanh,
)
from mnngp.errors import ModelFileError
from tests.estimators.model_files import (
    LABELS,
    NAMES,
    QUICK,
    X,
    archive_of,
    replaced,
    rewrite,
    with_value,
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda h, m: h.update(version=3, mnngp="9.0"),
            r"has version 3 of the format \(written by mnngp '9.0'\).*install a newer one",
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
        (lambda h, m: h["kernel"].update(other=1), "kernel must have the keys class, depth, rank"),
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


@pytest.fixture(scope="module")
def embedded():
    """A regressor whose features are embedded and weighted: a gap, a category, two numbers."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "b": rng.normal(size=90)})
    frame["kind"] = rng.choice(list("xyz"), 90)
    y = np.sin(2.0 * frame["a"]) + (frame["kind"] == "x")
    frame.loc[::9, "b"] = np.nan
    model = MaxoutGPRegressor(features="embedding", random_state=0).fit(frame, y)
    assert model.kernel_.embedding.weights
    assert model.kernel_.embedding.gaps
    return model, frame


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.update(weights=[1.0, 2.0]), "weights must be 3 numbers"),
        (lambda e: e.update(weights=[1.0] * 10_000), "weights must be 3 numbers"),
        (lambda e: e.update(weights=[0.0, 0.0, 0.0]), "weights must not all be zero"),
        (lambda e: e.update(weights=["NaN", 1.0, 1.0]), r"weights must be"),
        (lambda e: e.update(weights=[[1.0], 1.0, 1.0]), r"weights must be"),
        (lambda e: e.update(weights=1.0), "weights must be a list"),
        (lambda e: e.update(gaps=[0]), "gaps must be columns from 1 on"),
        (lambda e: e.update(gaps=[10**6]), "must have more than 1000000 columns"),
        (lambda e: e.update(limits=[3.0, -3.0]), "limits must be a lower and a higher number"),
    ],
)
def test_embeddings_that_do_not_fit(embedded, tmp_path, change, message):
    path = tmp_path / "model.mnngp"
    embedded[0].save(path)
    rewrite(path, lambda header, _: change(header["kernel"]["embedding"]))
    with pytest.raises(ModelFileError, match=message):
        mnngp.load(path)


def test_files_from_before_there_were_weights(embedded, tmp_path):
    model, frame = embedded
    path = tmp_path / "model.mnngp"
    model.save(path)
    np.testing.assert_array_equal(mnngp.load(path).predict(frame), model.predict(frame))
    rewrite(path, lambda header, _: header["kernel"]["embedding"].pop("weights"))
    assert mnngp.load(path).kernel_.embedding.weights == ()


def test_a_given_kernel_that_cannot_be(tmp_path):
    path = tmp_path / "model.mnngp"
    kernel = MaxoutKernel(1, embedding=Embedding(1.0))
    MaxoutGPRegressor(kernel=kernel, random_state=0).fit(X[::5], X[::5, 0]).save(path)
    change = {"weights": [0.0] * 4}
    rewrite(path, lambda header, _: header["parameters"]["kernel"]["embedding"].update(change))
    with pytest.raises(ModelFileError, match="weights must not all be zero"):
        mnngp.load(path)


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
        ("place", with_value(10**9), "rows must belong to .* unique inputs"),
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


# --- kernels of any layers, and weights of classes ------------------------------------------------


def of_kernel(**entries):
    """A change of the fitted kernel's description."""
    return lambda header, members: header["kernel"].update(entries)


def of_layer(**entries):
    """A change of its second layer."""
    return lambda header, members: header["kernel"]["layers"][1].update(entries)


def of_parameters(**entries):
    return lambda header, members: header["parameters"].update(entries)


@pytest.fixture(scope="module")
def given_kernel(tmp_path_factory):
    kernel = NetworkKernel([Tanh(), Maxout(3)], [1.0, 0.9, 0.8], 0.2, weight_var_bounds="fixed")
    model = MaxoutGPClassifier(
        kernel=kernel, class_weight={"a": 1.0, "bb": 2.0, "c": 3.0}, **QUICK
    ).fit(X[::5], NAMES[LABELS[::5]])
    path = tmp_path_factory.mktemp("given") / "m"
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_kernel(**{"class": "os.system"}), r"kernel\.class must be one of 'MaxoutKernel', 'Net"),
        (of_kernel(**{"class": ["NetworkKernel"]}), r"kernel\.class must be one of"),
        (of_kernel(depth=2), "kernel must have the keys class, layers, weight_var, bias_var, kind"),
        (of_kernel(layers=[]), r"kernel\.layers must be a list of 1 to 10,000 layers, got \[\]"),
        (of_kernel(layers="Tanh"), r"kernel\.layers must be a list of 1 to 10,000 layers"),
        (of_kernel(layers=[{"class": "ReLU"}] * 10_001), r"must be a list of 1 to 10,000 layers"),
        (of_kernel(layers=[{"class": "ReLU"}]), r"kernel\.weight_var must be one number, or 2"),
        (of_kernel(layers=["Tanh", "Tanh"]), r"layers\[0\] must have names and values, got 'Tanh'"),
        (
            of_kernel(layers=[{"class": "Tanh"}] * 1001, weight_var=1.0),
            r"kernel\.layers must have at most 32 different activations and 1,000 smooth ones, "
            r"got 1 and 1001",
        ),
        (
            of_kernel(
                layers=[{"class": "Maxout", "rank": rank} for rank in range(1, 34)], weight_var=1.0
            ),
            "at most 32 different activations .*, got 33 and 0",
        ),
        (of_layer(**{"class": "eval"}), r"kernel\.layers\[1\]\.class must be one of 'Maxout', 'Re"),
        (of_layer(**{"class": "TabulatedMaxout"}), r"layers\[1\]\.class must be one of 'Maxout'"),
        (of_layer(**{"class": "Tanh"}), r"layers\[1\] must have the keys class, got \['class', 'r"),
        (of_layer(rank=10**9), r"layers\[1\]\.rank must be a whole number from 1 to 1,000,000 in"),
        (of_layer(rank=True), r"layers\[1\]\.rank must be a whole number"),
        (of_kernel(bias_var=-1.0), r"kernel\.bias_var must be a finite number at least 0"),
        (of_kernel(weight_var_bounds="free"), r"kernel\.weight_var_bounds must be 'fixed' or a pa"),
        (of_kernel(weight_var_bounds=[1.0, 0.5]), r"kernel\.weight_var_bounds must be 'fixed' or"),
        (of_kernel(weight_var_bounds=["1", "2"]), r"must be 'fixed', or 1 or 3 pairs of numbers"),
        (of_kernel(weight_var_bounds=[[1.0, 2.0]] * 2), r"'fixed', or 1 or 3 pairs of numbers"),
        (of_kernel(bias_var_bounds=[[0.1, True]]), r"'fixed', or 1 or 1 pairs of numbers, got"),
        (of_parameters(kernel="NetworkKernel"), r"parameters\.kernel must have names and values"),
        (of_parameters(kernel={"class": "RBF"}), r"parameters\.kernel\.class must be one of"),
        (of_parameters(class_weight="even"), r"parameters\.class_weight must be 'balanced' or pai"),
        (of_parameters(class_weight=[["a"]]), r"parameters\.class_weight must be 'balanced' or pa"),
        (of_parameters(class_weight=[[["a"], 1.0]]), r"class_weight\[0\] must be a number, a shor"),
        (of_parameters(class_weight=[["a", -1.0]]), r"class_weight\['a'\] must be a finite number"),
        (of_parameters(class_weight=[["a", "1"]]), r"class_weight\['a'\] must be a finite number"),
    ],
)
def test_kernels_and_class_weights_that_do_not_fit(tmp_path, given_kernel, change, message):
    path = tmp_path / "m"
    path.write_bytes(given_kernel)
    assert mnngp.load(path).class_weight == {"a": 1.0, "bb": 2.0, "c": 3.0}
    rewrite(path, change)
    began = time.process_time()
    with pytest.raises(ModelFileError, match=message):
        mnngp.load(path)
    assert time.process_time() - began < 1.0
