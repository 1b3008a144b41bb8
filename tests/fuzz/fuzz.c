/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutated model files through the whole compiler, many in a process; no C compiler runs.
 *
 *   fuzz [options] SEED...        model files, .onnx and as text .dl, or folders of them
 *
 * A file must be refused with a diagnostic, or accepted, within 10 s of processor time (three times
 * that under sanitizers, which cost as much) and 1 GiB: no crash, no report of a sanitizer, no
 * broken promise (fuzz/try.h). A fault is one line FAIL; the last line counts. File K of seed S is
 * the same file in every run over the same models.
 *
 * Workers take files in runs; one that dies is replaced, and what it worked on is the fault.
 */
#include "base/str.h"
#include "base/sys.h"
#include "tests/fuzz/fuzz/mutate_text.h"
#include "tests/fuzz/fuzz/try.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	MAX_JOBS = 64,
	RUN = 25,
#if defined(__SANITIZE_ADDRESS__)
	SECONDS = 30,
#else
	SECONDS = 10,
#endif
	LIMIT = 1 << 30,
	MAX_SEED = 20000,
	SANITIZER_EXIT = 99
};

static const char usage[] =
	"usage: fuzz [options] SEED...\n"
	"\n"
	"  --count=N      files (default 10000)\n"
	"  --seed=S       of the mutations (default 1)\n"
	"  --from=K       the first file (default 0)\n"
	"  --plain        the seeds themselves, not mutated\n"
	"  --one-fault    a refusal has one diagnostic for each node or value that it names\n"
	"  --text=P       how many of 100 files are text, where there are seeds of both kinds (default 10)\n"
	"  --models=N     seeds used at most, spread over those given (default 400)\n"
	"  --jobs=N       workers (default: the processors)\n"
	"  --keep=DIR     write what fails there, and what was said of it\n"
	"  --samples=DIR  write every Nth file that ran there, as a case (--every=N, default 20)\n";

typedef struct FuzzOptions {
	long count, seed, from, models, jobs, every, text;
	bool plain, one_fault;
	const char *keep, *samples;
} FuzzOptions;

typedef struct FuzzTally {
	long files, outcome[BROKEN + 1], slow;
} FuzzTally;

/* What a worker and the parent share. */
typedef struct FuzzSlot {
	long at, to; /* the file under way; one past the last */
	Tried tried;
	FuzzTally tally;
} FuzzSlot;

typedef struct FuzzWorker {
	pid_t pid;  /* 0: none */
	bool large; /* ended for its memory */
	FuzzSlot *slot;
	int err;
} FuzzWorker;

typedef struct Fuzz {
	FuzzOptions o;
	Arena *a;
	Seeds models, texts;
	FuzzWorker worker[MAX_JOBS];
	long next, failed;
} Fuzz;

#if defined(__SANITIZE_ADDRESS__)
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
	return "exitcode=99:allocator_may_return_null=1:max_allocation_size_mb=1024:detect_leaks=0:quarantine_size_mb=8:"
	       "malloc_context_size=12:handle_abort=1:allow_user_segv_handler=0";
}

const char *__ubsan_default_options(void)
{
	return "print_stacktrace=1:exitcode=99";
}
#endif

/* ---- Seeds ---- */

/* Of a text test, the text alone: without its directives and what it prints. */
static Bytes text_seed(Arena *a, const char *s)
{
	const char *end = strstr(s, "\n; ----"),
		   *start = str_starts(s, "dlir") ? s : strstr(s, "\ndlir");

	start = start ? start : s;
	end = end && end > start ? end + 1 : s + strlen(s);
	return (Bytes){(const uint8_t *)arena_strndup(a, start, (size_t)(end - start)),
		       (size_t)(end - start)};
}

static void add_seeds(Fuzz *f, const char *path)
{
	struct stat st;
	struct dirent **names;
	size_t size;
	int n;

	if (stat(path, &st))
		return;
	if (S_ISREG(st.st_mode) && st.st_size <= MAX_SEED &&
	    (str_ends(path, ".onnx") || str_ends(path, ".dl"))) {
		const char *p = read_file(f->a, path, &size);

		if (p && str_ends(path, ".dl"))
			vec_push(f->a, &f->texts, text_seed(f->a, p));
		else if (p)
			vec_push(f->a, &f->models, ((Bytes){(const uint8_t *)p, size}));
	}
	if (!S_ISDIR(st.st_mode))
		return;
	n = scandir(path, &names, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.' && !str_starts(names[i]->d_name, "test_data_set"))
			add_seeds(f, arena_printf(f->a, "%s/%s", path, names[i]->d_name));
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

/* At most N of them, spread over all. */
static void thin(Seeds *s, long n)
{
	if (s->n <= n)
		return;
	for (long i = 0; i < n; i++)
		s->at[i] = s->at[i * s->n / n];
	s->n = (int)n;
}

/* ---- Workers ---- */

static bool is_text(const Fuzz *f, long k)
{
	if (!f->models.n || !f->texts.n)
		return f->texts.n;
	return f->o.plain ? k % (f->models.n + f->texts.n) >= f->models.n
			  : k * f->o.text % 100 < f->o.text;
}

static Bytes file_of(const Fuzz *f, Arena *a, Rng *r, long k)
{
	const Seeds *seeds = is_text(f, k) ? &f->texts : &f->models;

	*r = (Rng){(uint64_t)f->o.seed << 40 ^ (uint64_t)k};
	if (f->o.plain)
		return seeds
			->at[(k % (f->models.n + f->texts.n) - (is_text(f, k) ? f->models.n : 0))];
	return is_text(f, k) ? mutate_text(a, r, seeds) : mutate(a, r, seeds);
}

static void limit(int seconds)
{
	struct itimerval t = {.it_value = {.tv_sec = seconds}};

	setitimer(ITIMER_PROF, &t, NULL);
	alarm((unsigned)seconds * 12);
}

static void work(const Fuzz *f, FuzzSlot *s)
{
	for (; s->at < s->to; s->at++) {
		Arena *a = arena_new();
		Rng r;
		Bytes b = file_of(f, a, &r, s->at);
		bool sample = f->o.samples && s->at % f->o.every == 0 && !is_text(f, s->at);

		if (lseek(2, 0, SEEK_SET) == 0 && ftruncate(2, 0))
			_exit(2);
		limit(SECONDS);
		try_file(&s->tried, b, is_text(f, s->at), f->o.one_fault, &r,
			 sample ? arena_printf(a, "%s/%ld-%ld", f->o.samples, f->o.seed, s->at)
				: NULL);
		limit(0);
		arena_free(a);
		if (s->tried.outcome == BROKEN)
			_exit(3);
		s->tally.outcome[s->tried.outcome]++;
		s->tally.files++;
	}
	_exit(0);
}

static void start(Fuzz *f, FuzzWorker *w)
{
	w->large = false;
	w->pid = fork();
	if (w->pid)
		return;
	dup2(w->err, 2);
#if !defined(__SANITIZE_ADDRESS__)
	struct rlimit memory = {LIMIT + (LIMIT >> 2), LIMIT + (LIMIT >> 2)};

	setrlimit(RLIMIT_AS, &memory);
#endif
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	work(f, w->slot);
}

static long resident(pid_t pid)
{
	char path[64], text[128];
	long pages = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fgets(text, sizeof text, file))
		sscanf(text, "%*d %ld", &pages);
	fclose(file);
	return pages * 4096;
}

/* The line of what a worker wrote that says most. */
static const char *telling(const Fuzz *f, const FuzzWorker *w)
{
	static const char *const words[] = {"runtime error", "ERROR: AddressSanitizer", "Assertion",
					    "error"};
	char *text = arena_alloc(f->a, 65536);
	ssize_t n = pread(w->err, text, 65535, 0);

	for (size_t i = 0; n > 0 && i < sizeof words / sizeof *words; i++) {
		char *at = strstr(text, words[i]);

		if (!at)
			continue;
		while (at > text && at[-1] != '\n')
			at--;
		at[strcspn(at, "\n")] = 0;
		return at;
	}
	return "";
}

/* The file, and what its worker said. */
static void keep(const Fuzz *f, const FuzzWorker *w, long k)
{
	char *text = arena_alloc(f->a, 65536);
	ssize_t n = pread(w->err, text, 65536, 0);
	Rng r;
	Bytes b = file_of(f, f->a, &r, k);

	if (!f->o.keep)
		return;
	mkdir(f->o.keep, 0777);
	write_file(arena_printf(f->a, "%s/%ld-%ld.%s", f->o.keep, f->o.seed, k,
				is_text(f, k) ? "dl" : "onnx"),
		   b.p, b.n);
	write_file(arena_printf(f->a, "%s/%ld-%ld.txt", f->o.keep, f->o.seed, k), text,
		   n > 0 ? (size_t)n : 0);
}

static void judge(Fuzz *f, FuzzWorker *w, int status)
{
	FuzzSlot *s = w->slot;
	const char *why = telling(f, w), *kind;
	bool evaluating = str_starts(s->tried.phase, "eval");
	bool late = WIFSIGNALED(status) &&
		    (WTERMSIG(status) == SIGPROF || WTERMSIG(status) == SIGALRM);

	s->tally.files++;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(why, "out of memory")) {
		s->tally.outcome[evaluating ? ACCEPTED : REFUSED]++;
		return;
	}
	if (w->large)
		kind = "more than 1 GiB";
	else if (late)
		kind = "out of time";
	else if (WIFSIGNALED(status))
		kind = arena_printf(f->a, "signal %d", WTERMSIG(status));
	else
		kind = WEXITSTATUS(status) == 3
			       ? s->tried.why
			       : arena_printf(f->a, "status %d", WEXITSTATUS(status));
	/* What a model asks of a run is its own business: it was accepted. */
	if (evaluating && (w->large || late)) {
		s->tally.outcome[ACCEPTED]++;
		s->tally.slow++;
		return;
	}
	s->tally.outcome[BROKEN]++;
	f->failed++;
	printf("FAIL %ld-%ld: %s: %s%s%s\n", f->o.seed, s->at, s->tried.phase, kind,
	       *why ? ": " : "", why);
	fflush(stdout);
	keep(f, w, s->at);
}

static bool more(Fuzz *f, FuzzWorker *w)
{
	long end = f->o.from + f->o.count;

	if (w->slot->at >= w->slot->to) {
		if (f->next >= end)
			return false;
		w->slot->at = f->next;
		f->next = w->slot->to = f->next + RUN < end ? f->next + RUN : end;
	}
	start(f, w);
	return true;
}

/* Sees to W; false where it is idle and nothing is left. */
static bool tend(Fuzz *f, FuzzWorker *w)
{
	int status;

	if (!w->pid)
		return more(f, w);
	if (resident(w->pid) > LIMIT) {
		w->large = true;
		kill(w->pid, SIGKILL);
	}
	if (waitpid(w->pid, &status, WNOHANG) == w->pid) {
		w->pid = 0;
		if (status) {
			judge(f, w, status);
			w->slot->at++;
		}
	}
	return true;
}

/* ---- All of it ---- */

static void run(Fuzz *f)
{
	bool busy = true;

	for (int i = 0; i < f->o.jobs; i++) {
		f->worker[i].slot = mmap(NULL, sizeof(FuzzSlot), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		f->worker[i].err = memfd_create("err", MFD_CLOEXEC);
		if (f->worker[i].slot == MAP_FAILED || f->worker[i].err < 0)
			abort();
	}
	f->next = f->o.from;
	while (busy) {
		busy = false;
		for (int i = 0; i < f->o.jobs; i++)
			busy |= tend(f, &f->worker[i]);
		usleep(10000);
	}
}

static void report(const Fuzz *f)
{
	FuzzTally all = {0};
	long accepted;

	for (int i = 0; i < f->o.jobs; i++) {
		const FuzzTally *t = &f->worker[i].slot->tally;

		all.files += t->files;
		all.slow += t->slow;
		for (int k = 0; k <= BROKEN; k++)
			all.outcome[k] += t->outcome[k];
	}
	accepted = all.outcome[ACCEPTED] + all.outcome[RAN] + all.outcome[FAULTED];
	printf("%ld files of %d models and %d texts: %ld accepted (%ld ran, %ld ended in a fault, %ld too large to run), %ld refused, %ld failed\n",
	       all.files, f->models.n, f->texts.n, accepted, all.outcome[RAN], all.outcome[FAULTED],
	       all.outcome[ACCEPTED], all.outcome[REFUSED], all.outcome[BROKEN]);
}

static bool number(const char *a, const char *option, long *out)
{
	size_t n = strlen(option);

	if (strncmp(a, option, n) || a[n] != '=')
		return false;
	*out = atol(a + n + 1);
	return true;
}

static bool option(FuzzOptions *o, const char *a)
{
	if (str_starts(a, "--keep="))
		o->keep = a + 7;
	else if (str_starts(a, "--samples="))
		o->samples = a + 10;
	else if (!strcmp(a, "--plain"))
		o->plain = true;
	else if (!strcmp(a, "--one-fault"))
		o->one_fault = true;
	else
		return number(a, "--count", &o->count) || number(a, "--seed", &o->seed) ||
		       number(a, "--from", &o->from) || number(a, "--models", &o->models) ||
		       number(a, "--jobs", &o->jobs) || number(a, "--every", &o->every) ||
		       number(a, "--text", &o->text);
	return true;
}

int main(int argc, char **argv)
{
	Fuzz f = {.o = {.count = 10000,
			.seed = 1,
			.models = 400,
			.jobs = sysconf(_SC_NPROCESSORS_ONLN),
			.every = 20,
			.text = 10},
		  .a = arena_new()};

	for (int i = 1; i < argc; i++) {
		if (*argv[i] != '-')
			add_seeds(&f, argv[i]);
		else if (!option(&f.o, argv[i]))
			return fputs(usage, stderr), 2;
	}
	f.o.jobs = f.o.jobs < 1 ? 1 : f.o.jobs > MAX_JOBS ? MAX_JOBS : f.o.jobs;
	if (!(f.models.n + f.texts.n) || f.o.every < 1 || f.o.models < 1)
		return fputs(usage, stderr), 2;
	thin(&f.models, f.o.models);
	if (f.o.samples)
		mkdir(f.o.samples, 0777);
	run(&f);
	report(&f);
	return f.failed ? 1 : 0;
}
