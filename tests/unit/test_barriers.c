/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where codegen/nvptx/barriers.c puts barriers. A case is a kernel with a character for each event.
 * R and W load and store any elements of a buffer, r and w each thread's own, Y and X load and
 * store another buffer. A and B store to two halves of the scratch, C to all of it. Bars are places
 * for a barrier, of a block, or of a warp between < and >. Parentheses are a loop, brackets a
 * condition. The result has a bar where a barrier is.
 */
#include "codegen/nvptx/kernel.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *what, *events, *wanted;
} cases[] = {
	{"a store before a load", "W|R", "W|R"},
	{"a load before a store", "R|W", "R|W"},
	{"two stores", "W|W", "W|W"},
	{"two loads", "R|R", "RR"},
	{"each thread's own elements", "w|r|w", "wrw"},
	{"own elements, then any", "w|R", "w|R"},
	{"own elements of a block, then of its warps", "w|<r>", "w|<r>"},
	{"another buffer", "X|R", "XR"},
	{"parts of scratch that overlap", "A|C", "A|C"},
	{"parts of scratch that do not overlap", "A|B", "AB"},
	{"the last of several places", "W||X|R", "WX|R"},
	{"one barrier for two buffers", "W|X|RY", "WX|RY"},
	{"a loop whose next iteration stores what this one loads", "(W|R|)", "(W|R|)"},
	{"a loop whose iterations store to the same buffer", "(Y|W|)", "(YW|)"},
	{"no barrier in a loop that only loads", "W|(R|)|R", "W|(R)R"},
	{"a loop that may have no iteration", "W|(X|Y|)R", "W|(X|Y|)R"},
	{"a place behind a loop", "(W)|R", "(W)|R"},
	{"a condition that skips a barrier", "W[X|Y]|R", "W[X|Y]|R"},
	{"both sides of a condition", "[W]|R", "[W]|R"},
	{"a warp's barrier", "<W|R>", "<W|R>"},
	{"a barrier of a warp does not order a block", "W|<X|Y>|R", "W<X|Y>|R"},
	{"a block's barrier orders its warps", "<W>|<R>", "<W>|<R>"},
};

static void access(LlKernel *k, char c)
{
	static const int buffer[2];
	static const Buf own;
	MemAccess a = {.memory = &buffer[c == 'X' || c == 'Y'], .to = 1};

	a.write = strchr("WwXABC", c) != NULL;
	if (c == 'r' || c == 'w') {
		a.own = &own;
		a.threads = k->group;
	}
	if (strchr("ABC", c)) {
		a.memory = k;
		a.from = c == 'B' ? 64 : 0;
		a.to = c == 'A' ? 64 : 128;
	}
	ll_access(k, a);
}

static void event(LlKernel *k, char c)
{
	switch (c) {
	case '|': ll_barrier(k); return;
	case '(': ll_sync_open(k, SYNC_LOOP); break;
	case '[': ll_sync_open(k, SYNC_IF); break;
	case '<': k->group = 32; break;
	case '>': k->group = 256; break;
	case ')':
	case ']': ll_sync_close(k); break;
	default: access(k, c); break;
	}
	ll_put(&k->f, "%c", c);
}

/* The first character of each line of CODE. */
static void shorten(StrBuf *b, const char *code)
{
	for (; *code; code = strchr(code, '\n') + 1)
		strbuf_put(b, strstr(code, "call") == code + 2 ? "|" : code + 2, 1);
}

int main(void)
{
	int failed = 0;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		LlKernel k = {.f.arena = arena_new(), .group = 256, .mask = "-1"};
		StrBuf found = {0};

		for (const char *c = cases[i].events; *c; c++)
			event(&k, *c);
		shorten(&found, ll_with_barriers(&k));
		if (strcmp(strbuf_str(&found), cases[i].wanted) != 0) {
			printf("test_barriers.c: %s: %s, not %s\n", cases[i].what,
			       strbuf_str(&found), cases[i].wanted);
			failed++;
		}
		strbuf_free(&found);
		strbuf_free(&k.f.b);
		arena_free(k.f.arena);
	}
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed != 0;
}
