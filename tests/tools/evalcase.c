/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates ONNX cases: folders with model.onnx and test_data_set_K/{input,output}_N.pb.
 *
 * evalcase DIR...     or reads the folders from stdin, one a line
 *
 * Prints a line for each case: "PASS dir", "FAIL dir: message", "SKIP dir: reason". Each case runs
 * in its own process, so a crash in one does not affect the others. Floats are compared as ONNX's
 * backend tests compare them.
 */
#include "frontend/import.h"
#include "frontend/tensor.h"
#include "ops/op.h"
#include "tools/dlrun/compare.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_TENSORS = 256 };

static const double RTOL = 1e-3, ATOL = 1e-7;

typedef struct EvalCase {
	const char *dir;
	Diag diag;
	char *text; /* text of the diagnostics */
	size_t text_size;
	OnnxFile *model;
	Ctx *ctx;
	Arena *arena;
	Graph *graph;
} EvalCase;

static const Tensor *read_tensor(EvalCase *c, const char *path, const char **name)
{
	OnnxFile *f = onnx_open_as(&c->diag, path, &onnx__tensor_proto__descriptor);
	const Onnx__TensorProto *p = f ? (const Onnx__TensorProto *)f->message : NULL;

	*name = p && p->name ? p->name : "";
	if (f)
		f->strings = c->ctx->strings;
	return p ? onnx_tensor(f, p, (DiagLoc){.file = path}) : NULL;
}

/* Reads the files KIND_0.pb, KIND_1.pb ... of data set SET; returns their number, or -1 after a
 * diagnostic. */
static int read_set(EvalCase *c, int set, const char *kind, const Tensor **out, const char **names)
{
	for (int n = 0;; n++) {
		const char *path = arena_printf(c->arena, "%s/test_data_set_%d/%s_%d.pb", c->dir,
						set, kind, n);

		if (n == MAX_TENSORS || access(path, R_OK))
			return n;
		out[n] = read_tensor(c, path, &names[n]);
		if (!out[n])
			return -1;
	}
}

/* The tensor called NAME, or else number I. */
static const Tensor *pick(const char *name, int i, const Tensor *const *t, const char *const *names,
			  int n)
{
	for (int j = 0; j < n; j++)
		if (name && *names[j] && !strcmp(names[j], name))
			return t[j];
	return i < n ? t[i] : NULL;
}

/* The relative tolerance; for 16-bit floats two ulps. */
static double tolerance(DType t)
{
	return t == DT_BF16 ? 0x1p-6 : t == DT_F16 ? 0x1p-9 : RTOL;
}

static Array as_array(Arena *a, const dl_strings *s, const Tensor *t)
{
	void *data = (void *)(uintptr_t)t->data;

	if (t->dtype == DT_STR)
		data = array_strings(a, s, data, tensor_numel(t));
	return array_make("", t->dtype, t->rank, t->dims, data);
}

/* Returns null, or a description of the difference. */
static const char *differs(Arena *a, const dl_strings *s, const Tensor *got, const Tensor *want)
{
	const Array x = as_array(a, s, got), y = as_array(a, s, want);
	const bool floats = dtype_is_float(want->dtype);
	const Comparison c = compare(&x, &y,
				     (Tolerance){.rtol = floats ? tolerance(want->dtype) : -1,
						 .atol = floats ? ATOL : -1});

	return c.ok ? NULL : arena_printf(a, "%s, by %.3g at most", c.why, c.max_abs);
}

static const char *said(EvalCase *c)
{
	fflush(c->diag.out);
	for (char *s = c->text; s && *s; s++)
		if (*s == '\n')
			*s = s[1] ? ';' : ' ';
	return c->text && *c->text ? c->text : "no diagnostic";
}

/* Runs data set SET; returns null, or the reason of a failure. */
static const char *run_set(EvalCase *c, int set, int *outputs)
{
	const Tensor *in[MAX_TENSORS], *want[MAX_TENSORS], *feed[MAX_TENSORS];
	const char *in_name[MAX_TENSORS], *want_name[MAX_TENSORS], *bad;
	Tensor *got[MAX_TENSORS] = {NULL};
	int nin = read_set(c, set, "input", in, in_name),
	    nout = read_set(c, set, "output", want, want_name);
	Graph *g = c->graph;

	*outputs = nout;
	if (nin < 0 || nout < 0)
		return said(c);
	if (g->inputs.n > MAX_TENSORS || g->results.n > MAX_TENSORS)
		return "too many inputs or outputs";
	for (int i = 0; i < g->inputs.n; i++)
		if (!(feed[i] = pick(g->inputs.at[i]->name, i, in, in_name, nin)))
			return arena_printf(c->arena, "no data for input %s",
					    g->inputs.at[i]->name);
	if (nout && !eval_graph(g, feed, got, c->arena, &c->diag))
		return said(c);
	for (int i = 0; i < g->results.n && nout; i++) {
		const Tensor *t = pick(g->result_names.at[i], i, want, want_name, nout);

		if (t && (bad = differs(c->arena, c->ctx->strings, got[i], t)))
			return arena_printf(c->arena, "output %s: %s", g->result_names.at[i], bad);
	}
	return NULL;
}

static int run_case(const char *dir)
{
	EvalCase c = {.dir = dir, .arena = arena_new()};
	const char *path = arena_printf(c.arena, "%s/model.onnx", dir), *bad;
	int outputs = 1, sets = 0;

	c.diag = (Diag){.out = open_memstream(&c.text, &c.text_size), .file = "model"};
	c.ctx = ctx_new(&c.diag);
	c.model = onnx_open(&c.diag, path);
	c.graph = c.model ? onnx_import(c.ctx, c.arena, c.model, NULL) : NULL;
	if (!c.graph || !infer_graph_run(infer_new(c.graph))) {
		printf("FAIL %s: %s\n", dir, said(&c));
		return 1;
	}
	for (;; sets++) {
		if (access(arena_printf(c.arena, "%s/test_data_set_%d", dir, sets), R_OK))
			break;
		if ((bad = run_set(&c, sets, &outputs))) {
			printf("FAIL %s: %s\n", dir, bad);
			return 1;
		}
	}
	printf(sets && outputs ? "PASS %s\n" : "SKIP %s: no data\n", dir);
	return 0;
}

static void run_apart(const char *dir)
{
	pid_t pid;
	int status = 0;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		run_case(dir);
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		printf("FAIL %s: no process\n", dir);
	else if (WIFSIGNALED(status))
		printf("FAIL %s: crashed with signal %d\n", dir, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		printf("FAIL %s: exit status %d\n", dir, WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	char line[4096];

	for (int i = 1; i < argc; i++)
		run_apart(argv[i]);
	while (argc == 1 && fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			run_apart(line);
	}
	return 0;
}
