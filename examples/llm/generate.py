#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates text with a Hugging Face export: generate.py FOLDER "Once upon a time" [-n 100] [-t 0.8] [-k 40] [-p 0.9] [-s 1].

FOLDER has model.onnx (or a library that dlcc made of it, model.so), and tokenizer.json beside it, as Optimum and the Hub have
them. The text is printed as it comes, then the speed. Needs `pip install tokenizers` and the package dlcc.

Each cache of keys or values is one array with room for all tokens. A run gets its first rows as input and one row more as
output, and writes only that row."""

import argparse
import os
import sys
import time

import dlcc
import numpy as np
from tokenizers import Tokenizer


class Decoder:
    """A model with caches. step() runs it on more tokens, and returns the scores of the next one."""

    def __init__(self, path, room, threads):
        load = dlcc.load if path.endswith(".so") else dlcc.compile
        self.model, self.past, self.caches, self.copied = load(path, threads=threads), 0, [], {}
        d = self.model.describe()
        self.inputs = {io.name: io for io in d.inputs}
        for out in d.outputs:
            # an output that no run can compute in place is copied into the next one's input
            into = out.alias or next((out.name.replace("present", x) for x in ("past_key_values", "past")
                                      if out.name.startswith("present") and out.name.replace("present", x) in self.inputs), None)
            if into is None:
                continue
            io = self.inputs.pop(into)
            grows = [a != b for a, b in zip(io.dims, out.dims)]
            shape = [room if g else n if isinstance(n, int) else 1 for g, n in zip(grows, io.dims)]
            if out.alias and any(grows):
                self.caches.append((io.name, out.name, np.zeros(shape, io.numpy), grows.index(True)))
            elif any(grows):
                self.copied[out.name] = io.name, np.zeros([0 if g else n for g, n in zip(grows, shape)], io.numpy)
            else:
                raise SystemExit(f"{io.name}: is a cache of fixed size")
        taken = {out for _, out, _, _ in self.caches} | set(self.copied)
        self.scores = next(io.name for io in d.outputs if io.name not in taken)

    def _feed(self, io, ids):
        n = len(ids)
        if "mask" in io.name:
            values = np.ones(self.past + n)
        elif "position" in io.name:
            values = np.arange(self.past, self.past + n)
        elif "ids" in io.name:
            values = np.array(ids)
        else:
            raise SystemExit(f"{io}: an input that this program does not know")
        return values.reshape((1, -1)[-len(io.dims):]).astype(io.numpy)

    def step(self, ids):
        feeds, memory, end = {name: self._feed(io, ids) for name, io in self.inputs.items()}, {}, self.past + len(ids)
        for into, out, cache, dim in self.caches:
            rows = (slice(None),) * dim
            feeds[into], memory[out] = cache[(*rows, slice(self.past))], cache[(*rows, slice(end))]
        feeds.update(self.copied.values())
        results = self.model.run(feeds, memory)
        self.copied = {out: (into, results[out]) for out, (into, _) in self.copied.items()}
        self.past = end
        return results[self.scores][0, -1].astype(np.float32)


def sample(scores, rng, temperature, top_k, top_p):
    """A token: the best one, or one at random among the best."""
    if temperature <= 0:
        return int(scores.argmax())
    tokens = np.argpartition(scores, -top_k)[-top_k:] if 0 < top_k < len(scores) else np.arange(len(scores))
    p = np.exp((scores[tokens] - scores.max()) / temperature)
    p /= p.sum()
    if top_p < 1:
        order = np.argsort(-p)
        order = order[:int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1]
        tokens, p = tokens[order], p[order] / p[order].sum()
    return int(rng.choice(tokens, p=p))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("folder", help="has model.onnx or model.so, and tokenizer.json")
    parser.add_argument("prompt")
    parser.add_argument("-n", type=int, default=100, help="at most so many tokens")
    parser.add_argument("-t", type=float, default=0, help="temperature; 0: the best token, always")
    parser.add_argument("-k", type=int, default=0, help="choose among so many of the best tokens")
    parser.add_argument("-p", type=float, default=1, help="choose among the best tokens that have this probability together")
    parser.add_argument("-s", type=int, default=1, help="seed")
    parser.add_argument("-j", type=int, default=0, help="threads")
    parser.add_argument("--end", type=int, action="append", default=[], help="a token that ends the text")
    parser.add_argument("--ids", action="store_true", help="print ids instead of text")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(os.path.join(args.folder, "tokenizer.json"))
    ids = tokenizer.encode(args.prompt).ids
    if not ids:
        raise SystemExit("the prompt is empty")
    path = next((p for p in (os.path.join(args.folder, f"model.{x}") for x in ("so", "onnx")) if os.path.exists(p)), None)
    if path is None:
        raise SystemExit(f"{args.folder}: has neither model.so nor model.onnx")
    model, rng = Decoder(path, len(ids) + args.n, args.j), np.random.default_rng(args.s)
    new, printed, start, first = [], "", time.perf_counter(), 0.0
    for _ in range(args.n):
        token = sample(model.step(new[-1:] or ids), rng, args.t, args.k, args.p)
        first = first or time.perf_counter()
        new.append(token)
        if token in args.end:
            break
        # a character may consist of several tokens: what is not whole yet decodes to U+FFFD
        text = " ".join(map(str, new)) if args.ids else tokenizer.decode(new)
        if not text.endswith("\ufffd"):
            print(text[len(printed):], end="", flush=True)
            printed = text
    end = time.perf_counter()
    print()
    print(f"{len(ids)} tokens of the prompt in {(first - start) * 1e3:.1f} ms, "
          f"then {(len(new) - 1) / max(end - first, 1e-9):.1f} tokens/s", file=sys.stderr)


if __name__ == "__main__":
    main()
