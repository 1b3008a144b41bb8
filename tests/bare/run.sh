#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first command of README.md in bare Debian userlands, which have make and nothing else: `make demo` does all the set-up. It takes ten minutes
# and a gigabyte for each, so it runs with TESTS=all only, as root, with debootstrap and the network. run.sh [SUITE ...]; prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
[ "${TESTS-}" = all ] || { echo "a bare Debian takes ten minutes: TESTS=all"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "debootstrap needs root"; exit 77; }
debootstrap=${DEBOOTSTRAP:-$(command -v debootstrap)}
[ -n "$debootstrap" ] || { echo "debootstrap is not installed"; exit 77; }
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
. tests/check.sh

inside() { # root, command: in it, with /proc, which goes with the command
	unshare --mount bash -c 'mount -t proc proc "$1/proc" && exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C bash -c "$2"' - "$1" "$2"
}
demo() { # suite
	local root=$tmp/$1
	# what it mounts goes with it
	unshare --mount "$debootstrap" --variant=minbase --include=ca-certificates,make "$1" "$root" >"$tmp/log" 2>&1 || { tail -n 3 "$tmp/log"; return 1; }
	cp /etc/resolv.conf "$root/etc/" && mkdir "$root/root/dlcc" && git ls-files -z | tar -c --null -T - | tar -x -C "$root/root/dlcc" || return
	! inside "$root" 'command -v gcc || command -v clang || command -v python3' || { echo "not bare"; return 1; }
	inside "$root" 'cd /root/dlcc && make demo' >"$tmp/log" 2>&1 && grep -q "accuracy  *0.99" "$tmp/log" || { tail -n 5 "$tmp/log"; return 1; }
	rm -rf "$root"
}
for suite in ${*:-bookworm trixie}; do check "make demo in a bare $suite" demo "$suite"; done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
