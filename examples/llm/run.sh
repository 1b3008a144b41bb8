#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds generate.c, and, where the folder CORPUS has models, generates with some in C and in Python: run.sh [BUILD [OUT]].
# BUILD has bin, lib and include, as the prefix of an installation has.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
out=${2:-$build/examples}/llm
corpus=$(realpath -m "${CORPUS:-$here/../../../shared/corpus}/models/llm")
mkdir -p "$out"
cd "$out"

${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra ${CFLAGS:-} -I"$build/include" "$here/generate.c" -o generate -lm -ldl
if [ ! -e "$corpus/stories260k_prim/model.onnx" ]; then
	echo "no models to generate with in $corpus; ./generate takes any usual export of a decoder with caches that dlcc has compiled"
	exit 0
fi
mkdir -p stories
cp -f "$corpus/stories260k_prim/model.onnx" stories/
"$build/bin/dlcc" ${DLCC_FLAGS:-} stories/model.onnx -o stories/model.so
best=$(./generate stories/model.so -n 24 1 403 407 261)
echo "greedy       $best"
[ "$best" = "$(./generate stories/model.so -n 24 -t 0.7 -k 1 1 403 407 261)" ]
[ "$best" = "$(./generate stories/model.so -n 24 -t 0.7 -p 0.000001 1 403 407 261)" ]
mkdir -p bytes
"$build/bin/dlcc" ${DLCC_FLAGS:-} stories/model.onnx --caches-as=i8 -o bytes/model.so
[ "$best" = "$(./generate bytes/model.so -n 24 1 403 407 261)" ] # caches a quarter as large
once=$(./generate stories/model.so -n 24 -t 0.9 -k 50 -p 0.95 -s 7 1 403 407 261)
echo "random       $once"
[ "$once" = "$(./generate stories/model.so -n 24 -t 0.9 -k 50 -p 0.95 -s 7 1 403 407 261)" ]
[ "$once" != "$(./generate stories/model.so -n 24 -t 0.9 -k 50 -p 0.95 -s 8 1 403 407 261)" ]

# A word that is not a token id, and an id that the model does not have, give one message.
for wrong in abc 3x -1 99999999999 512; do
	if ./generate stories/model.so -n 2 1 -- $wrong 2>said; then exit 1; fi
	grep -q "^generate: .*\($wrong\|index out of range\)" said && [ "$(wc -l <said)" = 1 ]
done

# In Python, with a tokenizer that is trained on these pages. Python cannot load models that are linked with a sanitizer.
python=${PYTHON:-$here/../../build/venv/bin/python3}
case ${CFLAGS:-} in *sanitize*) exit 0 ;; esac
export PYTHONPATH=$here/../../python:$out/python PYTHONDONTWRITEBYTECODE=1 PATH=$build/bin:$PATH
if ! "$python" -c 'import dlcc' 2>/dev/null; then
	echo "the package dlcc is not there"
	exit 0
fi
if ! "$python" -c 'import tokenizers' 2>/dev/null &&
	! "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$out/python" tokenizers==0.23.3 2>/dev/null; then
	echo "the package tokenizers is not there"
	exit 0
fi
"$python" "$here/train.py" stories/tokenizer.json 512 "$here"/*.py "$here"/*.c
ids=$("$python" "$here/generate.py" stories "the caches of" -n 24 --ids)
prompt=$("$python" -c 'import sys, tokenizers; print(*tokenizers.Tokenizer.from_file(sys.argv[1]).encode("the caches of").ids)' \
	stories/tokenizer.json)
[ "$ids" = "$(./generate stories/model.so -n 24 $prompt | sed 's/ $//')" ]
"$python" "$here/generate.py" stories "the caches of" -n 24 -t 0.8 -k 40 -p 0.9
