import numpy as np
import pytest
from scipy import sparse

from mnngp import Activation, Maxout, MaxoutKernel, NetworkKernel, ReLU
from mnngp.errors import InputError

GOOD = np.eye(3)
KERNEL = MaxoutKernel(2, 3)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], r"X must be finite, got X\[0, 1\] = nan"),
        ([[1.0, 0.0], [-np.inf, 1.0]], r"X must be finite, got X\[1, 0\] = -inf"),
        (np.empty((0, 3)), r"at least one point and one feature, got shape \(0, 3\)"),
        (np.empty((3, 0)), r"at least one point and one feature, got shape \(3, 0\)"),
        ([], "X must have 2 dimensions"),
        (
            np.zeros(3),
            r"2 dimensions \(points, features\), got shape \(3,\); for a single feature "
            r"use X.reshape",
        ),
        (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
        (1.0, r"got shape \(\)"),
        (np.eye(2) * 1j, "X must be numeric .* complex128"),
        (np.eye(2).astype(object), "X must be numeric .* object; convert"),
        ([["a", "b"]], "X must be numeric"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "X must be numeric"),
        ([[1.0, 2.0], [3.0]], "X cannot be made an array"),
        (None, "X must be numeric"),
        (sparse.eye(2).tocsr(), r"X is sparse \(csr_.*\); pass a dense array"),
        (sparse.coo_array(np.eye(2)), "X is sparse"),
        (np.ma.masked_array(np.eye(2), mask=np.eye(2)), "X is a masked array"),
    ],
)
def test_bad_points(bad, message):
    for call in (
        KERNEL,
        KERNEL.diag,
        KERNEL.normalized,
        KERNEL.path,
        lambda X: KERNEL(X, eval_gradient=True),
    ):
        with pytest.raises(InputError, match=message):
            call(bad)
    if bad is not None:  # Y = None means X
        with pytest.raises(InputError, match=message.replace("X", "Y")):
            KERNEL(np.eye(2), bad)


@pytest.mark.parametrize(
    "bounds",
    [(5.0, 1.0), (-1.0, 1.0), (0.0, 1.0), "free", None, (1.0, np.inf), [[1.0, 2.0, 3.0]], 1.0],
)
def test_bad_bounds(bounds):
    for name in ("weight_var_bounds", "bias_var_bounds"):
        with pytest.raises(InputError, match=f"{name} must be 'fixed' or a pair"):
            MaxoutKernel(**{name: bounds})


def test_columns_must_agree():
    with pytest.raises(InputError, match=r"Y must have 3 columns, as X has, got shape \(2, 2\)"):
        KERNEL(GOOD, np.eye(2))


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1", None, True, 1j, 1e308, 10**400])
def test_bad_weight_variance(value):
    with pytest.raises(InputError, match=r"weight_var must be"):
        MaxoutKernel(weight_var=value)


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, "1", None, False])
def test_bad_bias_variance(value):
    with pytest.raises(InputError, match=r"bias_var must be"):
        MaxoutKernel(bias_var=value)


@pytest.mark.parametrize("value", [0, -3, 1.5, 2.0, "2", None, True, np.nan])
@pytest.mark.parametrize("name", ["depth", "rank"])
def test_depth_and_rank_are_positive_integers(name, value):
    with pytest.raises(InputError, match=rf"{name} must be a positive integer .*got {value!r}"):
        MaxoutKernel(**{name: value})


def test_lists_of_the_wrong_length():
    for weight_var in ([1.0, 1.0], [1.0] * 4, np.ones((3, 1))):
        with pytest.raises(
            InputError,
            match=r"weight_var must be one number, or 3 numbers for 2 "
            r"hidden layers",
        ):
            MaxoutKernel(2, 3, weight_var=weight_var)
    with pytest.raises(InputError, match=r"weight_var\[1\] must be a finite number"):
        MaxoutKernel(2, 3, weight_var=[1.0, [2.0, 3.0], 4.0])
    with pytest.raises(
        InputError,
        match=r"bias_var\[1\] must be a finite number at least 0 and at "
        r"most 1e\+200, got -1.0",
    ):
        MaxoutKernel(2, 3, bias_var=[0.1, -1.0, 0.1])
    with pytest.raises(
        InputError,
        match=r"weight_var\[2\] must be a finite number above 0 and at "
        r"most 1e\+200, got 0.0",
    ):
        NetworkKernel([ReLU()] * 2, weight_var=[1.0, 1.0, 0.0])


@pytest.mark.parametrize("layers", [[], (), None, Maxout(2), "relu"])
def test_layers_must_be_a_list(layers):
    with pytest.raises(InputError, match="layers must be a list of at least one activation"):
        NetworkKernel(layers)


@pytest.mark.parametrize("layer", ["relu", Maxout, None, 3])
def test_layers_must_be_activations(layer):
    with pytest.raises(InputError, match=r"layers\[1\] must be an activation"):
        NetworkKernel([Maxout(2), layer])


def test_an_activation_of_neither_kind_is_refused():
    """It was taken for a linear layer, without a word."""

    class Own(Activation):
        homogeneous = True
        mean, second_moment = 0.0, 1.0

        def _moment(self, rho):
            return rho**3

        def _derivative(self, rho):
            return 3.0 * rho**2

        def _deficit(self, rho):
            return 1.0 - rho**3

    with pytest.raises(InputError, match="must be a HomogeneousActivation or a SmoothActivation"):
        NetworkKernel([Own()])


def test_kind_and_dtype():
    for kind in ("NTK", "rbf", None, 1):
        with pytest.raises(InputError, match="kind must be one of 'nngp', 'ntk', got"):
            MaxoutKernel(kind=kind)
    for dtype in ("float16", "int", None, "double precision", complex):
        with pytest.raises(InputError, match="dtype must be 'float64' or 'float32', got"):
            MaxoutKernel(dtype=dtype)
    assert MaxoutKernel(dtype=np.float32)(GOOD).dtype == np.float32


@pytest.mark.parametrize("depths", [[0], [1.5], ["1"], "12", [], 3, [1, -1]])
def test_bad_depths(depths):
    with pytest.raises(InputError, match="depths must"):
        KERNEL.path(GOOD, depths=depths)


def test_depths_beyond_the_layers():
    with pytest.raises(
        InputError, match="depths must be at most 2, the number of activations, got 3"
    ):
        NetworkKernel([ReLU()] * 2).path(GOOD, depths=[3])
    with pytest.raises(InputError, match="depths must be at most 2, for which"):
        MaxoutKernel(2, 3, weight_var=[1.0, 1.0, 1.0]).path(GOOD, depths=[3])
