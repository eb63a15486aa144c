# SPDX-License-Identifier: MIT
"""Jobs, batches, own kernels, groups of processes, spots: against NumPy."""
import os
import signal
import threading
import time

import numpy as np
import pytest

import libcompute as lc


def product(size=200):
    graph = lc.Graph()
    x = graph.input((size, size))
    return x, graph.compile(x @ x)


def long_plan():
    graph = lc.Graph()
    y = x = graph.input((1200, 1200))
    for _ in range(40):
        y = y @ y * 1e-3
    return x, graph.compile(y)


# ---- Jobs --------------------------------------------------------------------------------------------------------


def test_jobs_give_the_results_of_runs(random):
    x, plan = product()
    values = random.random((200, 200), dtype=np.float32)
    first = plan.submit({x: values})
    second = plan.submit({x: values}, after=[first])
    assert (second.wait().numpy() == plan.run({x: values}).numpy()).all()
    assert first.done() and first.describe().state == lc.JobState.DONE
    out = lc.zeros((200, 200))
    assert plan.submit({x: values}, out=out).wait() is out
    assert (out.numpy() == first.wait().numpy()).all()


def test_a_wait_has_a_limit_and_a_job_can_be_cancelled(random):
    x, plan = long_plan()
    job = plan.submit({x: random.random((1200, 1200), dtype=np.float32)})
    with pytest.raises(TimeoutError):
        job.wait(0.001)
    assert not job.done()
    after = plan.submit({x: random.random((1200, 1200), dtype=np.float32)}, after=[job])
    job.cancel()
    for one in (job, after):
        with pytest.raises(lc.CancelledError):
            one.wait()


def test_a_signal_ends_a_wait_but_not_the_job(random):
    x, plan = long_plan()
    job = plan.submit({x: random.random((1200, 1200), dtype=np.float32)})
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        job.wait()
        time.sleep(10)  # if the job was faster than the signal
    job.cancel()


# ---- Batches -----------------------------------------------------------------------------------------------------


@pytest.fixture(name="work")
def _work(random):
    weights = random.random((4, 3), dtype=np.float32)
    array = lc.asarray(weights)
    return weights, lc.batch(lambda x: x @ x.graph.parameter(array), [("float32", (5, 4))], batch=64)


def test_batches_of_arrays_functions_and_files(random, work, tmp_path):
    weights, batch = work
    x = random.random((501, 5, 4), dtype=np.float32)
    expected = x @ weights
    assert batch.outputs == ((lc.float32, (5, 3)),)
    out = batch.run(x)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    parts = []
    assert batch.run(lambda first, items: x[first:first + items],
                     out=lambda first, values: parts.append((first, values.copy()))) is not None
    assert [first for first, _ in parts] == sorted(first for first, _ in parts) and len(parts) > 1
    assert (np.concatenate([values for _, values in parts]) == out).all()
    x.tofile(tmp_path / "x")
    again = np.empty_like(out)
    assert batch.run(tmp_path / "x", out=again, items=501) is again
    assert (again == out).all()
    batch.run(x, out=tmp_path / "y")
    assert (np.fromfile(tmp_path / "y", np.float32) == out.ravel()).all()


def test_failures_of_batches_are_exceptions(random, work):
    _, batch = work
    x = random.random((300, 5, 4), dtype=np.float32)
    with pytest.raises(ValueError, match="items are float32"):
        batch.run(x[:, :4])
    with pytest.raises(ValueError, match="no room"):
        batch.run(x, out=np.empty((299, 5, 3), np.float32))
    with pytest.raises(ValueError, match="up to"):
        batch.run(lambda first, items: x, out=np.empty((300, 5, 3), np.float32), items=300)
    with pytest.raises(ZeroDivisionError):
        batch.run(lambda first, items: 1 / 0, out=np.empty((300, 5, 3), np.float32), items=300)
    with pytest.raises(ZeroDivisionError):
        batch.run(x, out=lambda first, values: 1 / 0)
    assert batch.run(x).shape == (300, 5, 3)  # the iterator is usable
    with pytest.raises(ZeroDivisionError):
        lc.batch(lambda x: 1 / 0, [("float32", (2,))])
    with pytest.raises(ValueError, match="2 outputs"):
        lc.batch(lambda x: (x, x), [("float32", (2,))])


def test_nodes_of_a_batch_are_of_no_use_after_it():
    kept = []
    lc.batch(lambda x: kept.append(x) or lc.exp(x), [("float32", (2,))])
    with pytest.raises((TypeError, ValueError, lc.Error)):
        lc.exp(kept[0])


# ---- Kernels -----------------------------------------------------------------------------------------------------

SCALE = """KERNEL void scale(GLOBAL const f32 *x, GLOBAL f32 *y, u32 n, f32 by) {
  u32 i = GLOBAL_ID_X;
  if (i < n) y[i] = by * x[i];
}
"""


def test_own_kernels():
    try:
        kernel = lc.kernel(SCALE, "scale")
    except lc.UnsupportedError as error:
        pytest.skip(str(error))
    x, y = lc.asarray(np.arange(100, dtype=np.float32)), lc.zeros((100,))
    kernel.launch(2, 64, x, y, np.uint32(90), 2.5)
    expected = 2.5 * np.arange(100, dtype=np.float32)
    expected[90:] = 0
    assert (y.numpy() == expected).all()
    with pytest.raises(lc.CompilationError):
        lc.kernel("KERNEL void other(u32 n) { syntax }", "other")
    with pytest.raises(ValueError):
        kernel.launch((1, 1, 1, 1), 64, x, y, 100, 2.5)
    with pytest.raises(lc.InvalidArgumentError):
        kernel.launch(1, 64, x, y)
    with pytest.raises(OverflowError):
        kernel.launch(2, 64, x, y, 2**31, 2.5)


# ---- Groups ------------------------------------------------------------------------------------------------------


def test_a_group_of_one():
    with lc.open_group(transport="none") as group:
        x = lc.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        assert (group.rank, group.size) == (0, 1)
        for made in (group.all_reduce(x), group.all_reduce(x, "mean"), group.all_gather(x), group.reduce_scatter(x),
                     group.broadcast(x)):
            assert (made.numpy() == x.numpy()).all()
        group.barrier()
        group.agree("settings", "the same")
    with pytest.raises(ValueError):
        group.barrier()


def test_a_group_outlives_its_trainer():
    group = lc.open_group(transport="none")
    trainer = lc.trainer(model=lc.Dense(8, 2, seed=1), batch=32, input=("float32", (8,)), target=("int64", ()),
                         loss="cross_entropy", seed=1, group=group)
    with pytest.raises(ValueError, match="uses this group"):
        group.close()
    del trainer
    group.close()


# ---- Spots -------------------------------------------------------------------------------------------------------


def test_spots_are_found_where_they_are(random):
    frames = random.poisson(20, (3, 64, 64)).astype(np.float32)
    y, x = np.mgrid[0:64, 0:64]
    places = [(frame, row + frame, column) for frame in range(3) for row, column in ((10, 20), (40, 50))]
    for frame, row, column in places:
        frames[frame] += 400 * np.exp(-((y - row)**2 + (x - column)**2) / (2 * 1.3**2))
    spots, response = lc.find_spots(lc.asarray(frames), sigma=1.3, threshold=8)
    assert [tuple(place) for place in np.argwhere(spots.numpy())] == places
    corners = lc.spot_corners(spots, 7, 7, sigma=1.3, threshold=8, first_frame=5)
    assert [tuple(corner) for corner in corners] == [(f + 5, r - 3, c - 3) for f, r, c in places]
    one = lc.spot_corners(spots, 7, 7, response=response, sigma=1.3, threshold=8, limit=1)
    assert len(one) == 3


# ---- Batchers ----------------------------------------------------------------------------------------------------


def test_a_batcher_serves_many_threads(random, work):
    weights, batch = work
    x = random.random((40, 5, 4), dtype=np.float32)
    batcher = lc.batcher(batch, most=8, wait_microseconds=500)
    results = [None] * len(x)

    def serve(first):
        for i in range(first, len(x), 4):
            results[i] = batcher.run(x[i])
    threads = [threading.Thread(target=serve, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(np.stack(results), batch.run(x))
    np.testing.assert_allclose(np.stack(results), x @ weights, rtol=1e-5)
    info = batcher.describe()
    assert (info.submitted, info.succeeded, info.items) == (40, 40, 40) and info.runs <= 40
    assert sum(info.sizes) == info.runs


def test_requests_of_a_batcher(random, work):
    _, batch = work
    x = random.random((5, 4), dtype=np.float32)
    batcher = lc.batcher(batch, most=4, wait_microseconds=30_000_000)
    assert batcher.batch is batch
    out = np.zeros((5, 3), np.float32)
    request = batcher.submit(x, out=out)  # waits for others
    with pytest.raises(TimeoutError):
        request.wait(0.01)
    assert not request.done()
    request.cancel()
    with pytest.raises(lc.CancelledError):
        request.wait()
    del request
    batcher.submit(x, out=out)  # the last reference: nothing is written
    assert not out.any()
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        batcher.run(x)
    requests = [batcher.submit(x, out=out)] + [batcher.submit(lc.asarray(x)) for _ in range(3)]
    assert requests[0].wait() is out
    for request in requests[1:]:
        np.testing.assert_array_equal(request.wait(), out)
    for wrong in ((x[:4],), (x, x), ()):
        with pytest.raises(ValueError):
            batcher.submit(*wrong)
    batcher.stop(True)
    with pytest.raises(lc.InvalidStateError):
        batcher.run(x)


# ---- Models ------------------------------------------------------------------------------------------------------


def test_a_signal_ends_the_run_of_a_model(random, tmp_path):
    taken, size = 0, 150
    while taken < 0.3:  # long enough for some questions
        size *= 2
        graph = lc.Graph()
        y = x = graph.input((size, size), name="x")
        for _ in range(200):
            y = lc.tanh(y @ y)
        graph.save_onnx(tmp_path / "long.onnx", {"y": y}, {"x": x})
        model = lc.load_model(tmp_path / "long.onnx")
        values = {"x": random.random((size, size), dtype=np.float32)}
        model.run(values)  # compiles
        begin = time.perf_counter()
        model.run(values)
        taken = time.perf_counter() - begin
    for share in (4, 8, 16, 32):  # a run may be faster than the last one
        complete = model.describe().plan_hits
        threading.Timer(taken / share, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            model.run(values)
            time.sleep(10)
        if model.describe().plan_hits == complete:
            break
    else:
        pytest.fail("every run was completed before the signal was seen")
    model.run(values)  # the model stays usable
