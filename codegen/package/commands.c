/* SPDX-License-Identifier: Apache-2.0 */
/* The C compiler and its tools: how they are found and called. */
#include "codegen/package/package_impl.h"

#include "base/sys.h"
#include "codegen/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLANG_OLDEST = 15, CLANG_NEWEST = 40 };

/* `clang` on PATH is new enough for generated code. */
static bool clang_is_new(void)
{
	FILE *f = popen("clang -dumpversion 2>/dev/null", "r");
	int major = 0;

	if (f && fscanf(f, "%d", &major) != 1)
		major = 0;
	if (f)
		pclose(f);
	return major >= CLANG_OLDEST;
}

const char *package_cc(Arena *a, const char *wanted)
{
	const char *s = NULL;

#ifdef DLCC_CC /* under sanitizers, the runtime must be linked by the compiler that compiled it */
	wanted = wanted ? wanted : DLCC_CC;
#endif
	if (wanted)
		return find_program(a, wanted);
	for (int n = CLANG_NEWEST; n >= CLANG_OLDEST && !s; n--)
		s = find_program(a, arena_printf(a, "clang-%d", n));
	if (!s && clang_is_new())
		s = find_program(a, "clang");
	if (!s)
		s = find_program(a, "gcc");
	return s ? s : find_program(a, "cc");
}

/* The name of the program PATH, without its folder. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* By the program's name: CC may lie in a folder of any name. */
static bool is_clang(const char *cc)
{
	return strstr(base_name(cc), "clang") != NULL;
}

/* The value of --cc= is a program, or a program and its first arguments. */
bool pack_find_cc(Pack *p)
{
	const char *wanted = p->o->cc;
	char *words, *at;
	int n = 0;

	p->cc = package_cc(p->a, wanted);
	if (!p->cc && wanted && strchr(wanted, ' ')) {
		words = arena_strdup(p->a, wanted);
		at = strtok_r(words, " ", &words);
		p->cc = at ? package_cc(p->a, at) : NULL;
		while (p->cc && (at = strtok_r(NULL, " ", &words))) {
			if (n == MAX_WORDS - 1)
				return diag_error(p->diag, (DiagLoc){.file = p->o->output},
						  "--cc=%s: more than %d options; name a script that gives them",
						  wanted, MAX_WORDS - 1);
			p->cc_args[n++] = at;
		}
	}
	if (p->cc)
		return true;
	if (wanted)
		return diag_error(p->diag, (DiagLoc){.file = p->o->output},
				  "--cc=%s: there is no such program; give the name or path of a "
				  "C compiler (gcc from 12 on, or clang from 15 on)",
				  wanted);
	return diag_error(p->diag, (DiagLoc){.file = p->o->output},
			  "no C compiler on PATH: install gcc from 12 on or clang from %d on "
			  "(apt-get install gcc, or clang), or name one by --cc=",
			  CLANG_OLDEST);
}

/* The machine that a C compiler which answers -dumpmachine with TEXT makes code for, as the
 * table of targets names it. */
static const char *machine_of(const char *text)
{
	return str_starts(text, "amd64") ? "x86_64" : text;
}

/* The first of P's CPU targets that runs on no such machine, or null. */
static const Target *foreign_target(const Pack *p, const char *machine)
{
	for (int t = 0; t < p->m->ntargets; t++) {
		const Target *target = p->m->target[t];

		if (target->machine && !str_starts(machine_of(machine), target->machine))
			return target;
	}
	return NULL;
}

/* The table's CPU target for that machine, the one that needs the least of it; else "generic". */
static const char *target_for(const char *machine)
{
	const char *name = "generic";

	for (const Target *t = target_table; t->name; t++)
		if (t->machine && str_starts(machine_of(machine), t->machine))
			name = t->name;
	return name;
}

bool pack_cc_fits(Pack *p)
{
	char *argv[MAX_WORDS + 2] = {(char *)(uintptr_t)p->cc};
	const Target *t;
	const char *machine, *here = target_by_name("native")->machine;
	int n = 1;
	bool answered;
	pid_t pid;

	if (!p->cc || p->o->dry || (!p->o->cc && (!here || !foreign_target(p, here))))
		return true;
	for (int i = 0; p->cc_args[i]; i++)
		argv[n++] = p->cc_args[i];
	argv[n] = (char *)(uintptr_t) "-dumpmachine";
	pid = pack_start(p, argv, 0);
	answered = pid > 0 && !pack_finish(pid, 0);
	machine = pack_log(p);
	machine = arena_strndup(p->a, machine, strcspn(machine, "\n"));
	pack_forget_log(p);
	/* a compiler that does not name its machine is judged by its first compile */
	if (!answered || !strchr(machine, '-'))
		return true;
	t = foreign_target(p, machine);
	return !t || diag_error(p->diag, (DiagLoc){.file = p->o->output},
				"%s%s makes code for %s, and %s is for %s; give --cc=COMPILER, "
				"one for %s, or --target=cpu:%s, and --runtime=FILE, the "
				"libdlrt.a of that machine",
				p->o->cc ? "--cc=" : "", p->o->cc ? p->o->cc : p->cc, machine,
				t->name, t->machine, t->machine, target_for(machine));
}

/* Finds a tool that belongs to the C compiler: aarch64-linux-gnu-ar for aarch64-linux-gnu-gcc. */
static const char *find_tool(Pack *p, const char *name)
{
	const char *base = base_name(p->cc), *found = NULL;
	size_t n = strlen(base);

	while (n && base[n - 1] != '-')
		n--;
	if (n)
		found = find_program(p->a, arena_printf(p->a, "%.*s%s", (int)n, base, name));
	for (int i = 0; p->cc_args[i] && !found; i++)
		if (str_starts(p->cc_args[i], "--target="))
			found = find_program(p->a,
					     arena_printf(p->a, "%s-%s", p->cc_args[i] + 9, name));
	if (!found)
		found = find_program(p->a, name);
	if (!found)
		found = find_program(p->a, arena_printf(p->a, "llvm-%s", name));
	if (!found)
		diag_error(p->diag, (DiagLoc){.file = p->o->output},
			   "%s is not on PATH; install binutils", name);
	return found;
}

static void echo(const Pack *p, char *const *argv)
{
	if (!p->o->verbose && !p->o->dry)
		return;
	for (int i = 0; argv[i]; i++) {
		bool plain =
			strspn(argv[i],
			       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%") ==
			strlen(argv[i]);

		fputs(i ? " " : "", stderr);
		fputs(plain ? "" : "'", stderr);
		escape_to_file(stderr, argv[i], escape_terminal);
		fputs(plain ? "" : "'", stderr);
	}
	fputc('\n', stderr);
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
		argv[n++] = (char *)(uintptr_t) "-fsanitize=address,undefined";
		argv[n++] = (char *)(uintptr_t) "-fno-sanitize-recover=undefined";
	}
	return n;
}

const char *const package_cflags[] = {
	"-std=gnu11",
	"-c",
	"-fPIC",
	"-fvisibility=hidden",
	"-ffp-contract=off",
	"-fwrapv",
	"-fno-math-errno",
	"-fno-trapping-math",
	"-fno-strict-aliasing",
	"-fno-semantic-interposition",
	"-w",
	"-ffunction-sections",
	"-Wno-psabi",
	NULL,
};

/* The -O level for target T. The host stub, which has no target, is large and a sequence of calls:
 * it is not optimised. */
static int level(const Pack *p, const Target *t)
{
	if (!t)
		return 0;
	return p->o->level == 0 ? 1 : is_clang(p->cc) || p->o->level < 2 ? p->o->level : 3;
}

int pack_object_args(Pack *p, int i, char **argv)
{
	int n = common_args(p, argv);
	const Target *t = p->target[i];

	argv[n++] = arena_printf(p->a, "-O%d", level(p, t));
	for (const char *const *s = package_cflags; *s; s++)
		argv[n++] = (char *)(uintptr_t)*s;
	if (t && t->march)
		argv[n++] = arena_printf(p->a, "-march=%s", t->march);
	if (t && target_is_x86(t) && t->vector_bytes == 64)
		argv[n++] = (char *)(uintptr_t) "-mprefer-vector-width=512";
	/* GCC would not fuse where a loop has one sum, for some CPUs, but where it has several */
	if (t && !is_clang(p->cc))
		argv[n++] = (char *)(uintptr_t) "--param=avoid-fma-max-bits=0";
	/* LLVM would make a version of loops for strides of 1 and vectorise no other */
	if (t && is_clang(p->cc)) {
		argv[n++] = (char *)(uintptr_t) "-mllvm";
		argv[n++] = (char *)(uintptr_t) "-enable-mem-access-versioning=false";
	}
	return n;
}

static pid_t start_compile(Pack *p, int i)
{
	char *argv[MAX_ARGS];
	int n = pack_object_args(p, i, argv);

	argv[n++] = arena_printf(p->a, "-I%s", p->dir);
	argv[n++] = arena_printf(p->a, "-ffile-prefix-map=%s=.", p->dir);
	argv[n++] = (char *)(uintptr_t) "-o";
	argv[n++] = (char *)(uintptr_t)p->obj[i];
	argv[n++] = (char *)(uintptr_t)p->src[i];
	argv[n] = NULL;
	echo(p, argv);
	return p->o->dry ? 0 : pack_start(p, argv, i);
}

/* A message of a failed command, and what the user can do. */
typedef struct Hint {
	const char *printed, *what;
} Hint;

static const Hint hints[] = {
	/* ld also prints this where a file is too large */
	{"No space left on device",
	 "the disk that the output goes to is full, or files may not be as large (ulimit -f)"},
	{"Disk quota exceeded",
	 "the disk that the output goes to is full: this user may have no more of it"},
	{"File too large", "the output is larger than files may be (ulimit -f)"},
	{"libclang_rt",
	 "--sanitize needs the runtime of clang's sanitizers: apt-get install libclang-rt-VERSION-dev, or give --cc=gcc"},
	{"-lasan",
	 "--sanitize needs the runtime of gcc's sanitizers: install libasan and libubsan"},
	{".h: No such file",
	 "the C library's headers are missing: apt-get install libc6-dev, or for another machine those of its cross compiler"},
	{".h' file not found",
	 "the C library's headers are missing: apt-get install libc6-dev, or for another machine name their folder by --sysroot=DIR"},
	{"cannot execute",
	 "a part of the C compiler is missing: install binutils, and the compiler again"},
	{"unable to execute command",
	 "a part of the C compiler is missing: install binutils, and the compiler again"},
};

static bool command_failed(Pack *p, const char *what, const char *program, int status,
			   const char *kind)
{
	const char *text = pack_log(p), *at = text;

	diag_error(p->diag, (DiagLoc){.file = p->o->output},
		   "%s (%s) failed with exit status %d; run with --save-temps to see the %s", what,
		   program, status, kind);
	for (int lines = 0; *at && lines < 12; lines++) {
		int len = (int)strcspn(at, "\n");

		diag_note(p->diag, "%.*s", len, at);
		at += len + (at[len] == '\n');
	}
	for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
		if (strstr(text, hints[i].printed)) {
			diag_note(p->diag, "%s", hints[i].what);
			break;
		}
	return false;
}

bool pack_start_compile(Pack *p)
{
	for (; p->next < p->nfiles && p->running < p->o->jobs; p->next++) {
		const int i = p->next;

		p->found[i] = pack_cached(p, i);
		if (p->found[i])
			continue;
		if (start_compile(p, i) < 0)
			return pack_fail(p, "cannot start", p->cc);
		p->running += !p->o->dry;
	}
	return true;
}

bool pack_compile(Pack *p)
{
	int status = 0;

	while (pack_start_compile(p) && p->running) {
		if (!pack_finish_any(&status))
			return pack_fail(p, "cannot wait for", p->cc);
		p->running--;
		if (status)
			return command_failed(p, "the C compiler", p->cc, status, "C");
	}
	return p->next == p->nfiles && pack_keep(p);
}

/* The exit status of ARGV; 127 where it cannot be started. */
static int status_of(Pack *p, char *const *argv)
{
	pid_t pid;

	echo(p, argv);
	if (p->o->dry)
		return 0;
	pid = pack_start(p, argv, 0);
	return pid > 0 ? pack_finish(pid, 0) : 127;
}

static bool run(Pack *p, char *const *argv, const char *what)
{
	const int status = status_of(p, argv);

	return !status || command_failed(p, what, argv[0], status, "C");
}

/* The program that links. gcc and clang start the same linker with the same files, but clang first
 * loads all of LLVM, which takes longer than the link of a small model. So gcc links what the
 * default compiler compiled, where there is a gcc. A compiler that was named by --cc= links too. */
static const char *linker(const Pack *p)
{
#ifndef DLCC_CC /* under sanitizers, the runtime wants the libraries of its own compiler */
	const bool chosen = p->o->cc || p->o->sysroot || p->o->sanitize;
	const char *gcc = !chosen && is_clang(p->cc) ? find_program(p->a, "gcc") : NULL;

	if (gcc)
		return gcc;
#endif
	return p->cc;
}

bool pack_link_shared(Pack *p, const char *lib, const char *out)
{
	char *argv[MAX_ARGS + MAX_FILES];
	int n = common_args(p, argv);
	const char *slash = strrchr(p->o->output, '/');
	static const char *const flags[] = {"-shared",
					    "-fPIC",
					    "-Wl,--gc-sections",
					    "-Wl,--build-id=none",
					    "-Wl,-z,defs",
					    "-Wl,-z,noexecstack",
					    "-Wl,--exclude-libs,ALL"};

	argv[0] = (char *)(uintptr_t)linker(p);
	for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
		if (!p->o->sanitize || strcmp(flags[j], "-Wl,-z,defs"))
			argv[n++] = (char *)(uintptr_t)flags[j];
	/* the soname is the file's name, not the path that the linker got */
	argv[n++] = (char *)(uintptr_t) "-Xlinker";
	argv[n++] = (char *)(uintptr_t) "-soname";
	argv[n++] = (char *)(uintptr_t) "-Xlinker";
	argv[n++] = (char *)(uintptr_t)(slash ? slash + 1 : p->o->output);
	argv[n++] = (char *)(uintptr_t) "-o";
	argv[n++] = (char *)(uintptr_t)out;
	for (int i = 0; i < p->nfiles; i++)
		argv[n++] = (char *)(uintptr_t)p->obj[i];
	argv[n++] = (char *)(uintptr_t)lib;
	argv[n++] = (char *)(uintptr_t) "-lpthread";
	argv[n++] = (char *)(uintptr_t) "-ldl";
	argv[n] = NULL;
	return run(p, argv, "the linker");
}

bool pack_link_object(Pack *p, const char *lib, const char *out)
{
	char *argv[MAX_ARGS + MAX_FILES];
	int n = common_args(p, argv);
	const char *all = pack_temp(p, "all.o");
	const char *objcopy = find_tool(p, "objcopy");

	argv[n++] = (char *)(uintptr_t) "-r";
	argv[n++] = (char *)(uintptr_t) "-nostdlib";
	argv[n++] = (char *)(uintptr_t) "-o";
	argv[n++] = (char *)(uintptr_t)all;
	for (int i = 0; i < p->nfiles; i++)
		argv[n++] = (char *)(uintptr_t)p->obj[i];
	argv[n++] = (char *)(uintptr_t)lib;
	argv[n] = NULL;
	if (!objcopy || !run(p, argv, "the linker"))
		return false;
	char *copy[] = {(char *)(uintptr_t)objcopy,
			arena_printf(p->a, "--keep-global-symbol=%s_get_api", p->o->name),
			arena_printf(p->a, "--keep-global-symbol=%s_describe", p->o->name),
			(char *)(uintptr_t)all,
			(char *)(uintptr_t)out,
			NULL};
	return run(p, copy, "objcopy");
}

bool pack_archive(Pack *p, const char *obj, const char *out)
{
	const char *ar = find_tool(p, "ar");
	char *argv[] = {(char *)(uintptr_t)ar, (char *)(uintptr_t) "rcsD", (char *)(uintptr_t)out,
			(char *)(uintptr_t)obj, NULL};

	return ar && run(p, argv, "ar");
}

/* ---- ptxas ---- */

bool pack_find_ptxas(Pack *p)
{
	const char *home = getenv("CUDA_HOME");

	if (!p->o->cubin)
		return true;
	p->ptxas = find_program(p->a, p->o->ptxas ? p->o->ptxas : "ptxas");
	if (!p->ptxas && p->o->ptxas)
		return diag_error(p->diag, (DiagLoc){.file = p->o->output},
				  "--ptxas=%s: there is no such program", p->o->ptxas);
	if (!p->ptxas && home)
		p->ptxas = find_program(p->a, arena_printf(p->a, "%s/bin/ptxas", home));
	if (!p->ptxas)
		p->ptxas = find_program(p->a, "/usr/local/cuda/bin/ptxas");
	return p->ptxas ||
	       diag_error(p->diag, (DiagLoc){.file = p->o->output},
			  "--cubin=yes needs ptxas, which is not on PATH, in $CUDA_HOME/bin or in "
			  "/usr/local/cuda/bin; name it by --ptxas=FILE");
}

bool pack_assemble(Pack *p, const char *target, const char *ptx, const char *cubin)
{
	char *argv[] = {(char *)(uintptr_t)p->ptxas, arena_printf(p->a, "-arch=%s", target),
			(char *)(uintptr_t) "-o",    (char *)(uintptr_t)cubin,
			(char *)(uintptr_t)ptx,      NULL};
	const int status = status_of(p, argv);

	return !status || command_failed(p, "ptxas", p->ptxas, status, "PTX");
}
