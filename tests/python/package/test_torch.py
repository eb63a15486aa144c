# SPDX-License-Identifier: MIT
"""Values, gradients and training steps beside PyTorch's (Debian: python3-torch)."""
import math

import numpy as np
import pytest

import libcompute as lc

torch = pytest.importorskip("torch", reason="no PyTorch (Debian: python3-torch)")

# A function here, the same of PyTorch, the shapes of its operands, and the operands without gradients.
F = torch.nn.functional
CASES = {
    "conv2d": (lambda x, w, b: lc.conv2d(x, w, b, stride=(2, 1), padding=(1, 2)),
               lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2)), [(2, 4, 9, 8), (6, 4, 3, 3), (6,)]),
    "conv2d in groups": (lambda x, w: lc.conv2d(x, w, groups=4), lambda x, w: F.conv2d(x, w, groups=4),
                         [(2, 8, 7, 7), (8, 2, 3, 3)]),
    "conv2d_transpose": (lambda x, w: lc.conv2d_transpose(x, w, stride=(2, 2)),
                         lambda x, w: F.conv_transpose2d(x, w, stride=2), [(2, 3, 5, 4), (3, 4, 3, 3)]),
    "max_pool2d": (lambda x: lc.max_pool2d(x, size=(3, 3), stride=(2, 2)), lambda x: F.max_pool2d(x, 3, 2), [(2, 3, 9, 9)]),
    "layer_norm": (lc.layer_norm, lambda x, g, b: F.layer_norm(x, (24,), g, b), [(5, 3, 24), (24,), (24,)]),
    "group_norm": (lambda x, g, b: lc.group_norm(x, 3, g, b), lambda x, g, b: F.group_norm(x, 3, g, b),
                   [(2, 6, 5, 4), (6,), (6,)]),
    "softmax": (lambda x: lc.softmax(x, 1), lambda x: F.softmax(x, 1), [(4, 7, 3)]),
    "log_softmax": (lambda x: lc.log_softmax(x, -1), lambda x: F.log_softmax(x, -1), [(4, 7, 3)]),
    "gelu": (lc.gelu, F.gelu, [(300,)]),
    "gelu_tanh": (lc.gelu_tanh, lambda x: F.gelu(x, approximate="tanh"), [(300,)]),
    "silu": (lc.silu, F.silu, [(300,)]),
    "huber": (lambda a, b: lc.huber(a, b, 0.5), lambda a, b: F.huber_loss(a, b, delta=0.5), [(40, 3), (40, 3)]),
    "scaled_attention": (lc.scaled_attention,
                         lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) / math.sqrt(16), -1) @ v,
                         [(2, 3, 10, 16), (2, 3, 12, 16), (2, 3, 12, 16)]),
    "einsum": (lambda a, b: lc.einsum("bij,bkj->ik", [a, b]), lambda a, b: torch.einsum("bij,bkj->ik", a, b),
               [(3, 4, 5), (3, 6, 5)]),
    "var": (lambda x: lc.var(x, axis=1, correction=1.0), lambda x: torch.var(x, 1, unbiased=True), [(6, 9)]),
    "cumulative_sum": (lambda x: lc.cumulative_sum(x, axis=1), lambda x: torch.cumsum(x, 1), [(6, 9)]),
}


def close(found, expected):
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=2e-5 * max(1e-3, np.abs(expected).max()))


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(random, name):
    here, there, shapes = CASES[name]
    values = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    graph = lc.Graph()
    inputs = [graph.input(shape) for shape in shapes]
    y = here(*inputs)
    weights = random.standard_normal(y.shape).astype(np.float32)
    loss = lc.sum(y * graph.constant(weights))
    plan = graph.compile([y, *graph.gradients(loss, inputs)])
    found = plan.run(dict(zip(inputs, values)))
    tensors = [torch.from_numpy(one.copy()).requires_grad_() for one in values]
    expected = there(*tensors)
    (expected * torch.from_numpy(weights)).sum().backward()
    close(found[0], expected)
    for one, tensor in zip(found[1:], tensors):
        close(one, tensor.grad)


def test_a_network_trains_alike(random):
    """Adam on two dense layers with cross entropy: the same weights after 20 steps."""
    x, labels = random.standard_normal((64, 10)).astype(np.float32), random.integers(0, 4, 64)
    start = [random.standard_normal(shape).astype(np.float32) * 0.3 for shape in ((10, 16), (16,), (16, 4), (4,))]
    graph = lc.Graph()
    parameters = [graph.parameter(lc.asarray(one.copy())) for one in start]
    a, b = graph.input((64, 10)), graph.input((64,), "int64")
    hidden = lc.tanh(a @ parameters[0] + parameters[1])
    loss = lc.cross_entropy(hidden @ parameters[2] + parameters[3], b)
    plan = graph.compile([loss, lc.adam_step(loss, parameters, learning_rate=0.01)])
    losses = [float(plan.run({a: x, b: labels})[0]) for _ in range(20)]
    weights = [torch.from_numpy(one.copy()).requires_grad_() for one in start]
    adam = torch.optim.Adam(weights, lr=0.01)
    for here in losses:
        adam.zero_grad()
        scores = torch.tanh(torch.from_numpy(x) @ weights[0] + weights[1]) @ weights[2] + weights[3]
        there = F.cross_entropy(scores, torch.from_numpy(labels))
        assert here == pytest.approx(float(there), rel=1e-4)
        there.backward()
        adam.step()
    for one, tensor in zip(parameters, weights):
        np.testing.assert_allclose(graph.array(one).numpy(), tensor.detach().numpy(), rtol=1e-3, atol=1e-4)


def test_memory_is_shared_both_ways():
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    array = lc.from_dlpack(tensor)
    tensor[1, 2] = -7
    assert float(array[1, 2]) == -7
    back = torch.from_dlpack(array)
    assert back.data_ptr() == tensor.data_ptr()
