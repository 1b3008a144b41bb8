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
# SECONDS as milliseconds, times the factor of tests/run.py --patience.
allowed() { # seconds
	awk "BEGIN {print int($1 * 1000 * ${PATIENCE:-1})}"
}
# Whether a command, with a terminal as its output, shows TEXT in a line that it removes again.
shows() { # python, text, command
	"$1" -c 'import os, pty, sys
out = bytearray()
def read(fd):
    data = os.read(fd, 4096)
    out.extend(data)
    return data
status = pty.spawn(sys.argv[2:], read)
text = out.decode(errors="replace")
sys.exit(status != 0 or sys.argv[1] not in text or "\r\033[K" not in text.rpartition(sys.argv[1])[2])' "${@:2}" </dev/null
}
