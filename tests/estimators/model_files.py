"""What the tests of model files share: small models, and files that are changed with care."""

import hashlib
import io
import json
import warnings
import zipfile

import numpy as np
from sklearn.datasets import load_iris

X, LABELS = load_iris(return_X_y=True)
QUICK = {"max_trials": 3, "random_state": 0, "features": "linear"}


NAMES = np.array(["a", "bb", "c"])


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


def npy(shape, data, descr="<f8"):
    """A member in NumPy's format, whatever it claims."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue() + data


def archive_of(path, members):
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in members:
            archive.writestr(name, data)
