#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks and times this pack on the GPU of this machine; results go to results.json beside it, the fastest decisions on products to products.schedule.
#	run.sh [--seconds S] [--sim FOLDER]     S for each measurement (2); FOLDER: a simulated driver, at small sizes
# It needs a driver, libc, a shell and gzip. cuBLAS and cuDNN are measured too where their libraries are found, and PyTorch where python3 has it.
cd "$(dirname "$0")" || exit 2
seconds=2
sim=
while [ $# -gt 0 ]; do
	case $1 in
	--seconds) seconds=$2 ;;
	--sim)
		sim=$2 seconds=0.01
		LD_LIBRARY_PATH=$2
		export LD_LIBRARY_PATH
		;;
	*)
		sed -n '3,5s/^# *//p' "$0"
		exit 2
		;;
	esac
	shift 2
done
out=results.json
log=results.log
: >"$log"
comma=
item() { # LINE: one more of a JSON list
	printf '%s\n  %s' "$comma" "$1" >>"$out"
	comma=,
}
quoted() { # TEXT as a JSON string
	printf '"%s"' "$(printf %s "$1" | tr '\n\t"\\' "  ''")"
}

bin/tool info >info.json || exit 1
gzip -dqr cases bench sweep # what is not compressed any more is left as it is
printf '{"date":"%s","host":%s,"device":%s' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(quoted "$(uname -srm)")" "$(cat info.json)" >"$out"
if [ -z "$sim" ] && command -v nvidia-smi >/dev/null; then
	printf ',\n"clocks":%s' "$(quoted "$(nvidia-smi --query-gpu=driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit --format=csv,noheader)")" >>"$out"
fi

# Correctness: the cases at once on all cores, each for a minute at most; what it says goes to its own file
# shellcheck disable=SC2016
# shellcheck disable=SC2012
ls cases | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I {} sh -c 'timeout 60 bin/dlrun "cases/$1/model.so" --device cuda \
	--data "cases/$1" >"cases/$1/said" 2>&1; echo $? >"cases/$1/status"' - {}
passed=0 failed=0
printf ',\n"failures":[' >>"$out"
for dir in cases/*; do
	said=$(cat "$dir/said")
	if [ "$(cat "$dir/status")" = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		item "{\"case\":\"${dir#cases/}\",\"said\":$(quoted "$said")}"
		echo "FAIL: ${dir#cases/}"
	fi
	printf '%s: %s\n' "$dir" "$said" >>"$log"
done
printf '],\n"cases":{"passed":%d,"failed":%d}' $passed $failed >>"$out"
echo "cases: $passed passed, $failed failed"

# Instructions: what each computes, for tests/ptxsim/vectors
said=$(bin/vectors --record vectors.bin 2>&1)
printf 'vectors: %s\n' "$said" | tee -a "$log"
printf ',\n"vectors":%s' "$(quoted "$said")" >>"$out"

# Time
printf ',\n"times":[' >>"$out"
comma=
while IFS='|' read -r name flop bytes dims small; do
	if [ -n "$sim" ]; then
		[ "$small" = no ] && continue
		dims=$small
	fi
	so=bench/$name.so
	[ -e "$so" ] || bin/tool fill "bench/$name.fill" "$so" || continue
	set -- --device cuda
	for dim in $dims; do
		set -- "$@" --dim "$dim"
	done
	head="\"name\":\"$name\",\"dims\":\"$dims\",\"flop\":$flop,\"bytes\":$bytes"
	if said=$(bin/dlrun "$so" --bench --seconds "$seconds" "$@" 2>>"$log"); then
		kernels=$(bin/dlrun "$so" --profile --json "$@" 2>>"$log" | sed -n '/^{/p')
		item "{$head,\"run\":$said,\"kernels\":${kernels:-null}}"
		echo "$name $dims: $said"
	else
		failed=$((failed + 1))
		item "{$head,\"failed\":$(quoted "$(tail -n 1 "$log")")}"
		echo "FAIL: $name $dims"
	fi
done <bench.txt
# The same by the libraries of NVIDIA, where they are
while IFS='|' read -r kind type shape small; do
	if [ -n "$sim" ]; then
		[ "$small" = no ] || [ ! -e "$sim/libcublas.so.13" ] && continue
		shape=$small
	fi
	# shellcheck disable=SC2086
	said=$(bin/tool "$kind" "$type" $shape "$seconds" 2>>"$log")
	case $? in
	0)
		item "$said"
		echo "$said"
		;;
	77) ;; # there is no such library
	*)
		failed=$((failed + 1))
		item "{\"library\":\"$kind\",\"type\":\"$type\",\"shape\":\"$shape\",\"failed\":$(quoted "$(tail -n 1 "$log")")}"
		echo "FAIL: $kind $type $shape"
		;;
	esac
done <libraries.txt

# Starts without the driver's cache of compiled code: from the first call to the end of the first run
printf '],\n"starts":[' >>"$out"
comma=
for so in bench/resnet50.so bench/resnet50_cubin.so; do
	[ -e "$so" ] || bin/tool fill "${so%.so}.fill" "$so" 2>>"$log" || continue
	begin=$(date +%s%N)
	if CUDA_CACHE_DISABLE=1 bin/dlrun "$so" --bench --seconds 0.001 --device cuda --dim batch=1 >/dev/null 2>>"$log"; then
		item "{\"name\":\"$(basename "$so" .so)\",\"ms\":$((($(date +%s%N) - begin) / 1000000))}"
	else
		failed=$((failed + 1))
		echo "FAIL: the start of $so"
	fi
done
# PyTorch's own, where it is
printf '],\n"torch":[' >>"$out"
comma=
if [ -z "$sim" ] && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
	python3 torch_peer.py "$seconds" 2>>"$log" >torch.lines || failed=$((failed + 1))
	while read -r line; do
		item "$line"
		echo "$line"
	done <torch.lines
fi

# Products, each by several decisions: the fastest go to products.schedule, for dlcc --schedule
printf '],\n"sweep":[' >>"$out"
comma=
: >sweep.times
while IFS='|' read -r name small row row_90; do
	[ -n "$sim" ] && [ "$small" = no ] && continue
	grep -q '"capability_major":9,' info.json && row=$row_90
	said=$(bin/dlrun "sweep/$name.so" --device cuda --profile --json --seconds "$seconds" 2>>"$log" | sed -n '/^{/p')
	if [ -n "$said" ]; then
		item "{\"decision\":\"$row\",\"run\":$said}"
		printf '%s|%s\n' "$row" "$said" >>sweep.times
	else
		failed=$((failed + 1))
		item "{\"decision\":\"$row\",\"failed\":$(quoted "$(tail -n 1 "$log")")}"
		echo "FAIL: $row"
	fi
done <sweep.txt
bin/tool best <sweep.times >products.schedule || failed=$((failed + 1))
cat products.schedule
printf '],\n"failed":%d}\n' $failed >>"$out"
echo "$out is written"
[ $failed = 0 ]
