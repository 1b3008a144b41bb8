#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make install` puts where and `make uninstall` removes, and that the examples build and run from there. Their run.sh are tests, which are not installed. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${BUILD:-build}" && pwd)
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
. tests/check.sh
# What was built stays as it is.
put() { make -s -o all BUILD="$build" DESTDIR="$tmp/root" PREFIX=/opt/dlcc install; }
prefix=$tmp/root/opt/dlcc doc=$tmp/root/opt/dlcc/share/doc/dlcc
files() {
	local f
	for f in bin/dlcc bin/dlcc-opt bin/dlrun include/dlrt.h include/dlrt.hpp lib/cmake/dlcc/dlccConfig.cmake lib/cmake/dlcc/dlccConfigVersion.cmake lib/libdlrt.a lib/pkgconfig/dlrt.pc share/man/man1/dlcc.1 share/man/man1/dlrun.1 \
		share/doc/dlcc/README.md share/doc/dlcc/LICENSE share/doc/dlcc/docs/c-api.md share/doc/dlcc/ir/expr/insts.def share/doc/dlcc/ir/expr/funcs.def share/doc/dlcc/examples/api/dlopen.c; do
		[ -s "$prefix/$f" ] || { echo "no $f"; return 1; }
	done
	[ "$(cd examples && ls -- */* | grep -v /run.sh$)" = "$(cd "$doc/examples" && ls -- */*)" ] && grep -Fxq "prefix=/opt/dlcc" "$prefix/lib/pkgconfig/dlrt.pc"
}
# The programs, headers, libraries and pages of others in the same folders stay.
removed() {
	local d
	for d in bin include lib lib/pkgconfig lib/cmake share/man/man1 share/doc; do mkdir -p "$prefix/$d" && echo other >"$prefix/$d/other"; done
	(cd "$prefix" && find . -name other | sort) >"$tmp/others"
	put && make -s BUILD="$build" DESTDIR="$tmp/root" PREFIX=/opt/dlcc uninstall && (cd "$prefix" && find . -type f | sort) | diff "$tmp/others" - &&
		make -s BUILD="$build" DESTDIR="$tmp/root" PREFIX=/opt/dlcc uninstall && rm -rf "$tmp/root" &&
		put && make -s BUILD="$build" DESTDIR="$tmp/root" PREFIX=/opt/dlcc uninstall && [ ! -e "$prefix" ]
}
check "make uninstall" removed
check "make install" put
check "what is installed" files
for example in api digits; do cp "examples/$example/run.sh" "$doc/examples/$example"; done
chmod -R a-w "$prefix"
for example in api digits; do check "examples/$example from there" "$doc/examples/$example/run.sh" "$prefix" "$tmp/$example"; done
chmod -R u+w "$prefix"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
