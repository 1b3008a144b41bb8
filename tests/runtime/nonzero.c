/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the compiler prints for i = NonZero(x), g = Gather(table, x), e = x joined with itself:
 * a data-dependent output, a fault site, an unbounded temporary, a dim that is an expression, and
 * weights that lie in section .dlcc.weights or in a file beside (-DBESIDE). Written by hand.
 */
#define DLRT_GENERATED 1
#include "runtime/dlrt.h"

/* from "/NonZero": count */
static void count(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)
{
	const int64_t *x = k->buf[0];
	int64_t *found = k->buf[1], n = 0;

	(void)scratch;
	(void)begin;
	(void)end;
	for (int64_t i = 0; i < k->dim[0]; i++)
		found[n] = i, n += x[i] != 0;
	*(int64_t *)k->buf[2] = n;
}

/* from "/NonZero": copy */
static void copy(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)
{
	const int64_t *x = k->buf[0];
	int64_t *y = k->buf[1];

	(void)scratch;
	for (int64_t i = begin; i < end; i++)
		y[i] = x[i];
}

/* from "/Gather" */
static void gather(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)
{
	const int64_t *x = k->buf[0];
	const float *table = k->buf[1];
	float *y = k->buf[2];

	(void)scratch;
	for (int64_t i = begin; i < end; i++) {
		int64_t at = x[i] < 0 ? x[i] + 16 : x[i];

		if (at < 0 || at >= 16) {
			dl_fault(k, 0, x[i], 16);
			at = 0;
		}
		y[i] = table[at];
	}
}

static void dims(dl_exec *x)
{
	x->in_shape[1][0] = x->sym[0] + 1;
}

static int bind(dl_exec *x)
{
	const int64_t N = x->sym[0];

	if (x->in_shape[1][0] != N + 1)
		return dl_fail(x, DL_SHAPE, "input \"m\": dim 0 is %lld, expected N + 1 = %lld",
			       (long long)x->in_shape[1][0], (long long)(N + 1));
	if (N == 13)
		return dl_fail(x, DL_SHAPE, "node \"/Reshape\" (Reshape): N is 13");
	x->out_shape[2][0] = N * 2;
	return DL_OK;
}

static void plan(const int64_t *sym, int64_t *offset, int64_t *total, int64_t *scratch)
{
	offset[0] = 0;                                      /* %found: i64[N + 1] */
	offset[1] = dl_align(dl_mul(dl_add(sym[0], 1), 8)); /* %n: i64[] */
	*total = dl_add(offset[1], 64);
	*scratch = 0;
}

static int exec(dl_exec *x)
{
	const int64_t N = x->sym[0];
	void *t;

	dl_launch(x, 0, count, (void *[]){x->in[0], x->buf[0], x->buf[1]}, &N, 1, 1);
	if (x->status)
		return x->status;
	x->sym[1] = *(const int64_t *)x->buf[1];
	if (dl_output(x, 0, (int64_t[]){1, x->sym[1]}))
		return x->status;
	dl_launch(x, 0, copy, (void *[]){x->buf[0], x->out[0]}, NULL, x->sym[1], 64);

	dl_launch(x, 1, gather, (void *[]){x->in[0], x->weights, x->out[1]}, NULL, N, 64);

	t = dl_region_alloc(x, 0, dl_mul(N, 16), 0);
	if (!t)
		return x->status;
	dl_launch(x, 2, copy, (void *[]){x->in[0], t}, NULL, N, 64);
	dl_launch(x, 2, copy, (void *[]){t, x->out[2]}, NULL, N, 64);
	dl_launch(x, 2, copy, (void *[]){t, (int64_t *)x->out[2] + N}, NULL, N, 64);
	return x->status;
}

static const dl_sym syms[] = {
	{.size = sizeof(dl_sym), .kind = DL_SYM_INPUT, .name = "N", .lower = 1, .upper = 4096},
	{.size = sizeof(dl_sym), .kind = DL_SYM_DATA, .name = "found", .upper = DL_UNLIMITED},
};

static const dl_dim dims_N[] = {{sizeof(dl_dim), 0, -1, "N"}};
static const dl_dim dims_N_plus_1[] = {{sizeof(dl_dim), -1, -1, "N + 1"}};
static const dl_dim dims_2N[] = {{sizeof(dl_dim), -1, -1, "N * 2"}};
static const dl_dim dims_1_found[] = {
	{sizeof(dl_dim), -1, 1, "1"},
	{sizeof(dl_dim), 1, -1, "found"},
};

static const dl_io inputs[] = {
	{sizeof(dl_io), DL_I64, DL_TENSOR, 1, "x", dims_N, -1, 0, NULL, NULL},
	{sizeof(dl_io), DL_BOOL, DL_TENSOR, 1, "m", dims_N_plus_1, -1, 0, NULL, NULL},
};

static const dl_io outputs[] = {
	{sizeof(dl_io), DL_I64, DL_TENSOR, 2, "i", dims_1_found, -1, 0, NULL, NULL},
	{sizeof(dl_io), DL_F32, DL_TENSOR, 1, "g", dims_N, -1, 0, NULL, NULL},
	{sizeof(dl_io), DL_I64, DL_TENSOR, 1, "e", dims_2N, -1, 0, NULL, NULL},
};

static const dl_desc desc = {
	.size = sizeof(dl_desc),
	.flags = DL_DESC_UNBOUNDED,
	.name = "nonzero",
	.version = "0",
	.hash = "0",
	.targets = "x86-64-v3 generic",
	.in = inputs,
	.n_in = 2,
	.out = outputs,
	.n_out = 3,
	.sym = syms,
	.n_sym = 2,
	.weights_size = 64,
};

static const char *const kernels[] = {"/NonZero", "/Gather", "/Concat"};
static const char *const faults[] = {"node \"/Gather\" (Gather): index out of range"};
static const uint64_t variants[] = {DL_CPU_X86_V3, 0};

static const dl_program prog = {
	.size = sizeof(dl_program),
	.abi = DL_ABI_VERSION,
	.desc = &desc,
	.n_buf = 2,
	.n_region = 1,
	.kernels = kernels,
	.n_kernels = 3,
	.faults = faults,
	.n_faults = 1,
	.variants = variants,
	.n_variants = 2,
#ifdef BESIDE
	.weights_kind = DL_WEIGHTS_FILE,
	.weights_file = "nonzero.weights",
#else
	.weights_kind = DL_WEIGHTS_SECTION,
#endif
	.weights_hash = WEIGHTS_HASH,
	.bind = bind,
	.dims = dims,
	.plan = plan,
	.exec = exec,
};

DL_DEFINE_API(nonzero, prog);
