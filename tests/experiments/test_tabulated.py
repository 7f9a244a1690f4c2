"""The paper's own way to F_q, and how far it is off."""

import numpy as np
import pytest

from mnngp import Maxout
from mnngp.errors import InputError
from mnngp.experiments.tabulated import TabulatedMaxout, _grid_moment
from tests.contracts import check_activation


def test_contract_of_the_papers_table():
    check_activation(TabulatedMaxout(4, n_grid=201, n_rho=41), exact=False)


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_the_corrected_table_is_right_at_its_nodes(rank):
    """Errata: with r_max = 10 good to 1e-13 at the nodes, but at ρ = -1 for ranks below 4."""
    table, rho = TabulatedMaxout(rank, n_rho=9), np.linspace(-1.0, 1.0, 9)
    error = np.abs(table.table - Maxout(rank).moment(rho))
    assert error[1:].max() < 1e-13
    assert error[0] < (1e-13 if rank == 4 else 1e-2)


def test_the_printed_grid_is_too_coarse():
    """Errata: with the printed r_max = 100 the step is 0.4 and F_q even exceeds F_q(1)."""
    errors = [
        abs(_grid_moment(4, rho, 501, 100.0) - Maxout(4).moment(rho)) for rho in (0.5, 0.95, 0.998)
    ]
    assert errors[0] < 1e-13
    assert 1e-4 < errors[1] < 1e-3
    assert errors[2] > 2e-2


def test_the_printed_sums_are_wrong():
    """Errata: as printed, eq. (42) and (46) are conditional expectations, and (45) conditions on
    the wrong events.
    """
    from scipy.special import ndtr
    from scipy.stats import multivariate_normal

    rank, rho = 2, 0.5
    axis = np.linspace(-8.0, 8.0, 161)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    pair = multivariate_normal([0.0, 0.0], [[1.0, rho], [rho, 1.0]])
    joint = pair.pdf(np.dstack([x, y]))
    both_below = pair.cdf(np.dstack([x, y]))
    single = np.exp(-(x * x + y * y) / 2.0)
    root = np.sqrt(1.0 - rho**2)
    same = joint * both_below ** (rank - 1)
    wrong_events = single * ndtr((1.0 - rho) * x / root) * ndtr((1.0 - rho) * y / root)
    right_events = single * ndtr((y - rho * x) / root) * ndtr((x - rho * y) / root)

    def as_printed(apart):
        return (
            rank * (x * y * same).sum() / same.sum()
            + rank * (rank - 1) * (x * y * apart).sum() / apart.sum()
        )

    def corrected(apart):
        return (
            rank * (x * y * same).sum() / joint.sum()
            + rank * (rank - 1) * (x * y * apart).sum() / single.sum()
        )

    exact = Maxout(2).moment(0.5)
    assert exact == pytest.approx(0.609, abs=1e-3)
    assert as_printed(wrong_events) == pytest.approx(1.732, abs=1e-3)
    # with only the events corrected
    assert as_printed(right_events) == pytest.approx(2.240, abs=1e-3)
    assert abs(corrected(wrong_events) - exact) > 0.05
    assert corrected(right_events) == pytest.approx(exact, abs=1e-5)


def test_the_table_interpolates_linearly():
    table = TabulatedMaxout(3, n_grid=101, n_rho=11)
    assert table.moment(0.1) == pytest.approx(
        (table.moment(0.0) + table.moment(0.2)) / 2.0, abs=1e-15
    )
    assert table.derivative(0.1) == pytest.approx(
        (table.moment(0.2) - table.moment(0.0)) / 0.2, abs=1e-13
    )


def test_bad_input():
    with pytest.raises(InputError, match="rank must be at least 2"):
        TabulatedMaxout(1)
    with pytest.raises(InputError, match="n_rho"):
        TabulatedMaxout(2, n_rho=2)
    with pytest.raises(InputError, match="r_max"):
        TabulatedMaxout(2, r_max=0.0)
