# SPDX-License-Identifier: MIT
"""Models of scikit-learn, XGBoost and LightGBM, converted by skl2onnx and onnxmltools, against the
packages' own predictions: classical.py LIBRARY [--speed] [--json FILE] [--only NAME]

--speed also measures forests of trees beside ONNX Runtime and the package, in alternating calls."""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time
import warnings

import numpy
import onnx
import onnxmltools
import onnxruntime
import skl2onnx
import sklearn.datasets
import sklearn.ensemble
import sklearn.impute
import sklearn.linear_model
import sklearn.naive_bayes
import sklearn.neighbors
import sklearn.neural_network
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.svm
import sklearn.tree
from onnxmltools.convert.common.data_types import FloatTensorType

import lightgbm
import xgboost

warnings.filterwarnings("ignore")
MAX_RANK = 8
DTYPES = {}


# ---- The library --------------------------------------------------------------------------------


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int32), ("size", ctypes.c_int64 * MAX_RANK)]


class Binding(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p)]


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name in ("compute_error_message", "compute_dtype_name"):
            getattr(self.c, name).restype = ctypes.c_char_p
        self.c.compute_tensor_shape.restype = Shape
        self.c.compute_tensor_data.restype = ctypes.c_void_p
        self.c.compute_dtype_name.argtypes = [ctypes.c_int]
        self.context, self.device = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.c.compute_open(ctypes.byref(self.context), None))
        self.c.compute_default_device.restype = ctypes.c_void_p
        self.device = ctypes.c_void_p(self.c.compute_default_device(self.context))
        for number in range(32):
            name = self.c.compute_dtype_name(number)
            kinds = {b"f32": "f4", b"f64": "f8", b"i64": "i8", b"i32": "i4", b"bool": "?"}
            if name in kinds:
                DTYPES[numpy.dtype(kinds[name])] = number

    def check(self, status):
        if status:
            raise RuntimeError(self.c.compute_error_message(self.context).decode() or f"status {status}")

    def tensor(self, array):
        shape = Shape(array.ndim, (ctypes.c_int64 * MAX_RANK)(*array.shape))
        result = ctypes.c_void_p()
        data = array.ctypes.data_as(ctypes.c_void_p)
        self.check(self.c.compute_tensor_wrap(self.device, DTYPES[array.dtype], shape, None, data, None, None,
                                              ctypes.byref(result)))
        return result


class Model:
    def __init__(self, library, data, outputs):
        self.library, self.data, self.model = library, data, ctypes.c_void_p()
        library.check(library.c.compute_model_load_memory(library.context, data, ctypes.c_size_t(len(data)), None,
                                                          ctypes.byref(self.model)))
        self.outputs = (Binding * len(outputs))(*[Binding(name.encode(), None) for name in outputs])

    def run(self, inputs):
        """Tensors of the outputs; `inputs` are pairs of name and tensor."""
        c = self.library.c
        given = (Binding * len(inputs))(*[Binding(name.encode(), t) for name, t in inputs])
        for output in self.outputs:
            c.compute_tensor_release(ctypes.c_void_p(output.tensor))
            output.tensor = None
        self.library.check(c.compute_model_run(self.model, given, ctypes.c_size_t(len(inputs)), self.outputs,
                                               ctypes.c_size_t(len(self.outputs))))

    def results(self):
        arrays = []
        for output in self.outputs:
            tensor = ctypes.c_void_p(output.tensor)
            shape = self.library.c.compute_tensor_shape(tensor)
            number = self.library.c.compute_tensor_dtype(tensor)
            dtype = next(d for d, n in DTYPES.items() if n == number)
            array = numpy.empty(list(shape.size[: shape.rank]), dtype)
            self.library.check(self.library.c.compute_tensor_read(
                tensor, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes)))
            arrays.append(array)
        return arrays


# ---- Models -------------------------------------------------------------------------------------


def data(classes, missing=False, categories=False):
    x, y = sklearn.datasets.make_classification(600, 12, n_informative=8, n_classes=max(classes, 2), random_state=3)
    x = x.astype(numpy.float32)
    if categories:
        x[:, 0] = numpy.floor(numpy.abs(x[:, 0]) * 4)
    if classes == 0:
        y = (x[:, 0] * 2 - x[:, 1] + numpy.sin(x[:, 2]) * 5).astype(numpy.float32)
    if missing:
        x[numpy.random.default_rng(5).random(x.shape) < 0.1] = numpy.nan
    return x, y


def scikit():
    e, l, s = sklearn.ensemble, sklearn.linear_model, sklearn.svm
    p, pipe = sklearn.preprocessing, sklearn.pipeline.make_pipeline
    yield "sk.linear", l.LinearRegression(), 0, {}
    yield "sk.ridge", l.Ridge(), 0, {}
    yield "sk.lasso.scaled", pipe(p.StandardScaler(), l.Lasso(0.01)), 0, {}
    yield "sk.logistic.2", l.LogisticRegression(), 2, {}
    yield "sk.logistic.4", l.LogisticRegression(), 4, {}
    yield "sk.logistic.minmax", pipe(p.MinMaxScaler(), l.LogisticRegression()), 4, {}
    yield "sk.logistic.text", l.LogisticRegression(), 4, {"text": True}
    yield "sk.sgd", l.SGDClassifier(loss="log_loss", random_state=1), 4, {}
    yield "sk.tree", sklearn.tree.DecisionTreeClassifier(random_state=1), 4, {}
    yield "sk.tree.regressor", sklearn.tree.DecisionTreeRegressor(random_state=1), 0, {}
    yield "sk.forest.2", e.RandomForestClassifier(20, random_state=1), 2, {}
    yield "sk.forest.4", e.RandomForestClassifier(20, random_state=1), 4, {}
    yield "sk.forest.text", e.RandomForestClassifier(20, random_state=1), 4, {"text": True}
    yield "sk.forest.regressor", e.RandomForestRegressor(20, random_state=1), 0, {}
    yield "sk.extra", e.ExtraTreesClassifier(20, random_state=1), 4, {}
    yield "sk.boosting.2", e.GradientBoostingClassifier(n_estimators=20, random_state=1), 2, {}
    yield "sk.boosting.4", e.GradientBoostingClassifier(n_estimators=20, random_state=1), 4, {}
    yield "sk.boosting.regressor", e.GradientBoostingRegressor(n_estimators=20, random_state=1), 0, {}
    yield "sk.histogram.2", e.HistGradientBoostingClassifier(max_iter=20, random_state=1), 2, {"missing": True}
    yield "sk.histogram.regressor", e.HistGradientBoostingRegressor(max_iter=20, random_state=1), 0, {"missing": True}
    yield "sk.isolation", e.IsolationForest(n_estimators=20, random_state=1), 0, {"scores": False}
    yield "sk.svc.rbf", s.SVC(), 4, {}
    yield "sk.svc.poly.2", s.SVC(kernel="poly"), 2, {"negated": True}
    yield "sk.svc.probability", s.SVC(probability=True, random_state=1), 4, {}
    yield "sk.svc.linear", s.SVC(kernel="linear"), 2, {"negated": True, "allowed": 2e-4}
    yield "sk.linear_svc", s.LinearSVC(), 4, {}
    yield "sk.svr", s.SVR(), 0, {}
    yield "sk.one_class", s.OneClassSVM(), 0, {"scores": False}
    yield "sk.mlp", sklearn.neural_network.MLPClassifier((16,), max_iter=50, random_state=1), 4, {}
    yield "sk.bayes", sklearn.naive_bayes.GaussianNB(), 4, {}
    yield "sk.neighbors", sklearn.neighbors.KNeighborsClassifier(3), 4, {}
    yield "sk.neighbors.regressor", sklearn.neighbors.KNeighborsRegressor(3), 0, {}
    yield "sk.binarizer", pipe(p.Binarizer(), l.LogisticRegression()), 2, {}
    yield "sk.normalizer", pipe(p.Normalizer(), l.LogisticRegression()), 2, {}
    yield "sk.imputer", pipe(sklearn.impute.SimpleImputer(), l.LogisticRegression()), 2, {"missing": True}
    yield "sk.voting", e.VotingClassifier([("a", l.LogisticRegression()), ("b", sklearn.tree.DecisionTreeClassifier())],
                                          voting="soft", flatten_transform=False), 4, {}


def boosted():
    x, g = xgboost, lightgbm
    for classes in (2, 4):
        yield f"xgb.{classes}", x.XGBClassifier(n_estimators=30, max_depth=5), classes, {}
        yield f"xgb.missing.{classes}", x.XGBClassifier(n_estimators=30, max_depth=5), classes, {"missing": True}
    yield "xgb.regressor", x.XGBRegressor(n_estimators=30, max_depth=5), 0, {"missing": True}
    yield "xgb.poisson", x.XGBRegressor(n_estimators=20, objective="count:poisson"), 0, {"positive": True}
    yield "xgb.forest", x.XGBRFRegressor(n_estimators=20, max_depth=6), 0, {}
    for classes in (2, 4):
        yield f"lgb.{classes}", g.LGBMClassifier(n_estimators=30, verbose=-1), classes, {}
        yield f"lgb.missing.{classes}", g.LGBMClassifier(n_estimators=30, verbose=-1), classes, {"missing": True}
    yield "lgb.regressor", g.LGBMRegressor(n_estimators=30, verbose=-1), 0, {"missing": True}
    yield "lgb.categories", g.LGBMRegressor(n_estimators=30, verbose=-1), 0, {"categories": True}


class NotConverted(Exception):
    """The converter fails, for example with attributes that onnx refuses."""


def plain_attribute(key, value, *rest, make=onnx.helper.make_attribute, **named):
    """skl2onnx passes numbers of NumPy, which onnx refuses."""
    if isinstance(value, (list, tuple, numpy.ndarray)):
        value = [v.item() if isinstance(v, numpy.generic) else v for v in value]
    return make(key, value, *rest, **named)


onnx.helper.make_attribute = plain_attribute


def convert(name, model, columns):
    types = [("x", FloatTensorType([None, columns]))]
    if name.startswith("sk."):
        return skl2onnx.to_onnx(model, initial_types=[("x", skl2onnx.common.data_types.FloatTensorType([None, columns]))],
                                target_opset={"": 18, "ai.onnx.ml": 3})
    if name.startswith("xgb."):
        return onnxmltools.convert_xgboost(model, initial_types=types, target_opset=15)
    return onnxmltools.convert_lightgbm(model, initial_types=types, target_opset=15)


def expected(model, x):
    """The package's labels and scores; None for no scores."""
    labels = model.predict(x)
    for method in ("predict_proba", "decision_function"):
        if hasattr(model, method):
            try:
                return labels, getattr(model, method)(x)
            except Exception:
                continue
    return labels, None


def judge(library, name, model, classes, options):
    x, y = data(classes, options.get("missing"), options.get("categories"))
    if options.get("positive"):
        y = numpy.abs(y)
    names = None
    if options.get("text"):
        names = numpy.array([f"class {i}" for i in range(classes)])
        y = names[y]
    fit = {"categorical_feature": [0]} if options.get("categories") else {}
    model.fit(x, y, **fit)
    try:
        file = convert(name, model, x.shape[1])
    except Exception as problem:
        raise NotConverted(str(problem)) from problem
    outputs = [o.name for o in file.graph.output]
    labels, scores = expected(model, x)
    ours = Model(library, file.SerializeToString(), outputs)
    ours.run([("x", library.tensor(x))])
    results = ours.results()
    if classes == 0 and options.get("scores", True):
        actual = results[0].reshape(labels.shape).astype(numpy.float64)
        error = numpy.abs(actual - labels).max() / max(1, numpy.abs(labels).max())
        return error, 0
    got = results[0].reshape(-1)
    wrong = int((got != (numpy.searchsorted(names, labels) if names is not None else labels)).sum())
    if scores is None or len(results) < 2:
        return 0.0, wrong
    actual = results[1].astype(numpy.float64)
    scores = scores.reshape(len(x), -1)
    if actual.shape[1] == 2 and scores.shape[1] == 1:
        actual = actual[:, :1] if options.get("negated") else actual[:, 1:]  # as skl2onnx writes it
    if actual.shape != scores.shape:  # one score for each pair of classes
        return 0.0, wrong
    return numpy.abs(actual - scores).max() / max(1, numpy.abs(scores).max()), wrong


# ---- Speed --------------------------------------------------------------------------------------


def least_times(calls, rounds):
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: min(list_) for name, list_ in times.items()}


def measure(library, trees, depth, columns, row_counts, saved=None):
    rng = numpy.random.default_rng(1)
    x = rng.standard_normal((20000, columns)).astype(numpy.float32)
    y = (x[:, :20] * rng.standard_normal(20)).sum(1) + rng.standard_normal(len(x)) * 3
    packages = {
        "xgboost": xgboost.XGBRegressor(n_estimators=trees, max_depth=depth, learning_rate=0.02, n_jobs=1,
                                        min_child_weight=1),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=trees, max_depth=depth, num_leaves=2**depth, n_jobs=1,
                                           learning_rate=0.02, min_child_samples=2, verbose=-1),
    }
    if saved:
        packages = {"xgboost": packages["xgboost"]}
    for package, model in packages.items():
        if saved:
            model.load_model(saved)
        else:
            model.fit(x, y)
        file = convert("xgb." if package == "xgboost" else "lgb.", model, columns)
        data_ = file.SerializeToString()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(data_, options, providers=["CPUExecutionProvider"])
        nodes = sum(len(a.ints) for n in file.graph.node for a in n.attribute if a.name == "nodes_nodeids")
        ours = Model(library, data_, [o.name for o in file.graph.output])
        booster = model.get_booster() if package == "xgboost" else model.booster_
        for rows in row_counts:
            batch = numpy.ascontiguousarray(numpy.resize(x, (rows, columns)))
            tensor = library.tensor(batch)
            own = (lambda: booster.inplace_predict(batch)) if package == "xgboost" else (
                lambda: booster.predict(batch, num_threads=1))
            calls = {"libcompute": lambda: ours.run([("x", tensor)]),
                     "ONNX Runtime": lambda: session.run(None, {"x": batch}), package: own}
            reference = numpy.asarray(own()).reshape(-1)
            calls["libcompute"]()
            error = numpy.abs(ours.results()[0].reshape(-1) - reference).max() / numpy.abs(reference).max()
            best = least_times(calls, max(2, min(200, int(2e5 / max(rows, 1) / (trees / 100)))))
            yield {"package": package, "trees": trees, "depth": depth, "nodes": nodes, "features": columns,
                   "rows": rows, "seconds": best, "error": float(error)}


def commit():
    here = pathlib.Path(__file__).parent
    result = subprocess.run(["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return result.stdout.strip()


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return ""


# ---- The program --------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 100, 10000])
    parser.add_argument("--only", default="")
    parser.add_argument("--saved", help="measures this XGBoost model in place of new ones")
    parser.add_argument("--json")
    options = parser.parse_args()
    library = Library(options.library)
    failures, records = [], []
    for name, model, classes, extra in [] if options.speed else [*scikit(), *boosted()]:
        if options.only not in name:
            continue
        try:
            error, wrong = judge(library, name, model, classes, extra)
            bad = error > extra.get("allowed", 2e-5) or wrong > 0
            print(f"{name:24} error {error:.1e}, labels that differ {wrong}{'  FAILS' if bad else ''}")
        except NotConverted as problem:
            bad = False
            print(f"{name:24} skipped: no ONNX file: {str(problem)[:60]}")
        except Exception as problem:
            bad = True
            print(f"{name:24} FAILS: {str(problem)[:200]}")
        if bad:
            failures.append(name)
    if options.speed:
        for record in measure(library, options.trees, 8, 100, options.rows, options.saved):
            records.append(record)
            seconds = record["seconds"]
            own = seconds["libcompute"]
            print(f"{record['package']:9} {record['rows']:8} rows: {own * 1e6:12.1f} us,",
                  ", ".join(f"{n} {s / own:.2f}x" for n, s in seconds.items() if n != "libcompute"),
                  f"error {record['error']:.1e}")
    if options.json:
        versions = {m.__name__: m.__version__ for m in (onnxruntime, xgboost, lightgbm, sklearn, onnx)}
        head = {"command": "tests/onnx/classical.py LIBRARY " + " ".join(sys.argv[2:]), "versions": versions,
                "commit": commit(), "date": time.strftime("%Y-%m-%d"), "machine": processor(),
                "load": [round(n, 1) for n in os.getloadavg()], "threads": 1,
                "seconds": "the least of alternating calls"}
        with open(options.json, "w", encoding="utf-8") as file:
            for line in [head, *records]:
                file.write(json.dumps(line) + "\n")
    print(f"{len(failures)} fail")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
