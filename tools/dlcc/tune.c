/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --tune: searches for decisions that are faster on this machine than those of `decide`.
 *
 * Equal kernels are one group. In a round every group tries its next candidate
 * (passes/schedule/common/offer.c): one artifact with all these candidates is compiled and timed,
 * kernel by kernel, beside one with the chosen decisions. A candidate that is clearly faster
 * becomes the best one so far, and further candidates are derived from it. At the end all best
 * candidates are timed again, together; those that are no longer faster are dropped, unless noise
 * explains it. If the whole model is not faster with them, the file has no decisions.
 *
 * Other processes may disturb all runs of a short measurement. Hence a candidate is accepted only
 * if the worse half of a measurement is faster, and dropped only if all of it is slower. The last
 * measurement continues, if there is time, while the model is not faster.
 *
 * Weights do not depend on decisions: all artifacts share one weights file.
 */
#include "tools/dlcc/tune.h"

#include "base/program.h"
#include "base/sys.h"
#include "codegen/host/gen_host.h"
#include "passes/forms/kernels.h"
#include "passes/schedule/common/decision.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	MOST_OFFERS = 12, /* candidates of one decision */
	MOST_ROUNDS = 200
};

/* A candidate is clearly faster if it saves this share, and the noise, of the kernel's time. */
static const double LEAST_GAIN = 0.02;
/* A group whose share of the run is smaller tries nothing. */
static const double LEAST_SHARE = 0.002;
/* Seconds of measuring in a round: enough for some runs, and no more than is of use. */
static const double LEAST_SECONDS = 0.4, MOST_SECONDS = 3;
static const double RUNS_OF_ROUND = 40;
/* Runs of a measurement whose time is over, including those that open the artifacts. */
static const double LEAST_RUNS = 30;
/* Rounds for which time is left at the end, though they may take longer: proofs of the changed
 * schedules take about one. */
enum { LAST_ROUNDS = 3 };

typedef VEC(Decision *) Decisions;

typedef struct TuneGroup {
	uint64_t hash;
	Node *first;
	const Decision *chosen; /* by `decide` */
	const Decision *best;
	const Decision *trying;
	double ratio;    /* time of BEST in relation to that of CHOSEN */
	Decisions queue; /* candidates that are not yet tried start at NEXT */
	int next;
	VEC(const char *) seen; /* the texts of all candidates so far */
} TuneGroup;

typedef struct Tuner {
	Cli *cli;
	Module *m;
	PackageOpts opts;
	Arena *a;
	const char *dir;
	double begin, end;
	uint64_t *hash; /* by Node.id */
	int *group_of;  /* by Node.id; -1: none */
	VEC(TuneGroup) groups;
	VEC(Node *) kernels;  /* by number in the profile */
	KernelTimes *time[2]; /* of the chosen decisions, of the candidates */
	uint64_t weights;     /* their hash */
	double round_cost;    /* seconds of the longest round but measuring */
	int rounds, tried;
	bool timed; /* the file's decisions were timed together */
} Tuner;

static double left(const Tuner *t)
{
	return t->end - tune_now();
}

/* ---- Groups and candidates ---- */

static const char *text_of(const Tuner *t, const TuneGroup *g, const Decision *d)
{
	Arena *tmp = arena_new();
	StrBuf b = {0};
	const char *text;

	decision_print(&b, kernel_clone(node_kernel(g->first), tmp), d);
	text = arena_strdup(t->a, strbuf_str(&b));
	strbuf_free(&b);
	arena_free(tmp);
	return text;
}

static bool is_new(const Tuner *t, TuneGroup *g, const Decision *d)
{
	const char *text = text_of(t, g, d);

	for (int i = 0; i < g->seen.n; i++)
		if (!strcmp(g->seen.at[i], text))
			return false;
	vec_push(t->a, &g->seen, text);
	return true;
}

/* Queues decisions that may be faster than the best one of G, ahead of the queue. */
static void queue_offers(const Tuner *t, TuneGroup *g)
{
	Decision *offers[MOST_OFFERS];
	const int n = decisions_offer(decide_target(t->m, t->m->target[0]), node_kernel(g->first),
				      g->best, t->a, offers, MOST_OFFERS);
	Decisions queue = {0};

	for (int i = 0; i < n; i++)
		if (is_new(t, g, offers[i]))
			vec_push(t->a, &queue, offers[i]);
	for (int i = g->next; i < g->queue.n; i++)
		vec_push(t->a, &queue, g->queue.at[i]);
	g->queue = queue;
	g->next = 0;
}

static void find_groups(Tuner *t)
{
	Module *m = t->m;

	t->hash = schedule_hashes(m, t->a);
	t->group_of = NEW_ARRAY(t->a, m->ndecisions + 1, int);
	for (Node *n = m->graph->first; n; n = n->next) {
		int g = 0;

		if (n->id >= m->ndecisions)
			continue;
		t->group_of[n->id] = -1;
		if (!t->hash[n->id] || !module_schedules(m, n))
			continue;
		while (g < t->groups.n && t->groups.at[g].hash != t->hash[n->id])
			g++;
		t->group_of[n->id] = g;
		if (g == t->groups.n) {
			TuneGroup new = {.hash = t->hash[n->id],
					 .first = n,
					 .chosen = m->decision[0][n->id],
					 .best = m->decision[0][n->id],
					 .ratio = 1};

			is_new(t, &new, new.chosen);
			vec_push(t->a, &t->groups, new);
		}
	}
}

/* ---- Artifacts ---- */

/* The decisions for the next artifact: the chosen ones; or those to try, whose schedules are
 * verified if LAST. */
typedef enum Which { CHOSEN, TRYING, LAST } Which;

static void decide_all(Tuner *t, Which which)
{
	for (Node *n = t->m->graph->first; n; n = n->next) {
		const TuneGroup *g;
		Decision *d;

		if (n->id >= t->m->ndecisions || t->group_of[n->id] < 0)
			continue;
		g = &t->groups.at[t->group_of[n->id]];
		d = decision_copy(t->a, which == CHOSEN ? g->chosen : g->trying,
				  node_kernel(n)->stmts.n);
		d->edited = which == LAST && n == g->first && g->trying != g->chosen;
		t->m->decision[0][n->id] = d;
	}
}

/* Schedules M as decided, and makes the artifact BASE.so of it. */
static const char *make_artifact(Tuner *t, const char *base)
{
	Module m = *t->m;
	PackageOpts o = t->opts;
	bool ok;

	m.arena = arena_new();
	o.output = arena_printf(t->a, "%s/%s.so", t->dir, base);
	o.weights_hash = &t->weights;
	o.weights_are_there = t->weights != 0;
	ok = passes_run(&m, PASS_sched, PASS_LAST, NULL) && package(&m, &o);
	arena_free(m.arena);
	return ok ? o.output : NULL;
}

/* The kernels in the order of the artifact's profile: that of their first launches. */
static void number_kernels(Tuner *t)
{
	for (Node *n = t->m->graph->first; n; n = n->next)
		if (n->id < t->m->nsched && t->m->sched[0][n->id] &&
		    !(n->nout && value_is_weights(t->m, n->out[0])))
			vec_push(t->a, &t->kernels, n);
}

/* ---- Rounds ---- */

/* The least time of group number G in artifact S, in the batches HALF; below 0: all of them. */
static double time_of(const Tuner *t, int g, int s, int half)
{
	const KernelTimes *k = t->time[s];
	double sum = 0;

	for (int i = 0; i < t->kernels.n; i++) {
		const double a = k->least[0][i], b = k->least[1][i];

		if (t->group_of[t->kernels.at[i]->id] == g)
			sum += half == 0 ? a : half == 1 ? b : a < b ? a : b;
	}
	return sum;
}

/* The share by which two halves of the same measurement differ. */
static double noise_of(const Tuner *t, int g)
{
	double most = 0;

	for (int s = 0; s < 2; s++) {
		const double a = time_of(t, g, s, 0), b = time_of(t, g, s, 1),
			     noise = a < b ? (b - a) / a : (a - b) / b;

		if (a > 0 && b > 0 && noise > most)
			most = noise;
	}
	return most;
}

/* The time of group G with its candidate, in relation to that with the chosen decision, in the half
 * HALF of the measurement; below 0: in all of it. */
static double ratio_of(const Tuner *t, int g, int half)
{
	const double chosen = time_of(t, g, 0, half), candidate = time_of(t, g, 1, half);

	return chosen > 0 && candidate > 0 ? candidate / chosen : 1;
}

/* The same in the half in which it is larger. */
static double worse_ratio_of(const Tuner *t, int g)
{
	const double a = ratio_of(t, g, 0), b = ratio_of(t, g, 1);

	return a > b ? a : b;
}

static double seconds_to_measure(const Tuner *t)
{
	const double s = 2 * RUNS_OF_ROUND * t->time[0]->run;

	return s < LEAST_SECONDS ? LEAST_SECONDS : s > MOST_SECONDS ? MOST_SECONDS : s;
}

/* Times both artifacts; MORE: adds to the existing measurement. If LATE is not null, there is a
 * result to lose: the measurement then may exceed the time. */
static bool measure(Tuner *t, const char *chosen, const char *candidate, bool more, bool *late)
{
	const double seconds = seconds_to_measure(t),
		     needs = late ? seconds + LEAST_RUNS * t->time[0]->median : 0,
		     rest = left(t) > needs ? left(t) : needs;

	for (int s = 0; s < 2 && !more; s++)
		tune_times_clear(t->time[s]);
	return tune_measure(&t->cli->diag, t->cli->input, (const char *[]){chosen, candidate},
			    seconds, rest > 1 ? rest : 1, t->time, late);
}

/* Each group takes its next candidate. False: none has one. */
static bool next_candidates(Tuner *t)
{
	double all = 0;
	bool any = false;

	for (int g = 0; g < t->groups.n; g++)
		all += time_of(t, g, 0, -1);
	for (int i = 0; i < t->groups.n; i++) {
		TuneGroup *g = &t->groups.at[i];

		g->trying = g->best;
		if (time_of(t, i, 0, -1) < LEAST_SHARE * all)
			continue;
		if (!g->queue.n && !g->next)
			queue_offers(t, g);
		if (g->next == g->queue.n)
			continue;
		g->trying = g->queue.at[g->next++];
		t->tried++;
		any = true;
	}
	return any;
}

/* -v: the outcome of G's decision D. */
static void report(const Tuner *t, const TuneGroup *g, const Decision *d, const char *what)
{
	const char *node = locs_first(node_kernel(g->first)->locs).node;

	if (!t->cli->verbose)
		return;
	fprintf(stderr, "tune: %5.1f %% %s: ", 100 * g->ratio, what);
	escape_to_file(stderr, node ? node : node_kernel(g->first)->name, escape_terminal);
	fprintf(stderr, ": %s\n", text_of(t, g, d));
}

static void take_better(Tuner *t)
{
	for (int i = 0; i < t->groups.n; i++) {
		TuneGroup *g = &t->groups.at[i];
		const double ratio = worse_ratio_of(t, i);

		if (g->trying == g->best || ratio >= g->ratio - LEAST_GAIN - noise_of(t, i))
			continue;
		g->best = g->trying;
		g->ratio = ratio;
		report(t, g, g->best, "of the time");
		queue_offers(t, g);
	}
}

/* One round beside CHOSEN. False after a diagnostic, or where *DONE. */
static bool round_of(Tuner *t, const char *chosen, bool *done)
{
	const double begin = tune_now();
	bool late = false;
	const char *so;
	double cost;

	*done = !next_candidates(t);
	if (*done)
		return true;
	decide_all(t, TRYING);
	so = make_artifact(t, "candidate");
	cost = tune_now() - begin;
	t->round_cost = cost > t->round_cost ? cost : t->round_cost;
	if (!so || !measure(t, chosen, so, false, &late))
		return false;
	*done = late;
	if (late)
		return true;
	take_better(t);
	t->rounds++;
	show_progress(t->cli, "tuning: %d rounds, %.0f s of %.0f s", t->rounds, tune_now() - t->begin, t->end - t->begin);
	if (t->cli->verbose)
		fprintf(stderr, "tune: round %d: %.1f s of %.1f s are over\n", t->rounds,
			tune_now() - t->begin, t->end - t->begin);
	return true;
}

/* The time that N rounds take. */
static double seconds_for(const Tuner *t, int n)
{
	return n * (t->round_cost + seconds_to_measure(t));
}

/* There is time for N rounds more. */
static bool has_time(const Tuner *t, int n)
{
	return left(t) > seconds_for(t, n);
}

/* All groups try the best decision. How many of these are not the chosen ones. */
static int try_best(Tuner *t)
{
	int n = 0;

	VEC_EACH_AT (g, &t->groups) {
		g->trying = g->best;
		n += g->best != g->chosen;
	}
	return n;
}

/* Drops the best decisions that are not faster. Returns whether there were any. */
static bool drop_slower(Tuner *t)
{
	bool any = false;

	for (int i = 0; i < t->groups.n; i++) {
		TuneGroup *g = &t->groups.at[i];
		const double ratio = ratio_of(t, i, -1), noise = noise_of(t, i);

		if (g->best == g->chosen)
			continue;
		if (ratio < 1 - LEAST_GAIN / 2)
			g->ratio = ratio;
		if (ratio - noise < 1 - LEAST_GAIN / 2)
			continue;
		g->ratio = ratio;
		report(t, g, g->best, "of the time, so it is dropped");
		g->best = g->chosen;
		any = true;
	}
	return any;
}

/* Times all best decisions together beside the chosen ones, and drops those that are not faster,
 * until all are faster, or LAST_ROUNDS have passed and the time is over. *FASTER: the whole model
 * is faster. If the time ends before the remaining decisions could be timed together, *FASTER says
 * whether any remain, as each of them was faster in a measurement. */
static bool confirm(Tuner *t, const char *chosen, bool *faster)
{
	bool changed = true, late = false;
	const char *so = NULL;

	*faster = false;
	for (int tries = 0; !*faster && (tries < LAST_ROUNDS || has_time(t, 1)); tries++) {
		if (!try_best(t))
			return true;
		if (changed) {
			decide_all(t, LAST);
			so = make_artifact(t, "candidate");
		}
		if (!so || !measure(t, chosen, so, !changed, &late))
			return false;
		t->timed = !late || t->time[1]->run > 0;
		if (late)
			break;
		if (t->cli->verbose)
			fprintf(stderr,
				"tune: the model: %.4g ms instead of %.4g ms, median %.4g ms instead of %.4g ms\n",
				t->time[1]->run * 1e3, t->time[0]->run * 1e3,
				t->time[1]->median * 1e3, t->time[0]->median * 1e3);
		changed = drop_slower(t);
		*faster = !changed && t->time[1]->run < t->time[0]->run &&
			  t->time[1]->median < t->time[0]->median;
		t->timed = !changed;
	}
	*faster = *faster || (!t->timed && try_best(t));
	return true;
}

/* ---- The file ---- */

static void put_head(StrBuf *b, const Tuner *t, bool faster)
{
	const Cli *c = t->cli;

	strbuf_printf(b, "; dlcc %s --tune for %s", DLCC_VERSION, t->m->target[0]->name);
	for (int i = 0; i < c->ndims; i++) {
		strbuf_puts(b, i ? ", " : ", with ");
		strbuf_escape(b, c->dims[i].text, escape_quoted);
	}
	strbuf_printf(b, ": %d rounds, %d candidates for %d kernels\n", t->rounds, t->tried,
		      t->groups.n);
	if (faster && !t->timed)
		strbuf_puts(b, "; the time ended before these lines were timed together\n");
	else if (faster)
		strbuf_printf(b, "; the model: %.4g ms with these lines, %.4g ms without\n",
			      t->time[1]->run * 1e3, t->time[0]->run * 1e3);
	else
		strbuf_puts(b, t->rounds ? "; nothing was faster than dlcc's choice\n"
					 : "; the time was too short to try others\n");
}

static void put_lines(StrBuf *b, Tuner *t)
{
	decide_all(t, TRYING);
	VEC_EACH_AT (g, &t->groups) {
		if (g->best != g->chosen)
			schedule_print_line(
				b, t->m, 0, g->first, t->hash,
				arena_printf(t->a, "%.1f %% less time", 100 * (1 - g->ratio)));
	}
}

static bool write_lines(Tuner *t, bool faster)
{
	const char *path = t->cli->output;
	StrBuf b = {0};
	bool ok;

	put_head(&b, t, faster);
	if (faster)
		put_lines(&b, t);
	ok = write_file(path, strbuf_str(&b), b.n);
	if (!ok) {
		diag_error(&t->cli->diag, (DiagLoc){.file = path}, "cannot be written: %s",
			   strerror(errno));
		diag_note(&t->cli->diag, "its text goes to the standard output");
		fwrite(strbuf_str(&b), 1, b.n, stdout);
	}
	strbuf_free(&b);
	return ok;
}

static void print_result(const Tuner *t, bool faster)
{
	int n = 0;

	for (int i = 0; i < t->groups.n && faster; i++)
		n += t->groups.at[i].best != t->groups.at[i].chosen;
	escape_to_file(stderr, t->cli->output, escape_terminal);
	if (faster && !t->timed)
		fprintf(stderr,
			": other decisions for %d of %d kernels; the time ended before they were timed together\n",
			n, t->groups.n);
	else if (faster)
		fprintf(stderr,
			": %.4g ms instead of %.4g ms, by other decisions for %d of %d kernels\n",
			t->time[1]->run * 1e3, t->time[0]->run * 1e3, n, t->groups.n);
	else if (!t->rounds)
		fprintf(stderr,
			": no other decision was tried: --tune=%d is too short for a round and the final ones; give at least %d seconds\n",
			t->cli->tune_seconds,
			(int)(tune_now() - t->begin + seconds_for(t, 2 + LAST_ROUNDS)) + 1);
	else
		fprintf(stderr, ": nothing was faster than dlcc's choice, in %d rounds\n",
			t->rounds);
}

/* ---- All of it ---- */

/* The symbolic dims of inputs have to have sizes. */
static bool dims_are_bound(Cli *c, const Module *m)
{
	STRBUF_LOCAL(options);

	for (int i = 0; i < sym_count(m->ctx); i++) {
		const Sym *s = sym_at(m->ctx, i);

		if (!graph_takes_size(m->graph, s))
			continue;
		strbuf_puts(&options, options.n ? " --dim " : "--dim ");
		strbuf_quote(&options, s->name);
		strbuf_puts(&options, "=N");
	}
	return !options.n ||
	       diag_error(&c->diag, (DiagLoc){.file = c->input},
			  "--tune measures the model at one size; give %s", strbuf_str(&options));
}

/* Checks early for a fault that would make writing the file fail at the end: if the folder is not
 * writable, a temporary folder cannot be created in it. */
static bool may_be_written(Cli *c)
{
	struct stat st;

	return stat(c->output, &st) || !S_ISDIR(st.st_mode) ||
	       diag_error(&c->diag, (DiagLoc){.file = c->output}, "cannot be written: %s",
			  strerror(EISDIR));
}

static bool tune_in_folder(Tuner *t)
{
	const char *chosen;
	bool faster = false, done = false;
	double begin;

	find_groups(t);
	number_kernels(t);
	t->time[0] = tune_times(t->kernels.n);
	t->time[1] = tune_times(t->kernels.n);
	if (!t->time[0] || !t->time[1])
		return diag_error(&t->cli->diag, (DiagLoc){.file = t->cli->input},
				  "no memory for the times of %d kernels", t->kernels.n);
	begin = tune_now();
	show_progress(t->cli, "tuning for %.0f s", t->end - t->begin);
	chosen = make_artifact(t, "chosen");
	t->round_cost = tune_now() - begin;
	if (!chosen || !measure(t, chosen, chosen, false, NULL))
		return false;
	while (!done && t->rounds < MOST_ROUNDS && has_time(t, 1 + LAST_ROUNDS))
		if (!round_of(t, chosen, &done))
			return false;
	if (!confirm(t, chosen, &faster) || !write_lines(t, faster))
		return false;
	show_progress(t->cli, NULL);
	print_result(t, faster);
	return true;
}

bool tune(Cli *c, Module *m, const PackageOpts *o, double begin)
{
	Tuner t = {.cli = c, .m = m, .opts = *o, .begin = begin};
	bool ok;

	if (!dims_are_bound(c, m) || !may_be_written(c))
		return false;
	t.end = begin + c->tune_seconds;
	t.a = arena_new();
	t.dir = package_make_folder(t.a, &c->diag, c->output);
	t.opts.name = "model";
	t.opts.weights_file = arena_printf(t.a, "%s/weights", t.dir ? t.dir : "");
	ok = t.dir && tune_in_folder(&t);
	show_progress(c, NULL);
	package_remove_folder();
	tune_times_free(t.time[0]);
	tune_times_free(t.time[1]);
	arena_free(t.a);
	return ok;
}
