"""Fixtures that several folders of tests share."""

import pytest


@pytest.fixture
def one_torch_thread():
    """The tests run beside each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def config(tmp_path):
    """A small protocol, as a file."""
    from tests.experiments.sweeps import SMALL

    path = tmp_path / "run.toml"
    path.write_text(SMALL.format(repeats=1, weights=[1.0, 2.0]))
    return path
