/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random runs of many models in contexts that are used again and again: with failing allocations,
 * with cancel before and during a run, with wrong arguments, and with right ones. A run that is
 * right gives what a new context gives, whatever happened before it.
 *
 *	storm FOLDER SEED RUNS [NAME ...]     RUNS runs in all of the models FOLDER/NAME.so
 *
 * Prints a line for each model whose results are wrong, and "N passed, N failed" models.
 */
#include "tests/misuse/values.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	MOST = 24, /* inputs or outputs */
	RANK = 8,
	ITEMS = 3,
	ROOM = 1 << 15,   /* bytes of an input's memory */
	MARGIN = 1 << 15, /* and before it, for strides below 0 */
	CALLS = 12,       /* calls with known results, of a model */
	CONTEXTS = 3
};

/* ---- Random numbers ---- */

typedef struct Random {
	uint64_t state;
} Random;

static uint32_t draw(Random *r, uint32_t below)
{
	r->state = r->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(r->state >> 33) % below;
}

static bool once_in(Random *r, uint32_t n)
{
	return draw(r, n) == 0;
}

/* ---- Calls ---- */

/* The tensors of a call, and their memory. */
typedef struct Call {
	dl_tensor in[MOST], out[MOST], item[MOST][ITEMS], inner[MOST];
	int32_t n_in, n_out;
	int64_t shape[MOST][RANK], out_shape[MOST][RANK], item_shape[MOST][ITEMS][RANK],
		stride[RANK];
	_Alignas(64) char data[MOST][MARGIN + ROOM], own[MOST][ROOM];
} Call;

/* A context, and the memory of outputs as its last run left it. */
typedef struct Held {
	dl_context *c;
	void *data[MOST];
	uint64_t bytes[MOST];
} Held;

typedef struct Storm {
	const char *name;
	const dl_api *api;
	const dl_desc *desc;
	dl_model *model;
	Allocator memory;
	Held held[CONTEXTS];
	Call call;
	uint64_t seed[CALLS], digest[CALLS]; /* calls that succeed, and what they give */
	int n;
	long runs, right, refused, failed;
	char why[300];
} Storm;

static void fault(Storm *s, const char *what, const char *more)
{
	if (!s->failed++)
		snprintf(s->why, sizeof(s->why), "%s: %s", what, more);
}

static int64_t bytes_of(int32_t dtype, int64_t n)
{
	switch (dtype) {
	case DL_STR: return n * (int64_t)sizeof(dl_str);
	case DL_F64:
	case DL_I64:
	case DL_U64: return n * 8;
	case DL_F32:
	case DL_I32:
	case DL_U32: return n * 4;
	case DL_F16:
	case DL_BF16:
	case DL_I16:
	case DL_U16: return n * 2;
	default: return n;
	}
}

static void fill_strings(Random *r, dl_str *to, int64_t n)
{
	static const char *const words[] = {"",       "a",      "b c", "17",   "-2.5",
					    "a,b,,c", "straße", "AbC", "abcd", "hello world"};

	for (int64_t i = 0; i < n; i++) {
		const char *w = words[draw(r, 10)];

		to[i] = (dl_str){w, strlen(w)};
	}
}

/* N numbers of this type: small ones, so that many are axes, indices and sizes. */
static void fill(Random *r, int32_t dtype, char *to, int64_t n)
{
	if (dtype == DL_STR) {
		fill_strings(r, (dl_str *)(void *)to, n);
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		const int64_t whole = once_in(r, 10)  ? (int64_t)draw(r, 300)
				      : once_in(r, 6) ? (int64_t)draw(r, 5) - 1
						      : (int64_t)draw(r, 2);
		const float f = (float)draw(r, 64) / 16 - 2;
		const double d = f;

		if (dtype == DL_F32)
			memcpy(to + 4 * i, &f, 4);
		else if (dtype == DL_F64)
			memcpy(to + 8 * i, &d, 8);
		else if (dtype == DL_F16 || dtype == DL_BF16)
			memcpy(to + 2 * i, &(uint16_t){(uint16_t)(draw(r, 0x3c00))}, 2);
		else if (dtype == DL_BOOL)
			to[i] = (char)draw(r, 2);
		else
			memcpy(to + bytes_of(dtype, i), &whole, (size_t)bytes_of(dtype, 1));
	}
}

/* Makes T a tensor of these dims at TO; no larger than its memory. */
static void make_tensor(Random *r, dl_tensor *t, int32_t dtype, int32_t rank, int64_t *shape,
			char *to, int64_t room)
{
	int64_t n = 1;

	for (int32_t d = 0; d < rank; d++) {
		if (bytes_of(dtype, n * shape[d]) > room)
			shape[d] = 0;
		n *= shape[d];
	}
	*t = dl_tensor_of(dtype, rank, shape, to,
			  (uint64_t)(n ? bytes_of(dtype, n) : 1)); /* 0: any */
	fill(r, dtype, to, n);
}

static dl_tensor list(int32_t form, dl_tensor *items, int64_t n)
{
	dl_tensor t = dl_tensor_of(0, 0, NULL, NULL, 0);

	t.form = form;
	t.items = items;
	t.n_items = n;
	return t;
}

/* Makes input I, which is not a tensor, of items that IO describes. */
static void make_items(Random *r, Call *k, int32_t i, const dl_io *io)
{
	const dl_io *item = io->form == DL_OPTIONAL && io->item->form == DL_SEQUENCE
				    ? io->item->item
				    : io->item;
	const int64_t n = io->form == DL_MAP ? 2 : draw(r, ITEMS + 1), keys = draw(r, 5);

	for (int j = 0; j < n; j++) {
		const dl_io *of = io->form == DL_MAP && j
					  ? (const dl_io *)(const void *)((const char *)item +
									  item->size)
					  : item;
		const int64_t at = MARGIN + (int64_t)j * ROOM / ITEMS / 64 * 64;

		for (int32_t d = 0; d < of->rank; d++)
			k->item_shape[i][j][d] = io->form == DL_MAP ? keys : draw(r, 4);
		make_tensor(r, &k->item[i][j], of->dtype, of->rank, k->item_shape[i][j],
			    k->data[i] + at, ROOM / ITEMS);
	}
	k->in[i] = list(io->form, k->item[i], io->form == DL_OPTIONAL && n > 1 ? 1 : n);
	if (item == io->item)
		return;
	k->inner[i] = list(DL_SEQUENCE, k->item[i], n);
	k->in[i] = list(DL_OPTIONAL, &k->inner[i], draw(r, 2));
}

/* Makes the inputs that SEED gives, and outputs whose memory the context provides. */
static void make_call(Storm *s, uint64_t seed)
{
	Random r = {seed * 0x9e3779b97f4a7c15u + 1};
	Call *k = &s->call;
	int64_t sym[64];

	for (int i = 0; i < 64; i++) {
		const dl_sym *is = i < s->desc->n_sym ? dl_desc_sym(s->desc, i) : NULL;
		const int64_t v = once_in(&r, 8) ? 0 : 1 + draw(&r, once_in(&r, 6) ? 40 : 4);

		sym[i] = !is || v >= is->lower ? v : is->lower;
		sym[i] = is && sym[i] > is->upper ? is->upper : sym[i];
	}
	for (int32_t i = 0; i < k->n_in; i++) {
		const dl_io *io = dl_desc_in(s->desc, i);

		if (io->form != DL_TENSOR) {
			make_items(&r, k, i, io);
			continue;
		}
		for (int32_t d = 0; d < io->rank; d++) {
			const dl_dim *dim = dl_io_dim(io, d);

			k->shape[i][d] = dim->value >= 0 ? dim->value
					 : dim->sym >= 0 ? sym[dim->sym % 64]
							 : draw(&r, 6);
		}
		make_tensor(&r, &k->in[i], io->dtype, io->rank, k->shape[i], k->data[i] + MARGIN,
			    ROOM);
	}
	for (int32_t o = 0; o < k->n_out; o++) {
		k->out[o] = dl_tensor_of(0, RANK, k->out_shape[o], NULL, 0);
		k->out[o].form = dl_desc_out(s->desc, o)->form;
	}
}

/* The memory of some outputs is the caller's: large enough, or not. */
static void own_outputs(Storm *s, Random *r)
{
	Call *k = &s->call;

	for (int32_t o = 0; o < k->n_out; o++)
		if (dl_desc_out(s->desc, o)->form == DL_TENSOR && once_in(r, 2)) {
			k->out[o].data = k->own[o];
			k->out[o].bytes = once_in(r, 6) ? draw(r, 64) : ROOM;
		}
}

static int run(Storm *s, dl_context *c)
{
	s->runs++;
	return s->api->run(c, s->call.in, s->call.n_in, s->call.out, s->call.n_out, NULL);
}

/* The memory of an output that the caller gave is longer than its elements. */
static uint64_t results(Storm *s)
{
	uint64_t h = 1;

	for (int32_t o = 0; o < s->call.n_out; o++) {
		dl_tensor t = s->call.out[o];

		for (int32_t d = 0, n = 1; t.form == DL_TENSOR && d <= t.rank; d++) {
			if (d == t.rank)
				t.bytes = (uint64_t)bytes_of(t.dtype, n);
			else
				n *= (int32_t)t.shape[d];
		}
		h = digest(h, &t);
	}
	return h;
}

/* ---- A new context, as reference ---- */

/* The status of the call in a new context; *H: the digest of its results. */
static int reference(Storm *s, uint64_t seed, uint64_t *h)
{
	dl_context *c = NULL;
	int status = s->api->context(s->model, NULL, &c);

	if (status)
		return status;
	make_call(s, seed);
	status = run(s, c);
	*h = status ? 0 : results(s);
	s->api->context_free(c);
	return status;
}

/* Finds calls that succeed. False if the model gives other results each time. */
static bool find_calls(Storm *s, uint64_t from)
{
	for (uint64_t seed = from; seed < from + 150 && s->n < CALLS; seed++) {
		uint64_t h, again;

		if (reference(s, seed, &h) || reference(s, seed, &again))
			continue;
		if (h != again)
			return false;
		s->seed[s->n] = seed;
		s->digest[s->n++] = h;
	}
	return true;
}

/* ---- What happens to a context ---- */

static dl_context *new_context(Storm *s, Random *r)
{
	int64_t dims[64];
	dl_context_options o = {.size = sizeof(o), .n_dims = s->desc->n_sym};
	dl_context *c = NULL;

	for (int i = 0; i < 64; i++)
		dims[i] = 5;
	if (once_in(r, 3) && s->desc->n_sym < 64)
		o.max_dims = dims;
	if (once_in(r, 4)) {
		s->memory.count = 0;
		s->memory.fails = 1 + (long)draw(r, 12);
	}
	s->api->context(s->model, &o, &c);
	s->memory.fails = 0;
	if (!c && s->api->context(s->model, NULL, &c))
		fault(s, "context", s->api->error(s->model));
	return c;
}

/* Runs known call I, with memory for its outputs: from the context; as the last run left it; or the
 * caller's. */
static int run_known(Storm *s, Held *h, Random *r, int i)
{
	const bool left = once_in(r, 2), own = once_in(r, 4);
	int status;

	make_call(s, s->seed[i]);
	for (int32_t o = 0; o < s->call.n_out && left; o++) {
		s->call.out[o].data = h->data[o];
		s->call.out[o].bytes = h->bytes[o];
	}
	if (own)
		own_outputs(s, r);
	status = run(s, h->c);
	for (int32_t o = 0; o < s->call.n_out; o++) {
		const bool mine = s->call.out[o].data == s->call.own[o];

		h->data[o] = mine ? NULL : s->call.out[o].data;
		h->bytes[o] = mine ? 0 : s->call.out[o].bytes;
	}
	return status;
}

/* The STATUS of known call I is WANT, or its results are those of a new context. */
static void check_status(Storm *s, Held *h, int status, int want, int i, const char *what)
{
	if (!status && results(s) != s->digest[i])
		fault(s, what, "other results than in a new context");
	else if (status && status != want && status != DL_CAPACITY)
		fault(s, what, s->api->error(h->c));
	else
		*(status ? &s->refused : &s->right) += 1;
}

static void check_right(Storm *s, Held *h, Random *r, const char *after)
{
	const int i = (int)draw(r, (uint32_t)s->n);

	check_status(s, h, run_known(s, h, r, i), DL_OK, i, after);
}

static void fail_allocation(Storm *s, Held *h, Random *r)
{
	const int i = (int)draw(r, (uint32_t)s->n);
	int status;

	s->memory.count = 0;
	s->memory.fails = 1 + (long)draw(r, 1 + draw(r, 40));
	if (once_in(r, 5)) {
		make_call(s, s->seed[i]);
		s->api->infer_shapes(h->c, s->call.in, s->call.n_in, s->call.out, s->call.n_out);
		s->memory.fails = 0;
		return;
	}
	status = run_known(s, h, r, i);
	s->memory.fails = 0;
	check_status(s, h, status, DL_NOMEM, i, "a failed allocation");
}

/* A thread that cancels the run of C, after a while; without C it ends. */
static struct {
	pthread_t thread;
	sem_t go, done;
	const dl_api *api;
	dl_context *c;
	uint32_t spins;
} canceller;

static void *canceller_main(void *arg)
{
	(void)arg;
	for (;;) {
		sem_wait(&canceller.go);
		if (!canceller.c)
			return NULL;
		for (volatile uint32_t i = 0; i < canceller.spins; i++)
			;
		canceller.api->cancel(canceller.c);
		sem_post(&canceller.done);
	}
}

static void cancel(Storm *s, Held *h, Random *r)
{
	const int i = (int)draw(r, (uint32_t)s->n);
	int status;

	if (once_in(r, 3)) {
		s->api->cancel(h->c);
		status = run_known(s, h, r, i);
	} else {
		canceller.api = s->api;
		canceller.c = h->c;
		canceller.spins = draw(r, 1 + draw(r, 3000));
		sem_post(&canceller.go);
		status = run_known(s, h, r, i);
		sem_wait(&canceller.done);
	}
	check_status(s, h, status, DL_CANCELLED, i, "cancel");
	/* it may have come after the run, and is for the next one then */
	status = run_known(s, h, r, i);
	check_status(s, h, status, DL_CANCELLED, i, "the run after cancel");
}

static int64_t odd(Random *r)
{
	static const int64_t odd[] = {0,         1,         3,         -1,      64,
				      INT32_MAX, INT32_MIN, -2,        1 << 20, 1ll << 40,
				      1ll << 62, INT64_MAX, INT64_MIN, 7};

	return odd[draw(r, sizeof(odd) / sizeof(*odd))];
}

/* Gives T other strides. Below 0 they lead out of its memory if its shape is spoiled, too: nothing
 * tells the runtime how much lies before its data. */
static void set_strides(Call *k, Random *r, dl_tensor *t)
{
	bool small = t->shape && t->rank >= 0 && t->rank <= RANK;

	for (int32_t d = 0; small && d < t->rank; d++)
		small = t->shape[d] <= ROOM / 64;
	for (int d = 0; d < RANK; d++)
		k->stride[d] = once_in(r, 4) ? (int64_t)1 << 40
					     : (int64_t)draw(r, 5) - (small ? 2 : 0);
	t->strides = k->stride;
}

/* Spoils T, an input or an output. What it says of its memory stays true. */
static void spoil(Storm *s, Random *r, dl_tensor *t, bool output)
{
	Call *k = &s->call;

	switch (draw(r, 11)) {
	case 0: t->dtype = (int32_t)odd(r); break;
	case 1: t->rank = (int32_t)odd(r); break;
	case 2: t->shape = NULL; break;
	case 3: t->data = t->data ? (char *)t->data + 1 : t->data; break;
	case 4: t->bytes = (t->bytes + 1) / 2; break;
	case 5: t->form = (int32_t)draw(r, 6); break;
	case 6: t->size = draw(r, offsetof(dl_tensor, items)); break;
	case 7: t->size = (uint32_t)sizeof(*t) + 1 + draw(r, 7); break;
	case 8: set_strides(k, r, t); break;
	case 9:
		if (!output && t->shape && !t->strides && t->form == DL_TENSOR && t->rank > 0 &&
		    t->rank <= RANK)
			t->shape[draw(r, (uint32_t)t->rank)] = odd(r);
		break;
	default:
		if (t->form != DL_TENSOR && !output) {
			t->n_items = once_in(r, 2) ? -1 : t->n_items;
			t->items = once_in(r, 2) ? NULL : t->items;
		} else if (t->form == DL_TENSOR) {
			t->data = output ? s->call.in[0].data : NULL;
			t->bytes = output ? s->call.in[0].bytes : t->bytes;
		}
	}
}

static void wrong_arguments(Storm *s, Held *h, Random *r)
{
	dl_context *c = h->c;
	Call *k = &s->call;
	int32_t n_in = k->n_in, n_out = k->n_out;
	dl_tensor *in = k->in, *out = k->out;
	int64_t dims[64];

	make_call(s, s->n ? s->seed[draw(r, (uint32_t)s->n)] : draw(r, 1000));
	own_outputs(s, r);
	for (uint32_t i = 1 + draw(r, 3); i-- > 0;) {
		if (once_in(r, 2) && n_in)
			spoil(s, r, &in[draw(r, (uint32_t)n_in)], false);
		else if (n_out)
			spoil(s, r, &out[draw(r, (uint32_t)n_out)], true);
	}
	if (once_in(r, 12))
		n_in = (int32_t)odd(r);
	if (once_in(r, 12))
		n_out = (int32_t)odd(r);
	if (once_in(r, 20))
		in = NULL;
	if (once_in(r, 20))
		out = NULL;
	for (int i = 0; i < 64; i++)
		dims[i] = once_in(r, 3) ? odd(r) : (int64_t)draw(r, 5);
	s->runs++;
	s->refused++;
	switch (draw(r, 6)) {
	case 0: s->api->infer_shapes(c, in, n_in, out, n_out); break;
	case 1: s->api->prepare(c, dims, once_in(r, 4) ? n_in : s->desc->n_sym); break;
	case 2:
		s->api->workspace(s->model, dims, s->desc->n_sym,
				  &(dl_workspace){.size = once_in(r, 3) ? draw(r, 40)
									: sizeof(dl_workspace)});
		break;
	default: s->api->run(c, in, n_in, out, n_out, NULL); break;
	}
	if (!memchr(s->api->error(c), '\0', 512))
		fault(s, "the text of an error", "has no end");
	memset(h->data, 0, sizeof(h->data)); /* this run may have freed them */
}

static void one(Storm *s, Random *r)
{
	Held *h = &s->held[draw(r, CONTEXTS)];

	if (!h->c || once_in(r, 20)) {
		s->api->context_free(h->c);
		*h = (Held){.c = new_context(s, r)};
		if (!h->c)
			return;
	}
	switch (s->n ? draw(r, 8) : 7) {
	case 0:
	case 1: fail_allocation(s, h, r); break;
	case 2: cancel(s, h, r); break;
	case 3:
	case 4: break;
	default: wrong_arguments(s, h, r);
	}
	if (s->n)
		check_right(s, h, r, "a right run");
}

/* Whether the tensors of the model fit here. */
static bool fits(const dl_desc *d)
{
	if (d->n_in > MOST || d->n_out > MOST || d->n_sym > 64 || !d->n_out)
		return false;
	for (int32_t i = 0; i < d->n_in; i++) {
		const dl_io *io = dl_desc_in(d, i);
		int64_t n = 1;

		if (io->rank > RANK)
			return false;
		for (int32_t k = 0; io->form == DL_TENSOR && k < io->rank; k++)
			if (dl_io_dim(io, k)->value >= 0)
				n *= dl_io_dim(io, k)->value;
		if (bytes_of(io->dtype, n) > ROOM)
			return false;
	}
	return true;
}

/* False if the results of the model NAME are wrong. */
static bool storm(const char *folder, const char *name, uint64_t seed, long runs)
{
	Random r = {seed};
	Storm *s = calloc(1, sizeof(*s));
	const int32_t threads = once_in(&r, 3) ? 3 : 1;
	dl_load_options o = {.size = sizeof(o),
			     .threads = threads,
			     .device = "cpu",
			     .user = &s->memory,
			     .alloc = counted_alloc,
			     .free = counted_free};
	bool ok;

	s->name = name;
	s->api = open_api(folder, name);
	s->desc = s->api->describe();
	s->call.n_in = s->desc->n_in;
	s->call.n_out = s->desc->n_out;
	for (s->memory.fails = 1; s->api->load(&o, &s->model) == DL_NOMEM; s->memory.fails++)
		s->memory.count = 0;
	s->memory.fails = 0;
	if (!s->model || !fits(s->desc)) {
		printf("SKIP: %s: %s\n", name, s->model ? "too large" : s->api->error(NULL));
	} else if (!find_calls(s, seed)) {
		printf("SKIP: %s: random results\n", name);
	} else {
		while (s->runs < runs)
			one(s, &r);
		printf("%s: %ld runs, %ld right, %ld refused; %d calls known\n", name, s->runs,
		       s->right, s->refused, s->n);
	}
	for (int i = 0; i < CONTEXTS; i++)
		s->api->context_free(s->held[i].c);
	if (s->model && s->api->unload(s->model))
		fault(s, "unload", s->api->error(s->model));
	if (s->failed)
		printf("FAIL: %s: %ld times: %s\n", name, s->failed, s->why);
	ok = !s->failed;
	free(s);
	return ok;
}

int main(int argc, char **argv)
{
	int passed = 0, failed = 0;

	if (argc < 5)
		return 2;
	sem_init(&canceller.go, 0, 0);
	sem_init(&canceller.done, 0, 0);
	pthread_create(&canceller.thread, NULL, canceller_main, NULL);
	for (int i = 4; i < argc; i++)
		*(storm(argv[1], argv[i], (uint64_t)atol(argv[2]) + (uint64_t)i,
			atol(argv[3]) / (argc - 4) + 1)
			  ? &passed
			  : &failed) += 1;
	canceller.c = NULL;
	sem_post(&canceller.go);
	pthread_join(canceller.thread, NULL);
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}
