/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX that an artifact contains, and the tables about it. */
#include "codegen/host/host_impl.h"
#include "codegen/weights/weights.h"

#include <string.h>

/* Prints TEXT as C strings, one for each line. */
static void print_lines(Host *h, const char *text)
{
	while (*text) {
		const size_t n = strcspn(text, "\n") + 1;

		strbuf_puts(h->b, "\t");
		host_quote(h, arena_strndup(h->m->arena, text, n));
		strbuf_puts(h->b, "\n");
		text += n;
	}
}

/* Prints BYTES as 8-byte words. It is an ELF file, so zeros at the end do no harm. */
static void print_bytes(Host *h, const char *name, const char *bytes, size_t n)
{
	strbuf_printf(h->b, "static const uint64_t %s[] = {", name);
	for (size_t i = 0; i < n; i += 8) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, n - i < 8 ? n - i : 8);
		strbuf_printf(h->b, "%s0x%llx,", i % 64 ? " " : "\n\t", (unsigned long long)word);
	}
	strbuf_puts(h->b, "\n};\n\n");
}

static const char *of_target(Host *h, const char *what, int t)
{
	return host_own(h, arena_printf(h->m->arena, "%s_%d", what, t));
}

static void print_image(Host *h, int t)
{
	const GenPtx *g = h->o->ptx[t];

	strbuf_printf(h->b, "static const char %s[] =\n", of_target(h, "ptx", t));
	/* there is no PTX yet while kernels are only collected */
	for (int i = 0; i < g->funcs.n && g->funcs.at[i]->ptx; i++) {
		STRBUF_LOCAL(ptx);

		gen_nvptx_ptx(h->o->ptx[t], i, i + 1, &ptx);
		print_lines(h, strbuf_str(&ptx));
		strbuf_puts(h->b, "\t\"\\0\"\n");
	}
	strbuf_puts(h->b, "\t\"\";\n\n");
	if (g->cubin)
		print_bytes(h, of_target(h, "cubin", t), g->cubin, g->cubin_bytes);
	if (!g->funcs.n)
		return;
	strbuf_printf(h->b, "static const dl_gpu_fn %s[] = {\n", of_target(h, "fn", t));
	for (int i = 0; i < g->funcs.n; i++)
		strbuf_printf(h->b, "\t{\"%s\", %d, %d, %d, %d},\n", g->funcs.at[i]->name,
			      g->funcs.at[i]->threads, g->funcs.at[i]->faults,
			      g->funcs.at[i]->shared, g->funcs.at[i]->arrives);
	strbuf_puts(h->b, "};\n\n");
}

/* Prints where the GPU's weights are among all weights. */
static void print_pieces(Host *h)
{
	const WeightsFile *f = h->m->mem->file;

	if (!f->piece.n)
		return;
	strbuf_printf(h->b, "static const dl_gpu_piece %s[] = {\n", host_own(h, "pieces"));
	for (int i = 0; i < f->piece.n; i++)
		strbuf_printf(h->b, "\t{%lld, %lld, %lld},\n", (long long)f->piece.at[i].to,
			      (long long)f->piece.at[i].from, (long long)f->piece.at[i].bytes);
	strbuf_puts(h->b, "};\n\n");
}

void host_gpu_tables(Host *h)
{
	const Module *m = h->m;

	for (int t = 0; t < m->ntargets; t++)
		print_image(h, t);
	strbuf_printf(h->b, "static const dl_gpu_image %s[] = {\n", host_own(h, "images"));
	for (int t = 0; t < m->ntargets; t++) {
		const Gpu *gpu = m->target[t]->gpu;
		const int n = h->o->ptx[t]->funcs.n;

		strbuf_printf(h->b, "\t{%d, %d, %s, %s, %d, %s},\n", gpu->sm, gpu->only,
			      of_target(h, "ptx", t), n ? of_target(h, "fn", t) : "NULL", n,
			      h->o->ptx[t]->cubin ? of_target(h, "cubin", t) : "NULL");
	}
	strbuf_puts(h->b, "};\n\n");
	print_pieces(h);
	strbuf_printf(
		h->b, "static const dl_gpu %s = {sizeof(dl_gpu), %d, %s, %lld, %s, %d, 0};\n\n",
		host_own(h, "gpu"), m->ntargets, host_own(h, "images"), (long long)m->mem->weights,
		m->mem->file->piece.n ? host_own(h, "pieces") : "NULL", m->mem->file->piece.n);
}
