#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dlcc --tune: a small model within its seconds, the file given back, and what is refused before any time is spent. Prints
# "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${BUILD:-build}" && pwd)
model=$PWD/examples/digits/digits.onnx
python=$PWD/build/venv/bin/python3
. tests/check.sh
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
dlcc=$build/bin/dlcc

refuses() { # status, pattern, arguments
	local want=$1 pattern=$2 got
	shift 2
	local begin=$(date +%s%3N)
	"$dlcc" "$model" "$@" >out 2>&1
	got=$?
	[ $got = "$want" ] && grep -Eq -- "$pattern" out && [ $(($(date +%s%3N) - begin)) -lt $(allowed 3) ] || { echo "status $got, $(($(date +%s%3N) - begin)) ms: $(head -n 1 out)"; return 1; }
}
# The seconds, and two for what the machine does besides.
tunes() {
	local begin=$(date +%s%3N) most=$1
	shift
	"$dlcc" "$model" "$@" >out 2>&1 || { cat out; return 1; }
	[ $(($(date +%s%3N) - begin)) -lt $(allowed $((most + 2))) ] || { echo "$(($(date +%s%3N) - begin)) ms"; return 1; }
}
alone() { [ -z "$(ls -A | grep -E '^\.dlcc')" ] || { ls -A; return 1; }; }
# A line that decides something has a gain and the nodes' names in its comment, and the head names the sizes.
is_file() {
	grep -q '^; dlcc .* --tune for .*, with N=16: ' m.schedule || { head -n 2 m.schedule; return 1; }
	! grep -v '^;' m.schedule | grep -Ev '^[a-z_0-9]+ [a-z0-9-]+: .*  ; [0-9.]+ % less time: "'
}
# The decisions in the file are those that dlcc then takes.
given_back() {
	"$dlcc" "$model" --dim N=16 --schedule=m.schedule --dump-ir=decide >now || return 1
	grep -v '^;' m.schedule | sed 's/  ;.*//' | while read -r line; do grep -qF -- "$line" now || { echo "$line"; return 1; }; done
}
close_to() {
	"$python" - <<'PY'
import numpy
a, b = (numpy.load(f"{o}/logits.npy") for o in "ab")
assert numpy.allclose(a, b, rtol=1e-4, atol=1e-4 * abs(a).max()), abs(a - b).max()
PY
}
equals() {
	"$python" -c "import numpy; numpy.save('scan.npy', numpy.random.default_rng(1).random((16, 1, 8, 8), numpy.float32))" || return 1
	"$dlcc" "$model" --dim N=16 -o a.so && "$build/bin/dlrun" a.so -i scan=scan.npy -o a &&
		"$dlcc" "$model" --dim N=16 --schedule=m.schedule -o b.so && "$build/bin/dlrun" b.so -i scan=scan.npy -o b && close_to
}

check "a small model in 5 seconds" tunes 5 --tune=5 --dim N=16 -o m.schedule
check "what the file says" is_file
check "the file given back" given_back
check "results with it" equals
printf '; mine\n' >kept.schedule && cp kept.schedule copy
check "no time" tunes 1 --tune=1 --dim N=16 -o none.schedule
check "a missing dim" refuses 1 '--tune measures the model at one size; give --dim "N"=N$' --tune=5 -o kept.schedule
check "a dim with bounds" refuses 1 'give --dim "N"=N$' --tune=5 --dim N=1..4 -o kept.schedule
check "an output of another kind" refuses 2 '--tune changes nothing in m.so; it is for .schedule' --tune --dim N=1 -o m.so
check "a schedule without --tune" refuses 2 'made by --tune' --dim N=1 -o kept.schedule
check "two schedules" refuses 2 '--schedule changes nothing in kept.schedule' --tune=5 --schedule=copy --dim N=1 -o kept.schedule
check "two CPUs" refuses 2 'measures the code for one CPU' --tune=5 --target=cpu:v2,v3 --dim N=1 -o kept.schedule
check "no folder" refuses 1 'there is no folder no' --tune=5 --dim N=16 -o no/m.schedule
mkdir folder.schedule
check "a folder" refuses 1 'folder.schedule: error: cannot be written' --tune=5 --dim N=16 -o folder.schedule
if [ "$(id -u)" != 0 ]; then
	mkdir shut && chmod 500 shut
	check "a folder that is shut" refuses 1 'shut' --tune=5 --dim N=16 -o shut/m.schedule
fi
check "the file that was there" cmp kept.schedule copy
"$dlcc" "$model" --tune=60 --dim N=16 -o killed.schedule >out 2>&1 &
sleep 2
kill -TERM $!
wait $! 2>/dev/null
check "killed" bash -c '[ ! -e killed.schedule ]'
check "nothing else is left" alone
check "progress on a terminal" shows "$python" ": tuning" "$dlcc" "$model" --tune=3 --dim N=16 -o shown.schedule
echo "$passed passed, $failed failed"
