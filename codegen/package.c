/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/package.h"

#include "base/sys.h"
#include "codegen/elf.h"
#include "codegen/embed.h"
#include "codegen/weights.h"
#include "runtime/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_FILES = 32, MAX_ARGS = 64, EMBED_LIMIT = 16 << 20, KERNELS_PER_FILE = 12 };

/* The one temporary folder of a package in progress, beside the output: all that a kill can leave. And the
 * commands that run, to be ended first. */
static volatile sig_atomic_t live;
static char live_dir[4096];
static volatile sig_atomic_t live_pid[MAX_FILES];

/* A file that is made, and its place. All move there at the end, the output last. */
typedef struct Made {
	const char *from, *to;
} Made;

typedef struct Pack {
	Module *m;
	const PackageOpts *o;
	Arena *a;
	Diag *diag;
	const char *cc, *dir, *log;
	char *cc_args[8]; /* further words of --cc=, up to a null */
	Made made[3];
	int nmade;
	GenC *gc[MAX_TARGETS];
	const char *src[MAX_FILES], *obj[MAX_FILES];
	const Target *target[MAX_FILES];
	pid_t pid[MAX_FILES];
	int nfiles;
	int wfd;             /* the weights' file */
	unsigned char *wmap; /* mapped, where they go into the C */
	uint64_t whash, model_hash;
	dl_hash hash;
	WeightsKind kind;
} Pack;

static bool fail(Pack *p, const char *what, const char *path)
{
	return diag_error(p->diag, (DiagLoc){.file = p->o->output}, "%s %s: %s", what, path, strerror(errno));
}

/* Removes DIR with the files in it. No function but system calls: it runs in signal handlers too. */
static void remove_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(8) char buf[8192];
	long n;

	while (fd >= 0 && (n = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0)
		for (long at = 0; at < n;) {
			/* struct linux_dirent64: inode, offset, record length, type, name */
			unsigned short len;
			const char *name = buf + at + 19;

			memcpy(&len, buf + at + 16, sizeof len);
			if (strcmp(name, ".") && strcmp(name, ".."))
				unlinkat(fd, name, 0);
			at += len;
		}
	if (fd >= 0)
		close(fd);
	rmdir(dir);
}

void package_abort(void)
{
	if (!live)
		return;
	for (int i = 0; i < MAX_FILES; i++)
		if (live_pid[i] > 0)
			kill((pid_t)live_pid[i], SIGTERM);
	for (int i = 0; i < MAX_FILES; i++)
		if (live_pid[i] > 0)
			waitpid((pid_t)live_pid[i], NULL, 0);
	remove_dir(live_dir);
}

/* A path in the temporary folder, which is removed with it. */
static const char *temp_path(Pack *p, const char *base)
{
	return arena_printf(p->a, "%s/%s", p->dir, base);
}

/* FROM becomes TO when all is made. */
static bool will_be(Pack *p, const char *from, const char *to)
{
	p->made[p->nmade++] = (Made){from, to};
	return true;
}

static bool commit(Pack *p)
{
	for (int i = 0; i < p->nmade && !p->o->dry; i++)
		if (rename(p->made[i].from, p->made[i].to))
			return fail(p, "cannot write", p->made[i].to);
	return true;
}

const char *package_cc(Arena *a, const char *wanted)
{
	static const char *const tries[] = {"clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang", "gcc", "cc"};

	if (wanted)
		return find_program(a, wanted);
	for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
		const char *s = find_program(a, tries[i]);

		if (s)
			return s;
	}
	return NULL;
}

static bool is_clang(const char *cc)
{
	return strstr(cc, "clang") != NULL;
}

/* --cc= may be a program, or a program and its first arguments. */
static bool find_cc(Pack *p)
{
	const char *wanted = p->o->cc;
	char *words, *at;
	int n = 0;

	p->cc = package_cc(p->a, wanted);
	if (!p->cc && wanted && strchr(wanted, ' ')) {
		words = arena_strdup(p->a, wanted);
		at = strtok_r(words, " ", &words);
		p->cc = at ? package_cc(p->a, at) : NULL;
		while (p->cc && n < 7 && (at = strtok_r(NULL, " ", &words)))
			p->cc_args[n++] = at;
	}
	if (p->cc)
		return true;
	if (wanted)
		return diag_error(p->diag, (DiagLoc){.file = p->o->output}, "--cc=%s: there is no such program; give the name or path of a "
				  "C compiler (gcc, or clang from 15 on)", wanted);
	return diag_error(p->diag, (DiagLoc){.file = p->o->output}, "no C compiler on PATH; install clang or gcc, or name one by --cc=");
}

/* A tool that goes with the C compiler: aarch64-linux-gnu-ar with aarch64-linux-gnu-gcc. */
static const char *find_tool(Pack *p, const char *name)
{
	const char *base = strrchr(p->cc, '/') ? strrchr(p->cc, '/') + 1 : p->cc, *found = NULL;
	size_t n = strlen(base);

	while (n && base[n - 1] != '-')
		n--;
	if (n)
		found = find_program(p->a, arena_printf(p->a, "%.*s%s", (int)n, base, name));
	for (int i = 0; p->cc_args[i] && !found; i++)
		if (str_starts(p->cc_args[i], "--target="))
			found = find_program(p->a, arena_printf(p->a, "%s-%s", p->cc_args[i] + 9, name));
	if (!found)
		found = find_program(p->a, name);
	if (!found)
		found = find_program(p->a, arena_printf(p->a, "llvm-%s", name));
	if (!found)
		diag_error(p->diag, (DiagLoc){.file = p->o->output}, "%s is not on PATH; install binutils", name);
	return found;
}

/* ---- C files ---- */

static void file_head(StrBuf *b, const char *what)
{
	strbuf_printf(b, "/* %s Generated by dlcc: this code belongs to whoever compiled it. */\n", what);
}

static const char kernel_macros[] =
	"#if defined(__clang__)\n"
	"#define DL_IVDEP _Pragma(\"clang loop vectorize(assume_safety)\")\n"
	"#define DL_SHORT _Pragma(\"clang loop vectorize(assume_safety) vectorize_predicate(enable) interleave(disable)\")\n"
	"#define DL_CONTRACT\n"
	"#define DL_CONTRACT_ON _Pragma(\"clang fp contract(fast)\")\n"
	"#elif defined(__GNUC__)\n"
	"#define DL_IVDEP _Pragma(\"GCC ivdep\")\n"
	"#define DL_SHORT _Pragma(\"GCC ivdep\")\n"
	"#define DL_CONTRACT __attribute__((optimize(\"fp-contract=fast\")))\n"
	"#define DL_CONTRACT_ON\n"
	"#endif\n\n";

static bool write_source(Pack *p, const char *base, const StrBuf *b)
{
	const char *path = temp_path(p, base);

	if (!write_file(path, strbuf_str(b), b->n))
		return fail(p, "cannot write", path);
	if (p->o->save_temps) {
		mkdir(p->o->save_temps, 0777);
		path = arena_printf(p->a, "%s/%s_%s", p->o->save_temps, p->o->name, base);
		if (!write_file(path, strbuf_str(b), b->n))
			return fail(p, "cannot write", path);
	}
	return true;
}

static bool add_file(Pack *p, const char *base, const StrBuf *b, const Target *t)
{
	p->src[p->nfiles] = temp_path(p, arena_printf(p->a, "%s.c", base));
	p->obj[p->nfiles] = temp_path(p, arena_printf(p->a, "%s.o", base));
	p->target[p->nfiles++] = t;
	return write_source(p, arena_printf(p->a, "%s.c", base), b);
}

static HostOpts host_opts(const Pack *p)
{
	return (HostOpts){.name = p->o->name, .version = p->o->version, .hash = p->model_hash, .weights = p->kind,
			  .weights_hash = p->whash, .weights_data = p->wmap,
			  .weights_file = p->o->weights_file && strrchr(p->o->weights_file, '/') ? strrchr(p->o->weights_file, '/') + 1
												 : p->o->weights_file};
}

static void kernel_head(StrBuf *b)
{
	strbuf_puts(b, "#define DLRT_GENERATED 1\n#include \"dlrt.h\"\n#include \"scalar.h\"\n\n");
	strbuf_puts(b, kernel_macros);
}

void package_c_head(StrBuf *b)
{
	strbuf_puts(b, "#define DLRT_GENERATED 1\n#include \"dlrt.h\"\n#include <string.h>\n\n");
	strbuf_puts(b, embed_scalar_h);
	strbuf_puts(b, "\n");
	strbuf_puts(b, kernel_macros);
}

static bool write_kernels(Pack *p, int t)
{
	int n = p->gc[t]->funcs.n / KERNELS_PER_FILE + 1, most = p->m->ntargets > 1 ? 2 : 4;
	bool ok = true;

	n = n < most ? n : most;
	gen_c_split(p->gc[t], n);
	for (int i = 0; i < n && ok; i++) {
		StrBuf b = {0};

		file_head(&b, arena_printf(p->a, "Kernels of %s for %s.", p->o->name, p->m->target[t]->name));
		kernel_head(&b);
		gen_c_file(p->gc[t], &b, i, false);
		ok = add_file(p, arena_printf(p->a, "k%d_%d", t, i), &b, p->m->target[t]);
		strbuf_free(&b);
	}
	return ok;
}

/* ---- Commands ---- */

static void echo(const Pack *p, char *const *argv)
{
	if (!p->o->verbose && !p->o->dry)
		return;
	for (int i = 0; argv[i]; i++) {
		bool plain = strspn(argv[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%") == strlen(argv[i]);

		fprintf(stderr, plain ? "%s%s" : "%s'%s'", i ? " " : "", argv[i]);
	}
	fputc('\n', stderr);
}

/* Starts a command; -1: it cannot be. SLOT is its place among those that run. */
static pid_t start(Pack *p, char *const *argv, int slot)
{
	sigset_t all, old;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pid = spawn(argv, p->log, p->dir);
	live_pid[slot] = (sig_atomic_t)pid;
	sigprocmask(SIG_SETMASK, &old, NULL);
	return pid;
}

static int finish(pid_t pid, int slot)
{
	int status = wait_for(pid);

	live_pid[slot] = 0;
	return status;
}

static int common_args(Pack *p, char **argv)
{
	int n = 0;

	argv[n++] = (char *)(uintptr_t)p->cc;
	for (int i = 0; p->cc_args[i]; i++)
		argv[n++] = p->cc_args[i];
	if (p->o->sysroot)
		argv[n++] = arena_printf(p->a, "--sysroot=%s", p->o->sysroot);
	if (p->o->sanitize) {
		argv[n++] = (char *)(uintptr_t)"-fsanitize=address,undefined";
		argv[n++] = (char *)(uintptr_t)"-fno-sanitize-recover=undefined";
	}
	return n;
}

const char *const package_cflags[] = {
	"-std=gnu11", "-c", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fwrapv", "-fno-math-errno", "-fno-trapping-math",
	"-fno-strict-aliasing", "-fno-semantic-interposition", "-w", "-ffunction-sections", "-Wno-psabi", NULL,
};

static pid_t start_compile(Pack *p, int i)
{
	char *argv[MAX_ARGS];
	int n = common_args(p, argv);
	const Target *t = p->target[i];

	argv[n++] = arena_printf(p->a, "-O%d", p->o->level == 0 ? 1 : is_clang(p->cc) || p->o->level < 2 ? p->o->level : 3);
	for (const char *const *s = package_cflags; *s; s++)
		argv[n++] = (char *)(uintptr_t)*s;
	if (t && t->march)
		argv[n++] = arena_printf(p->a, "-march=%s", t->march);
	if (t && t->vector_bytes == 64)
		argv[n++] = (char *)(uintptr_t)"-mprefer-vector-width=512";
	argv[n++] = arena_printf(p->a, "-I%s", p->dir);
	argv[n++] = arena_printf(p->a, "-ffile-prefix-map=%s=.", p->dir);
	argv[n++] = (char *)(uintptr_t)"-o";
	argv[n++] = (char *)(uintptr_t)p->obj[i];
	argv[n++] = (char *)(uintptr_t)p->src[i];
	argv[n] = NULL;
	echo(p, argv);
	return p->o->dry ? 0 : start(p, argv, i);
}

static bool cc_failed(Pack *p, const char *what)
{
	size_t n = 0;
	const char *text = read_file(p->a, p->log, &n);

	diag_error(p->diag, (DiagLoc){.file = p->o->output}, "%s failed (%s); run with --save-temps to see the C", what, p->cc);
	for (int lines = 0; text && *text && lines < 12; lines++) {
		int len = (int)strcspn(text, "\n");

		diag_note(p->diag, "%.*s", len, text);
		text += len + (text[len] == '\n');
	}
	return false;
}

/* Compiles files FROM.. of the list, at most o->jobs at once. */
static bool compile_from(Pack *p, int from)
{
	int running = 0, next = from;
	bool ok = true;

	while (next < p->nfiles || running) {
		if (next < p->nfiles && running < p->o->jobs && ok) {
			p->pid[next] = start_compile(p, next);
			if (p->pid[next] < 0)
				return fail(p, "cannot start", p->cc);
			next++;
			running++;
			continue;
		}
		if (!running)
			break;
		ok = (p->o->dry || finish(p->pid[next - running], next - running) == 0) && ok;
		running--;
	}
	return ok || cc_failed(p, "the C compiler");
}

static bool run(Pack *p, char *const *argv, const char *what)
{
	pid_t pid;

	echo(p, argv);
	if (p->o->dry)
		return true;
	pid = start(p, argv, 0);
	return (pid > 0 && finish(pid, 0) == 0) || cc_failed(p, what);
}

static const char *runtime_lib(Pack *p)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	char *s;

	if (p->o->runtime)
		return p->o->runtime;
	if (n <= 0)
		return NULL;
	exe[n] = 0;
	s = strrchr(exe, '/');
	*s = 0;
	s = arena_printf(p->a, "%s/../lib/libdlrt.a", exe);
	return access(s, R_OK) ? NULL : s;
}

static bool link_shared(Pack *p, const char *lib, const char *out)
{
	char *argv[MAX_ARGS + MAX_FILES];
	int n = common_args(p, argv);
	static const char *const flags[] = {"-shared", "-fPIC", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-z,defs", "-Wl,-z,noexecstack",
					    "-Wl,--exclude-libs,ALL"};

	for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
		if (!p->o->sanitize || strcmp(flags[j], "-Wl,-z,defs"))
			argv[n++] = (char *)(uintptr_t)flags[j];
	argv[n++] = (char *)(uintptr_t)"-o";
	argv[n++] = (char *)(uintptr_t)out;
	for (int i = 0; i < p->nfiles; i++)
		argv[n++] = (char *)(uintptr_t)p->obj[i];
	argv[n++] = (char *)(uintptr_t)lib;
	argv[n++] = (char *)(uintptr_t)"-lpthread";
	argv[n++] = (char *)(uintptr_t)"-ldl";
	argv[n] = NULL;
	return run(p, argv, "the linker");
}

/* One object: everything but the two functions of the API is local to it. */
static bool link_object(Pack *p, const char *lib, const char *out)
{
	char *argv[MAX_ARGS + MAX_FILES];
	int n = common_args(p, argv);
	const char *all = temp_path(p, "all.o");
	const char *objcopy = find_tool(p, "objcopy");

	argv[n++] = (char *)(uintptr_t)"-r";
	argv[n++] = (char *)(uintptr_t)"-nostdlib";
	argv[n++] = (char *)(uintptr_t)"-o";
	argv[n++] = (char *)(uintptr_t)all;
	for (int i = 0; i < p->nfiles; i++)
		argv[n++] = (char *)(uintptr_t)p->obj[i];
	argv[n++] = (char *)(uintptr_t)lib;
	argv[n] = NULL;
	if (!objcopy || !run(p, argv, "the linker"))
		return false;
	char *copy[] = {(char *)(uintptr_t)objcopy, arena_printf(p->a, "--keep-global-symbol=%s_get_api", p->o->name),
			arena_printf(p->a, "--keep-global-symbol=%s_describe", p->o->name), (char *)(uintptr_t)all, (char *)(uintptr_t)out, NULL};
	return run(p, copy, "objcopy");
}

static bool make_archive(Pack *p, const char *obj, const char *out)
{
	const char *ar = find_tool(p, "ar");
	char *argv[] = {(char *)(uintptr_t)ar, (char *)(uintptr_t)"rcsD", (char *)(uintptr_t)out, (char *)(uintptr_t)obj, NULL};

	return ar && run(p, argv, "ar");
}

/* ---- Weights ---- */

static bool make_weights(Pack *p, const char *suffix)
{
	int64_t size = p->m->mem->weights;
	const char *path;

	p->wfd = -1;
	if (!size) {
		p->kind = WEIGHTS_NONE;
		return true;
	}
	p->kind = p->o->weights_file ? WEIGHTS_FILE : !strcmp(suffix, ".so") ? WEIGHTS_SECTION : WEIGHTS_EMBEDDED;
	if (p->kind == WEIGHTS_EMBEDDED && size > EMBED_LIMIT)
		return diag_error(p->diag, (DiagLoc){.file = p->o->output}, "%lld bytes of weights do not fit into a %s; give --weights=FILE",
				  (long long)size, suffix);
	path = temp_path(p, "weights");
	p->wfd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (p->wfd < 0)
		return fail(p, "cannot make", path);
	/* Space on the disk is taken now: a write to a mapping could not say that there is none. */
	if ((errno = posix_fallocate(p->wfd, 0, size)))
		return fail(p, "cannot write the weights to", path);
	if (!weights_write(p->m, p->wfd, 0, &p->whash))
		return false;
	if (p->kind == WEIGHTS_EMBEDDED) {
		p->wmap = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, p->wfd, 0);
		if (p->wmap == MAP_FAILED)
			return fail(p, "cannot map", path);
	}
	return true;
}

static bool append_weights(Pack *p, const char *so)
{
	int fd = open(so, O_RDWR | O_CLOEXEC);
	int64_t at = fd < 0 ? -1 : elf_section_at(fd), size = p->m->mem->weights, done = 0;
	loff_t from = 0, to = at;
	bool ok = at >= 0;

	while (ok && done < size) {
		ssize_t n = copy_file_range(p->wfd, &from, fd, &to, (size_t)(size - done), 0);

		if (n <= 0) {
			enum { CHUNK = 1 << 20 };
			char *buf = arena_alloc(p->a, CHUNK);

			n = pread(p->wfd, buf, CHUNK, done);
			ok = n > 0 && pwrite(fd, buf, (size_t)n, at + done) == n;
			from = done + n;
			to = at + done + n;
		}
		done += n;
	}
	ok = ok && elf_add_section(fd, ".dlcc.weights", at, size);
	if (fd >= 0 && close(fd))
		ok = false;
	return ok || fail(p, "cannot add the weights to", p->o->output);
}

/* ---- All of it ---- */

static bool make_dir(Pack *p)
{
	const char *out = p->o->output, *slash = strrchr(out, '/');
	char *dir = slash ? arena_printf(p->a, "%.*s/.dlcc.XXXXXX", (int)(slash - out), out) : arena_strdup(p->a, ".dlcc.XXXXXX");
	char *real;
	sigset_t all, old;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	if (!mkdtemp(dir)) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		return fail(p, "cannot make a temporary folder beside", out);
	}
	real = realpath(dir, NULL);
	strncpy(live_dir, real ? real : dir, sizeof live_dir - 1);
	free(real);
	p->dir = arena_strdup(p->a, live_dir);
	live = 1;
	sigprocmask(SIG_SETMASK, &old, NULL);
	p->log = temp_path(p, "log");
	return true;
}

static void clean_up(Pack *p)
{
	for (int i = 0; i < MAX_FILES; i++)
		if (live_pid[i] > 0) {
			kill((pid_t)live_pid[i], SIGTERM);
			finish((pid_t)live_pid[i], i);
		}
	remove_dir(p->dir);
	live = 0;
}

static bool write_host(Pack *p)
{
	StrBuf b = {0};
	HostOpts h = host_opts(p);
	bool ok;

	file_head(&b, arena_printf(p->a, "Host stub of %s.", p->o->name));
	strbuf_puts(&b, "#define DLRT_GENERATED 1\n#include \"dlrt.h\"\n#include <string.h>\n\n");
	ok = gen_host(p->m, p->gc, &h, &b) && add_file(p, "host", &b, NULL);
	strbuf_free(&b);
	return ok;
}

/* Prints the host stub once so that gen_c sees every stage. The hash is of all that shapes the code but the C
 * compiler: texts, which follow from model and options, targets, weights. */
static bool collect_kernels(Pack *p)
{
	StrBuf b = {0};
	HostOpts h = host_opts(p);
	bool ok;

	h.weights = WEIGHTS_NONE;
	ok = gen_host(p->m, p->gc, &h, &b);
	dl_hash_init(&p->hash);
	dl_hash_update(&p->hash, strbuf_str(&b), b.n);
	for (int t = 0; t < p->m->ntargets; t++)
		for (int i = 0; i < p->gc[t]->funcs.n; i++)
			dl_hash_update(&p->hash, p->gc[t]->funcs.at[i]->text, strlen(p->gc[t]->funcs.at[i]->text));
	strbuf_free(&b);
	return ok;
}

static void finish_hash(Pack *p)
{
	const uint64_t more[] = {p->whash, (uint64_t)p->o->level, p->kind};

	dl_hash_update(&p->hash, more, sizeof more);
	p->model_hash = dl_hash_value(&p->hash);
}

static bool write_texts(Pack *p)
{
	StrBuf b = {0};
	bool ok;

	strbuf_puts(&b, embed_dlrt_h);
	ok = write_source(p, "dlrt.h", &b);
	strbuf_free(&b);
	strbuf_puts(&b, embed_scalar_h);
	ok = ok && write_source(p, "scalar.h", &b);
	strbuf_free(&b);
	return ok;
}

static bool write_header(Pack *p)
{
	StrBuf b = {0};
	HostOpts h = host_opts(p);
	const char *out = p->o->output, *dot = strrchr(out, '.');
	const char *path = arena_printf(p->a, "%.*s.h", (int)(dot - out), out);
	bool ok;

	gen_header(p->m, &h, &b);
	ok = write_source(p, "out.h", &b) && will_be(p, temp_path(p, "out.h"), path);
	strbuf_free(&b);
	return ok;
}

/* One C file: prelude, kernels of the one target, host stub. */
static bool make_c(Pack *p)
{
	StrBuf b = {0};
	HostOpts h = host_opts(p);
	StrBuf host = {0};
	bool ok;

	h.one_file = true;
	ok = gen_host(p->m, p->gc, &h, &host);
	file_head(&b, arena_printf(p->a, "The model %s: link with libdlrt.a; compile with -ffp-contract=off -fwrapv "
					 "-fno-strict-aliasing%s%s.",
				   p->o->name, p->m->target[0]->march ? " -march=" : "", p->m->target[0]->march ? p->m->target[0]->march : ""));
	package_c_head(&b);
	gen_c_split(p->gc[0], 1);
	gen_c_file(p->gc[0], &b, 0, true);
	strbuf_puts(&b, strbuf_str(&host));
	ok = ok && write_source(p, "out.c", &b) && will_be(p, temp_path(p, "out.c"), p->o->output);
	strbuf_free(&host);
	strbuf_free(&b);
	return ok;
}

/* The files beside the output. */
static bool make_beside(Pack *p)
{
	if (p->kind == WEIGHTS_FILE)
		will_be(p, temp_path(p, "weights"), p->o->weights_file);
	return write_header(p);
}

static bool build(Pack *p, const char *suffix)
{
	const char *lib = runtime_lib(p), *out = temp_path(p, "out"), *obj = temp_path(p, "model.o");


	for (int t = 0; t < p->m->ntargets; t++)
		p->gc[t] = gen_c_new(p->m->ctx, p->a, p->m->target[t], arena_printf(p->a, "%s_k%d", p->o->name, t));
	if (!collect_kernels(p) || !make_weights(p, suffix))
		return false;
	finish_hash(p);
	if (!make_beside(p))
		return false;
	if (!strcmp(suffix, ".c"))
		return make_c(p);
	if (!lib)
		return diag_error(p->diag, (DiagLoc){.file = p->o->output}, "libdlrt.a is not beside dlcc (../lib); give --runtime=FILE");
	if (access(lib, R_OK))
		return diag_error(p->diag, (DiagLoc){.file = p->o->output}, "--runtime=%s: %s", lib, strerror(errno));
	if (!write_texts(p))
		return false;
	for (int t = 0; t < p->m->ntargets; t++)
		if (p->gc[t]->funcs.n && !write_kernels(p, t))
			return false;
	if (!write_host(p) || !compile_from(p, 0))
		return false;
	if (!strcmp(suffix, ".so"))
		return link_shared(p, lib, out) && (p->kind != WEIGHTS_SECTION || p->o->dry || append_weights(p, out)) && will_be(p, out, p->o->output);
	if (!link_object(p, lib, obj))
		return false;
	return (strcmp(suffix, ".a") || make_archive(p, obj, out)) && will_be(p, strcmp(suffix, ".a") ? obj : out, p->o->output);
}

bool package(Module *m, const PackageOpts *o)
{
	Pack p = {.m = m, .o = o, .a = m->arena, .diag = m->ctx->diag, .wfd = -1};
	const char *suffix = strrchr(o->output, '.');
	bool ok;

	if (!find_cc(&p) || !make_dir(&p))
		return false;
	ok = build(&p, suffix) && commit(&p);
	if (p.wmap)
		munmap(p.wmap, (size_t)m->mem->weights);
	if (p.wfd >= 0)
		close(p.wfd);
	clean_up(&p);
	return ok;
}
