#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Servers in Python with a compiled model, which answers a scan of examples/digits over HTTP: run.sh [BUILD]. They are run where
# build/venv-servers has their packages: python3 -m venv build/venv-servers && build/venv-servers/bin/pip install ./python numpy litserve 'ray[serve]'
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
python=${SERVERS_PYTHON:-$here/../../build/venv-servers/bin/python3}
[ -x "$python" ] || { echo "no packages; examples/serving/run.sh says how to install them"; exit 77; }
tmp=$(mktemp -d)
server=
# the server's own process group: its workers are processes, too
trap '[ -z "$server" ] || kill -- -"$server" 2>/dev/null || true; rm -rf "$tmp"' EXIT
"$build/bin/dlcc" "$here/../digits/digits.onnx" -o "$tmp/digits.so"
export PYTHONPATH=$here/../../python
ask() { # model, address, process of the server: many requests at once, whose answers are those of the model by itself
	"$python" - "$@" <<-PY
		import json, os, sys, time, urllib.request
		from concurrent.futures import ThreadPoolExecutor
		import dlcc
		import numpy as np
		scans = np.random.default_rng(1).integers(0, 17, (40, 1, 8, 8)).astype(np.float32)
		def post(scan):
		    request = urllib.request.Request(sys.argv[2], json.dumps({"scan": scan.tolist()}).encode(), {"Content-Type": "application/json"})
		    return json.load(urllib.request.urlopen(request, timeout=60))["digit"]
		for _ in range(240):
		    try:
		        post(scans[0])
		        break
		    except OSError:
		        os.kill(int(sys.argv[3]), 0)  # it lives
		        time.sleep(0.5)
		with ThreadPoolExecutor(16) as pool:
		    found = list(pool.map(post, scans))
		assert found == dlcc.load(sys.argv[1])(scans).argmax(-1).tolist(), found
	PY
}
ran=0
for name in lit:litserve ray:ray; do
	"$python" -c "import ${name#*:}" 2>/dev/null || continue
	port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	setsid "$python" "$here/${name%:*}_digits.py" "$tmp/digits.so" 127.0.0.1 "$port" >"$tmp/log" 2>&1 &
	server=$!
	ask "$tmp/digits.so" "http://127.0.0.1:$port/$([ "${name%:*}" = ray ] || echo predict)" "$server" || { echo "the server of ${name%:*}_digits.py:"; tail -n 20 "$tmp/log"; exit 1; }
	kill -- -"$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	server=
	ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || { echo "neither litserve nor ray"; exit 77; }
