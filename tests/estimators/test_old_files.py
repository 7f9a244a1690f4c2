"""What the first version wrote is read by this one, and predicts the same; see
reference/models_reference.py.
"""

from pathlib import Path

import numpy as np
import pytest

import mnngp
from tests.estimators.model_files import rewrite

FOLDER = Path(__file__).parents[1] / "reference" / "models"


@pytest.mark.parametrize("name", ["regressor", "two-targets", "given", "iterated", "classifier"])
def test_models_of_the_first_version(name, tmp_path):
    """To rounding: kernels are computed anew, by this machine's instructions. (At most 3e-9, with
    the oldest NumPy; in single precision 1e-4.)
    """
    then = np.load(FOLDER / "predicted.npz")
    model = mnngp.load(FOLDER / f"{name}.mnngp")
    X, tolerance = then[f"{name} X"], 1e-4 if name == "two-targets" else 1e-8
    for again in (model, _saved(model, tmp_path / "again")):
        if name == "classifier":
            mean, std = again.predict_proba(X), again.latent_mean_and_variance(X)[1]
        else:
            mean, std = again.predict(X, return_std=True, include_noise=True)
        np.testing.assert_allclose(mean, then[f"{name} mean"], rtol=tolerance)
        np.testing.assert_allclose(std, then[f"{name} std"], rtol=tolerance)
        if f"{name} evidence" in then:
            assert again.log_marginal_likelihood_ == pytest.approx(
                float(then[f"{name} evidence"]), rel=tolerance
            )
            assert np.isfinite(
                again.loo_.std if name != "classifier" else again.loo_.log_loss
            ).all()


def _saved(model, path):
    model.save(path)
    return mnngp.load(path)


def test_a_model_that_was_factored_on_a_cluster(tmp_path):
    """As 0.1.0 wrote it for ``solver="dask-cholesky"``: no factor, and the report of one."""
    path = tmp_path / "model.mnngp"
    model = mnngp.load(FOLDER / "iterated.mnngp")
    model.save(path)

    def change(header, members):
        header["parameters"]["solver"] = "dask-cholesky"
        report = {"added": 0.0, "attempts": 1, "condition": 7.0}
        header["report"] = {**report, "contraction": header["contraction"]}

    rewrite(path, change)
    again = mnngp.load(path)
    X = np.load(FOLDER / "predicted.npz")["iterated X"]
    assert again.solver == "dask"
    assert again.report_.where == "on a cluster"
    for one, other in zip(
        *(some.predict(X, return_std=True) for some in (again, model)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)
