#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installation of docs/python.md in a bare Debian 12: bare.sh FOLDER. Makes the system in FOLDER by debootstrap, installs Python
# there, then the package in a fresh environment, and compiles and runs a model. At last the C compilers go, and the error must say
# which to install. It needs root, debootstrap and the network, and is no part of make check.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "${1-}" = MOUNTED ]; then
	mount -t proc proc "$2/proc"
	exec chroot "$2" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
		PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash /root/inside.sh
fi

root=${1:?usage: bare.sh FOLDER}
[ -e "$root" ] && { echo "$root is there already"; exit 2; }
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" >/dev/null
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/resolv.conf "$root/etc/"
mkdir "$root/root/dlcc"
git ls-files -z | tar -c --null -T - | tar -x -C "$root/root/dlcc"

cat >"$root/root/inside.sh" <<'INSIDE'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null
apt-get install -y -q --no-install-recommends python3 python3-venv >/dev/null 2>&1
python3 -m venv /root/venv
. /root/venv/bin/activate
cd /root/dlcc
./deps.sh build && pip install -q ./python
cd /root
cat >ten.py <<'TEN'
import dlcc
import numpy as np

model = dlcc.compile("/root/dlcc/examples/digits/digits.onnx")
print(model)
scans = np.random.default_rng(0).standard_normal((3, 1, 8, 8)).astype(np.float32)
logits = model(scans)
print(logits.shape, logits.argmax(axis=1))
assert logits.shape == (3, 10)
assert np.array_equal(model(scans[1:]), logits[1:])
TEN
python ten.py
dlcc --version
# Where the package was built, all that dlcc needs is there. It must not need that.
rm -rf /root/dlcc/build /root/dlcc/python /usr/lib/llvm-*
rm -f /usr/bin/*gcc* /usr/bin/*clang* /usr/bin/cc /usr/bin/c99 /usr/lib/x86_64-linux-gnu/lib{isl,gmp,protobuf-c,LLVM}*
(python ten.py 2>&1 || true) | grep "no C compiler on PATH: install gcc"
dlcc --version | grep "without LLVM"
echo "installed, compiled and ran"
INSIDE
exec unshare --mount bash "$0" MOUNTED "$root"
