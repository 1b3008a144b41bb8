/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles of products on GPUs as text. `--list-tiles` prints the candidates that the model of
 * gemm_choose.c ranks best; `--tiles` reads those that measurements found best. A line is
 *
 * 	TARGET TYPE M N K BMxBNxBKxSTAGES
 * 	sm_80 f16 2048 768 768 128x128x32x4
 *
 * for a product of M rows, N columns and sums of K terms on that target: the block's tile, and the
 * stages of its pipeline. TYPE is that of the factors; tf32 means f32 factors that --tf32 rounds.
 * For a size that is unknown at compile time, the line has the size that the model assumes. Blank
 * lines and text after # are ignored. The first line for a product counts, so a list of candidates,
 * best first, can be read unchanged.
 */
#include "passes/schedule/gpu/gemm_impl.h"

#include <stdio.h>
#include <string.h>

enum {
	NAME = 16,
	MOST_SIDE = 1024, /* side of a tile, and its k, at most */
	MOST_STAGES = 8
};

typedef struct TileLine {
	char target[NAME], type[NAME];
	long long m, n, k;
	BlockShape s;
} TileLine;

static bool in(int n, int least, int most)
{
	return n >= least && n <= most;
}

/* Reads one line: 1 a row, 0 an empty line, -1 an error. */
static int read_row(const char *line, size_t n, TileLine *r)
{
	char text[128], rest;
	int result;

	n = strcspn(line, "#\n") < n ? strcspn(line, "#\n") : n;
	if (strspn(line, " \t\r") >= n)
		return 0;
	if (n >= sizeof text)
		return -1;
	memcpy(text, line, n);
	text[n] = '\0';
	*r = (TileLine){0};
	result = sscanf(text, "%15s %15s %18lld %18lld %18lld %9dx%9dx%9dx%9d %c", r->target,
			r->type, &r->m, &r->n, &r->k, &r->s.bm, &r->s.bn, &r->s.bk, &r->s.stages,
			&rest);
	return result == 9 && in(r->s.bm, 1, MOST_SIDE) && in(r->s.bn, 1, MOST_SIDE) &&
			       in(r->s.bk, 1, MOST_SIDE) && in(r->s.stages, 2, MOST_STAGES)
		       ? 1
		       : -1;
}

static const char *next_line(const char *at)
{
	at += strcspn(at, "\n");
	return at + (*at == '\n');
}

bool gemm_tiles_check(const char *text, const char *file, bool (*is_gpu)(const char *), Diag *d)
{
	const DiagLoc loc = {.file = file};
	int number = 1;

	for (const char *at = text; *at; at = next_line(at), number++) {
		TileLine r;
		const int result = read_row(at, strcspn(at, "\n"), &r);

		if (result < 0)
			return diag_error(
				d, loc,
				"line %d is not TARGET TYPE M N K BMxBNxBKxSTAGES, with sides of 1 to %d and 2 to %d stages",
				number, MOST_SIDE, MOST_STAGES);
		if (result && !is_gpu(r.target))
			return diag_error(
				d, loc,
				"line %d: there is no GPU %s; dlcc --list-targets names all",
				number, r.target);
		if (result && strcmp(r.type, "tf32") != 0 && dtype_by_name(r.type) == DT_NONE)
			return diag_error(d, loc, "line %d: there is no type %s", number, r.type);
	}
	return true;
}

static const char *type_of(const GpuGemm *g)
{
	return g->s.kind && g->a.type == DT_F32 ? "tf32" : dtype_info[g->a.type].name;
}

bool gemm_tiles_find(const char *text, const GpuGemm *g, const double size[4], BlockShape *s)
{
	TileLine r;

	for (const char *at = text ? text : ""; *at; at = next_line(at)) {
		if (read_row(at, strcspn(at, "\n"), &r) <= 0 ||
		    strcmp(r.target, g->g.t->name) != 0 || strcmp(r.type, type_of(g)) != 0 ||
		    r.m != (long long)size[0] || r.n != (long long)size[1] ||
		    r.k != (long long)size[2])
			continue;
		*s = r.s;
		return true;
	}
	return false;
}

void gemm_tiles_print(const GpuGemm *g, const double size[4], const BlockShape *s)
{
	printf("%s %s %.0f %.0f %.0f %dx%dx%dx%d\n", g->g.t->name, type_of(g), size[0], size[1],
	       size[2], s->bm, s->bn, s->bk, s->stages);
}
