/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times two artifacts of one model side by side, kernel by kernel. They run in a separate process,
 * which may crash, or be killed when its time is over. They run alternately, so that other load on
 * the machine affects both.
 */
#include "tools/dlcc/tune.h"

#include "tools/dlrun/session.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BATCH = 3, /* successive runs of one artifact; the first of them warms the caches */
	LEAST_BATCHES = 4, /* batches of each artifact, at least: two of each kind of samples */
	MOST_RUNS = 4096
};

/* The minimum time of a batch: threads of the other artifact then sleep for most of it. */
static const double BATCH_SECONDS = 0.02;

double tune_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One artifact in the measuring process, and where its times go. */
typedef struct Side {
	Session s;
	Array *in;
	KernelTimes *to;
	double *before;          /* by kernel: ns up to the last run */
	double total[MOST_RUNS]; /* seconds of runs */
	int runs;
} Side;

static bool open_side(Side *x, Arena *a, Diag *d, const char *path)
{
	const dl_load_options load = {.size = sizeof load, .device = "cpu", .profile = 1};
	int64_t *dims;
	int rc;

	if (!session_open(&x->s, a, d, path) || !session_load(&x->s, &load))
		return false;
	dims = NEW_ARRAY(a, x->s.desc->n_sym + 1, int64_t);
	for (int32_t i = 0; i < x->s.desc->n_sym; i++)
		dims[i] = dl_desc_sym(x->s.desc, i)->lower;
	x->in = session_random(&x->s, dims);
	rc = x->in ? x->s.api->prepare(x->s.context, dims, x->s.desc->n_sym) : DL_OK;
	return x->in && (!rc || session_fail(&x->s, "prepare", rc));
}

/* Runs once; HALF: of the first or second kind of samples, whose difference is the noise. WARM: the
 * times count. */
static bool run_side(Side *x, int half, bool warm)
{
	const double begin = tune_now();
	const int rc = session_run(&x->s, x->in);
	const double total = tune_now() - begin;
	dl_profile_entry e = {.size = sizeof e};

	if (rc)
		return session_fail(&x->s, "run", rc);
	for (int i = 0; i < x->to->n && !x->s.api->profile(x->s.model, i, &e); i++) {
		const double ns = (double)e.nanoseconds - x->before[i];
		double *least = &x->to->least[half][i];

		x->before[i] = (double)e.nanoseconds;
		if (warm && e.calls && (*least <= 0 || ns < *least))
			*least = ns;
	}
	if (warm && x->runs < MOST_RUNS)
		x->total[x->runs++] = total;
	return true;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void sum_up(Side *x)
{
	qsort(x->total, (size_t)x->runs, sizeof *x->total, by_value);
	if (x->to->run <= 0 || x->total[0] < x->to->run)
		x->to->run = x->total[0];
	x->to->median = x->total[x->runs / 2];
}

/* Batches of the artifacts, alternately, until UNTIL. */
static bool run_both(Side *side, double until)
{
	for (int batch = 0; batch < LEAST_BATCHES || tune_now() < until; batch++)
		for (int s = 0; s < 2; s++) {
			const double end = tune_now() + BATCH_SECONDS;

			for (int i = 0; i < BATCH || tune_now() < end; i++)
				if (!run_side(&side[s], batch % 2, i > 0))
					return false;
		}
	return true;
}

/* The measuring process. */
static bool child(Diag *d, const char *const path[2], double seconds, KernelTimes *const to[2])
{
	Arena *a = arena_new();
	Side *side = NEW_ARRAY(a, 2, Side);
	bool ok = true;

	for (int s = 0; s < 2 && ok; s++) {
		side[s].to = to[s];
		side[s].before = NEW_ARRAY(a, to[s]->n + 1, double);
		ok = open_side(&side[s], a, d, path[s]);
	}
	ok = ok && run_both(side, tune_now() + seconds);
	for (int s = 0; s < 2 && ok; s++)
		sum_up(&side[s]);
	return ok;
}

/* Interprets the child's STATUS; false after a diagnostic. */
static bool ended_well(Diag *d, const char *input, int status, bool *late)
{
	if (WIFEXITED(status))
		return !WEXITSTATUS(status);
	if (WTERMSIG(status) == SIGALRM && late)
		return *late = true;
	if (WTERMSIG(status) == SIGALRM)
		return diag_error(
			d, (DiagLoc){.file = input},
			"--tune: some runs of the model take longer than the given time; "
			"give more seconds");
	return diag_error(d, (DiagLoc){.file = input}, "--tune: a run ended by signal %d (%s)",
			  WTERMSIG(status), strsignal(WTERMSIG(status)));
}

void tune_times_clear(KernelTimes *t)
{
	memset(t->least[0], 0, 2 * (size_t)t->n * sizeof(double));
	t->run = t->median = 0;
}

bool tune_measure(Diag *d, const char *input, const char *const path[2], double seconds,
		  double most, KernelTimes *const to[2], bool *late)
{
	const pid_t parent = getpid();
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		signal(SIGHUP, SIG_DFL);
		if (getppid() != parent)
			_exit(1);
		alarm((unsigned)most + 1);
		_exit(!child(d, path, seconds, to));
	}
	if (pid < 0)
		return diag_error(d, (DiagLoc){.file = input}, "--tune: cannot start a process: %s",
				  strerror(errno));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return ended_well(d, input, status, late);
}

KernelTimes *tune_times(int n)
{
	const size_t bytes = sizeof(KernelTimes) + 2 * (size_t)n * sizeof(double);
	KernelTimes *t = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			      0);

	if (t == MAP_FAILED)
		return NULL;
	t->n = n;
	t->bytes = bytes;
	t->least[0] = (double *)(void *)(t + 1);
	t->least[1] = t->least[0] + n;
	return t;
}

void tune_times_free(KernelTimes *t)
{
	if (t)
		munmap(t, t->bytes);
}
