# SPDX-License-Identifier: Apache-2.0
"""Models of scikit-learn, LightGBM and XGBoost, as their converters to ONNX export them by default: converted.py FOLDER

Each becomes a case with what ONNX Runtime computes. LightGBM and XGBoost may be missing; how many models are left out is printed."""

import os
import sys
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import samples
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes, calculate_linear_regressor_output_shapes
from sklearn import (calibration, cluster, compose, decomposition, discriminant_analysis, ensemble, impute, linear_model, multiclass,
                     naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree)

FOLDER = sys.argv[1]
ROWS = 40   # of a data set; the models learn from more
rng = np.random.default_rng(0)
X = rng.standard_normal((200, 5)).astype(np.float32)
SCORES = X @ rng.standard_normal((5, 3))
TARGET = SCORES[:, 0] + np.sin(3 * SCORES[:, 1])
THREE, TWO = SCORES.argmax(1), (SCORES[:, 0] > 0).astype(np.int64)
COLOURS = np.array(["red", "green", "bl\xfce"])
WORDS = np.array(["Rome", "Bonn", "Nis", "\xd6l", ""], object)[rng.integers(0, 5, (200, 2))]
TREES = {"n_estimators": 10, "random_state": 0}
SETS = {"": 17, "ai.onnx.ml": 3}


# ---- Cases ----

def map_of(entries):
    """A dict from a label to its probability, an f32."""
    keys, values = list(entries), onnx.SequenceProto(elem_type=onnx.SequenceProto.TENSOR)
    for v in entries.values():
        values.tensor_values.append(onnx.numpy_helper.from_array(np.float32(v)))
    text = bool(keys) and isinstance(keys[0], str)
    found = onnx.MapProto(key_type=onnx.TensorProto.STRING if text else onnx.TensorProto.INT64, values=values)
    (found.string_keys if text else found.keys).extend([k.encode() if text else k for k in keys])
    return found


def value_of(name, value):
    if not isinstance(value, list):
        return onnx.numpy_helper.from_array(np.asarray(value), name)
    return onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.MAP, map_values=[map_of(v) for v in value])


def case(name, fitted, feeds, **options):
    model = to_onnx(fitted, **options)
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), quiet, providers=["CPUExecutionProvider"])
    folder = f"{FOLDER}/{name}"
    data = f"{folder}/test_data_set_0"
    samples.tensors(data, "input", feeds)
    for i, (output, value) in enumerate(zip(session.get_outputs(), session.run(None, feeds))):
        with open(f"{data}/output_{i}.pb", "wb") as f:
            f.write(value_of(output.name, value).SerializeToString())
    onnx.save(model, f"{folder}/model.onnx")


def numeric(models, y, **options):
    """Models that learn Y from numbers."""
    for name, model in models.items():
        case(name, model.fit(X, y), {"X": X[:ROWS]}, X=X[:1], **options)


# ---- scikit-learn ----

def classifiers():
    linear = linear_model.LogisticRegression
    numeric({"forest": ensemble.RandomForestClassifier(max_depth=6, **TREES), "extra_trees": ensemble.ExtraTreesClassifier(**TREES),
             "boosting": ensemble.GradientBoostingClassifier(**TREES), "logistic": linear(), "svm_sigmoid": svm.SVC(kernel="sigmoid"),
             "one_vs_rest": multiclass.OneVsRestClassifier(linear()), "one_vs_one": multiclass.OneVsOneClassifier(linear())}, THREE)
    numeric({"forest_strings": ensemble.RandomForestClassifier(max_depth=6, **TREES), "ada": ensemble.AdaBoostClassifier(**TREES),
             "boosting_strings": ensemble.GradientBoostingClassifier(**TREES), "bagging": ensemble.BaggingClassifier(n_estimators=3),
             "stacking": ensemble.StackingClassifier([("a", linear()), ("b", tree.DecisionTreeClassifier(max_depth=3))]),
             "tree": tree.DecisionTreeClassifier(max_depth=5), "logistic_strings": linear(), "linear_svm": svm.LinearSVC(),
             "gradient_descent": linear_model.SGDClassifier(random_state=0), "ridge": linear_model.RidgeClassifier(),
             "svm": svm.SVC(random_state=0), "svm_nu": svm.NuSVC(nu=0.2), "neighbors": neighbors.KNeighborsClassifier(3),
             "bayes": naive_bayes.GaussianNB(), "bernoulli": naive_bayes.BernoulliNB(),
             "perceptrons": neural_network.MLPClassifier((8,), max_iter=50, random_state=0),
             "discriminant": discriminant_analysis.LinearDiscriminantAnalysis(), "quadratic": discriminant_analysis.QuadraticDiscriminantAnalysis(),
             "calibrated": calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=2)}, COLOURS[THREE])
    numeric({"forest_two": ensemble.RandomForestClassifier(max_depth=6, **TREES), "boosting_two": ensemble.GradientBoostingClassifier(**TREES),
             "logistic_two": linear(), "linear_svm_two": svm.LinearSVC(), "svm_linear": svm.SVC(kernel="linear")}, COLOURS[TWO])
    for zipmap in (False, "columns"):
        numeric({f"forest_{zipmap}": ensemble.RandomForestClassifier(max_depth=6, **TREES)}, COLOURS[THREE], options={"zipmap": zipmap})


def probabilities():
    """Support vectors whose scores become probabilities."""
    numeric({"svm_two_probable": svm.SVC(probability=True, random_state=0)}, COLOURS[TWO])
    numeric({"svm_probable": svm.SVC(probability=True, random_state=0, kernel="poly")}, THREE)


def regressors():
    numeric({"tree_regressor": tree.DecisionTreeRegressor(max_depth=5), "forest_regressor": ensemble.RandomForestRegressor(max_depth=6, **TREES),
             "boosting_regressor": ensemble.GradientBoostingRegressor(**TREES), "lasso": linear_model.Lasso(0.1), "svm_regressor": svm.SVR(),
             "neighbors_regressor": neighbors.KNeighborsRegressor(3)}, TARGET)
    numeric({"linear_regression": linear_model.LinearRegression()}, SCORES)
    numeric({"kmeans": cluster.KMeans(3, n_init=1, random_state=0), "one_class": svm.OneClassSVM()}, None)
    numeric({"isolation": ensemble.IsolationForest(**TREES)}, None, target_opset=SETS)


def pipelines():
    linear = linear_model.LogisticRegression
    numeric({"scaled": pipeline.make_pipeline(preprocessing.StandardScaler(), linear()),
             "prepared": pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.MinMaxScaler(), preprocessing.PolynomialFeatures(2),
                                                decomposition.PCA(4), preprocessing.Normalizer(), linear()),
             "binned": pipeline.make_pipeline(preprocessing.RobustScaler(), preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), linear())},
            COLOURS[THREE])


def columns():
    """Columns of numbers and of strings."""
    table = np.concatenate([X[:, :3].astype(object), WORDS], axis=1)
    types = [("numbers", FloatTensorType([None, 3])), ("words", StringTensorType([None, 2]))]
    unknown = WORDS[:ROWS].copy()
    unknown[:3, 0] = "Atlantis"
    for name, encoder, model, words in (
            ("one_hot", preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.LogisticRegression(), unknown),
            ("ordinal", preprocessing.OrdinalEncoder(), ensemble.RandomForestClassifier(max_depth=5, **TREES), WORDS[:ROWS])):
        prepared = compose.ColumnTransformer([("numbers", preprocessing.StandardScaler(), [0, 1, 2]), ("words", encoder, [3, 4])])
        for zipmap in (True, False):
            case(f"columns_{name}_{zipmap}", pipeline.make_pipeline(prepared, model).fit(table, COLOURS[THREE]),
                 {"numbers": X[:ROWS, :3], "words": words}, initial_types=types, options={"zipmap": zipmap})


def labels():
    case("labels", preprocessing.LabelEncoder().fit(COLOURS), {"X": COLOURS[THREE].astype(object)}, initial_types=[("X", StringTensorType([None]))])
    pairs = np.stack([THREE, TWO], axis=1)
    case("one_hot_integers", preprocessing.OneHotEncoder().fit(pairs), {"X": pairs[:ROWS]}, initial_types=[("X", Int64TensorType([None, 2]))])


# ---- LightGBM and XGBoost ----

def register(kind, convert, shapes):
    options = {"nocl": [True, False], "zipmap": [True, False, "columns"], "raw_scores": [True, False]} if "Classifier" in kind.__name__ else {"split": None}
    update_registered_converter(kind, kind.__name__, shapes, convert, options=options)


def lightgbm_models():
    import lightgbm
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

    register(lightgbm.LGBMClassifier, convert_lightgbm, calculate_linear_classifier_output_shapes)
    register(lightgbm.LGBMRegressor, convert_lightgbm, calculate_linear_regressor_output_shapes)
    small = {"n_estimators": 10, "num_leaves": 15, "verbose": -1, "n_jobs": 1}
    numeric({"lightgbm_two": lightgbm.LGBMClassifier(**small)}, TWO, target_opset=SETS)
    numeric({"lightgbm": lightgbm.LGBMClassifier(**small),
             "lightgbm_scaled": pipeline.make_pipeline(preprocessing.StandardScaler(), lightgbm.LGBMClassifier(**small))},
            COLOURS[THREE], target_opset=SETS)
    numeric({"lightgbm_regressor": lightgbm.LGBMRegressor(**small)}, TARGET, target_opset=SETS)
    table = X.copy()
    table[:, 0] = THREE + 3 * TWO
    model = lightgbm.LGBMClassifier(min_data_per_group=5, cat_smooth=1, **small).fit(table, SCORES[:, 1] > 0, categorical_feature=[0])
    case("lightgbm_categories", model, {"X": table[:ROWS]}, X=table[:1], target_opset=SETS)


def xgboost_models():
    import xgboost
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost

    register(xgboost.XGBClassifier, convert_xgboost, calculate_linear_classifier_output_shapes)
    register(xgboost.XGBRegressor, convert_xgboost, calculate_linear_regressor_output_shapes)
    small = {"n_estimators": 10, "max_depth": 4, "n_jobs": 1}
    numeric({"xgboost_two": xgboost.XGBClassifier(**small)}, TWO, target_opset=SETS)
    numeric({"xgboost": xgboost.XGBClassifier(**small)}, THREE, target_opset=SETS)
    numeric({"xgboost_regressor": xgboost.XGBRegressor(**small)}, TARGET, target_opset=SETS)


warnings.filterwarnings("ignore")
os.makedirs(FOLDER, exist_ok=True)
for make in (classifiers, probabilities, regressors, pipelines, columns, labels):
    make()
for make in (lightgbm_models, xgboost_models):
    try:
        make()
    except ImportError as e:
        print(f"{make.__name__} are left out: {e}")
