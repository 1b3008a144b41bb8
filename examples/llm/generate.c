/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generates text with a language model, from token ids to token ids:
 *
 *     generate MODEL.so [-n TOKENS] [-t TEMPERATURE] [-k TOP_K] [-p TOP_P] [-s SEED] [-j THREADS] ID...
 *
 * The model is a usual export of a decoder with caches: it takes input_ids, and maybe position_ids
 * and attention_mask, and for each layer the keys and values of the tokens so far, and gives
 * scores, and the caches with the new tokens. run.sh has the line that builds this program. Each
 * cache is one piece of memory with room for all tokens, in which a run writes only the new ones:
 * input and output have the same address, and strides that tell the room (docs/c-api.md, "Outputs
 * in place of inputs").
 */
#include "dlrt.h"
#include "sample.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_IO = 1024, MOST_RANK = 8 };

typedef struct Llm {
	const dl_api *api;
	const dl_desc *desc;
	dl_context *context;
	int64_t room; /* tokens that the caches have room for */
	int64_t past; /* tokens that are in them */
	int scores;   /* the output with the scores */
	dl_tensor in[MOST_IO], out[MOST_IO];
	int64_t in_shape[MOST_IO][MOST_RANK], out_shape[MOST_IO][MOST_RANK];
	int64_t strides[MOST_IO][MOST_RANK]; /* of caches, by output */
	int dim[MOST_IO]; /* the dim of a cache that is as long as its tokens, by output */
} Llm;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "generate: %s: %s\n", what, why);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Loads the library at PATH, whose model is called as the file is. */
static const dl_api *open_model(const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char symbol[256];
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	dl_get_api_fn get_api;

	if (!so)
		die(path, dlerror());
	snprintf(symbol, sizeof(symbol), "%.*s_get_api", (int)strcspn(name, "."), name);
	*(void **)&get_api = dlsym(so, symbol);
	if (!get_api || !get_api(DL_ABI_VERSION))
		die(path, "exports no such model");
	return get_api(DL_ABI_VERSION);
}

/* Makes the memory of the cache that is output O and the input that it extends. */
static void make_cache(Llm *m, int o)
{
	const dl_io *out = dl_desc_out(m->desc, o), *in = dl_desc_in(m->desc, out->alias);
	const int bytes = in->dtype == DL_F32                           ? 4
			  : in->dtype == DL_F16 || in->dtype == DL_BF16 ? 2
									: 1;
	int64_t n = 1;

	m->dim[o] = -1;
	for (int d = in->rank; d-- > 0;) {
		const dl_dim *dim = dl_io_dim(in, d);
		const int grows = strcmp(dim->text, dl_io_dim(out, d)->text) != 0;

		if (grows)
			m->dim[o] = d;
		m->in_shape[out->alias][d] = dim->value >= 0 ? dim->value : 1;
		m->strides[o][d] = n;
		n *= grows ? m->room : m->in_shape[out->alias][d];
	}
	if (m->dim[o] < 0 || (bytes == 1 && in->dtype != DL_I8))
		die(in->name, "is not a cache that grows");
	m->in[out->alias].data = m->out[o].data = calloc((size_t)n, (size_t)bytes);
	m->in[out->alias].strides = m->out[o].strides = m->strides[o];
	m->out[o].bytes = (uint64_t)(n * bytes);
}

static void prepare(Llm *m)
{
	m->scores = -1;
	if (m->desc->n_in > MOST_IO || m->desc->n_out > MOST_IO)
		die("the model", "has too many inputs or outputs");
	for (int i = 0; i < m->desc->n_in; i++) {
		const dl_io *io = dl_desc_in(m->desc, i);

		m->in[i] = dl_tensor_of(io->dtype, io->rank, m->in_shape[i], NULL, 0);
	}
	for (int o = 0; o < m->desc->n_out; o++) {
		const dl_io *io = dl_desc_out(m->desc, o);

		m->out[o] = dl_tensor_of(0, MOST_RANK, m->out_shape[o], NULL, 0);
		if (io->alias >= 0)
			make_cache(m, o);
		else if (m->scores < 0 && io->rank == 3 && io->dtype == DL_F32)
			m->scores = o;
	}
	if (m->scores < 0)
		die("the model", "has no output of scores, f32[batch,tokens,vocabulary]");
	for (int i = 0; i < m->desc->n_in;
	     i++) /* ids, positions, mask: numbers of 64 bits or less */
		if (!m->in[i].data)
			m->in[i].data = calloc((size_t)m->room, 8);
}

/* Fills the inputs that are no caches for N tokens. */
static void fill(Llm *m, const int64_t *ids, int64_t n)
{
	for (int i = 0; i < m->desc->n_in; i++) {
		const dl_io *io = dl_desc_in(m->desc, i);
		const int mask = strstr(io->name, "mask") != NULL;
		const int position = strstr(io->name, "position") != NULL;
		const int64_t count = mask ? m->past + n : n;

		if (m->in[i].strides)
			continue;
		if ((io->dtype != DL_I64 && io->dtype != DL_I32) || io->rank < 1 || io->rank > 2 ||
		    (!mask && !position && !strstr(io->name, "ids")))
			die(io->name, "is an input that this program does not know");
		m->in_shape[i][0] = 1;
		m->in_shape[i][io->rank - 1] = count;
		for (int64_t k = 0; k < count; k++) {
			const int64_t v = mask ? 1 : position ? m->past + k : ids[k];

			if (io->dtype == DL_I64)
				((int64_t *)m->in[i].data)[k] = v;
			else
				((int32_t *)m->in[i].data)[k] = (int32_t)v;
		}
	}
}

/* Runs the model on N more tokens. Returns the scores for the token after them. */
static const float *step(Llm *m, const int64_t *ids, int64_t n, int *vocabulary)
{
	const dl_tensor *t = &m->out[m->scores];

	fill(m, ids, n);
	for (int o = 0; o < m->desc->n_out; o++) {
		const dl_io *io = dl_desc_out(m->desc, o);

		m->out[o].rank = MOST_RANK;
		if (io->alias >= 0)
			m->in_shape[io->alias][m->dim[o]] = m->past;
	}
	if (m->api->run(m->context, m->in, m->desc->n_in, m->out, m->desc->n_out, NULL)) {
		if (m->past)
			putchar('\n'); /* ends the line of tokens: the context may be full */
		fflush(stdout);
		die("run", m->api->error(m->context));
	}
	m->past += n;
	*vocabulary = (int)t->shape[2];
	return (const float *)t->data + (t->shape[1] - 1) * t->shape[2];
}

/* The whole number in TEXT, at least LEAST; WHAT it stands for is for the message. */
static int64_t number(const char *text, int64_t least, const char *what)
{
	char *end;
	const int64_t n = strtoll(text, &end, 10);

	if (end == text || *end || n < least || n > INT32_MAX)
		die(text, what);
	return n;
}

int main(int argc, char **argv)
{
	static Llm m;
	dl_load_options options = {.size = sizeof(options)};
	Sampler s = {.temperature = 0, .top_p = 1, .seed = 1};
	dl_model *model;
	int64_t *ids, n = 32, prompt;
	double begin, first = 0, sampling = 0;
	int option;

	while ((option = getopt(argc, argv, "n:t:k:p:s:j:")) > 0)
		switch (option) {
		case 'n': n = number(optarg, 1, "is not a number of tokens, from 1 on"); break;
		case 't': s.temperature = (float)atof(optarg); break;
		case 'k':
			s.top_k = (int)number(optarg, 0, "is not a number of tokens to choose from");
			break;
		case 'p': s.top_p = (float)atof(optarg); break;
		case 's': s.seed = strtoull(optarg, NULL, 10) * 2 + 1; break;
		case 'j':
			options.threads = (int)number(optarg, 0, "is not a number of threads");
			break;
		default: return 2;
		}
	prompt = argc - optind - 1;
	if (prompt < 1)
		return fprintf(stderr,
			       "usage: generate MODEL.so [-n TOKENS] [-t TEMPERATURE] [-k TOP_K] "
			       "[-p TOP_P] [-s SEED] [-j THREADS] ID...\n"),
		       2;
	m.room = prompt + n;
	ids = calloc((size_t)m.room, sizeof(*ids));
	for (int64_t i = 0; i < prompt; i++)
		ids[i] = number(argv[optind + 1 + i], 0,
				"is not a token id: a whole number, from 0 on");
	m.api = open_model(argv[optind]);
	m.desc = m.api->describe();
	if (m.api->load(&options, &model) || m.api->context(model, NULL, &m.context))
		die(argv[optind], m.api->error(NULL));
	prepare(&m);
	begin = now();
	for (int64_t i = 0, at = 0; i < n; i++) {
		int vocabulary;
		const int64_t end = prompt + i;
		const float *scores = step(&m, ids + at, end - at, &vocabulary);
		const double ran = now();
		static Choice *choices;

		choices = choices ? choices : calloc((size_t)vocabulary, sizeof(*choices));
		ids[end] = sample(&s, scores, vocabulary, choices);
		printf("%lld ", (long long)ids[end]);
		fflush(stdout);
		sampling += now() - ran;
		first = i ? first : now();
		at = end;
	}
	printf("\n");
	fprintf(stderr,
		"prompt: %lld tokens in %.1f ms; %.1f tokens/s after that, %.2f%% of the time for sampling\n",
		(long long)prompt, (first - begin) * 1e3,
		n > 1 ? (double)(n - 1) / (now() - first) : 0, 100 * sampling / (now() - begin));
	m.api->context_free(m.context);
	m.api->unload(model);
	free(ids);
	return 0;
}
