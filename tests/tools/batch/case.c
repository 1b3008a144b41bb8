/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/batch/case.h"

#include "base/sys.h"
#include "codegen/host/gen_host.h"
#include "codegen/targets.h"
#include "codegen/weights/weights.h"
#include "frontend/import.h"
#include "tests/tools/batch/edge.h"
#include "tests/tools/batch/forms.h"
#include "tests/tools/batch/in_place.h"
#include "tests/tools/batch/judge.h"
#include "tests/tools/batch/kernels.h"
#include "tests/tools/batch/rewrites.h"
#include "tools/dlrun/datasets.h"
#include "tools/dlrun/session.h"
#include "tests/oracle/eval_graph.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { THREADS = 2 };

typedef struct Set {
	Array *in, *want;
	int nwant;           /* 0: eval is the reference, also in what it refuses */
	const char *refused; /* why eval refused the inputs */
	double noise;
	const Tensor **feed; /* the inputs for eval: those of the inferred graph */
	Tensor **got;        /* results of eval; null: it was not run, or failed */
	Tensor **kernels;    /* results of eval for the compiled graph, made when first needed */
} Set;

/* The C of a model, in parts, and its weights. */
typedef struct Made {
	StrBuf shared, kernels, host;
	uint64_t hash;
	void *weights;
	Module module;
	GenC *gen;
	GenPtx *ptx[MAX_TARGETS];
} Made;

typedef struct Case {
	const RunOptions *o;
	const char *dir, *name;
	const char *noise; /* of the references: as case_main takes it */
	FILE *to;
	Diag diag;
	char *text; /* text of the diagnostics */
	size_t text_size;
	Arena *arena;
	OnnxFile *file;
	/* not null: the text of a case of tests/edges.py, which replaces the model and its data */
	const char *edge;
	Graph *graph; /* the graph to compile */
	FormValues v; /* of the model */
	const Graph *evaluated;
	dl_strings *strings; /* of all contexts of the case: the inputs have one set of ids */
	Set *sets;
	int nsets;
	Made made;
	bool bits;            /* generated code must equal eval bit by bit */
	bool exact;           /* also bit by bit on small integers */
	bool *unsigned_zeros; /* by output: zeros may have either sign nevertheless */
	bool integers;        /* the inputs are small integers now, and eval is the reference */
	uint32_t inside;      /* session_inside of the opened library */
} Case;

/* ---- Telling ---- */

/* Limits the processor time of one step, and the elapsed time to more than that, which only a
 * sleeping process exceeds. */
static void limit(const Case *c)
{
	struct itimerval t = {.it_value = {.tv_sec = c->o->seconds}};

	setitimer(ITIMER_PROF, &t, NULL);
	alarm((unsigned)c->o->seconds * 12);
}

static void no_limit(void)
{
	struct itimerval t = {0};

	setitimer(ITIMER_PROF, &t, NULL);
	alarm(0);
}

static void begin(const Case *c, const char *path)
{
	fprintf(c->to, "begin %s\n", path);
	fflush(c->to);
	limit(c);
}

/* The text of the diagnostics since the last call, on one line. */
static const char *said(Case *c)
{
	char *s;

	fflush(c->diag.out);
	s = arena_strdup(c->arena, c->text ? c->text : "");
	rewind(c->diag.out);
	c->diag.errors = 0;
	for (char *p = s; *p; p++)
		if (*p == '\n')
			*p = p[1] ? ';' : 0;
	return *s ? s : "no diagnostic";
}

static void verdict(const Case *c, const char *status, const char *path, const char *message)
{
	fprintf(c->to, "verdict %s %s ", status, path);
	for (const char *s = message; *s && s < message + 900; s++)
		fputc(*s == '\n' ? ';' : *s, c->to);
	fputc('\n', c->to);
	fflush(c->to);
}

/* Reports a verdict; MESSAGE null: passed. A model that needs something unsupported is skipped. */
static void judge(const Case *c, const char *path, const char *message)
{
	if (!message)
		verdict(c, "PASS", path, "");
	else
		verdict(c, strstr(message, "not supported") ? "SKIP" : "FAIL", path, message);
}

/* ---- Data ---- */

/* Fills V with integers in -2 .. 2 that depend only on SEED. */
static void small_integers(Array *v, uint32_t seed)
{
	for (int64_t i = 0; i < v->n_items; i++)
		small_integers(&v->items[i], seed + 7 * (uint32_t)i);
	if (v->form != DL_TENSOR)
		return;
	for (int64_t i = 0; dtype_is_float(v->dtype) && i < array_count(v); i++) {
		seed = seed * 1664525u + 1013904223u;
		dtype_store_f64(v->dtype, v->data, i, (double)((seed >> 16) % 5) - 2);
	}
}

/* Makes S->FEED the inputs of S as tensors. */
static bool set_feed(Case *c, Set *s)
{
	s->kernels = NULL;
	s->feed = forms_feed(c->arena, &c->diag, c->dir, c->strings, &c->v, s->in);
	return s->feed != NULL;
}

static bool read_set(Case *c, int k, Set *s)
{
	const char *dir = arena_printf(c->arena, "%s/test_data_set_%d", c->dir, k);
	Array *arrays;
	int n;

	s->in = NEW_ARRAY(c->arena, c->v.n_in + 1, Array);
	s->noise = data_noise(c->arena, c->dir, k);
	n = data_read(c->arena, &c->diag, dir, "input", c->v.in_form, c->v.n_in, &arrays);
	if (n < 0 || !data_assign(&c->diag, dir, c->v.in_name, c->v.n_in, arrays, n, s->in, NULL))
		return false;
	s->nwant = data_read(c->arena, &c->diag, dir, "output", c->v.out_form, c->v.n_out,
			     &s->want);
	return s->nwant >= 0 && set_feed(c, s);
}

/* Makes inputs without reference outputs: eval is the reference. */
static bool make_sets(Case *c)
{
	const Graph *g = c->graph;
	int n = edge_count(c->edge);

	c->sets = NEW_ARRAY(c->arena, n, Set);
	for (; c->nsets < n; c->nsets++) {
		Set *s = &c->sets[c->nsets];

		s->in = NEW_ARRAY(c->arena, g->inputs.n + 1, Array);
		if (!edge_inputs(c->arena, &c->diag, c->edge, g, c->nsets, s->in) ||
		    !set_feed(c, s))
			return false;
	}
	return true;
}

static bool read_sets(Case *c)
{
	int n = 0;

	if (c->edge)
		return make_sets(c);
	while (!access(arena_printf(c->arena, "%s/test_data_set_%d", c->dir, n), R_OK))
		n++;
	c->sets = NEW_ARRAY(c->arena, n + 1, Set);
	for (; c->nsets < n; c->nsets++)
		if (!read_set(c, c->nsets, &c->sets[c->nsets]))
			return false;
	return true;
}

/* Of output O. */
static Tolerance tolerance(const Case *c, const Set *s, int o)
{
	const char *known = c->noise, *next;
	double noise;

	for (int i = 0; i < o && (next = strchr(known, ',')); i++)
		known = next + 1;
	noise = strtod(known, NULL);
	return (Tolerance){.rtol = -1,
			   .atol = -1,
			   .noise = noise > s->noise ? noise : s->noise,
			   .inside = c->inside,
			   .step = c->v.out_accuracy[o].step,
			   .unit = c->v.out_accuracy[o].unit};
}

/* Returns null, or how output O of data set K differs from its reference. */
static const char *against_reference(Case *c, int k, int o, const Array *got)
{
	Set *s = &c->sets[k];
	const Array *want = NULL;
	const char *bad;

	if (!c->integers && !c->edge && !c->o->cli.weight_type)
		want = data_pick(s->want, s->nwant, c->v.out_name, c->v.n_out, o);
	bad = want ? difference(c->arena, got, want, AGREE_WITHIN, tolerance(c, s, o)) : NULL;

	return bad ? arena_printf(c->arena, "set %d: output %s: %s", k, got->name, bad) : NULL;
}

static Ctx *new_ctx(Case *c)
{
	Ctx *ctx = ctx_new(&c->diag);

	if (!c->strings)
		c->strings = strings_in(c->arena);
	ctx->strings = c->strings;
	return ctx;
}

/* Imports the model's graph in a context of its own. */
static Graph *import(Case *c)
{
	if (c->edge)
		return edge_graph(c->arena, &c->diag, c->edge);
	return c->file ? onnx_import(new_ctx(c), c->arena, c->file, NULL) : NULL;
}

/* ---- eval ---- */

static const char *evaluate(Case *c)
{
	Graph *g = import(c);
	bool fused = !c->edge || (c->o->gpu ? c->o->gpu : c->o->target)->fma;
	const char *bad = NULL;

	if (!g)
		return said(c);
	for (int k = 0; k < c->nsets && !bad; k++) {
		Tensor **got = NEW_ARRAY(c->arena, g->results.n + 1, Tensor *);

		c->evaluated = g;
		c->sets[k].got = NULL;
		c->sets[k].refused = NULL;
		if (!eval_graph_with(g, c->sets[k].feed, got, c->arena, &c->diag,
				     &(EvalGraphOpts){.mad_fused = fused})) {
			if (c->edge || c->sets[k].nwant)
				return said(c);
			c->sets[k].refused = said(c);
			continue;
		}
		c->sets[k].got = got;
		for (int o = 0; o < c->v.n_out && !bad; o++) {
			Array v = forms_give(c->arena, c->strings, g, o, got, c->v.out_name[o]);

			bad = against_reference(c, k, o, &v);
		}
	}
	return bad;
}

/* ---- C ---- */

/* A path that depends on the kernel's code but not on its name. */
static const char *kernel_path(const Case *c, const GenPtx *g, const PtxFunc *fn)
{
	return arena_printf(c->arena, "%s/%s/%016llx.ptx", c->o->ptx, g->target->name,
			    (unsigned long long)fn->hash);
}

static bool passes(Case *c, Module *m)
{
	return passes_run(m, 0, PASS_LAST, &(PassHook){.verify = true}) && !c->diag.errors;
}

static bool make_weights(Module *m, Made *out)
{
	int fd = memfd_create("weights", MFD_CLOEXEC);
	bool ok = fd >= 0 && weights_write(m, fd, 0, 1, &out->hash);

	if (ok)
		out->weights = mmap(NULL, (size_t)weights_size(m), PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	return ok && out->weights != MAP_FAILED;
}

/* Runs the passes on another copy of the model, for the GPU. */
static bool passes_for_gpu(Case *c, Module *m, Module *gpu)
{
	Graph *g = import(c);

	*gpu = (Module){.ctx = g ? g->ctx : NULL,
			.arena = c->arena,
			.graph = g,
			.opt = m->opt,
			.host = c->o->target};
	gpu->opt.verify = !c->o->unproved;
	for (const Target *t = target_table; t->name; t++)
		if (c->o->ptx ? t->gpu != NULL : t == c->o->gpu)
			gpu->target[gpu->ntargets++] = t;
	m->gpu = gpu;
	return g && passes(c, gpu);
}

/* Writes each kernel of G to a file. A file that exists has the same kernel; only its time is
 * updated. */
static bool keep_kernels(Case *c, const GenPtx *g)
{
	GenPtx fresh = *g, one = *g;
	StrBuf b = {0};
	bool ok;

	memset(&fresh.funcs, 0, sizeof fresh.funcs);
	for (int i = 0; i < g->funcs.n; i++)
		if (utimensat(AT_FDCWD, kernel_path(c, g, g->funcs.at[i]), NULL, 0))
			vec_push(c->arena, &fresh.funcs, g->funcs.at[i]);
	ok = gen_nvptx_compile(&fresh, 1, &c->diag);
	for (int i = 0; i < fresh.funcs.n && ok; i++) {
		one.funcs.at = &fresh.funcs.at[i];
		one.funcs.n = 1;
		gen_nvptx_ptx(&one, 0, one.funcs.n, &b);
		ok = write_file(kernel_path(c, g, fresh.funcs.at[i]), strbuf_str(&b), b.n);
		strbuf_free(&b);
	}
	return ok;
}

/* Prints the host stub once, so that the kernels for the GPU are known, and compiles them. */
static bool make_ptx(Case *c, Module *m, GenC *const *gc, HostOpts *h, GenPtx **ptx)
{
	StrBuf host = {0};
	bool ok;

	for (int t = 0; t < m->gpu->ntargets; t++)
		ptx[t] = gen_nvptx_new(m->gpu->ctx, c->arena, m->gpu->target[t], c->name);
	h->ptx = ptx;
	ok = gen_host(m, gc, h, &host);
	for (int t = 0; t < m->gpu->ntargets && ok; t++)
		ok = c->o->ptx ? keep_kernels(c, ptx[t]) : gen_nvptx_compile(ptx[t], 1, &c->diag);
	strbuf_free(&host);
	return ok;
}

/* VERIFY: also prove the schedules; with a GPU, only those for it, as the path c has the CPU's. */
static bool make(Case *c, Ctx *ctx, Graph *g, Made *out, bool verify)
{
	Module *m = &out->module;
	HostOpts h = {.name = c->name,
		      .version = "test",
		      .suffix = arena_printf(c->arena, "_%s", c->name),
		      .one_file = true};
	GenC *gc[MAX_TARGETS] = {NULL};
	StrBuf all = {0};

	*m = (Module){
		.ctx = ctx, .arena = c->arena, .graph = g, .opt = options_of_passes(&c->o->cli)};
	m->opt.level = c->o->effort;
	m->opt.winograd = c->edge ? WINOGRAD_EXACT : WINOGRAD_DEFAULT;
	m->opt.verify = verify && !c->o->unproved && !c->o->gpu && !c->o->ptx;
	m->target[m->ntargets++] = c->o->target;
	if (!passes(c, m) ||
	    ((c->o->gpu || c->o->ptx) && !passes_for_gpu(c, m, NEW(c->arena, Module))) ||
	    (weights_size(m) && !c->o->ptx && !make_weights(m, out)))
		return false;
	if (weights_size(m)) {
		h.weights = WEIGHTS_FILE;
		h.weights_file = "weights";
		h.weights_hash = out->hash;
		h.weights_size = weights_size(m);
	}
	gc[0] = out->gen = gen_c_new(ctx, c->arena, c->o->target, c->name);
	h.beside = m->gpu ? gc[0] : NULL;
	if (m->gpu && !make_ptx(c, m, gc, &h, out->ptx))
		return false;
	if (c->o->ptx)
		return true;
	if (!gen_host(m, gc, &h, &out->host))
		return false;
	if (c->o->kernels)
		kernels_table(&out->host, m->gpu ? m->gpu : m, gc[0],
			      arena_printf(c->arena, "%s_stages", c->name));
	gen_c_split(gc[0], 1);
	gen_c_prelude(gc[0], &out->shared, 0);
	gen_c_file(gc[0], &all, 0, true);
	strbuf_puts(&out->kernels, strbuf_str(&all) + out->shared.n);
	strbuf_free(&all);
	return true;
}

static const char *write_part(Case *c, const char *suffix, const StrBuf *a, const StrBuf *b)
{
	StrBuf all = {0};
	bool ok;

	strbuf_put(&all, strbuf_str(a), a->n);
	strbuf_put(&all, strbuf_str(b), b->n);
	ok = write_file(arena_printf(c->arena, "%s/%s.%s", c->o->out, c->name, suffix),
			strbuf_str(&all), all.n);
	strbuf_free(&all);
	return ok ? NULL : "cannot write the C";
}

static const char *generate(Case *c)
{
	Module *m = &c->made.module;
	StrBuf none = {0};
	const char *bad;

	if (!make(c, c->graph->ctx, c->graph, &c->made, true))
		return said(c);
	c->bits = module_is_elementwise(m->gpu ? m->gpu : m);
	c->unsigned_zeros = module_unsigned_zeros(m->gpu ? m->gpu : m);
	c->exact = c->edge && !edge_is_close(c->edge);
	bad = write_part(c, "pre", &c->made.shared, &none);
	return bad ? bad : write_part(c, "c", &c->made.kernels, &c->made.host);
}

/* The text, read and printed again, must have the same bytes; compiled, it must give the same C
 * as PARSED, whose schedules are proved. */
static const char *reread(Case *c, const StrBuf *text, Made *again)
{
	Ctx *ctx = new_ctx(c);
	Graph *g = graph_parse(ctx, c->arena, strbuf_str(text), "printed.dl");
	StrBuf second = {0};

	if (!g)
		return said(c);
	graph_print(&second, g);
	if (strcmp(strbuf_str(text), strbuf_str(&second)))
		return "printed again, the graph is another text";
	strbuf_free(&second);
	return make(c, ctx, g, again, false) ? NULL : said(c);
}

/* The same of the graph with its schedules; the text of kernels is another one in some cases. */
static const char *reread_trees(Case *c, Module *m, Made *again)
{
	Ctx *ctx = new_ctx(c);
	StrBuf text = {0}, first = {0}, second = {0};
	Graph *g;

	pass_table[PASS_sched].prints->print(&text, m, NULL);
	g = graph_parse(ctx, c->arena, strbuf_str(&text), "printed.dl");
	strbuf_free(&text);
	if (!g || !make(c, ctx, g, again, false))
		return said(c);
	loop_trees_print(&first, m, NULL);
	loop_trees_print(&second, &again->module, NULL);
	if (strcmp(strbuf_str(&first), strbuf_str(&second)))
		return "printed again, the loop trees are another text";
	strbuf_free(&first);
	strbuf_free(&second);
	return NULL;
}

static const char *same_made(const Made *a, const Made *b)
{
	if (strcmp(strbuf_str(&a->host), strbuf_str(&b->host)))
		return "the host stub of the printed graph is another";
	if (strcmp(strbuf_str(&a->kernels), strbuf_str(&b->kernels)) ||
	    strcmp(strbuf_str(&a->shared), strbuf_str(&b->shared)))
		return "the kernels of the printed graph are others";
	return NULL;
}

/* ---- Running ---- */

static const char *open_library(Case *c, const char *path, Session *s)
{
	dl_get_api_fn get;
	void *fn;

	*s = (Session){.arena = c->arena,
		       .diag = &c->diag,
		       .path = path,
		       .library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
	if (!s->library)
		return arena_strdup(c->arena, dlerror());
	fn = dlsym(s->library, arena_printf(c->arena, "%s_get_api", c->name));
	memcpy(&get, &fn, sizeof get);
	s->api = get ? get(DL_ABI_VERSION) : NULL;
	if (!s->api)
		return "the library lacks the model, or has another ABI";
	s->desc = s->api->describe();
	if (!session_load(s, &(dl_load_options){.size = sizeof(dl_load_options),
						.threads = THREADS,
						.device = c->o->gpu ? "cuda" : "cpu",
						.weights_data = c->made.weights}))
		return said(c);
	c->inside = session_inside(s);
	return NULL;
}

/* Evaluates the compiled graph on data set S, with the target's rounding, unless it is done. */
static bool evaluate_compiled(Case *c, Set *s)
{
	const Target *t = c->o->gpu ? c->o->gpu : c->o->target;

	if (s->kernels)
		return true;
	s->kernels = NEW_ARRAY(c->arena, c->graph->results.n + 1, Tensor *);
	return eval_graph_with(c->graph, s->feed, s->kernels, c->arena, &c->diag,
			       &(EvalGraphOpts){.mad_fused = t->fma});
}

/* Returns null, or how output O of data set K differs from eval. Results that must be equal bit
 * by bit are compared with eval's of the compiled kernels, with the target's rounding: canon may
 * have replaced a function by another one (x^3 by x*x*x), or added two constants. Those of a
 * graph whose weights have become narrow are compared with nothing else. */
static const char *against_eval(Case *c, int k, int o, const Array *got)
{
	Set *s = &c->sets[k];
	Array want = forms_give(c->arena, c->strings, c->evaluated, o, s->got, got->name);
	const int first = forms_first(c->graph, o),
		  n = forms_type(c->graph, o) ? type_parts(forms_type(c->graph, o)) : 1;
	const bool narrow = c->o->cli.weight_type;
	Agreement bits = AGREE_BITS;
	const char *bad = NULL;

	for (int i = first; i < first + n; i++)
		bits = c->unsigned_zeros[i] ? AGREE_EQUAL : bits;
	if (!narrow) {
		bad = difference(c->arena, got, &want, c->bits || c->exact ? bits : AGREE_WITHIN,
				 tolerance(c, s, o));
		if (!bad || !(c->bits || c->exact) || (c->exact && array_is_whole(&want)))
			return bad;
		bad = difference(c->arena, got, &want, AGREE_WITHIN, tolerance(c, s, o));
	}
	if (bad)
		return bad;
	if (!evaluate_compiled(c, s))
		return said(c);
	want = forms_give(c->arena, c->strings, c->graph, o, s->kernels, got->name);
	return difference(c->arena, got, &want, c->bits || c->exact ? bits : AGREE_WITHIN,
			  tolerance(c, s, o));
}

/* Whether an input of the set is so large in a dim, and therefore empty, that temporaries may have
 * more elements than any memory: eval and the code need not have the same ones. */
static bool is_huge(const Case *c, const Set *set)
{
	for (int i = 0; i < c->v.n_in; i++)
		for (int d = 0; d < set->in[i].rank; d++)
			if (set->in[i].dims[d] >= (int64_t)1 << 40)
				return true;
	return false;
}

static const char *run_set(Case *c, Session *s, int k)
{
	const char *bad = NULL, *refused = c->sets[k].refused;
	const bool huge = is_huge(c, &c->sets[k]);
	const int status = session_run(s, c->sets[k].in);

	if (huge && status == DL_NOMEM)
		c->sets[k].refused = "no memory";
	if (status)
		return c->sets[k].refused
			       ? NULL
			       : arena_printf(c->arena, "set %d: %s", k, s->api->error(s->context));
	if (refused && huge)
		return NULL;
	if (refused)
		return arena_printf(c->arena, "set %d: the code accepts what eval refuses: %s", k,
				    refused);
	for (int o = 0; o < s->desc->n_out && !bad; o++) {
		Array got = session_output(s, o);

		bad = against_reference(c, k, o, &got);
		if (bad || !c->sets[k].got)
			continue;
		bad = against_eval(c, k, o, &got);
		if (bad)
			bad = arena_printf(c->arena, "set %d: output %s: from eval: %s", k,
					   got.name, bad);
	}
	return bad || !c->o->in_place ? bad : in_place_differs(s, c->sets[k].in);
}

/* Runs each kernel of the first data set on eval's values. */
static const char *run_kernels(Case *c, Session *s)
{
	Made *m = &c->made;
	void *stages = dlsym(s->library, arena_printf(c->arena, "%s_stages", c->name));

	return stages ? kernels_differ(c->arena, m->module.gpu ? m->module.gpu : &m->module, m->gen,
				       m->ptx[0], stages, c->sets[0].feed, &c->diag)
		      : "no table of stages";
}

/* Runs the code again, on small integers, for which its sums and products are exact. *UNDEFINED
 * is why eval fails on them, as where they are indices out of range, or null. */
static const char *run_on_integers(Case *c, Session *s, const char **undefined)
{
	const char *bad = NULL;

	c->integers = c->exact = true;
	for (int k = 0; k < c->nsets; k++) {
		for (int i = 0; i < c->v.n_in; i++)
			small_integers(&c->sets[k].in[i], (uint32_t)(k * 100 + i));
		if (!set_feed(c, &c->sets[k]))
			return said(c);
	}
	*undefined = evaluate(c);
	for (int k = 0; k < c->nsets && !bad && !*undefined; k++)
		bad = run_set(c, s, k);
	return bad;
}

static const char *gpu_on_integers(Case *c, Session *s)
{
	const char *undefined, *bad;

	if (c->exact || !module_is_exact_on_integers(c->made.module.gpu))
		return NULL;
	bad = run_on_integers(c, s, &undefined);
	return bad ? arena_printf(c->arena, "on small integers: %s", bad) : NULL;
}

/* Checks each pass that rewrites kernels, for a CPU and for a GPU, with the small integers of
 * the first data set. */
static const char *run_rewrites(Case *c)
{
	const Target *const on[] = {c->o->target, target_by_name("sm_80")};
	const char *bad = NULL;

	for (int t = 0; t < 2 && !bad; t++) {
		Graph *g = import(c);
		Module m = {.ctx = g ? g->ctx : NULL,
			    .arena = c->arena,
			    .graph = g,
			    .opt = {.level = 2, .rewrite_limit = -1, .winograd = WINOGRAD_EXACT},
			    .target = {on[t]},
			    .ntargets = 1,
			    .host = c->o->target};

		bad = g ? rewrites_differ(pass_table, &m, c->sets[0].feed) : "";
	}
	return bad && !*bad ? said(c) : bad;
}

static const char *run(Case *c, Session *s)
{
	const char *bad = NULL;

	/* before the whole model, since it tells which kernel is at fault */
	if (c->o->kernels)
		bad = run_kernels(c, s);
	for (int k = 0; k < c->nsets && !bad; k++)
		bad = run_set(c, s, k);
	return bad || !c->o->gpu ? bad : gpu_on_integers(c, s);
}

/* Path int. */
static void judge_integers(Case *c, Session *s)
{
	const char *undefined, *bad;

	begin(c, "int");
	if (!module_is_exact_on_integers(&c->made.module)) {
		verdict(c, "SKIP", "int", "no sum or product that is exact on integers");
		return;
	}
	bad = run_on_integers(c, s, &undefined);
	if (undefined) {
		verdict(c, "SKIP", "int", undefined);
		return;
	}
	judge(c, "int", bad || !c->nsets ? bad : run_rewrites(c));
}

/* ---- All of it ---- */

static const char *open_case(Case *c)
{
	c->diag = (Diag){.out = open_memstream(&c->text, &c->text_size), .file = "model"};
	c->arena = arena_new();
	if (edge_is(c->dir))
		c->edge = read_file(c->arena, c->dir, &(size_t){0});
	else
		c->file = onnx_open(&c->diag, arena_printf(c->arena, "%s/model.onnx", c->dir));
	c->graph = import(c);
	if (c->graph)
		forms_values(c->arena, c->graph, c->file ? c->file->model : NULL, &c->v);
	return c->graph && (c->o->ptx || read_sets(c)) ? NULL : said(c);
}

static bool has_data(const Case *c)
{
	return c->edge || (c->nsets && c->sets[0].nwant > 0);
}

static const char *only_ptx(Case *c)
{
	return make(c, c->graph->ctx, c->graph, &c->made, true) ? NULL : said(c);
}

/* There is no code to run: FIRST tells why, and int is skipped. */
static void give_up(const Case *c, const char *first, const char *bad)
{
	judge(c, first, bad);
	if (c->o->integers)
		verdict(c, "SKIP", "int", bad);
}

/* A word on the data sets that eval and the code refuse; empty if there are none. */
static const char *refusals(const Case *c)
{
	int n = 0;

	for (int k = 0; k < c->nsets; k++)
		n += c->sets[k].refused != NULL;
	return n ? arena_printf(c->arena, "%d data sets are refused", n) : "";
}

static void run_library(Case *c, const char *first, const char *library)
{
	Session s;
	const char *bad;

	limit(c);
	bad = open_library(c, library, &s);
	if (bad) {
		give_up(c, first, bad);
		return;
	}
	bad = run(c, &s);
	if (bad)
		judge(c, first, bad);
	else
		verdict(c, "PASS", first, refusals(c));
	if (c->o->integers)
		judge_integers(c, &s);
	if (!bad)
		session_close(&s);
}

static void run_case(Case *c, bool eval, FILE *from)
{
	const char *first = c->o->gpu || c->o->ptx ? "ptx" : edge_is(c->dir) ? "edge" : "c", *bad;
	StrBuf text = {0};
	Made again = {0}, trees = {0};
	char library[4096];
	bool tell = eval && !c->o->gpu && !c->o->ptx && !edge_is(c->dir); /* of eval, too */

	begin(c, tell ? "eval" : first);
	bad = open_case(c);
	if (c->o->ptx) {
		judge(c, first, bad ? bad : only_ptx(c));
		return;
	}
	if (!bad && !has_data(c))
		bad = "there is no data; cases without are not supported";
	if (bad) {
		if (tell)
			judge(c, "eval", bad);
		give_up(c, first, bad);
		return;
	}
	if (c->o->roundtrip)
		graph_print(&text, c->graph);
	bad = eval ? evaluate(c) : NULL;
	if (tell)
		judge(c, "eval", bad);
	begin(c, first);
	if (c->edge && bad) {
		judge(c, first, arena_printf(c->arena, "eval: %s", bad));
		return;
	}
	bad = generate(c);
	if (bad) {
		give_up(c, first, bad);
		return;
	}
	if (c->o->roundtrip) {
		begin(c, "ir");
		bad = reread(c, &text, &again);
		bad = bad ? bad : same_made(&c->made, &again);
		bad = bad ? bad : reread_trees(c, &c->made.module, &trees);
		judge(c, "ir", bad ? bad : same_made(&c->made, &trees));
		begin(c, first);
	}
	no_limit();
	fputs("written\n", c->to);
	fflush(c->to);
	if (!fgets(library, sizeof library, from))
		return;
	library[strcspn(library, "\n")] = 0;
	run_library(c, first, library);
}

_Noreturn void case_main(const RunOptions *o, const char *dir, const char *name, const char *noise,
			 bool eval, FILE *from, FILE *to)
{
	Case c = {.o = o, .dir = dir, .name = name, .noise = noise, .to = to};

	run_case(&c, eval, from);
	fputs("none\n", to);
	fflush(to);
	_exit(0);
}
