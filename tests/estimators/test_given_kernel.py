"""``kernel=``: any kernel of this package in the estimators; what it leaves open is chosen."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import mnngp
from mnngp import (
    GELU,
    Erf,
    LeakyReLU,
    Maxout,
    MaxoutGPClassifier,
    MaxoutGPRegressor,
    MaxoutKernel,
    NetworkKernel,
    ReLU,
    Tanh,
)
from mnngp.errors import AccuracyWarning, InputError
from mnngp.experiments.tabulated import TabulatedMaxout
from mnngp.inference.search_space import MaxoutSpace, VarianceSpace

FIXED = {"weight_var_bounds": "fixed", "bias_var_bounds": "fixed"}


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:150], y[:150], X[150:250], y[150:250]


@parametrize_with_checks(
    [
        MaxoutGPRegressor(kernel=NetworkKernel([GELU(), Maxout(3)], kind="ntk"), max_trials=4),
        MaxoutGPClassifier(kernel=NetworkKernel([ReLU()], **FIXED), class_weight="balanced"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "kernel",
    [
        NetworkKernel([GELU(), GELU()]),
        NetworkKernel([Maxout(4), Tanh(), ReLU()], kind="ntk"),
        NetworkKernel([Maxout(3), LeakyReLU(0.1)], [1.0, 0.7, 1.5], [0.1, 0.2, 0.3]),
        MaxoutKernel(2, 3, dtype="float32"),
    ],
    ids=["smooth", "mixed", "per layer", "single precision"],
)
def test_what_is_open_is_chosen_and_the_network_stays(diabetes, kernel, tmp_path):
    X, y, new, y_new = diabetes
    given = kernel.get_params()
    model = MaxoutGPRegressor(kernel=kernel, max_trials=12, random_state=0).fit(X, y)
    assert model.score(new, y_new) > 0.4
    assert kernel.get_params() == given
    assert model.kernel_ is not kernel
    fitted = model.kernel_.get_params()
    for name, value in given.items():
        if name in ("weight_var", "bias_var"):  # their ratios stay
            ratio = np.asarray(fitted[name]) / np.asarray(value)
            np.testing.assert_allclose(ratio, np.ravel(ratio)[0], rtol=1e-12)
        else:
            assert fitted[name] == value
    assert 1 < len(model.trials_) <= 12
    assert [trial["score"] for trial in model.trials_] == sorted(
        (trial["score"] for trial in model.trials_), reverse=True
    )
    # better than the kernel as it was given
    as_given = MaxoutGPRegressor(kernel=clone(kernel).set_params(**FIXED)).fit(X, y)
    assert len(as_given.trials_) == 1
    assert as_given.trials_[0]["score"] <= model.trials_[0]["score"]
    model.save(tmp_path / "m")
    again = mnngp.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert again.kernel_ == model.kernel_
    for mine, theirs in zip(model.trials_, again.trials_, strict=True):
        assert {name: np.asarray(value).tolist() for name, value in mine.items()} == theirs
    assert repr(again.kernel) == repr(kernel)
    assert clone(again).fit(X, y).kernel_ == model.kernel_


def test_what_is_fixed_stays(diabetes):
    X, y, *_ = diabetes
    layers = [Erf(), Maxout(2)]
    weights = NetworkKernel(layers, 1.3, 0.2, weight_var_bounds="fixed")
    model = MaxoutGPRegressor(kernel=weights, max_trials=6).fit(X, y)
    assert model.kernel_.weight_var == 1.3
    assert model.kernel_.bias_var != 0.2
    biases = NetworkKernel(layers, 1.3, 0.2, bias_var_bounds="fixed")
    model = MaxoutGPRegressor(kernel=biases, max_trials=6).fit(X, y)
    assert model.kernel_.bias_var == 0.2
    assert model.kernel_.weight_var != 1.3
    # zero is always fixed
    nothing = MaxoutGPRegressor(kernel=MaxoutKernel(2, 3, bias_var=0.0), max_trials=6).fit(X, y)
    assert nothing.kernel_.bias_var == 0.0
    narrow = NetworkKernel(layers, weight_var_bounds=(0.9, 1.6), bias_var_bounds=(0.05, 0.5))
    model = MaxoutGPRegressor(kernel=narrow, max_trials=20).fit(X, y)
    assert len(model.trials_) > 2
    for trial in model.trials_:
        assert 0.9 <= trial["weight_var"] <= 1.6
        assert 0.05 <= trial["bias_var"] <= 0.5
    assert len({trial["weight_var"] for trial in model.trials_}) > 2
    nothing = NetworkKernel(layers, weight_var_bounds=(2.0, 2.0), bias_var_bounds=[(0.3, 0.3)])
    assert len(MaxoutGPRegressor(kernel=nothing).fit(X, y).trials_) == 1


def test_noise_and_signal_may_be_given(diabetes):
    X, y, *_ = diabetes
    kernel = NetworkKernel([GELU()])
    model = MaxoutGPRegressor(kernel=kernel, noise_var=2500.0, max_trials=5).fit(X, y)
    assert model.noise_var_ == pytest.approx(2500.0, rel=1e-12)
    model = MaxoutGPRegressor(kernel=kernel, signal_var=9000.0, max_trials=5).fit(X, y)
    assert model.signal_var_ == 9000.0


def test_a_specified_process_is_scikit_learns(diabetes):
    """A fixed kernel and a noise: targets as they are, no choice."""
    X, y, new, _ = diabetes
    kernel = NetworkKernel([Maxout(4), Tanh()], [0.9, 1.1, 1.0], 0.2, "ntk", **FIXED)
    ours = MaxoutGPRegressor(kernel=kernel, noise_var=0.5, normalize=None).fit(X, y)
    theirs = GaussianProcessRegressor(kernel, alpha=0.5, optimizer=None).fit(X, y)
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), rtol=1e-8)
    assert ours.signal_var_ == 1.0
    assert ours.log_marginal_likelihood_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-10
    )


def test_a_maxout_kernel_is_as_good_as_its_parameters(diabetes):
    X, y, new, _ = diabetes
    by_kernel = MaxoutGPRegressor(kernel=MaxoutKernel(3, 4), random_state=0).fit(X, y)
    given = {"depth": 3, "rank": 4, "kind": "nngp", "features": "linear"}
    by_parameters = MaxoutGPRegressor(**given, random_state=0).fit(X, y)
    best = [model.trials_[0]["score"] for model in (by_kernel, by_parameters)]
    assert best[0] == pytest.approx(best[1], abs=0.01)
    same = MaxoutGPRegressor(kernel=clone(by_parameters.kernel_).set_params(**FIXED))
    np.testing.assert_allclose(same.fit(X, y).predict(new), by_parameters.predict(new), rtol=1e-6)


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_solvers(diabetes, solver):
    X, y, new, _ = diabetes
    kernel = NetworkKernel([GELU(), ReLU()], weight_var=1.2)
    model, exact = (
        MaxoutGPRegressor(kernel=kernel, max_trials=3, random_state=0, solver=name).fit(X, y)
        for name in (solver, "auto")
    )
    np.testing.assert_allclose(model.predict(new), exact.predict(new), rtol=1e-4)


def test_a_classifier_and_a_search_over_kernels():
    X, y = load_iris(return_X_y=True)
    kernels = [NetworkKernel([GELU()]), MaxoutKernel(2, 3)]
    quick = MaxoutGPClassifier(kernel=MaxoutKernel(1, 2), max_trials=3, random_state=0)
    search = GridSearchCV(quick, {"kernel": kernels}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_params_["kernel"] in kernels
    nested = GridSearchCV(quick, {"kernel__depth": [1, 3], "kernel__rank": [2]}, cv=3).fit(X, y)
    assert nested.best_estimator_.kernel_.depth == nested.best_params_["kernel__depth"]
    assert quick.get_params()["kernel__depth"] == 1
    quick.set_params(kernel__depth=2, kernel__kind="ntk")
    model = quick.fit(X, y)
    assert (model.kernel_.depth, model.kernel_.kind) == (2, "ntk")
    quick.set_params(kernel__depth=5)
    assert model.kernel_.depth == 2
    assert clone(quick).kernel == quick.kernel
    assert clone(quick).kernel is not quick.kernel


def test_few_rows_take_the_kernel_as_it_is():
    kernel = NetworkKernel([Tanh()], weight_var=1.7)
    with pytest.warns(AccuracyWarning, match=r"no kernel can be chosen: NetworkKernel\(layers=\["):
        model = MaxoutGPRegressor(kernel=kernel).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    assert model.kernel_ == kernel


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": RBF()}, r"kernel must be a MaxoutKernel or a NetworkKernel of mnngp .*got RBF"),
        (
            {"kernel": ConstantKernel() * MaxoutKernel()},
            r"kernel must be .* \(noise_var and signal_var are arguments of their own\), got 1\*\*2",
        ),
        ({"kernel": MaxoutKernel}, "kernel must be a MaxoutKernel or a NetworkKernel of mnngp"),
        ({"kernel": "rbf"}, "kernel must be a MaxoutKernel .* got 'rbf'"),
        (
            {"kernel": MaxoutKernel(3, 4), "depth": 2},
            r"kernel and depth cannot both be given: .* got kernel=MaxoutKernel\(depth=3, .* and "
            r"depth=2",
        ),
        ({"kernel": NetworkKernel([ReLU()]), "rank": 2}, "kernel and rank cannot both be given"),
        ({"kernel": NetworkKernel([ReLU()]), "weight_var": 2.0}, "kernel and weight_var cannot"),
        ({"kernel": NetworkKernel([ReLU()]), "bias_var": 0.0}, "kernel and bias_var cannot both"),
        ({"kernel": NetworkKernel([ReLU()]), "kind": "ntk"}, "kernel and kind cannot both be giv"),
        (
            {"kernel": NetworkKernel([ReLU()]), "dtype": "float32"},
            r"kernel and dtype cannot both be given: .*kernel.dtype='float64' and dtype='float32'",
        ),
        ({"kernel": NetworkKernel([ReLU()]), "dtype": "int8"}, "kernel and dtype cannot both be"),
    ],
)
def test_what_is_refused(arguments, message):
    for estimator in (MaxoutGPRegressor, MaxoutGPClassifier):
        with pytest.raises(InputError, match=message):
            estimator(**arguments).fit(np.eye(4), [0, 1, 0, 1])


def test_a_parameter_that_was_set_is_checked_again():
    model = MaxoutGPRegressor(kernel=MaxoutKernel()).set_params(kernel__rank=0)
    with pytest.raises(InputError, match="rank must be a positive integer"):
        model.fit(np.eye(4), np.arange(4.0))


def test_what_a_file_cannot_describe_is_not_written(tmp_path, diabetes):
    X, y, *_ = diabetes

    class Own(NetworkKernel):
        pass

    class Softer(Tanh):
        pass

    table = TabulatedMaxout(2, n_grid=11, n_rho=5)
    for kernel, message in (
        (Own([ReLU()], **FIXED), "only the kernels MaxoutKernel and NetworkKernel themselves can"),
        (NetworkKernel([Softer()], **FIXED), r"the layers of a kernel .* can be Maxout, .* got"),
        (NetworkKernel([table], **FIXED), r"can be Maxout, ReLU, .*, got TabulatedMaxout\(rank=2"),
    ):
        model = MaxoutGPRegressor(kernel=kernel, noise_var=1.0).fit(X[:30], y[:30])
        assert np.isfinite(model.predict(X)).all()
        with pytest.raises(InputError, match=message):
            model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_search_spaces():
    """What they start with and where they go from there: the contract of a new one."""
    for space in (
        MaxoutSpace({}),
        MaxoutSpace({"rank": 3, "weight_var": 0.5}),
        VarianceSpace(MaxoutKernel(2, 3)),
        VarianceSpace(NetworkKernel([GELU(), ReLU()], [1.0, 2.0, 1.0])),
    ):
        starts = list(space.starts())
        assert not space.complete
        assert all(np.dtype(kernel.dtype) == np.float64 for kernel in starts)
        for start in [space.default(), *starts]:
            around = [kernel.network for kernel in space.neighbours(start)]
            assert around
            assert len(set(around)) == len(around)
            assert start.network not in around
            assert {kernel.network for kernel in space.sharper(start)} <= set(around)
    given = {"depth": 2, "rank": 3, "weight_var": 0.5, "bias_var": 0.1, "kind": "ntk"}
    for space in (MaxoutSpace(given, "float32"), VarianceSpace(MaxoutKernel(**given, **FIXED))):
        assert space.complete
        assert {kernel.network for kernel in space.starts()} == {space.default().network}
        assert not list(space.neighbours(space.default()))
        assert space.fitted(space.default()).dtype == space.dtype
