# SPDX-License-Identifier: Apache-2.0
# What scripts of many checks share. They end with: echo "$passed passed, $failed failed"
passed=0 failed=0
check() { # what, command that says why when it fails
	local what=$1 why
	shift
	if why=$("$@" 2>&1); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL: $what: $(printf %s "$why" | tail -n 3 | tr '\n' ' ')"
	fi
}
