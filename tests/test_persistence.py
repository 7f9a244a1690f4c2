"""Model files: the same predictions after a round trip, and clear errors for files that are not what they should be."""

import contextlib
import hashlib
import io
import json
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_linnerud

import mnngp
from mnngp import MaxoutGPClassifier, MaxoutGPRegressor
from mnngp.errors import InputError, ModelFileError

X, LABELS = load_iris(return_X_y=True)
QUICK = {"max_trials": 3, "random_state": 0}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.mnngp"
    MaxoutGPRegressor(**QUICK).fit(X[:, :3], X[:, 3]).save(path)
    return path


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("normalize", ["standard", "sphere", None])
def test_regressor_round_trip(tmp_path, dtype, normalize):
    inputs, y = load_linnerud(return_X_y=True)
    model = MaxoutGPRegressor(**QUICK, dtype=dtype, normalize=normalize, weight_var=[0.3, 0.4, 0.5], depth=2).fit(inputs, y)
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
    assert [trial["score"] for trial in again.trials_] == [trial["score"] for trial in model.trials_]


NAMES = np.array(["a", "bb", "c"])


DAYS = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[D]")


@pytest.mark.parametrize("labels", [LABELS, NAMES[LABELS], NAMES.astype(object)[LABELS], LABELS > 0, DAYS[LABELS]])
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
    np.testing.assert_array_equal(mnngp.load(tmp_path / "again").predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).predict(frame), model.predict(frame))


def test_ordered_phase_round_trip(tmp_path):
    model = MaxoutGPClassifier(21, 2, 0.1, 0.34, "nngp", 1e-10).fit(X, LABELS)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(mnngp.load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


def rewrite(path, change, compression=zipfile.ZIP_STORED):
    """Change the header, with a digest that fits: what somebody who knows the format could do."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["model.json"])
    change(header, members)
    members["model.json"] = json.dumps(header).encode()
    members["model.sha256"] = hashlib.sha256(members["model.json"]).hexdigest().encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


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
        with contextlib.suppress(ModelFileError):  # noticed, or a byte (in a time stamp of the archive) that changes nothing
            np.testing.assert_array_equal(mnngp.load(saved).predict(X[:, :3]), expected)


def test_a_changed_array_is_noticed(saved):
    def change(header, members):
        data = bytearray(members["alpha.npy"])
        data[-1] ^= 1
        members["alpha.npy"] = bytes(data)

    rewrite(saved, change)
    with pytest.raises(ModelFileError, match="was changed or damaged: alpha does not match its digest"):
        mnngp.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda h, m: h.update(version=2, mnngp="9.0"),
            r"has version 2 of the format \(written by mnngp '9.0'\).*install a newer one",
        ),
        (lambda h, m: h.update(format="other"), "its format is not 'mnngp-model'"),
        (lambda h, m: h.update({"class": "os.system"}), "a model of class 'os.system' is not known"),
        (lambda h, m: h["kernel"].update(rank=-1), "rank must be a positive integer"),
        (lambda h, m: h.pop("kernel"), "does not hold a complete model: KeyError: 'kernel'"),
        (lambda h, m: h["arrays"].pop("factor"), "does not hold a complete model: KeyError: 'factor'"),
        (lambda h, m: h["parameters"].update(evil=1), "does not hold a complete model: TypeError"),
    ],
)
def test_headers_that_do_not_fit(saved, change, message):
    rewrite(saved, change)
    with pytest.raises(ModelFileError, match=message):
        mnngp.load(saved)


def test_shapes_are_checked(saved):
    def change(header, members):
        buffer = io.BytesIO()
        np.save(buffer, np.zeros((3, 1)))
        members["alpha.npy"] = buffer.getvalue()
        header["arrays"]["alpha"] = hashlib.sha256(buffer.getvalue()).hexdigest()

    rewrite(saved, change)
    with pytest.raises(ModelFileError, match=r"alpha must have the shape \(\d+, 1\), got \(3, 1\)"):
        mnngp.load(saved)


def test_memory(tmp_path):
    """Reading holds each array once, writing only a piece. Measured: 1.01 of a factor of 200 MB, and 17 MB, NumPy's own buffer."""
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    model = MaxoutGPRegressor(1, 2, 1.0, 0.1, "nngp", 0.1).fit(rows, rows[:, 0])
    size = model._posterior._factor.packed.memory.nbytes
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
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + data


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (npy((1 << 40,), b"\0" * 64), r"alpha of the shape \(1099511627776,\) must take 8796093022208 bytes, got 64"),
        (npy((2,), b"\0" * 64), r"alpha of the shape \(2,\) must take 16 bytes, got 64"),
        (npy((-1, -8), b"\0" * 64), "does not hold a complete model: ValueError"),
        (npy((8,), b"\0" * 64, "<i8"), "alpha cannot be an array of int64"),
        (npy((8,), b"\0" * 64)[:20], "does not hold a complete model: ValueError: EOF"),
        (b"\x93NUMPY\x09\x00" + bytes(64), r"alpha must be in version 1.0 of NumPy's format, got \(9, 0\)"),
        (b"alpha", "does not hold a complete model: ValueError"),
    ],
    ids=["huge", "long", "negative", "integers", "cut off", "newer", "no header"],
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
    with pytest.raises(ModelFileError, match=r"is not as it was written: \w+\.\w+ is compressed"):
        mnngp.load(saved)
    saved.write_bytes(data)
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("more", "")  # so that the directory is written again
        archive.getinfo("alpha.npy").file_size = archive.getinfo("alpha.npy").compress_size = 1 << 40
    with pytest.raises(ModelFileError, match="its parts are larger than the file"):
        mnngp.load(saved)


def test_a_directory_that_leads_nowhere(saved):
    data = bytearray(saved.read_bytes())
    data[-3] ^= 0x80  # of the place where the archive's directory begins
    saved.write_bytes(data)
    with pytest.raises(ModelFileError, match="cut off or damaged"):
        mnngp.load(saved)


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

    with pytest.raises(InputError, match="only a MaxoutGPClassifier or a MaxoutGPRegressor itself can be saved, got Own"):
        Own(**QUICK).fit(X[:, :2], X[:, 3]).save(tmp_path / "own")
