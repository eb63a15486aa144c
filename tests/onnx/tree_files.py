# SPDX-License-Identifier: MIT
"""Files that XGBoost and LightGBM save, against the packages' own sums and predictions:
tree_files.py TOOL FOLDER [--only NAME]

Rows have missing and infinite values, zeros, thresholds, and numbers between categories."""

import argparse
import pathlib
import subprocess
import sys
import warnings

import lightgbm
import numpy
import xgboost

warnings.filterwarnings("ignore")
ROWS, FEATURES, CATEGORIES = 500, 8, 12
LIMIT = 3e-6  # of the largest result: sums of f32 in another order


# ---- Data ---------------------------------------------------------------------------------------


def features(rng):
    x = rng.standard_normal((ROWS, FEATURES)).astype("f4")
    x[:, 0] = rng.integers(0, CATEGORIES, ROWS)
    x[:, 1] = rng.integers(0, 40, ROWS)
    x[rng.random(x.shape) < 0.1] = numpy.nan
    x[:, 3][rng.random(ROWS) < 0.4] = 0
    return x


def labels(x, kind, rng):
    z = numpy.nan_to_num(x)
    y = (
        2 * z[:, 2]
        + z[:, 3] * z[:, 4]
        + (z[:, 0] % 3)
        + (z[:, 1] % 2)
        + rng.standard_normal(len(x)) / 5
    )
    if kind == "positive":
        return numpy.abs(y) + 0.1
    if kind == "count":
        return numpy.floor(numpy.abs(y))
    if kind == "share":
        return 1 / (1 + numpy.exp(-y))
    if kind == "pair":
        return numpy.stack([y, z[:, 5] - y], 1)
    return numpy.digitize(y, numpy.quantile(y, numpy.arange(1, kind) / kind)) if kind else y


def unusual(x, thresholds, rng):
    """More rows: each value of a cell is one that is easily wrong."""
    special = numpy.array(
        [
            0,
            -0.0,
            1e-36,
            -1e-36,
            2e-35,
            numpy.inf,
            -numpy.inf,
            numpy.nan,
            3e38,
            -1,
            0.5,
            2.5,
            -0.5,
            31,
            32,
            39.99,
            1e9,
            *thresholds[:40],
        ],
        "f4",
    )
    more = special[rng.integers(0, len(special), (ROWS, FEATURES))]
    return numpy.concatenate([x, more])


# ---- Models -------------------------------------------------------------------------------------


def xgboost_models():
    for name, kind, parameters in (
        ("squared", 0, {}),
        ("logistic", 2, {"objective": "binary:logistic"}),
        ("raw", 2, {"objective": "binary:logitraw"}),
        ("hinge", 2, {"objective": "binary:hinge"}),
        ("softprob", 4, {"objective": "multi:softprob", "num_class": 4}),
        ("poisson", "count", {"objective": "count:poisson"}),
        ("gamma", "positive", {"objective": "reg:gamma"}),
        ("tweedie", "count", {"objective": "reg:tweedie"}),
        ("share", "share", {"objective": "reg:logistic"}),
        ("absolute", 0, {"objective": "reg:absoluteerror"}),
        ("base", 0, {"base_score": -7.5}),
        ("leaves", 0, {"grow_policy": "lossguide", "max_leaves": 31, "max_depth": 0}),
        ("pruned", 0, {"gamma": 5.0, "tree_method": "exact"}),
        ("parallel", 0, {"num_parallel_tree": 4, "subsample": 0.7}),
        ("dart", 0, {"booster": "dart", "rate_drop": 0.4}),
        (
            "dart.softprob",
            3,
            {"booster": "dart", "rate_drop": 0.4, "objective": "multi:softprob", "num_class": 3},
        ),
        ("categories", 0, {"categories": True}),
        ("one.category", 0, {"categories": True, "max_cat_to_onehot": 100}),
        ("pair", "pair", {}),
        ("pair.vector", "pair", {"multi_strategy": "multi_output_tree"}),
    ):
        yield f"xgboost.{name}", kind, parameters


def lightgbm_models():
    for name, kind, parameters in (
        ("squared", 0, {}),
        ("binary", 2, {"objective": "binary"}),
        ("binary.sigmoid", 2, {"objective": "binary", "sigmoid": 0.7}),
        ("multiclass", 4, {"objective": "multiclass", "num_class": 4}),
        ("ova", 3, {"objective": "multiclassova", "num_class": 3}),
        ("poisson", "count", {"objective": "poisson"}),
        ("gamma", "positive", {"objective": "gamma"}),
        ("tweedie", "count", {"objective": "tweedie"}),
        ("l1", 0, {"objective": "regression_l1"}),
        ("sqrt", 0, {"reg_sqrt": True}),
        ("cross", "share", {"objective": "cross_entropy"}),
        ("cross.lambda", "share", {"objective": "cross_entropy_lambda"}),
        ("zero", 0, {"zero_as_missing": True}),
        ("unknown.none", 0, {"use_missing": False}),
        ("categories", 0, {"categories": True, "min_data_per_group": 5}),
        (
            "categories.zero",
            0,
            {"categories": True, "zero_as_missing": True, "min_data_per_group": 5},
        ),
        ("forest", 0, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}),
        (
            "forest.binary",
            2,
            {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7, "objective": "binary"},
        ),
        ("dart", 0, {"boosting": "dart"}),
        ("stump", 0, {"num_leaves": 2}),
        ("constant", 0, {"min_data_in_leaf": 100000}),
    ):
        yield f"lightgbm.{name}", kind, parameters


def train_xgboost(x, y, parameters):
    options = {"max_depth": 6, "seed": 1, "nthread": 1, **parameters}
    types = ["q"] * FEATURES
    if options.pop("categories", False):
        types[0] = types[1] = "c"
        y = y + (x[:, 0] == 5) * 3
    matrix = xgboost.DMatrix(x, y, feature_types=types, enable_categorical=True)
    booster = xgboost.train(options, matrix, 15)

    def predict(rows, raw):
        rows = xgboost.DMatrix(rows, feature_types=types, enable_categorical=True)
        return booster.predict(rows, output_margin=raw)

    def save(folder, name):
        paths = [folder / f"{name}.json", folder / f"{name}.ubj"]
        for path in paths:
            booster.save_model(path)
        return paths

    frame = None if "multi_strategy" in parameters else booster.trees_to_dataframe()
    thresholds = [] if frame is None else frame["Split"].dropna().to_numpy()
    return predict, save, thresholds


def train_lightgbm(x, y, parameters):
    options = {"seed": 1, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 3, **parameters}
    categories = [0, 1] if options.pop("categories", False) else []
    booster = lightgbm.train(options, lightgbm.Dataset(x, y, categorical_feature=categories), 15)

    def save(folder, name):
        path = folder / f"{name}.txt"
        booster.save_model(path)
        return [path]

    column = booster.trees_to_dataframe()["threshold"].dropna()
    thresholds = [float(t) for t in column if isinstance(t, float) or "|" not in str(t)]
    return (lambda rows, raw: booster.predict(rows, raw_score=raw)), save, thresholds


# ---- The comparison -----------------------------------------------------------------------------


def judge(tool, folder, name, kind, parameters):
    rng = numpy.random.default_rng(7)
    x = features(rng)
    y = labels(x, kind, rng)
    package = train_xgboost if name.startswith("xgboost") else train_lightgbm
    predict, save, thresholds = package(x, y, parameters)
    rows = unusual(x, thresholds, rng)
    if package is train_xgboost:
        rows[numpy.isinf(rows)] = 1e30  # XGBoost refuses infinity
    if package is train_xgboost and parameters.get("categories"):
        for column in (0, 1):  # and codes that are too large
            rows[:, column] = numpy.where(numpy.abs(rows[:, column]) > 1e6, 77, rows[:, column])
            rows[:, column] = numpy.where(rows[:, column] < 0, 0, rows[:, column])
    worst, report = 0.0, ""
    for path in save(folder, name):
        for dtype in ("f4", "f8"):
            given = rows
            if dtype == "f8":  # numbers that f32 does not have
                given = rows.astype("f8") * (1 + 1e-9 * rng.random(rows.shape))
            numpy.save(folder / "x.npy", given)
            result = subprocess.run(
                [tool, path, folder / "x.npy", folder / "sums.npy", folder / "predictions.npy"],
                capture_output=True,
                text=True,
                check=False,
            )
            if result.returncode:
                return numpy.inf, result.stderr.strip()
            for raw, file in ((True, "sums"), (False, "predictions")):
                wanted = numpy.asarray(predict(given, raw), float)
                actual = numpy.load(folder / f"{file}.npy").astype(float).reshape(wanted.shape)
                error = numpy.abs(actual - wanted).max() / max(1, numpy.abs(wanted).max())
                if not error <= worst:
                    worst = error
                    row = numpy.abs(actual - wanted).reshape(len(rows), -1).max(1).argmax()
                    report = f"{path.name} {dtype} {file}: row {row}"
    return worst, report


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failures = 0
    for name, kind, parameters in [*xgboost_models(), *lightgbm_models()]:
        if options.only not in name:
            continue
        error, report = judge(options.tool, options.folder, name, kind, parameters)
        bad = not error <= LIMIT
        failures += bad
        print(f"{name:26} error {error:.1e}{'  FAILS ' + report if bad else ''}", flush=True)
    print(f"{failures} fail")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
