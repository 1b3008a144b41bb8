/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the reader for tests/frontend/test_frontend.py.
 *
 *   fe FILE...            imports each model: "ok FILE NODES" or "refused FILE", diagnostics on stderr
 *   fe -p FILE            prints its graph
 *   fe -t FILE.pb         a TensorProto: "DTYPE DIMS" and its bytes (strings: NUL-terminated)
 *   fe -s FILE.pb         a SparseTensorProto, likewise
 *   fe -fuzz N SEED FILE  imports N mutations of it, in memory: "accepted A of N"
 *   fe -serve FD          does the above for each line of stdin, arguments between tabs, and writes the
 *                         status to FD: a process under sanitizers takes 20 ms to start and to end
 */
#include "frontend/import.h"
#include "frontend/tensor.h"
#include "runtime/strtable.h"

#include <stdlib.h>
#include <string.h>

static Graph *import_bytes(Diag *d, const char *path, const void *bytes, size_t n, int *nodes)
{
	OnnxFile *f = bytes ? onnx_open_bytes(d, path, bytes, n, &onnx__model_proto__descriptor)
			    : onnx_open(d, path);
	Ctx *c = ctx_new(d);
	Arena *a = arena_new();
	Graph *g = f ? onnx_import(c, a, f, NULL) : NULL;

	for (Node *m = g ? g->first : NULL; m; m = m->next)
		++*nodes;
	arena_free(a);
	ctx_free(c);
	onnx_close(f);
	return g; /* for null or not */
}

static int print_graph(const char *path)
{
	Diag d = {.out = stderr, .file = path};
	OnnxFile *f = onnx_open(&d, path);
	Ctx *c = ctx_new(&d);
	Arena *a = arena_new();
	Graph *g = f ? onnx_import(c, a, f, NULL) : NULL;
	StrBuf b = {0};

	if (g)
		graph_print(&b, g);
	fputs(strbuf_str(&b), stdout);
	strbuf_free(&b);
	arena_free(a);
	ctx_free(c);
	onnx_close(f);
	return !g;
}

static int print_tensor(const char *path, bool sparse)
{
	Diag d = {.out = stderr, .file = path};
	OnnxFile *f = onnx_open_as(&d, path,
				   sparse ? &onnx__sparse_tensor_proto__descriptor
					  : &onnx__tensor_proto__descriptor);
	Tensor *t = NULL;

	if (f && sparse)
		t = onnx_sparse_tensor(f, (Onnx__SparseTensorProto *)f->message, (DiagLoc){0});
	else if (f)
		t = onnx_tensor(f, (Onnx__TensorProto *)f->message, (DiagLoc){0});
	if (t) {
		printf("%s", dtype_info[t->dtype].name);
		for (int i = 0; i < t->rank; i++)
			printf(" %lld", (long long)t->dims[i]);
		printf("\n");
		for (int64_t i = 0; t->dtype == DT_STR && i < tensor_numel(t); i++) {
			const dl_str s = strings_get(f->strings, ((const int64_t *)t->data)[i]);

			fwrite(s.p, 1, s.n, stdout);
			fputc(0, stdout);
		}
		if (t->dtype != DT_STR)
			fwrite(t->data, 1, (size_t)t->bytes, stdout);
	}
	onnx_close(f);
	return !t;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Flips bits, writes bytes that lengths and varints react to, moves and cuts ranges. */
static size_t mutate(uint8_t *p, size_t n, uint64_t *r)
{
	static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, 0x08, 0x0a, 0x12, 0x2a, 0x3a, 0x4a};
	uint64_t edits = 1 + next_random(r) % 4;

	for (uint64_t i = 0; i < edits && n; i++) {
		size_t at = next_random(r) % n, from = next_random(r) % n;
		size_t len = next_random(r) % 32;

		switch (next_random(r) % 6) {
		case 0:
		case 1: p[at] ^= (uint8_t)(1u << next_random(r) % 8); break;
		case 2:
		case 3: p[at] = odd[next_random(r) % sizeof odd]; break;
		case 4:
			if (at + len <= n && from + len <= n)
				memmove(p + at, p + from, len);
			break;
		default:
			if (next_random(r) % 4 == 0)
				n = at;
			break;
		}
	}
	return n;
}

static int fuzz(int count, uint64_t seed, const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *seed_bytes, *p;
	size_t n;
	int accepted = 0, nodes = 0;

	if (!f)
		return 1;
	fseek(f, 0, SEEK_END);
	n = (size_t)ftell(f);
	rewind(f);
	seed_bytes = malloc(n + 1);
	if (!seed_bytes || fread(seed_bytes, 1, n, f) != n)
		return 1;
	fclose(f);
	for (int i = 0; i < count; i++) {
		uint64_t r = (seed + (uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15);
		Diag d = {.file = path};
		size_t m;

		/* A block of exactly that size, so that a read past its end is seen. */
		p = malloc(n + 1);
		if (!p)
			return 1;
		memcpy(p, seed_bytes, n);
		m = mutate(p, n, &r);
		p = realloc(p, m ? m : 1);
		accepted += import_bytes(&d, path, p, m, &nodes) != NULL;
		free(p);
	}
	free(seed_bytes);
	printf("accepted %d of %d\n", accepted, count);
	return 0;
}

static int command(int argc, char **argv)
{
	int bad = 0;

	if (argc == 3 && !strcmp(argv[1], "-p"))
		return print_graph(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "-t"))
		return print_tensor(argv[2], false);
	if (argc == 3 && !strcmp(argv[1], "-s"))
		return print_tensor(argv[2], true);
	if (argc == 5 && !strcmp(argv[1], "-fuzz"))
		return fuzz(atoi(argv[2]), strtoull(argv[3], NULL, 10), argv[4]);
	for (int i = 1; i < argc; i++) {
		Diag d = {.out = stderr, .file = argv[i], .limit = 5};
		int nodes = 0;

		if (import_bytes(&d, argv[i], NULL, 0, &nodes)) {
			printf("ok %s %d\n", argv[i], nodes);
		} else {
			printf("refused %s\n", argv[i]);
			bad = 1;
		}
	}
	return bad;
}

static void serve(int status_fd)
{
	char *line = NULL, *argv[8] = {"fe"};
	size_t room = 0;

	while (getline(&line, &room, stdin) > 0) {
		char *words = line;
		int argc = 1, status;

		line[strcspn(line, "\n")] = 0;
		while (argc < 8 && (argv[argc] = strsep(&words, "\t")))
			argc++;
		status = command(argc, argv);
		fflush(stdout);
		dprintf(status_fd, "%d\n", status);
	}
	free(line);
}

int main(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "-serve") != 0)
		return command(argc, argv);
	serve(atoi(argv[2]));
	return 0;
}
