#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first two commands of README.md in bare Debian userlands, which have make and nothing else: `make demo` and `make check` each do all
# the set-up. It takes ten minutes and a gigabyte for `make demo`, and half an hour for `make check`, so it runs with TESTS=all only, as root,
# with debootstrap and the network. run.sh [SUITE [COMMAND [SUITES [PATIENCE]]]]: run.sh trixie check "unit text" 4, where PATIENCE is a factor
# on time limits; prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
[ "${TESTS-}" = all ] || { echo "a bare Debian takes an hour: TESTS=all"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "debootstrap needs root"; exit 77; }
debootstrap=${DEBOOTSTRAP:-$(command -v debootstrap)}
[ -n "$debootstrap" ] || { echo "debootstrap is not installed"; exit 77; }
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
. tests/check.sh

inside() { # root, command: in it, with /proc and terminals, which go with the command
	unshare --mount bash -c 'mount -t proc proc "$1/proc" && mount --bind /dev/pts "$1/dev/pts" && exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C bash -c "$2"' - "$1" "$2"
}
bare() { # suite, root: with the source, and the certificates of this machine, whose network may have one of its own
	# what it mounts goes with it
	unshare --mount "$debootstrap" --variant=minbase --include=ca-certificates,make "$1" "$2" >"$tmp/log" 2>&1 || { tail -n 3 "$tmp/log"; return 1; }
	cp /etc/resolv.conf "$2/etc/" && cp /etc/ssl/certs/ca-certificates.crt "$2/etc/ssl/certs/" || return
	mkdir "$2/root/dlcc" && git ls-files -z | tar -c --null -T - | tar -x -C "$2/root/dlcc" || return
	! inside "$2" 'command -v gcc || command -v clang || command -v python3' || { echo "not bare"; return 1; }
}
demo() { # suite
	local root=$tmp/$1
	bare "$1" "$root" || return
	inside "$root" 'cd /root/dlcc && make demo' >"$tmp/log" 2>&1 && grep -q "accuracy  *0.99" "$tmp/log" || { tail -n 5 "$tmp/log"; return 1; }
	rm -rf "$root"
}
checks() { # suite, suites of make check; none: all; a factor on time limits
	local root=$tmp/$1 options=$2${3:+ --patience $3}
	bare "$1" "$root" || return
	inside "$root" "cd /root/dlcc && make check T='$options'" >"$tmp/log" 2>&1 || { tail -n 2 "$tmp/log"; return 1; }
	rm -rf "$root"
}
names() { # the tests that failed, each once
	sed -n 's/^FAIL \([^:]*\): .*/	failed: \1/p' "$tmp/log" | sort -u | head -n 20
}
for suite in ${1:-bookworm trixie}; do
	[ "${2:-demo}" != demo ] || check "make demo in a bare $suite" demo "$suite"
	[ "${2:-check}" = check ] || continue
	check "make check in a bare $suite" checks "$suite" "${3-}" "${4-}"
	names
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
