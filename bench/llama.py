#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoding a token of llama_0_5b, by dlcc and by llama.cpp, with weights of 32, 8 and 4 bits.

    bench/llama.py [--build BUILD] [--python PYTHON] [--rounds N] [--past 128,1024] [--threads 1,2] [--prefill 512]

PYTHON has llama-cpp-python and gguf (pip install llama-cpp-python gguf). Both get a model of the same sizes with random weights. The
engines run one after the other in each round, each in a process of its own; the numbers are the rounds' medians, and milliseconds. dlcc
has f32, --weights-as=i8 and --weights-as=i4 with --activations-as=i8, which are what q8_0 and q4_0 are: llama.cpp quantises activations, too. Of a prompt llama.cpp's time is the best of three, with
the logits of the last token alone, and its caches are f16; dlcc computes all logits, and its caches are f32.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import configs

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS, WIDTH, HIDDEN, HEADS, CACHES, WORDS = 24, 896, 4864, 14, 2, 32000
KINDS = {"f32": [], "q8_0": ["--weights-as=i8", "--activations-as=i8"], "q4_0": ["--weights-as=i4", "--activations-as=i8"]}


def write_model(path, kind):
    """A GGUF file of llama_0_5b's sizes with random weights of type KIND."""
    import gguf
    import numpy as np
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(4096)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(HIDDEN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(CACHES)
    w.add_rope_dimension_count(WIDTH // HEADS)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_vocab_size(WORDS)
    w.add_tokenizer_model("llama")
    w.add_token_list([f"t{i}".encode() for i in range(WORDS)])
    w.add_token_scores([0.0] * WORDS)
    w.add_token_types([1] * WORDS)
    type = {"f32": gguf.GGMLQuantizationType.F32, "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}[kind]
    random = np.random.default_rng(1)

    def matrix(name, rows, columns):
        a = random.normal(scale=columns ** -0.5, size=(rows, columns)).astype(np.float32)
        w.add_tensor(name, gguf.quants.quantize(a, type), raw_dtype=type)

    def ones(name):
        w.add_tensor(name, np.ones(WIDTH, np.float32))
    matrix("token_embd.weight", WORDS, WIDTH)
    ones("output_norm.weight")
    for i in range(LAYERS):
        for name, rows, columns in (("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH // HEADS * CACHES, WIDTH), ("attn_v", WIDTH // HEADS * CACHES, WIDTH),
                                    ("attn_output", WIDTH, WIDTH), ("ffn_gate", HIDDEN, WIDTH), ("ffn_up", HIDDEN, WIDTH), ("ffn_down", WIDTH, HIDDEN)):
            matrix(f"blk.{i}.{name}.weight", rows, columns)
        ones(f"blk.{i}.attn_norm.weight")
        ones(f"blk.{i}.ffn_norm.weight")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def measure(path, past, threads, prefill, seconds):
    """Prints the milliseconds that llama.cpp takes for a token after PAST others, and for a prompt of PREFILL tokens."""
    import ctypes

    import llama_cpp as l
    quiet = l.llama_log_callback(lambda *_: None)    # it must live as long as the library uses it
    l.llama_log_set(quiet, ctypes.c_void_p(0))
    l.llama_backend_init()
    model = l.llama_model_load_from_file(path.encode(), l.llama_model_default_params())
    c = l.llama_context_default_params()
    c.n_ctx = max(past + 64, prefill + 64)
    c.n_batch = c.n_ubatch = max(prefill, 512)
    c.n_threads = c.n_threads_batch = threads
    context = l.llama_init_from_model(model, c)

    def decode(first, count):
        b = l.llama_batch_init(count, 0, 1)
        b.n_tokens = count
        for i in range(count):
            b.token[i] = (7 * (first + i)) % WORDS
            b.pos[i] = first + i
            b.n_seq_id[i] = 1
            b.seq_id[i][0] = 0
            b.logits[i] = i == count - 1
        start = time.perf_counter()
        status = l.llama_decode(context, b)
        l.llama_synchronize(context)
        took = time.perf_counter() - start
        l.llama_batch_free(b)
        if status:
            sys.exit(f"llama_decode: {status}")
        return took * 1e3
    memory = l.llama_get_memory(context)
    prompt = []
    for _ in range(3):
        l.llama_memory_clear(memory, True)
        prompt.append(decode(0, prefill))
    l.llama_memory_clear(memory, True)
    for at in range(0, past, 512):
        decode(at, min(512, past - at))
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        times.append(decode(past, 1))
        l.llama_memory_seq_rm(memory, 0, past, -1)
    print(json.dumps({"decode": statistics.median(times), "prefill": min(prompt)}))


def dlcc(build, kind, sequence, past, threads, seconds):
    out = subprocess.run([os.path.join(build, "bin", "dlrun"), model_of(build, kind), "--bench", "--seconds", str(seconds), "--threads", str(threads),
                          "--dim", "batch_size=1", "--dim", f"sequence_length={sequence}", "--dim", f"past_sequence_length={past}"],
                         stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(out)["median_ms"]


def model_of(build, kind):
    return os.path.join(build, "bench", f"llama_0_5b-{kind}.so")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(os.path.dirname(HERE), "build"))
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--past", default="128,1024")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--prefill", type=int, default=512)
    p.add_argument("--write", help=argparse.SUPPRESS)
    p.add_argument("--measure", help=argparse.SUPPRESS)
    p.add_argument("--kind", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.write:
        return write_model(o.write, o.kind)
    if o.measure:
        return measure(o.measure, int(o.past), int(o.threads), o.prefill, o.seconds)
    graph, why = configs.materialise("llama_0_5b", o.build)
    if not graph:
        sys.exit(why)
    for kind, options in KINDS.items():
        path = os.path.join(o.build, "bench", f"llama_0_5b-{kind}.gguf")
        if not os.path.exists(path):
            subprocess.run([o.python, __file__, "--write", path, "--kind", kind], check=True)
        subprocess.run([os.path.join(o.build, "bin", "dlcc"), graph, *options, "-o", model_of(o.build, kind)], check=True, stdout=subprocess.DEVNULL)
    print("| weights | what | threads | dlcc ms | llama.cpp ms | ratio |\n|---|---|---:|---:|---:|---:|")
    for kind in KINDS:
        for threads in map(int, o.threads.split(",")):
            ours, theirs = {}, {}
            for _ in range(o.rounds):
                for past in map(int, o.past.split(",")):
                    ours.setdefault(f"decode, past {past}", []).append(dlcc(o.build, kind, 1, past, threads, o.seconds))
                    it = json.loads(subprocess.run([o.python, __file__, "--measure", os.path.join(o.build, "bench", f"llama_0_5b-{kind}.gguf"),
                                                    "--past", str(past), "--threads", str(threads), "--prefill", str(o.prefill),
                                                    "--seconds", str(o.seconds)], stdout=subprocess.PIPE, check=True, text=True).stdout)
                    theirs.setdefault(f"decode, past {past}", []).append(it["decode"])
                    theirs.setdefault(f"prefill {o.prefill}", []).append(it["prefill"])
                ours.setdefault(f"prefill {o.prefill}", []).append(dlcc(o.build, kind, o.prefill, 0, threads, o.seconds))
            for what in ours:
                a, b = statistics.median(ours[what]), statistics.median(theirs[what])
                print(f"| {kind} | {what} | {threads} | {a:.2f} | {b:.2f} | {b / a:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
