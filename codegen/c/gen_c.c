/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/c/gen_c.h"

#include "codegen/c/tile.h"
#include "codegen/c/transpose.h"
#include "codegen/c/gen_c_impl.h"
#include "codegen/names.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_table(StrBuf *b, const Buf *t, const char *name)
{
	int64_t n = 1, v;

	for (int i = 0; i < t->rank; i++)
		n = dim_is_const(t->dims[i], &v) ? n * v : n;
	strbuf_printf(b, "\tstatic const %s %s[] = {", c_memory_type(t->dtype), name);
	for (int64_t i = 0; i < n; i++) {
		strbuf_puts(b, i ? ", " : "");
		if (t->dtype == DT_F32 || t->dtype == DT_F64) {
			double d = dtype_load_f64(t->dtype, t->data, i);

			if (isfinite(d))
				strbuf_printf(b, "%a%s", d, t->dtype == DT_F32 ? "f" : "");
			else
				strbuf_printf(b, isnan(d) ? "__builtin_nan(\"\")"
						 : d < 0  ? "-__builtin_inf()"
							  : "__builtin_inf()");
		} else if (c_converts(t->dtype)) {
			strbuf_printf(b, "%u", ((const uint16_t *)t->data)[i]);
		} else {
			strbuf_printf(b, "%lld", (long long)dtype_load_i64(t->dtype, t->data, i));
		}
	}
	strbuf_puts(b, n ? "};\n" : "0};\n");
}

static void print_header(Fn *f, StrBuf *b)
{
	for (int i = 0; i < f->tables.n; i++)
		print_table(b, f->tables.at[i], fn_name(f, f->tables.at[i], NULL));
	for (int i = 0; i < f->bufs.n; i++) {
		Buf *buf = f->bufs.at[i];
		const char *type = c_memory_type(buf->dtype);

		strbuf_printf(b, "\t%s%s *const %s = k->buf[%d];\n",
			      fn_writes(f->stage->body, buf) ? "" : "const ",
			      type ? type : "uint8_t", fn_name(f, buf, NULL), i);
	}
	VEC_EACH (buf, &f->values) {
		strbuf_printf(b, "\tconst %s %s = ", c_type(dtype_ctype(buf->dtype)),
			      fn_value(f, buf));
		fn_load(f, b, buf, "0");
		strbuf_puts(b, ";\n");
	}
	for (int i = 0; i < f->sizes.n; i++)
		strbuf_printf(b, "\tconst int64_t %s = k->dim[%d];\n",
			      fn_name(f, f->sizes.at[i], NULL), i);
	if (f->faults)
		strbuf_puts(b, "\tdl_bad_index fault = {0};\n");
}

/* The length of the identifier or number at S. */
static size_t word_length(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || s[n] == '_')
		n++;
	return n;
}

/* TEXT with a number for each identifier of F's name space, in the order in which they appear:
 * functions that differ only by these names get the same text. */
static const char *without_names(Fn *f, const char *text)
{
	int *number = NEW_ARRAY(f->g->arena, f->names.n + 1, int), numbers = 0;
	STRBUF_LOCAL(b);

	while (*text) {
		const size_t n = word_length(text), skipped = n ? n : 1;
		const int name = n && text[n - 1] == '_' ? fn_find_name(f, text, n) : -1;

		if (name < 0) {
			strbuf_put(&b, text, skipped);
		} else {
			number[name] = number[name] ? number[name] : ++numbers;
			strbuf_printf(&b, "_%d_", number[name]);
		}
		text += skipped;
	}
	return arena_strdup(f->g->arena, strbuf_str(&b));
}

static CFunc *intern_func(GenC *g, Fn *f, const char *text)
{
	const char *key = without_names(f, text);
	uint64_t h = hash_bytes(HASH_SEED, key, strlen(key));
	CFunc *fn;

	for (int i = 0; i < g->funcs.n; i++)
		if (g->funcs.at[i]->hash == h && !strcmp(g->funcs.at[i]->key, key))
			return g->funcs.at[i];
	fn = NEW(g->arena, CFunc);
	fn->name = codegen_name(g->arena, g->prefix, g->funcs.n, f->stage->name);
	fn->text = arena_strdup(g->arena, text);
	fn->key = key;
	fn->hash = h;
	fn->faults = f->faults;
	fn->tile = g->last_tile;
	vec_push(g->arena, &g->funcs, fn);
	return fn;
}

CStage gen_c_stage(GenC *g, const Schedule *s, const Stage *st)
{
	Fn f = {.g = g, .sched = s, .stage = st, .indent = 2};
	STRBUF_LOCAL(all);
	CStage c;

	for (int i = 0; i < g->done.n; i++)
		if (g->done.at[i].stage == st)
			return g->done.at[i].c;
	g->last_tile = -1;
	f.cb = fn_leaves(&f);
	f.runs = fn_tile_with_runs(st->body);
	vec_push(g->arena, &f.naturals, st->var);
	fn_narrow(s, st->body);
	fn_nodes(&f, st->body);
	print_header(&f, &all);
	if (f.matrix)
		strbuf_puts(&all, "\tmatrix_begin();\n");
	strbuf_printf(&all, "%s\tfor (int64_t %s = begin; %s < end; %s++) {\n%s\t}\n",
		      all.n ? "\n" : "", fn_name(&f, st->var, "p"), fn_name(&f, st->var, "p"),
		      fn_name(&f, st->var, "p"), strbuf_str(&f.body));
	if (f.matrix)
		strbuf_puts(&all, "\tmatrix_end();\n");
	if (f.faults)
		strbuf_printf(&all,
			      "\tif (fault.found)\n"
			      "\t\tdl_fault(k, (int32_t)k->dim[%d], fault.i, fault.n);\n",
			      f.sizes.n);
	if (!f.bufs.n && !f.sizes.n && !f.faults)
		strbuf_puts(&all, "\t(void)k;\n");
	if (!f.scratch)
		strbuf_puts(&all, "\t(void)scratch;\n");
	c.fn = intern_func(g, &f, strbuf_str(&all));
	c.fn->locs = locs_union(g->arena, c.fn->locs, s->kernel->locs);
	c.buf = f.bufs.at;
	c.nbuf = f.bufs.n;
	c.dim = f.sizes.at;
	c.ndim = f.sizes.n;
	vec_push(g->arena, &g->done, ((CDone){st, c}));
	strbuf_free(&f.body);
	return c;
}

GenC *gen_c_new(Ctx *c, Arena *a, const Target *t, const char *prefix)
{
	GenC *g = NEW(a, GenC);

	g->arena = a;
	g->target = t;
	g->prefix = prefix;
	g->pool = expr_pool_new(c, a);
	return g;
}

/* What compiling FN costs, in letters. */
static size_t cost(const CFunc *fn)
{
	return strlen(fn->text) + 200;
}

void gen_c_split(GenC *g, int nfiles)
{
	size_t total = 0, sum = 0;

	VEC_EACH (fn, &g->funcs)
		total += cost(fn);
	for (int tile = -1; tile < g->tiles.n; tile++)
		VEC_EACH (fn, &g->funcs) {
			if (fn->tile != tile)
				continue;
			fn->file = (int)(sum * (size_t)nfiles / (total + 1));
			sum += cost(fn);
		}
}

bool gen_c_calls(const GenC *g, const char *name, int file)
{
	const size_t n = strlen(name);

	VEC_EACH (fn, &g->funcs) {
		const char *at = file < 0 || fn->file == file ? strstr(fn->text, name) : NULL;

		while (at && at[n] != '(')
			at = strstr(at + n, name);
		if (at)
			return true;
	}
	return false;
}

void gen_c_prelude(GenC *g, StrBuf *b, int file)
{
	ex_c_funcs(b, g->pool, &g->used_funcs);
	c_transpose_functions(g, b, file);
	c_quantise_functions(g, b);
	c_lanes_functions(g, b);
	c_tiles(g, b, file);
}

/* Prints the nodes that FN serves as a comment. */
static void print_locs(StrBuf *b, const CFunc *fn)
{
	enum { MOST = 8, WIDTH = 100 };
	ARENA_LOCAL(tmp);
	const LocList all = locs_all(tmp, fn->locs);
	size_t line = b->n;

	strbuf_puts(b, "/*");
	for (int i = 0; i < all.n && i < MOST; i++) {
		STRBUF_LOCAL(one);

		codegen_put_loc(&one, all.at[i], escape_c_comment);
		strbuf_puts(b, i ? "," : "");
		if (b->n - line + one.n > WIDTH && i) {
			line = b->n + 1;
			strbuf_puts(b, "\n *");
		}
		strbuf_printf(b, " %s", strbuf_str(&one));
	}
	if (all.n > MOST)
		strbuf_printf(b, ", and %d more", all.n - MOST);
	strbuf_puts(b, " */\n");
}

void gen_c_file(GenC *g, StrBuf *b, int file, bool statics)
{
	gen_c_prelude(g, b, file);
	VEC_EACH (fn, &g->funcs) {
		if (fn->file != file)
			continue;
		print_locs(b, fn);
		strbuf_printf(
			b,
			"%svoid %s(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)%s{\n%s}\n\n",
			statics ? "static " : "", fn->name, "\n", fn->text);
	}
}
