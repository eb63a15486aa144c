# SPDX-License-Identifier: MIT
"""Graphs, gradients, plans, models, training, fits, files."""
import os
import signal
import threading
import time

import numpy
import pytest

import libcompute as lc


def test_gradients_are_right(random):
    """Against central differences in double precision."""
    values, weights = random.normal(size=(5, 4)), random.normal(size=(4, 3))
    g = lc.Graph()
    x, w = g.input((5, 4), "float64", "x"), g.input((4, 3), "float64")
    loss = lc.mean(lc.square(lc.tanh(x @ w)) * 2.0)
    plan = g.compile([loss, *g.gradients(loss, [w])])
    _, gradient = plan.run({x: values, w: weights})
    for i, k in ((0, 0), (3, 2), (1, 1)):
        ends = []
        for step in (-1e-5, 1e-5):
            moved = weights.copy()
            moved[i, k] += step
            ends.append(float(plan.run({x: values, w: moved})[0]))
        assert abs((ends[1] - ends[0]) / 2e-5 - gradient.numpy()[i, k]) < 1e-7


def test_a_training_step_by_hand(random):
    x_, w_ = random.normal(size=(50, 3)).astype("f4"), numpy.zeros((3, 1), "f4")
    target = x_ @ numpy.array([[1], [-2], [0.5]], "f4")
    weights = lc.asarray(w_, copy=True)
    g = lc.Graph()
    x, t = g.input((50, 3)), g.input((50, 1))
    w = g.parameter(weights, "w")
    loss = lc.mean_squared_error(x @ w, t)
    step = lc.adam_step(loss, [w], learning_rate=0.1)
    plan = g.compile([loss, step])
    losses = [float(plan.run({x: x_, t: target})[0]) for _ in range(100)]
    assert losses[-1] < 0.01 * losses[0]
    assert plan.run({x: x_, t: target})[1] is None
    assert numpy.shares_memory(g.array(w).numpy(), weights.numpy())
    assert abs(weights.numpy()[1, 0] + 2) < 0.2
    assert len(g.parameters()) == 4


def test_failures_of_builders_leave_the_graph_usable():
    g = lc.Graph()
    x = g.input((2, 3))
    with pytest.raises(lc.ShapeError):
        x @ g.input((2, 3))  # pylint: disable=expression-not-assigned
    with pytest.raises(lc.WrongGraphError):
        x + lc.Graph().input((2, 3))  # pylint: disable=expression-not-assigned
    with pytest.raises(TypeError, match="parameter"):
        x + lc.ones((2, 3))  # pylint: disable=expression-not-assigned
    with pytest.raises(lc.NotDifferentiableError):
        loss = lc.sum(lc._core.cast(lc._core.cast(x, "int32"), "float32"))
        g.gradients(loss, [x])
    assert g.compile(x + 1.0).run({x: numpy.ones((2, 3), "f4")}).tolist()[0] == [2, 2, 2]
    assert {x: 1}[x] == 1 and x == x and x != g.input((1,))  # pylint: disable=comparison-with-itself
    with pytest.raises(TypeError):
        bool(x)


def test_runs_and_their_bindings():
    g = lc.Graph()
    x = g.input((4,), name="x")
    y, z = x * 2.0, x + g.constant([1, 2, 3, 4], "float32")
    plan = g.compile([y, z], name="two")
    with pytest.raises(lc.BindingError):
        plan.run({})
    with pytest.raises(lc.Error):
        plan.run({x: numpy.ones(5, "f4")})
    out = lc.empty((4,))
    first, second = plan.run({x: numpy.ones(4, "f4")}, out=[out, None])
    assert first is out and second.tolist() == [2, 3, 4, 5]
    assert "two" in plan.explain()
    assert plan.describe().operations >= 2 and plan.outputs == (y, z)
    with pytest.raises(TypeError, match="no option 'colour'"):
        g.compile(y, colour=1)


def test_operations_of_networks(random):
    torch = pytest.importorskip("torch")
    x = random.normal(size=(2, 3, 9, 8)).astype("f4")
    w, b = random.normal(size=(4, 3, 3, 3)).astype("f4"), random.normal(size=4).astype("f4")
    f = torch.nn.functional
    t = [torch.from_numpy(one) for one in (x, w, b)]
    pairs = ((lc.conv2d(*map(lc.asarray, (x, w, b)), stride=2, padding=1), f.conv2d(*t, stride=2, padding=1)),
             (lc.max_pool2d(lc.asarray(x), size=2), f.max_pool2d(t[0], 2)),
             (lc.softmax(lc.asarray(x), 1), f.softmax(t[0], 1)), (lc.gelu(lc.asarray(x)), f.gelu(t[0])),
             (lc.layer_norm(lc.asarray(x), None, None), f.layer_norm(t[0], (8,))))
    for ours, theirs in pairs:
        numpy.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-4)
    shared = torch.from_dlpack(lc.asarray(x))
    assert shared.data_ptr() == torch.from_dlpack(torch.from_numpy(x)).data_ptr()


def test_recurrent_results_are_tuples(random):
    g = lc.Graph()
    x, w, r = g.input((5, 2, 3)), g.input((3, 16)), g.input((4, 16))
    steps, h, c = lc.lstm(x, w, r)
    assert steps.shape == (5, 2, 4) and h.shape == c.shape == (2, 4)
    assert lc.rnn(x, g.input((3, 4)), g.input((4, 4)))[2] is None
    eager = lc.lstm(*(lc.asarray(random.normal(size=size).astype("f4")) for size in ((5, 2, 3), (3, 16), (4, 16))))
    assert numpy.array_equal(eager[0].numpy()[-1], eager[1].numpy())


def network():
    return lc.Sequential(lc.Dense(8, 16, seed=1).named("first"), lc.Activation("relu"), lc.Dense(16, 2, seed=2))


def data(random, count=320):
    x = random.normal(size=(count, 8)).astype("f4")
    return lc.dataset(x, (x[:, 0] + x[:, 1] > 0).astype("i8")), x


def test_derivatives(random):
    """Of f(x) = sum x^3 and of tanh, against formulas."""
    values, direction = random.normal(size=4), random.normal(size=4)
    g = lc.Graph()
    x, d = g.input((4,), "float64"), g.input((4,), "float64")
    y = lc.tanh(g.checkpoint(lc.square(x)))
    loss = lc.sum(x * x * x)
    made = [*g.jvp([y], [x], [d]), *g.vjp([y], [d], [x]), *g.hvp(loss, [x], [d]), *g.jacobian(y, [x]), g.hessian(loss, x)]
    rate = 2 * values * (1 - numpy.tanh(values ** 2) ** 2)
    wanted = [rate * direction, rate * direction, 6 * values * direction, numpy.diag(rate), numpy.diag(6 * values)]
    for ours, theirs in zip(g.compile(made).run({x: values, d: direction}), wanted):
        numpy.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError):
        g.jvp([y], [x], [d, d])
    with pytest.raises(ValueError):
        g.hvp(y, [x], [d])


def trainer_of(net):
    return lc.trainer(model=net, batch=32, input=("float32", (8,)), target=("int64", ()), loss="cross_entropy", seed=1,
                      optimizer={"kind": "adam", "learning_rate": 0.02})


def test_training(random, tmp_path):
    net, (train, x) = network(), data(random)
    held_out = train.split(0.25, 1)
    assert len(train) == 240 and len(held_out) == 80
    trainer, seen = trainer_of(net), []
    score = trainer.run(train, epochs=10, progress=lambda now: seen.append(now.epoch), checkpoint=tmp_path / "c.safetensors")
    assert score.accuracy > 0.9 and trainer.evaluate(held_out).accuracy > 0.8 and max(seen) == 9
    assert trainer.describe().steps == 70 and (tmp_path / "c.safetensors").exists()
    assert [name for name, *_ in net.parameters()][0] == "first.weight" and net.element_count() == 178
    net.save(tmp_path / "net.safetensors")
    other = network()
    other.load(tmp_path / "net.safetensors")
    g = lc.Graph()
    node = g.input((4, 8))
    plan = g.compile(other.apply(node))
    numpy.testing.assert_allclose(plan.run({node: x[:4]}).numpy(), trainer.predict(lc.asarray(x[:4])).numpy(), atol=1e-5)
    assert "first" in net.summary((1, 8))
    again = trainer_of(network())
    again.load(tmp_path / "c.safetensors")
    assert again.describe().steps == 70


def test_training_with_a_validation_set(random):
    net, (train, _) = network(), data(random)
    held_out = train.split(0.25, 1)
    trainer, seen = trainer_of(net), []
    _, best = trainer.run(train, epochs=30, validation=held_out, patience=2, keep_best=True,
                          progress=lambda now: seen.append(now.epoch))
    assert best.items == 80 and trainer.evaluate(held_out).loss == best.loss and 2 <= max(seen) <= 29
    with pytest.raises(ValueError):
        trainer.run(train, epochs=1, patience=2)


def test_training_ends_when_asked(random):
    trainer, (train, _) = trainer_of(network()), data(random)
    with pytest.raises(lc.CancelledError):
        trainer.run(train, epochs=5, progress=lambda now: now.step < 3)
    with pytest.raises(ZeroDivisionError):
        trainer.run(train, epochs=5, progress=lambda now: 1 // 0)
    with pytest.raises(lc.InvalidStateError):
        trainer.run(train, epochs=1, progress=lambda now: trainer.evaluate(train))
    with pytest.raises(ValueError):
        lc.trainer(model=network(), batch=1, input=("float32", (8,)), loss="unknown")


def test_compositions_own_their_parts():
    part = lc.Dense(3, 3)
    net = lc.Sequential(part, lc.Activation("gelu"))
    with pytest.raises(ValueError, match="already"):
        lc.Sequential(part)
    twice = lc.Dense(3, 3)
    with pytest.raises(ValueError, match="once"):
        lc.Residual(twice, twice)
    del net
    assert part.element_count() == 12  # its owner lives as long
    a, b = lc.Dense(2, 2).named("same"), lc.Dense(2, 2).named("same")
    with pytest.raises(lc.InvalidArgumentError):
        lc.Sequential(a, b)
    with pytest.raises(ValueError, match="released"):
        a.element_count()
    with pytest.raises(TypeError):
        lc.Sequential(1)


def test_models(random, tmp_path):
    weights = random.normal(size=(4, 3)).astype("f4")
    g = lc.Graph()
    x = g.input((2, 4), name="x")
    g.save_onnx(tmp_path / "m.onnx", {"y": lc.relu(x @ g.parameter(weights, "w"))}, {"x": x}, description="a test")
    model = lc.load_model(tmp_path / "m.onnx")
    values = random.normal(size=(2, 4)).astype("f4")
    expected = numpy.maximum(values @ weights, 0)
    numpy.testing.assert_allclose(model.run({"x": values})["y"].numpy(), expected, atol=1e-5)
    out = lc.empty((2, 3))
    assert model.run({"x": values}, {"y": out})["y"] is out
    assert model.inputs[0].name == "x" and model.inputs[0].size == (2, 4) and model.describe().description == "a test"
    with pytest.raises(lc.BindingError):
        model.run({"z": values})
    graph = lc.Graph()
    node = graph.input((2, 4))
    made = model.record(graph, {"x": node}, ["y"])["y"]
    numpy.testing.assert_allclose(graph.compile(made).run({node: values}).numpy(), expected, atol=1e-5)
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(lc.FormatError):
        lc.load_model(tmp_path / "bad.onnx")
    with pytest.raises(OSError):
        lc.load_model(tmp_path / "none.onnx")


def test_files(random, tmp_path):
    values = {"a": random.normal(size=(3, 2)), "b": numpy.arange(5, dtype="u1")}
    for name in ("x.safetensors", "x.npz"):
        lc.save(tmp_path / name, values)
        loaded = lc.load(tmp_path / name)
        assert all(numpy.array_equal(loaded[key].numpy(), value) for key, value in values.items())
    lc.asarray(values["a"]).save_npy(tmp_path / "a.npy")
    assert numpy.array_equal(numpy.load(tmp_path / "a.npy"), values["a"])
    assert numpy.array_equal(lc.load_npy(tmp_path / "a.npy").numpy(), values["a"])
    (tmp_path / "t.csv").write_text("1;2\n3;4\n")
    assert lc.load_csv(tmp_path / "t.csv", separator=";").tolist() == [[1, 2], [3, 4]]


def spots(random, count, size=7):
    y, x = numpy.mgrid[0:size, 0:size]
    places = random.uniform(2.5, 3.5, (count, 2))
    images = 4 + 900 / (2 * numpy.pi * 1.69) * numpy.exp(
        -((x - places[:, :1, None])**2 + (y - places[:, 1:, None])**2) / 3.38)
    return random.poisson(images).astype("f4"), places


def test_fits(random):
    images, places = spots(random, 200)
    result = lc.fit(images, "xynb", sigma=1.3)
    assert numpy.abs(result["parameters"][:, :2] - places).mean() < 0.1 and result["summary"].count == 200
    assert (result["status"] == lc.FitStatus.CONVERGED).mean() > 0.95
    assert numpy.array_equal(lc.fit(images.astype("u2"), "xynb", sigma=1.3)["parameters"], result["parameters"])
    frames, corners = numpy.zeros((2, 20, 20), "f4"), [[0, 3, 4], [1, 8, 9]]
    for image, (frame, row, column) in zip(images, corners):
        frames[frame, row:row + 7, column:column + 7] = image
    fitter = lc.fitter("xynb", 7, 7, sigma=1.3, frames=(20, 20))
    assert numpy.array_equal(fitter.run(frames, corners=corners)["parameters"], result["parameters"][:2])
    with pytest.raises(ValueError):
        fitter.run(images)
    with pytest.raises(lc.CancelledError):
        many = numpy.tile(images, (400, 1, 1))
        lc.fitter("xynbs", 7, 7, sigma=1.3, batch=1).run(many, progress=lambda now: False)
    with pytest.raises(lc.InvalidArgumentError):
        lc.fit(images, "xynb", sigma=-1)
    masked = lc.fitter("xynb", 7, 7, sigma=1.3, mask=numpy.ones((7, 7), bool)).run(images)
    numpy.testing.assert_allclose(masked["parameters"], result["parameters"], rtol=1e-2)


def test_ctrl_c_ends_a_run():
    g = lc.Graph()
    x = g.input((1000, 1000))
    y = x
    for _ in range(2000):
        y = y @ x
    plan, array = g.compile(y), lc.random((1000, 1000), seed=1)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        plan.run({x: array})
    assert time.monotonic() - begin < 60
    with pytest.raises(lc.TimeoutError):
        plan.run({x: array}, time_limit=0.05)


def test_a_forked_process_opens_a_new_context():
    lc.ones((3,))
    child = os.fork()
    if child == 0:
        os._exit(0 if lc.ones((3,)).tolist() == [1, 1, 1] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
