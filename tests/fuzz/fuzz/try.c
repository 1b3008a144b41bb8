/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/fuzz/try.h"

#include "base/sys.h"
#include "codegen/host/gen_host.h"
#include "codegen/targets.h"
#include "codegen/weights/weights.h"
#include "frontend/import.h"
#include "runtime/strtable.h"
#include "tests/tools/batch/judge.h"
#include "tests/oracle/eval_graph.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a run of eval may be given, and may make as far as the inputs tell. */
enum { MAX_ELEMENTS = 1 << 16, MAX_WORK = 1 << 20, MAX_INPUTS = 64 };

typedef struct Try {
	Tried *t;
	Rng *r;
	Arena *arena;
	Diag diag;
	char *text;
	size_t text_size;
	OnnxFile *file;
	const char *model;   /* where the model is text */
	dl_strings *strings; /* of both contexts */
	bool one_fault;      /* of a node or value at most */
	bool quantises;      /* the model does */
	bool permits;        /* the model permits that its activations are quantised */
} Try;

static void phase(Try *y, const char *name)
{
	snprintf(y->t->phase, sizeof y->t->phase, "%s", name);
}

static void say(Try *y, Outcome o, const char *why)
{
	y->t->outcome = o;
	snprintf(y->t->why, sizeof y->t->why, "%s", why);
	for (char *p = y->t->why; *p; p++)
		if (*p == '\n')
			*p = ';';
}

static const char *said(Try *y)
{
	char *s;

	fflush(y->diag.out);
	s = arena_strdup(y->arena, y->text ? y->text : "");
	rewind(y->diag.out);
	fflush(y->diag.out);
	return s;
}

/* Whether each line of an error in S has a name in quotes, and no two have the same first one. */
static bool names_once(Try *y, const char *s)
{
	VEC(const char *) names = {0};

	for (s = strstr(s, ": error: "); s; s = strstr(s + 1, ": error: ")) {
		const char *from = strchr(s, '"'), *end = strchr(s, '\n'),
			   *to = from ? strchr(from + 1, '"') : NULL;

		if (!to || (end && to > end))
			return false;
		from = arena_strndup(y->arena, from, (size_t)(to - from));
		for (int i = 0; i < names.n; i++)
			if (!strcmp(names.at[i], from))
				return false;
		vec_push(y->arena, &names, from);
	}
	return true;
}

/* A refusal says why. */
static void refuse(Try *y)
{
	const char *s = said(y);

	if (!y->diag.errors || !strstr(s, "error"))
		say(y, BROKEN, "refused without a diagnostic");
	else if (y->one_fault && !names_once(y, s))
		say(y, BROKEN, arena_printf(y->arena, "not one diagnostic for a name: %s", s));
	else
		say(y, REFUSED, s);
}

/* ---- Compiling ---- */

/* While passes run: how many errors there were when the last one had run. */
typedef struct PassErrors {
	Try *y;
	int errors;
} PassErrors;

static void watch_pass(void *arg, Module *m, const Pass *p, PassEvent e)
{
	PassErrors *w = arg;

	(void)m;
	if (e == PASS_BEGINS)
		phase(w->y, p->name);
	else if (e == PASS_RAN)
		w->errors = w->y->diag.errors;
}

static bool passes(Try *y, Module *m)
{
	PassErrors w = {y, 0};

	if (passes_run(m, 0, PASS_LAST, &(PassHook){watch_pass, &w, true}))
		return true;
	if (y->diag.errors > w.errors)
		say(y, BROKEN, arena_printf(y->arena, "the verifier: %s", said(y)));
	else
		refuse(y);
	return false;
}

static bool weights(Try *y, Module *m, HostOpts *h)
{
	int fd;
	bool ok;

	if (!m->mem->weights)
		return true;
	phase(y, "weights");
	h->weights = WEIGHTS_FILE;
	h->weights_file = "weights";
	fd = memfd_create("weights", MFD_CLOEXEC);
	ok = fd >= 0 && weights_write(m, fd, 0, 1, &h->weights_hash);
	if (fd >= 0)
		close(fd);
	return ok;
}

static bool generate(Try *y, Module *m)
{
	HostOpts h = {.name = "fuzz", .version = "test"};
	GenC *gc[MAX_TARGETS] = {NULL};
	StrBuf host = {0}, kernels = {0};
	bool ok = weights(y, m, &h);

	phase(y, "gen_c");
	gc[0] = gen_c_new(m->ctx, y->arena, m->target[0], "fuzz");
	ok = ok && gen_host(m, gc, &h, &host);
	if (ok) {
		gen_c_split(gc[0], 1);
		gen_c_file(gc[0], &kernels, 0, false);
	}
	strbuf_free(&host);
	strbuf_free(&kernels);
	if (!ok)
		refuse(y);
	return ok;
}

/* The PTX of M, which is for a GPU, and its host code. LLVM takes whatever codegen makes of a tree
 * that was accepted. */
static bool generate_ptx(Try *y, Module *m)
{
	MemPlan none = {0};
	Module host = {.arena = y->arena,
		       .ctx = m->ctx,
		       .graph = m->graph,
		       .mem = &none,
		       .gpu = m,
		       .opt = m->opt};
	GenPtx *ptx = gen_nvptx_new(m->ctx, y->arena, m->target[0], "fuzz");
	GenC *none_c[MAX_TARGETS] = {NULL};
	HostOpts h = {.name = "fuzz",
		      .version = "test",
		      .ptx = &ptx,
		      .beside = gen_c_new(m->ctx, y->arena, m->host, "fuzz_host")};
	StrBuf b = {0};
	bool ok;

	phase(y, "gen_nvptx");
	weights_file(&host);
	ok = gen_host(&host, none_c, &h, &b);
	phase(y, "llvm");
	ok = ok && gen_nvptx_compile(ptx, 1, &y->diag);
	fflush(y->diag.out);
	strbuf_free(&b);
	if (ok)
		say(y, ACCEPTED, "");
	else if (strstr(y->text ? y->text : "", "LLVM cannot make"))
		say(y, BROKEN, said(y));
	else
		refuse(y);
	return ok;
}

/* The graph of the file in a context of its own. */
static Graph *read_graph(Try *y, Ctx **ctx)
{
	Graph *g;

	*ctx = ctx_new(&y->diag);
	(*ctx)->strings = y->strings;
	if (!y->model)
		return onnx_import(*ctx, y->arena, y->file, NULL);
	g = graph_parse(*ctx, y->arena, y->model, "model.dl");
	return g && graph_verify(g, &y->diag, "parse") ? g : NULL;
}

/* A text with loop trees says which target they are for. Trees that were changed compute anything:
 * half of them meet the proof, the others reach code generation. */
static void take_target(Try *y, Module *m)
{
	const Target *t = target_by_name(m->graph->schedules.at[0].target);

	if (t && (!t->gpu || !gen_nvptx_lacks()))
		m->target[0] = t;
	m->host = target_by_name("generic");
	m->opt.verify = rng_below(y->r, 2);
}

/* Trees that were changed may access any memory: only proved ones run. */
static bool may_run(const Module *m)
{
	return !m->target[0]->gpu &&
	       (!m->graph->schedules.n || (m->opt.verify && !m->verified.unproved));
}

static bool compile(Try *y, Module *m)
{
	phase(y, "import");
	m->graph = read_graph(y, &m->ctx);
	if (!m->graph) {
		refuse(y);
		return false;
	}
	if (m->graph->schedules.n)
		take_target(y, m);
	return passes(y, m) && (m->target[0]->gpu ? generate_ptx(y, m) : generate(y, m));
}

/* ---- Inputs ---- */

/* A value for each symbol that shapes give. */
static int64_t *choose_symbols(Try *y, Ctx *ctx)
{
	int n = sym_count(ctx);
	int64_t *v = NEW_ARRAY(y->arena, n + 1, int64_t), same = (int64_t)rng_below(y->r, 4) + 1;
	bool all = rng_below(y->r, 2);

	for (int i = 0; i < n; i++) {
		const Sym *s = sym_at(ctx, i);

		v[i] = all ? same : (int64_t)rng_below(y->r, 5);
		v[i] = v[i] < s->lo ? s->lo : v[i] > s->hi ? s->hi : v[i];
		if (s->def)
			dim_eval(s->def, v, &v[i]);
	}
	return v;
}

static bool numel(const Type *t, const int64_t *sym, int64_t *dims, int64_t *n)
{
	*n = 1;
	for (int i = 0; i < t->rank; i++)
		if (!dim_eval(t->dims[i], sym, &dims[i]) || dims[i] < 0 || __builtin_mul_overflow(*n, dims[i], n))
			return false;
	return true;
}

static int64_t string_id(Try *y, const char *s)
{
	return strings_intern(y->strings, s, strlen(s));
}

static void fill(Try *y, Tensor *t)
{
	void *data = (void *)(uintptr_t)t->data;
	bool wild = rng_below(y->r, 20) == 0;
	static const char *const words[] = {"", "a", "B c", "1.5", "a,b"};
	int64_t far[] = {-1, -2, 7, 100, INT32_MAX, INT64_C(1) << 40};

	for (int64_t i = 0; i < tensor_numel(t); i++) {
		if (t->dtype == DT_STR)
			dtype_store_i64(DT_STR, data, i, string_id(y, words[rng_below(y->r, 5)]));
		else if (dtype_is_float(t->dtype))
			dtype_store_f64(t->dtype, data, i, ((double)rng_below(y->r, 401) - 200) / 100);
		else if (t->dtype == DT_BOOL)
			dtype_store_i64(t->dtype, data, i, (int64_t)rng_below(y->r, 2));
		else
			dtype_store_i64(t->dtype, data, i, wild ? far[rng_below(y->r, 6)] : (int64_t)rng_below(y->r, 3));
	}
}

/* False where the inputs are no tensors, or too large. */
static bool make_inputs(Try *y, Graph *g, const Tensor **in)
{
	int64_t *sym = choose_symbols(y, g->ctx), dims[MAX_RANK], n, total = 0;

	if (g->inputs.n > MAX_INPUTS)
		return false;
	for (int i = 0; i < g->inputs.n; i++) {
		const Type *t = g->inputs.at[i]->type;
		Tensor *v;

		if (!t || t->kind != TYPE_TENSOR || !numel(t, sym, dims, &n) || n > MAX_ELEMENTS || (total += n) > MAX_ELEMENTS)
			return false;
		v = tensor_new(y->arena, t->dtype, t->rank, dims);
		fill(y, v);
		in[i] = v;
	}
	return true;
}

/* False where a value of the compiled graph is known to be larger than a test wants. */
static bool small(Try *y, Graph *g)
{
	int64_t *sym = choose_symbols(y, g->ctx), dims[MAX_RANK], n, total = 0;

	for (const Node *node = g->first; node; node = node->next)
		for (int i = 0; i < node->nout; i++) {
			const Type *t = node->out[i] ? node->out[i]->type : NULL;

			if (!t || t->kind != TYPE_TENSOR)
				continue;
			if (!numel(t, sym, dims, &n) || n > MAX_WORK || (total += n) > MAX_WORK)
				return false;
		}
	return true;
}

/* ---- Samples ---- */

static void put_field(StrBuf *b, int field, int wire, uint64_t v)
{
	char c[12];
	size_t n = 0;

	c[n++] = (char)(field << 3 | wire);
	for (; v > 127; v >>= 7)
		c[n++] = (char)(v | 128);
	c[n++] = (char)v;
	strbuf_put(b, c, n);
}

static void put_bytes(StrBuf *b, int field, const void *p, size_t n)
{
	put_field(b, field, 2, n);
	strbuf_put(b, p, n);
}

static void write_tensor(Try *y, const char *dir, const char *what, int i, const Tensor *t, const char *name)
{
	StrBuf b = {0};

	for (int d = 0; d < t->rank; d++)
		put_field(&b, 1, 0, (uint64_t)t->dims[d]);
	put_field(&b, 2, 0, (uint64_t)dtype_info[t->dtype].onnx);
	if (name && *name)
		put_bytes(&b, 8, name, strlen(name));
	put_bytes(&b, 9, t->data, (size_t)t->bytes);
	write_file(arena_printf(y->arena, "%s/test_data_set_0/%s_%d.pb", dir, what, i), b.at, b.n);
	strbuf_free(&b);
}

static bool has_strings(const Tensor *const *t, int n)
{
	for (int i = 0; i < n; i++)
		if (t[i]->dtype == DT_STR)
			return true;
	return false;
}

static void write_sample(Try *y, const char *dir, Bytes file, const Graph *g, const Tensor *const *in, Tensor *const *out)
{
	if (has_strings(in, g->inputs.n) || (out && has_strings((const Tensor *const *)out, g->results.n)))
		return;
	mkdir(dir, 0777);
	mkdir(arena_printf(y->arena, "%s/test_data_set_0", dir), 0777);
	write_file(arena_printf(y->arena, "%s/model.onnx", dir), file.p, file.n);
	for (int i = 0; i < g->inputs.n; i++)
		write_tensor(y, dir, "input", i, in[i], g->inputs.at[i]->name);
	for (int i = 0; out && i < g->results.n; i++)
		write_tensor(y, dir, "output", i, out[i], g->result_names.at[i]);
	if (!out)
		write_file(arena_printf(y->arena, "%s/fault", dir), y->t->why, strlen(y->t->why));
}

/* The line that tests/tools/batch reads. */
static void write_case(Try *y, const char *dir, double noise)
{
	char line[4096];

	snprintf(line, sizeof line, "%s\t%g\n", dir, noise);
	if (isfinite(noise) && !access(arena_printf(y->arena, "%s/model.onnx", dir), F_OK))
		write_file(arena_printf(y->arena, "%s/case", dir), line, strlen(line));
}

/* ---- Running ---- */

/* Strings as their ids: both sides have one table. */
static Array as_array(const Tensor *t)
{
	return array_make("", t->dtype == DT_STR ? DT_I64 : t->dtype, t->rank, t->dims,
		       (void *)(uintptr_t)t->data);
}

static bool evaluate(Try *y, Graph *g, const Tensor *const *in, Tensor **out)
{
	y->diag.errors = 0;
	if (eval_graph(g, in, out, y->arena, &y->diag))
		return true;
	if (!y->diag.errors)
		say(y, BROKEN, "eval failed without a diagnostic");
	else
		say(y, FAULTED, said(y));
	return false;
}

/* T, its floats moved by about a unit in the last place, by chance. */
static const Tensor *nudged(Try *y, const Tensor *t)
{
	const double unit = dtype_info[t->dtype].bits <= 16 ? 0x1p-8 : 0x1p-23;
	Tensor *v;

	if (!dtype_is_float(t->dtype))
		return t;
	v = tensor_new(y->arena, t->dtype, t->rank, t->dims);
	for (int64_t i = 0; i < tensor_numel(t); i++)
		dtype_store_f64(t->dtype, (void *)(uintptr_t)v->data, i,
				dtype_load_f64(t->dtype, t->data, i) *
					(1 + ((double)rng_below(y->r, 3) - 1) * unit));
	return v;
}

static Tolerance by_noise(double noise)
{
	return (Tolerance){.rtol = -1, .atol = -1, .noise = noise};
}

/* How far the outputs OUT move with other roundings of the inputs, as a share of the largest: a
 * mutated graph may subtract what is nearly equal, and then rounding is all that it computes.
 * Infinite where they have no number, or another integer. */
static double noise_of(Try *y, Graph *g, const Tensor *const *in, Tensor *const *out)
{
	enum { TRIALS = 4 };
	const Tensor *moved[MAX_INPUTS];
	Tensor **now = NEW_ARRAY(y->arena, g->results.n + 1, Tensor *);
	double noise = 0;

	for (int k = 0; k < TRIALS; k++) {
		for (int i = 0; i < g->inputs.n; i++)
			moved[i] = nudged(y, in[i]);
		if (!eval_graph(g, moved, now, y->arena, &y->diag))
			return INFINITY;
		for (int i = 0; i < g->results.n; i++) {
			Array got = as_array(now[i]), want = as_array(out[i]);
			Comparison c = compare(&got, &want, by_noise(0));

			noise = fmax(noise, c.ok || c.noise_may_tell ? c.max_rel : (double)INFINITY);
		}
	}
	return noise;
}

/* A and B are of the same integers, or of the next ones: the two ways to compute what is
 * quantised, in floats and in integers, may lie on two sides of a tie. */
static bool within_a_step(const Tensor *a, const Tensor *b)
{
	bool ok = a->dtype == b->dtype && dtype_is_int(a->dtype) && dtype_info[a->dtype].bits <= 16 && a->bytes == b->bytes;

	for (int64_t i = 0; i < tensor_numel(a) && ok; i++)
		ok = llabs(dtype_load_i64(a->dtype, a->data, i) - dtype_load_i64(b->dtype, b->data, i)) <= 1;
	return ok;
}

/* Looks at G before it is evaluated, which replaces its nodes. */
static void look(Try *y, const Graph *g)
{
	for (const Node *n = g->first; n; n = n->next) {
		y->quantises = y->quantises || n->op == OP_QuantizeLinear;
		y->permits = y->permits || node_int(n, "accuracy_level", 0) == 4;
	}
}

/* Null, or which of N results differs by more than NOISE. */
static const char *differ(Try *y, int n, Tensor *const *a, Tensor *const *b, double noise)
{
	for (int i = 0; i < n && isfinite(noise) && !y->permits; i++) {
		Array got = as_array(b[i]), want = as_array(a[i]);
		const char *bad = difference(y->arena, &got, &want, AGREE_WITHIN, by_noise(noise));

		if (bad && !(y->quantises && within_a_step(a[i], b[i])))
			return arena_printf(y->arena, "output %d: compiled, eval differs: %s", i, bad);
	}
	return NULL;
}

static void agree(Try *y, Graph *g, const Tensor *const *in, Tensor *const *want, Tensor *const *got)
{
	const char *bad = differ(y, g->results.n, want, got, 0);

	if (bad)
		bad = differ(y, g->results.n, want, got, noise_of(y, g, in, want));
	say(y, bad ? BROKEN : RAN, bad ? bad : "");
}

static void run(Try *y, Module *m, Bytes file, const char *sample)
{
	const Tensor *in[MAX_INPUTS];
	Tensor **want, **got;
	Module plain = {.arena = y->arena};
	Graph *g;
	bool ok;

	g = plain.graph = read_graph(y, &plain.ctx);
	if (g)
		look(y, g);
	/* A text may give types, which eval would take as they are. */
	if (g && y->model && !pass_infer(&plain))
		g = NULL;
	want = NEW_ARRAY(y->arena, m->graph->results.n + 1, Tensor *);
	got = NEW_ARRAY(y->arena, m->graph->results.n + 1, Tensor *);
	phase(y, "eval");
	say(y, ACCEPTED, "");
	if (g && small(y, m->graph) && make_inputs(y, g, in)) {
		ok = evaluate(y, g, in, want);
		phase(y, "eval kernels");
		if (evaluate(y, m->graph, in, got) && ok) {
			agree(y, g, in, want, got);
		} else if (ok && y->t->outcome == FAULTED) {
			say(y, BROKEN, arena_printf(y->arena, "only the compiled graph fails: %s", y->t->why));
		}
		if (sample && y->t->outcome != BROKEN)
			write_sample(y, sample, file, g, in, ok ? want : NULL);
		if (sample && ok && y->t->outcome != BROKEN)
			write_case(y, sample, noise_of(y, g, in, want));
	}
	ctx_free(plain.ctx);
}

void try_file(Tried *t, Bytes file, bool text, bool one_fault, Rng *r, const char *sample)
{
	Try y = {.t = t, .r = r, .arena = arena_new(), .one_fault = one_fault};
	Module m = {.arena = y.arena, .opt = {.level = 2, .rewrite_limit = -1}};

	*t = (Tried){.outcome = REFUSED};
	y.strings = strings_in(y.arena);
	m.target[m.ntargets++] = target_by_name("x86-64-v3");
	y.diag = (Diag){.out = open_memstream(&y.text, &y.text_size), .file = "model.onnx"};
	phase(&y, "read");
	if (text)
		y.model = arena_strndup(y.arena, (const char *)file.p, file.n);
	else
		y.file = onnx_open_bytes(&y.diag, "model.onnx", file.p, file.n, &onnx__model_proto__descriptor);
	if (!y.file && !y.model)
		refuse(&y);
	else if (compile(&y, &m) && may_run(&m))
		run(&y, &m, file, sample);
	if (m.ctx)
		ctx_free(m.ctx);
	if (y.file)
		onnx_close(y.file);
	fclose(y.diag.out);
	free(y.text);
	arena_free(y.arena);
}
