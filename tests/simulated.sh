# SPDX-License-Identifier: Apache-2.0
# What scripts that need the simulated GPU begin with: the project's folder, BUILD in full, PYTHON, and TMP, which goes when they
# end. Where there is no simulator, or no code for GPUs, they end here.
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
if [ ! -e "$BUILD/ptxsim/libcuda.so.1" ] || ! "$BUILD/bin/dlcc" --list-targets | grep -q cuda:; then
	echo "dlcc makes no code for GPUs, or the simulator was not built"
	exit 77
fi
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
PYTHON=${PYTHON:-build/venv/bin/python3}
