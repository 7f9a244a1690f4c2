r"""Initialising a deep maxout network

One number decides how a network of thirty layers begins, and how it learns.

How large should the weights of a deep network be? For ReLU everybody knows He's answer, and PyTorch
has it. A maxout unit takes the largest of `rank` maps, so signals grow in another way. The weight
variance that keeps their size is \(\sigma_w^2 = 1 / \mathbb{E}[\max(h_1, \dots, h_q)^2]\), and it
is one call.

Needs `pip install "mnngp[experiments,torch]"`.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from mnngp import Maxout, theory

rank, width, depth = 3, 64, 30
critical = theory.critical_weight_var(Maxout(rank))
print(f"rank {rank}: weights ~ N(0, {critical:.3f} / fan_in)")

# %%
# The network is plain PyTorch. Beside the critical variance stand PyTorch's own initialisation, and
# He's for ReLU, which many would take.
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32)
images = (images - images.mean(1, keepdim=True)) / images.std(1, keepdim=True)
labels = torch.tensor(labels)


def network(weight_var):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, rank * width)]
    layers += [torch.nn.Linear(width, rank * width) for _ in range(depth - 1)]
    layers.append(torch.nn.Linear(width, 10))
    for layer in layers if weight_var else ():
        torch.nn.init.normal_(layer.weight, std=(weight_var / layer.in_features) ** 0.5)
        torch.nn.init.zeros_(layer.bias)
    return torch.nn.ModuleList(layers)


def through(layers, hidden):
    """All hidden layers, and the output."""
    found = []
    for layer in layers[:-1]:
        hidden = layer(hidden).unflatten(1, (rank, width)).amax(1)  # the maxout
        found.append(hidden)
    return found, layers[-1](hidden)


# %%
# What comes out of each layer before training, and what is learned in 100 steps of Adam, each with
# 256 images.
cases = {"PyTorch's own": None, "critical for maxout": critical, "He, for ReLU": 2.0}
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.8))
for (name, weight_var), style in zip(cases.items(), ("C2:", "C0-", "C1--"), strict=True):
    layers = network(weight_var)
    with torch.no_grad():
        sizes = [hidden.square().mean().item() for hidden in through(layers, images)[0]]
    left.semilogy(range(1, depth + 1), sizes, style, label=name)
    optimiser, shares = torch.optim.Adam(layers.parameters(), lr=1e-3), []
    for step in range(100):
        batch = torch.arange(256 * step, 256 * (step + 1)) % 1500
        output = through(layers, images[batch])[1]
        loss = torch.nn.functional.cross_entropy(output, labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        shares.append((output.argmax(1) == labels[batch]).float().mean().item())
    right.plot(shares, style)
    with torch.no_grad():
        new = through(layers, images[1500:])[1].argmax(1) == labels[1500:]
    print(f"{name:20} {new.float().mean():.0%} of 297 new images recognised")
left.set(title="Mean square activation", xlabel="layer")
left.legend()
right.set(title="Share of a batch that is recognised", xlabel="step of training", ylim=(0, 1))
plt.show()

# %%
# With PyTorch's own weights the signal dies, and what arrives are the biases: all images look the
# same. With He's it explodes. At the critical variance its size stays, but for the wandering of a
# network of finite width, and the network learns. It is no cure for everything: above rank 2
# *gradients* still shrink on their way back, by the same factor in each layer, and no weight
# variance keeps both ([Which weight variance?](../initialisation.md)). And the learning rate is the
# one that suited the critical network best of three that we tried (3e-4, 1e-3, 3e-3); with the
# other two it was ahead as well, by less.
profile = theory.depth_profile(Maxout(rank), depth, weight_var=critical, bias_var=0.0)
print(f"gradient² at the first layer, relative to the output: {profile.gradient[0]:.1e}")
