# SPDX-License-Identifier: Apache-2.0
"""Times one model in one engine, in this process: peer.py ENGINE MODEL.onnx THREADS SECONDS FLUSH DIMS DATA

ENGINE: onnxruntime or openvino. FLUSH: 1, subnormal numbers count as zero; 0, they are kept. DIMS: sizes of symbolic dims, as JSON, for
random inputs as dlrun makes them: normal floats, integers 0 and 1, masks 1. DATA: a folder whose test_data_set_0 has the inputs
instead, or "". Prints a line of JSON with what dlrun --bench prints, and the mean absolute value of the results.
"""
import json
import os
import resource
import sys
import time

import numpy as np


class OnnxRuntime:
    def __init__(self, path, threads, flush):
        import onnxruntime as ort

        o = ort.SessionOptions()
        o.intra_op_num_threads = threads
        o.inter_op_num_threads = 1
        o.add_session_config_entry("session.set_denormal_as_zero", "01"[flush])
        self.version = ort.__version__
        self.session = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])

    def inputs(self):
        types = {"float": np.float32, "double": np.float64, "bool": np.bool_}
        for x in self.session.get_inputs():
            element = x.type[len("tensor("):-1]
            yield x.name, types.get(element) or np.dtype(element), x.shape

    def runner(self, feed):
        return lambda: self.session.run(None, feed)


class OpenVino:
    def __init__(self, path, threads, flush):
        import openvino as ov

        self.version = ov.__version__.split("-")[0]
        self.model = ov.Core().compile_model(path, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads),
            "ENABLE_CPU_PINNING": False, "CPU_DENORMALS_OPTIMIZATION": bool(flush)})

    def inputs(self):
        for x in self.model.inputs:
            shape = [d.get_length() if d.is_static else None for d in x.get_partial_shape()]
            yield x.get_any_name(), x.get_element_type().to_dtype(), shape

    def runner(self, feed):
        request = self.model.create_infer_request()
        return lambda: request.infer(feed, share_inputs=True)


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}


def size(dim, dims):
    """The number that DIM is: a number, or a name, or a sum of both, as in "past + 1"."""
    return dim if isinstance(dim, int) else sum(int(dims[s]) if s in dims else int(s) for s in map(str.strip, dim.split("+")))


def random_inputs(path, dims):
    import onnx

    rng = np.random.default_rng(0)
    graph = onnx.load(path, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    feed = {}
    for x in graph.input:
        if x.name in constants:
            continue
        shape = [size(d.dim_param or d.dim_value, dims) for d in x.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(x.type.tensor_type.elem_type)
        if "mask" in x.name or dtype == np.bool_:
            feed[x.name] = np.ones(shape, dtype)
        elif dtype.kind == "f":
            feed[x.name] = rng.standard_normal(shape).astype(dtype)
        else:
            feed[x.name] = rng.integers(0, 2, shape).astype(dtype)
    return feed


def given_inputs(folder, names):
    """The inputs of test_data_set_0, by the names in the files, or in order."""
    import onnx

    feed = {}
    for i, name in enumerate(names):
        path = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
        if not os.path.exists(path):
            break
        with open(path, "rb") as f:
            tensor = onnx.TensorProto.FromString(f.read())
        feed[tensor.name if tensor.name in names else name] = onnx.numpy_helper.to_array(tensor)
    return feed


def mean_of(results):
    """The mean absolute value of all results that are finite numbers: what tells results of one engine from wrong ones of another."""
    finite = [np.abs(x[np.isfinite(x)].astype(np.float64)) for x in map(np.asarray, results.values() if hasattr(results, "values") else results) if x.dtype.kind in "fiu"]
    count = sum(x.size for x in finite)
    return sum(float(x.sum()) for x in finite) / count if count else 0.0


def main():
    engine, path, threads, seconds, flush, dims, data = sys.argv[1:]
    begin = time.perf_counter()
    e = ENGINES[engine](path, int(threads), int(flush))
    load_s = time.perf_counter() - begin
    names = [name for name, _, _ in e.inputs()]
    feed = given_inputs(data, names) if data else random_inputs(path, json.loads(dims))
    run = e.runner({name: x for name, x in feed.items() if name in names})
    end = time.perf_counter() + float(seconds) / 5
    mean = mean_of(run())
    while time.perf_counter() < end:
        run()
    ms, cpu_ms, end = [], [], time.perf_counter() + float(seconds) * 4 / 5
    while time.perf_counter() < end or len(ms) < 3:
        cpu, begin = time.process_time(), time.perf_counter()
        run()
        ms.append(1e3 * (time.perf_counter() - begin))
        cpu_ms.append(1e3 * (time.process_time() - cpu))
    ms.sort()
    cpu_ms.sort()
    print(json.dumps({"median_ms": ms[len(ms) // 2], "p95_ms": ms[(len(ms) * 95 - 1) // 100], "min_ms": ms[0], "cpu_ms": cpu_ms[len(ms) // 2], "runs": len(ms), "load_s": load_s, "mean": mean,
                      "peak_rss_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "version": e.version}))


if __name__ == "__main__":
    main()
