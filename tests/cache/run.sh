#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dlcc --cache=DIR: objects are taken from it, only where all that they follow from is equal; what is no entry counts as none,
# and no compile leaves anything else behind. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${BUILD:-build}" && pwd)
model=$PWD/examples/digits/digits.onnx
. tests/check.sh
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2

# Compiles with the arguments, and leaves "FOUND NEW", the counts of objects that were in the cache and that are new, in counts.
compile() {
	"$build/bin/dlcc" "$model" --name=d --cache=c -v "$@" >out 2>&1 || { tail -n 3 out; return 1; }
	echo "$(grep -c '^cache: .* is c/' out) $(grep -c '^cache: .* is now c/' out)" >counts
}
counts() { [ "$(cat counts)" = "$1" ] || { echo "$(cat counts) instead of $1"; return 1; }; }
compiles() { # counts, arguments
	local want=$1
	shift
	compile "$@" && counts "$want"
}
same() { cmp d.so first.so; }
entries() { [ "$(ls c | grep -Ec '^[0-9a-f]{16}\.dlcc$')" = "$1" ] && [ "$(ls -A c | wc -l)" = "$1" ] || { ls -A c; return 1; }; }
alone() { ls -A | grep -E '^\.dlcc' && return 1; return 0; }

"$build/bin/dlcc" "$model" --name=d -o d.so && mv d.so first.so
check "a new folder" compiles "0 2" -o d.so
check "the same file without the cache" same
check "all objects are there" compiles "2 0" -o d.so
check "the same file from the cache" same
check "two entries" entries 2
check "another level" compiles "0 2" -O1 -o d.so
check "another target" compiles "0 2" --target=cpu:generic -o d.so
check "back" compiles "2 0" -o d.so
command -v gcc >/dev/null && check "another compiler" compiles "0 2" --cc=gcc -o d.so
check "an environment that the compiler reads" env CPATH=/nowhere bash -c "'$build/bin/dlcc' '$model' --name=d --cache=c -v -o d.so 2>&1 | grep -q 'is now c/'"

# Entries that are cut off, changed, of another text, not files, or not for reading.
rm -rf c && compile -o d.so
for entry in c/*.dlcc; do cp "$entry" whole && head -c 60000 whole >"$entry"; done
check "entries cut off" compiles "0 2" -o d.so
for entry in c/*.dlcc; do : >"$entry"; done
check "empty entries" compiles "0 2" -o d.so
for entry in c/*.dlcc; do printf X | dd of="$entry" bs=1 seek=$(($(stat -c %s "$entry") - 200)) conv=notrunc status=none; done
check "changed objects" compiles "0 2" -o d.so
for entry in c/*.dlcc; do printf X | dd of="$entry" bs=1 seek=100 conv=notrunc status=none; done
check "changed texts" compiles "0 2" -o d.so
for entry in c/*.dlcc; do head -c 65536 /dev/urandom >"$entry"; done
check "random entries" compiles "0 2" -o d.so
set -- c/*.dlcc
cp "$1" whole && cp "$2" "$1" && cp whole "$2"
check "entries in each other's places" compiles "0 2" -o d.so
for entry in c/*.dlcc; do rm "$entry" && mkfifo "$entry"; done
check "pipes" compiles "0 2" -o d.so
check "the file of all these" same
for entry in c/*.dlcc; do rm "$entry" && mkdir "$entry"; done
check "folders, which cannot be replaced" bash -c "'$build/bin/dlcc' '$model' --name=d --cache=c -o d.so 2>&1 | grep -q 'warning: the cache c takes no more'"
check "the file without the cache's help" same
rm -rf c

# A cache is one user's: files that others could have put there are not run.
check "made only for this user" bash -c "umask 0; '$build/bin/dlcc' '$model' --name=d --cache=c -o d.so && [ \$(stat -c %a c) = 700 ] && [ \$(stat -c %a c/*.dlcc | sort -u) = 600 ]"
for mode in 777 770 702 1777; do
	chmod $mode c
	check "mode $mode" bash -c "! '$build/bin/dlcc' '$model' --name=d --cache=c -o other.so 2>err && grep -q 'other users may write into the cache c (mode $(printf %04d $mode)).*chmod go-w c' err && [ ! -e other.so ]"
done
chmod 755 c
check "others may read" compiles "2 0" -o d.so
for entry in c/*.dlcc; do chmod 620 "$entry"; done
check "entries that others may write to" compiles "0 2" -o d.so
check "they are replaced" compiles "2 0" -o d.so
if [ "$(id -u)" = 0 ]; then
	chown 12345 c/*.dlcc
	check "entries of another user" compiles "0 2" -o d.so
	mkdir -m 700 theirs && chown 12345 theirs
	check "a folder of another user" bash -c "! '$build/bin/dlcc' '$model' --cache=theirs -o other.so 2>err && grep -q 'belongs to user 12345, and this is user 0' err"
	rm -r theirs
fi
ln -s c link
check "a link to the folder" bash -c "'$build/bin/dlcc' '$model' --name=d --cache=link -v -o d.so 2>&1 | grep -q 'is link/'"
rm -rf c link

# The bound: what was not taken for the longest time goes.
size() { du -cb c/*.dlcc | tail -n 1 | cut -f 1; }
within() { [ "$(size)" -le $(($1 << 20)) ] || { size; return 1; }; }
for n in 1 2 3 4 5 6 7; do compile --dim N=$n --cache-size=1 -o d.so; done
check "the folder has at most 1 MiB" within 1
check "the last one is there" compiles "2 0" --dim N=7 -o d.so
check "the first one is not" compiles "0 2" --dim N=1 -o d.so
sleep 0.01
check "this is the last one now" compiles "2 0" --dim N=7 -o d.so
check "a smaller bound" bash -c "'$build/bin/dlcc' '$model' --name=d --cache=c --cache-size=0 -o d.so && [ -z \"\$(ls c)\" ]"
check "no such bound" bash -c "! '$build/bin/dlcc' '$model' --cache=c --cache-size=many -o d.so 2>err && grep -q -- '--cache-size wants a number' err"
rm -rf c

# Compiles at once.
for i in 1 2 3; do
	mkdir "at$i"
	"$build/bin/dlcc" "$model" --name=d --cache=c -o "at$i/d.so" &
done
wait
check "three at once" bash -c 'for i in 1 2 3; do cmp "at$i/d.so" first.so || exit 1; done'
check "their entries" entries 2
mkdir c/.dlcc.folder && touch c/.dlcc.folder/k0.c && touch -d '2 days ago' c/.dlcc.folder
touch c/notes && touch -d '2 days ago' c/.dlcc.abcdef && touch c/.dlcc.ghijkl
check "another file's entry" compiles "0 2" --dim N=3 -o d.so
check "what a killed dlcc left is gone, and nothing else" bash -c '[ ! -e c/.dlcc.abcdef ] && [ ! -e c/.dlcc.folder ] && [ -e c/.dlcc.ghijkl ] && [ -e c/notes ]'

# Faults.
: >file
check "a file instead of the folder" bash -c "! '$build/bin/dlcc' '$model' --cache=file -o d.so 2>err && grep -q 'cannot use the cache file' err"
check "no folder for the folder" bash -c "! '$build/bin/dlcc' '$model' --cache=no/c -o d.so 2>err && grep -q 'cannot make the cache no/c' err"
check "no C is compiled" bash -c "! '$build/bin/dlcc' '$model' --cache=c -o d.c 2>err && grep -q -- '--cache changes nothing in d.c' err"
check "commands only" bash -c "'$build/bin/dlcc' '$model' --cache=none -### -o d.so 2>/dev/null && [ ! -e none ]"
check "nothing else is left" alone
echo "$passed passed, $failed failed"
