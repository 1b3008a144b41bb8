/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates ONNX cases: folders with model.onnx and test_data_set_K/{input,output}_N.pb.
 *
 * evalcase [--atol=V] DIR...     or reads the folders from stdin, one a line
 *
 * A case with a file named atol has another absolute tolerance, which that says.
 * Prints a line for each case: "PASS dir", "FAIL dir: message", "SKIP dir: reason". Each case runs
 * in its own process, so a crash in one does not affect the others. Floats are compared as ONNX's
 * backend tests compare them.
 */
#include "frontend/import.h"
#include "ops/op.h"
#include "tests/tools/batch/forms.h"
#include "tools/dlrun/compare.h"
#include "tools/dlrun/datasets.h"
#include "tests/oracle/eval_graph.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const double RTOL = 1e-3;
static double atol_given = 1e-7;

typedef struct EvalCase {
	const char *dir;
	Diag diag;
	char *text; /* text of the diagnostics */
	size_t text_size;
	OnnxFile *model;
	Ctx *ctx;
	Arena *arena;
	Graph *graph;
	FormValues v; /* of the model */
} EvalCase;

/* The relative tolerance; for 16-bit floats two ulps. */
static double tolerance(DType t)
{
	return t == DT_BF16 ? 0x1p-6 : t == DT_F16 ? 0x1p-9 : RTOL;
}

/* Returns null, or a description of the difference. */
static const char *differs(Arena *a, const Array *got, const Array *want)
{
	const bool floats = want->form == DL_TENSOR && dtype_is_float(want->dtype);
	const char *bad = NULL;
	Comparison c;

	if (want->form == DL_TENSOR || got->form != want->form || got->n_items != want->n_items) {
		c = compare(got, want,
			    (Tolerance){.rtol = floats ? tolerance(want->dtype) : -1,
					.atol = floats ? atol_given : -1});
		return c.ok ? NULL : arena_printf(a, "%s, by %.3g at most", c.why, c.max_abs);
	}
	for (int64_t i = 0; i < want->n_items && !bad; i++)
		bad = differs(a, &got->items[i], &want->items[i]);
	return bad;
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
	const char *dir = arena_printf(c->arena, "%s/test_data_set_%d", c->dir, set), *bad;
	Graph *g = c->graph;
	FormValues *v = &c->v;
	Array *read, *want, *in = NEW_ARRAY(c->arena, v->n_in + 1, Array);
	Tensor **results = NEW_ARRAY(c->arena, g->results.n + 1, Tensor *);
	int nin = data_read(c->arena, &c->diag, dir, "input", v->in_form, v->n_in, &read);
	const Tensor **feed;

	*outputs = data_read(c->arena, &c->diag, dir, "output", v->out_form, v->n_out, &want);
	if (nin < 0 || *outputs < 0 ||
	    !data_assign(&c->diag, dir, v->in_name, v->n_in, read, nin, in, NULL))
		return said(c);
	feed = forms_feed(c->arena, &c->diag, dir, c->ctx->strings, v, in);
	if (!feed || (*outputs && !eval_graph(g, feed, results, c->arena, &c->diag)))
		return said(c);
	for (int o = 0; o < v->n_out; o++) {
		const Array *w = data_pick(want, *outputs, v->out_name, v->n_out, o);
		Array got;

		if (!w)
			continue;
		got = forms_give(c->arena, c->ctx->strings, g, o, results, v->out_name[o]);
		bad = differs(c->arena, &got, w);
		if (bad)
			return arena_printf(c->arena, "output %s: %s", v->out_name[o], bad);
	}
	return NULL;
}

/* What file PATH says, or OTHERWISE if there is none. */
static double number_in(const char *path, double otherwise)
{
	FILE *f = fopen(path, "r");
	double v = otherwise;

	if (f) {
		if (fscanf(f, "%lf", &v) != 1)
			v = otherwise;
		fclose(f);
	}
	return v;
}

static int run_case(const char *dir)
{
	EvalCase c = {.dir = dir, .arena = arena_new()};
	const char *path = arena_printf(c.arena, "%s/model.onnx", dir), *bad;
	int outputs = 1, sets = 0;

	atol_given = number_in(arena_printf(c.arena, "%s/atol", dir), atol_given);
	c.diag = (Diag){.out = open_memstream(&c.text, &c.text_size), .file = "model"};
	c.ctx = ctx_new(&c.diag);
	c.model = onnx_open(&c.diag, path);
	c.graph = c.model ? onnx_import(c.ctx, c.arena, c.model, NULL) : NULL;
	if (c.graph)
		forms_values(c.arena, c.graph, c.model->model, &c.v);
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

	if (argc > 1 && !strncmp(argv[1], "--atol=", 7)) {
		atol_given = strtod(argv[1] + 7, NULL);
		argc--;
		argv++;
	}
	for (int i = 1; i < argc; i++)
		run_apart(argv[i]);
	while (argc == 1 && fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			run_apart(line);
	}
	return 0;
}
