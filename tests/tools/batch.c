/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs many ONNX cases through the interpreter and through generated C. The C compiler is run once
 * for many cases.
 *
 * batch [options] OUTDIR        reads folders with model.onnx and test_data_set_K from stdin, one a
 * line;
 *                                 after a tab, the noise of the references, if it is known: one number,
 *                                 or one for each output, separated by commas
 *
 * Prints a line for each case and path. Paths are eval and c; with --roundtrip also ir; with
 * --integers also int; with --gpu or --ptx only ptx:
 *
 * PASS|FAIL|SKIP FOLDER PATH: message
 *
 * Every case is a process (batch/case.h), so that a crash in one gives one FAIL line. The parent
 * puts the C of a batch of cases into one file, in which functions that cases share occur once,
 * compiles it, and sends the library's name to the cases. If the compiler rejects a file, each case
 * is compiled by itself.
 */
#include "tests/tools/batch/case.h"

#include "base/sys.h"
#include "codegen/package/embed.h"
#include "codegen/package/package.h"
#include "codegen/targets.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 64, MAX_SIZE = 256 };

static const char usage[] =
	"usage: batch [options] OUTDIR <FOLDERS\n"
	"\n"
	"  --cc=CC --target=NAME -O0..3 (default -O1)  how the C is compiled\n"
	"  --effort=N     -O of dlcc (default 2)\n"
	"  --sanitize     with ASan and UBSan\n"
	"  --size=N       cases in one C file (default 40)\n"
	"  --jobs=N       batches at a time (default: the processors)\n"
	"  --seconds=N    processor time for a step of a case (default 60)\n"
	"  --roundtrip    also print, read and compile the graph: the same C\n"
	"  --integers     also small integers as inputs: sums and products bit-equal to eval\n"
	"  --gpu=TARGET   path ptx alone: code for it, on the GPU of the libcuda.so.1 that is found; on small integers, too\n"
	"  --ptx=DIR      path ptx alone: each kernel for each GPU as DIR/TARGET/HASH.ptx, equal ones once; not run\n"
	"  --kernels      also each kernel by itself on eval's values, within eval's error bounds\n"
	"  --no-proofs    do not prove the schedules, which takes half of the time without the C compiler\n"
	"  --slice=N      a batch runs in slices of N for each thread (default 0: all at once)\n"
	"  --in-place     also with outputs in place of inputs, where they may be\n"
	"  --weights-as=FORMAT  weights become narrow, as by dlcc, and eval of that graph is the reference\n"
	"  --keep         leave the C files in OUTDIR\n";

typedef struct Child {
	const char *dir, *name, *noise;
	pid_t pid;
	FILE *to, *from;
	char path[8]; /* the path that the next verdict is about */
	bool written; /* the C is written, and the case waits for its library */
	bool evaluated;
} Child;

typedef struct Batch {
	const RunOptions *o;
	const char *self; /* the folder of this program */
	Arena *arena;
	int id, n;
	Child child[MAX_SIZE];
} Batch;

/* ---- Lines ---- */

/* Prints a line with a single write, so that the lines of batches that run at once do not mix. */
static void report(const char *status, const char *dir, const char *path, const char *message)
{
	char line[4096];
	int n = snprintf(line, sizeof line, "%s %s %s%s%s", status, dir, path, *message ? ": " : "",
			 message);

	n = n < (int)sizeof line - 1 ? n : (int)sizeof line - 2;
	line[n++] = '\n';
	write_all(1, line, (size_t)n);
}

/* The line of a compiler's log that explains the failure. */
static const char *telling(Arena *a, const char *file)
{
	static const char *const words[] = {"ERROR: AddressSanitizer",
					    "runtime error",
					    "Assertion",
					    "error:",
					    "Error",
					    "undefined"};
	size_t n = 0;
	char *text = read_file(a, file, &n);

	for (size_t i = 0; text && i < sizeof words / sizeof *words; i++) {
		char *at = strstr(text, words[i]);

		if (!at)
			continue;
		while (at > text && at[-1] != '\n')
			at--;
		at = arena_strndup(a, at, strcspn(at, "\n"));
		return strlen(at) > 600 ? arena_strndup(a, at, 600) : at;
	}
	return "";
}

static const char *path_of(const Batch *b, const char *name, const char *suffix)
{
	return arena_printf(b->arena, "%s/%s.%s", b->o->out, name, suffix);
}

/* ---- Children ---- */

static void start(Batch *b, Child *c, bool eval)
{
	int down[2], up[2];

	if (pipe2(down, O_CLOEXEC) || pipe2(up, O_CLOEXEC))
		abort();
	c->path[0] = 0;
	c->evaluated = eval;
	c->pid = fork();
	if (c->pid == 0) {
		int err = open(path_of(b, c->name, "err"), O_WRONLY | O_CREAT | O_TRUNC, 0644);

		dup2(err, 1);
		dup2(err, 2);
		close(down[1]);
		close(up[0]);
		for (int i = 0; i < b->n; i++)
			if (b->child[i].to)
				close(fileno(b->child[i].to));
		case_main(b->o, c->dir, c->name, c->noise, eval, fdopen(down[0], "r"),
			  fdopen(up[1], "w"));
	}
	close(down[0]);
	close(up[1]);
	c->to = fdopen(down[1], "w");
	c->from = fdopen(up[0], "r");
}

static void finish(Child *c)
{
	if (c->to)
		fclose(c->to);
	if (c->from)
		fclose(c->from);
	c->to = c->from = NULL;
	c->written = false;
}

static void died(Batch *b, Child *c)
{
	int status = 0;
	const char *why = telling(b->arena, path_of(b, c->name, "err"));

	finish(c);
	waitpid(c->pid, &status, 0);
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGPROF || WTERMSIG(status) == SIGALRM))
		why = "out of time";
	else if (WIFSIGNALED(status))
		why = arena_printf(b->arena, "crashed with signal %d: %s", WTERMSIG(status), why);
	else
		why = arena_printf(b->arena, "exit status %d: %s", WEXITSTATUS(status), why);
	report("FAIL", c->dir, *c->path ? c->path : "c", why);
	if (!strcmp(c->path, "eval"))
		start(b, c, false);
}

/* Reads what C reports until it waits for its library, or ends. */
static void hear(Batch *b, Child *c)
{
	char line[4096], status[8], path[8];
	int at = 0;

	while (c->from) {
		if (!fgets(line, sizeof line, c->from)) {
			died(b, c);
			continue;
		}
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "begin %7s", path) == 1) {
			strcpy(c->path, path);
		} else if (sscanf(line, "verdict %7s %7s %n", status, path, &at) == 2) {
			report(status, c->dir, path, line + at);
		} else if (!strcmp(line, "written")) {
			c->written = true;
			return;
		} else if (!strcmp(line, "none")) {
			finish(c);
			waitpid(c->pid, NULL, 0);
		}
	}
}

static void run_library(Batch *b, Child *c, const char *library)
{
	fprintf(c->to, "%s\n", library);
	fflush(c->to);
	hear(b, c);
}

static void give_up(Child *c, const char *why)
{
	report("FAIL", c->dir, c->path, why);
	finish(c);
	waitpid(c->pid, NULL, 0);
}

/* ---- C ---- */

/* Appends those functions of TEXT (each ends with a line "}") that B does not have yet. */
static void add_shared(Batch *b, StrBuf *out, const char *text)
{
	while (*text) {
		const char *end = strstr(text, "\n}\n");
		size_t n = end ? (size_t)(end - text) + 3 : strlen(text);
		char *one = arena_strndup(b->arena, text, n);

		if (!strstr(strbuf_str(out), one))
			strbuf_puts(out, one);
		text += n;
	}
}

static bool write_c(Batch *b, const char *file, Child *const *c, int n)
{
	StrBuf all = {0}, shared = {0};
	size_t len;
	bool ok;

	package_c_head(b->arena, &all, false);
	for (int i = 0; i < n; i++)
		add_shared(b, &shared, read_file(b->arena, path_of(b, c[i]->name, "pre"), &len));
	strbuf_puts(&all, strbuf_str(&shared));
	for (int i = 0; i < n; i++) {
		strbuf_printf(&all, "\n/* ==== %s ==== */\n", c[i]->dir);
		strbuf_puts(&all, read_file(b->arena, path_of(b, c[i]->name, "c"), &len));
	}
	ok = write_file(file, strbuf_str(&all), all.n);
	strbuf_free(&all);
	strbuf_free(&shared);
	return ok;
}

static bool command(const char *const *argv, const char *log)
{
	pid_t pid = spawn((char *const *)(uintptr_t)argv, log, NULL);

	return pid > 0 && wait_for(pid) == 0;
}

static int head_args(const Batch *b, const char **argv)
{
	int n = 0;

	argv[n++] = b->o->cli.cc;
	if (b->o->cli.sanitize) {
		argv[n++] = "-fsanitize=address,undefined";
		argv[n++] = "-fno-sanitize-recover=undefined";
	}
	return n;
}

/* Compiles the cases' C; returns the library's name, or null with the reason in *WHY. */
static const char *compile(Batch *b, const char *base, Child *const *c, int n, const char **why)
{
	const char *src = path_of(b, base, "all.c"), *obj = path_of(b, base, "o"),
		   *so = path_of(b, base, "so");
	const char *log = path_of(b, base, "log"), *argv[MAX_ARGS];
	int k = head_args(b, argv);

	unlink(log);
	*why = "cannot write the C";
	if (!write_c(b, src, c, n))
		return NULL;
	argv[k++] = arena_printf(b->arena, "-O%d", b->o->level);
	for (const char *const *f = package_cflags; *f; f++)
		argv[k++] = *f;
	if (b->o->target->march)
		argv[k++] = arena_printf(b->arena, "-march=%s", b->o->target->march);
	argv[k++] = arena_printf(b->arena, "-I%s", b->o->out);
	argv[k++] = "-o";
	argv[k++] = obj;
	argv[k++] = src;
	argv[k] = NULL;
	if (!command(argv, log)) {
		*why = arena_printf(b->arena, "the C compiler: %s", telling(b->arena, log));
		return NULL;
	}
	k = head_args(b, argv);
	argv[k++] = "-shared";
	argv[k++] = "-Wl,--exclude-libs,ALL";
	argv[k++] = "-o";
	argv[k++] = so;
	argv[k++] = obj;
	argv[k++] = arena_printf(b->arena, "%s/../../lib/libdlrt.a", b->self);
	argv[k++] = "-lpthread";
	argv[k++] = "-ldl";
	argv[k] = NULL;
	if (!command(argv, log)) {
		*why = arena_printf(b->arena, "the linker: %s", telling(b->arena, log));
		return NULL;
	}
	return so;
}

static void remove_files(Batch *b, const char *base)
{
	static const char *const suffixes[] = {"pre", "c", "err", "all.c", "o", "so", "log"};

	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && !b->o->keep; i++)
		unlink(path_of(b, base, suffixes[i]));
}

static void run_batch(Batch *b)
{
	Child *ready[MAX_SIZE];
	const char *base = arena_printf(b->arena, "b%d", b->id), *so, *why;
	int n = 0;

	for (int i = 0; i < b->n; i++) {
		start(b, &b->child[i], true);
		hear(b, &b->child[i]);
		if (b->child[i].written)
			ready[n++] = &b->child[i];
	}
	so = n ? compile(b, base, ready, n, &why) : NULL;
	for (int i = 0; i < n; i++) {
		const char *mine = so ? so
				      : compile(b, arena_printf(b->arena, "%s_one", ready[i]->name),
						&ready[i], 1, &why);

		if (mine)
			run_library(b, ready[i], mine);
		else
			give_up(ready[i], why);
		remove_files(b, arena_printf(b->arena, "%s_one", ready[i]->name));
	}
	for (int i = 0; i < b->n; i++)
		remove_files(b, b->child[i].name);
	remove_files(b, base);
}

/* ---- All of it ---- */

typedef struct Line {
	const char *dir, *noise;
} Line;

typedef VEC(Line) Lines;

static void read_lines(Arena *a, Lines *l)
{
	char line[4096];

	while (fgets(line, sizeof line, stdin)) {
		char *tab = strchr(line, '\t');
		const char *noise = arena_strdup(a, tab ? tab + 1 : "");

		line[strcspn(line, "\t\n")] = 0;
		if (*line)
			vec_push(a, l, ((Line){arena_strdup(a, line), noise}));
	}
}

/* Processes batches, numbered by the shared counter, until there is none left. */
static void work(const RunOptions *o, const char *self, const Lines *l, int *next)
{
	for (;;) {
		int id = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
		Batch b = {.o = o, .self = self, .arena = arena_new(), .id = id};

		if (id * o->size >= l->n)
			return;
		for (int i = id * o->size; i < l->n && b.n < o->size; i++)
			b.child[b.n++] = (Child){.dir = l->at[i].dir,
						 .noise = l->at[i].noise,
						 .name = arena_printf(b.arena, "c%d", i)};
		run_batch(&b);
		arena_free(b.arena);
	}
}

static const char *own_folder(Arena *a)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

	exe[n > 0 ? n : 0] = 0;
	*(strrchr(exe, '/') ? strrchr(exe, '/') : exe) = 0;
	return arena_strdup(a, exe);
}

static const char *value_of(const char *arg, const char *option)
{
	size_t n = strlen(option);

	return !strncmp(arg, option, n) && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool option(RunOptions *o, const char *a)
{
	const char *v;

	if ((v = value_of(a, "--target")))
		return (o->target = target_by_name(v)) != NULL;
	else if ((v = value_of(a, "--gpu")))
		return (o->gpu = target_by_name(v)) != NULL && o->gpu->gpu;
	else if ((v = value_of(a, "--ptx")))
		o->ptx = v;
	else if ((v = value_of(a, "--effort")))
		o->effort = atoi(v);
	else if ((v = value_of(a, "--size")))
		o->size = atoi(v);
	else if ((v = value_of(a, "--jobs")))
		o->jobs = atoi(v);
	else if ((v = value_of(a, "--seconds")))
		o->seconds = atoi(v);
	else if (a[0] == '-' && a[1] == 'O' && a[2] >= '0' && a[2] <= '3')
		o->level = a[2] - '0';
	else if (!strcmp(a, "--roundtrip"))
		o->roundtrip = true;
	else if (!strcmp(a, "--integers"))
		o->integers = true;
	else if (!strcmp(a, "--no-proofs"))
		o->unproved = true;
	else if (!strcmp(a, "--kernels"))
		o->kernels = true;
	else if (!strcmp(a, "--in-place"))
		o->in_place = true;
	else if (!strcmp(a, "--keep"))
		o->keep = true;
	else if (*a == '-')
		return options_argument(&o->cli, (char *[]){(char *)(uintptr_t)a, NULL}, &(int){0});
	else if (o->out)
		return false;
	else
		o->out = a;
	return true;
}

static void make_folders(Arena *a, const RunOptions *o)
{
	if (!o->ptx)
		return;
	mkdir(o->ptx, 0777);
	for (const Target *t = target_table; t->name; t++)
		if (t->gpu)
			mkdir(arena_printf(a, "%s/%s", o->ptx, t->name), 0777);
}

int main(int argc, char **argv)
{
	Arena *a = arena_new();
	RunOptions o = {.level = 1,
			.effort = 2,
			.size = 40,
			.seconds = 60,
			.jobs = (int)sysconf(_SC_NPROCESSORS_ONLN),
			.target = target_by_name("native")};
	const char *self = own_folder(a);
	Lines lines = {0};
	int *next = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	options_begin(&o.cli, RUNNER, "batch");
	o.cli.slice = 0;
	for (int i = 1; i < argc; i++)
		if (!option(&o, argv[i]))
			return fputs(usage, stderr), 1;
	o.cli.cc = package_cc(a, o.cli.cc);
	if (!o.out || !o.cli.cc || next == MAP_FAILED || o.size < 1 || o.size > MAX_SIZE)
		return fputs(usage, stderr), 1;
	signal(SIGPIPE, SIG_IGN);
	mkdir(o.out, 0777);
	make_folders(a, &o);
	write_file(arena_printf(a, "%s/dlrt.h", o.out), embed_dlrt_h, strlen(embed_dlrt_h));
	read_lines(a, &lines);
	for (int j = 0; j < o.jobs; j++)
		if (fork() == 0) {
			work(&o, self, &lines, next);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	arena_free(a);
	return 0;
}
