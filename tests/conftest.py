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
