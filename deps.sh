#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing: ./deps.sh build (compilers and libraries, by apt-get), ./deps.sh [all]
# (and what tests need: g++, and Python in build/venv). Where it may not install, it prints the
# command to run and stops with status 1. Does nothing, quickly, when all is there.
set -euo pipefail
cd "$(dirname "$0")"
what=${1:-all}
case $what in
build | all) ;;
*) echo "usage: ./deps.sh [build | all]" >&2; exit 2 ;;
esac
clangs="clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15"

have() { command -v "$1" >/dev/null 2>&1; }

major() { "$1" -dumpversion 2>/dev/null | cut -d. -f1; }

# A header that the compiler finds.
header() { echo "#include <$1>" | gcc -E - >/dev/null 2>&1; }

# What dlcc prefers for the code it generates; gcc 12 or newer does as well.
find_clang() {
	local c
	for c in $clangs; do
		have "$c" && return 0
	done
	have clang && [ "$(major clang)" -ge 15 ]
}

# LLVM's library, for GPUs alone: dlcc is built without it where there is none.
find_llvm() {
	local v
	for v in 22 21 20 19; do
		have llvm-config-$v && return 0
	done
	return 1
}

# The packages of what is missing, in $packages.
look() {
	packages=()
	have gcc && header stdio.h || packages+=(gcc libc6-dev)
	have make || packages+=(make)
	have protoc-c || packages+=(protobuf-c-compiler)
	header protobuf-c/protobuf-c.h || packages+=(libprotobuf-c-dev)
	header isl/ctx.h || packages+=(libisl-dev)
	[ "$what" = build ] && return
	python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
	have zstd || packages+=(zstd)
	have g++ || packages+=(g++)
	header mpfr.h || ! may_install || packages+=(libmpfr-dev) # tests/numerics does without
}

may_install() {
	sudo=
	have apt-get || return 1
	[ "$(id -u)" -eq 0 ] && return 0
	sudo=sudo
	have sudo && sudo -n true 2>/dev/null
}

# The newest clang that apt-get knows, of 15 or newer.
clang_package() {
	local c
	for c in $clangs; do
		if apt-cache show "$c" >/dev/null 2>&1; then
			echo "$c"
			return
		fi
	done
}

llvm_package() {
	local v
	for v in 22 21 20 19; do
		if apt-cache show llvm-$v-dev >/dev/null 2>&1; then
			echo llvm-$v-dev
			return
		fi
	done
}

apt_install() {
	echo "deps: apt-get install $*"
	DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "$@" >build/deps.log 2>&1 ||
		{ tail -n 20 build/deps.log >&2; exit 1; }
}

system_packages() {
	look
	if [ ${#packages[@]} -gt 0 ] && ! may_install; then
		echo "missing: ${packages[*]}" >&2
		echo "run:     sudo apt-get install -y ${packages[*]} clang" >&2
		exit 1
	fi
	if [ ${#packages[@]} -gt 0 ]; then
		$sudo apt-get update -q >/dev/null
		apt_install "${packages[@]}"
		look
		[ ${#packages[@]} -eq 0 ] || { echo "still missing: ${packages[*]}" >&2; exit 1; }
	fi
	if ! find_llvm && may_install && [ -n "$(llvm_package)" ]; then
		apt_install "$(llvm_package)"
	fi
	find_clang && return
	if may_install && [ -n "$(clang_package)" ]; then
		apt_install "$(clang_package)"
	elif [ "$(major gcc)" -lt 12 ]; then
		echo "missing: gcc 12 or newer, or clang 15 or newer" >&2
		exit 1
	fi
}

# build/venv holds exactly what tests/requirements.txt pins.
python_packages() {
	local stamp=build/venv/requirements.txt
	if cmp -s tests/requirements.txt $stamp && build/venv/bin/python3 -c '' 2>/dev/null; then
		return
	fi
	echo "deps: pip install -r tests/requirements.txt, into build/venv"
	rm -rf build/venv
	python3 -m venv build/venv
	if ! build/venv/bin/python3 -m pip install -q --disable-pip-version-check -r tests/requirements.txt; then
		echo "run:     build/venv/bin/python3 -m pip install -r tests/requirements.txt" >&2
		exit 1
	fi
	cp tests/requirements.txt $stamp
}

mkdir -p build
system_packages
[ "$what" = build ] || python_packages
