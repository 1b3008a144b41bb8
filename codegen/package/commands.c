/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and calls the C compiler and its tools. */
#include "codegen/package/package_impl.h"

#include "base/sys.h"
#include "codegen/package/elf.h"
#include "codegen/targets.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
	CLANG_OLDEST = 15,
	CLANG_NEWEST = 40,
	NEEDED_STACK = 4 << 20 /* bytes that C compilers may need */
};

/* The C library that code needs at least, if zig makes it: that of the wheels' manylinux_2_28. */
#define GLIBC_DEFAULT "2.28"

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
	if (wanted) {
		s = find_program(a, wanted);
		/* the package ziglang of Python installs it under this name */
		return s || strcmp(wanted, "zig") ? s : find_program(a, "python-zig");
	}
	for (int n = CLANG_NEWEST; n >= CLANG_OLDEST && !s; n--)
		s = find_program(a, arena_printf(a, "clang-%d", n));
	if (!s && clang_is_new())
		s = find_program(a, "clang");
	if (!s)
		s = find_program(a, "gcc");
	if (!s)
		s = find_program(a, "cc");
	return s ? s : package_cc(a, "zig");
}

/* The name of the program PATH, without its folder. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* By the program's name, since the path of CC may contain any names. */
static bool is_clang(const char *cc)
{
	return strstr(base_name(cc), "clang") != NULL;
}

/* zig is clang with other options: a machine and a C library for which it makes code, whatever
 * machine it runs on. */
static bool is_zig(const char *cc)
{
	return !strcmp(base_name(cc), "zig") || !strcmp(base_name(cc), "python-zig");
}

bool pack_by_zig(const Pack *p)
{
	return p->cc && is_zig(p->cc);
}

static bool is_llvm(const char *cc)
{
	return is_clang(cc) || is_zig(cc);
}

/* ---- Words ---- */

static void add_word(Command *c, const char *word)
{
	assert(c->n < MAX_ARGS + MAX_FILES);
	c->word[c->n++] = (char *)(uintptr_t)word;
}

void command_option(Command *c, const char *word)
{
	assert(*word == '-');
	add_word(c, word);
}

/* PATH, so that it begins neither with - nor with @. */
static const char *plain_path(Pack *p, const char *path)
{
	return *path == '-' || *path == '@' ? arena_printf(p->a, "./%s", path) : path;
}

/* Adds the name of a file or a folder. */
static void command_path(Pack *p, Command *c, const char *path)
{
	add_word(c, plain_path(p, path));
}

/* A command that PROGRAM, a path, begins. If it is a script, its interpreter gets the path as a
 * word. */
static Command command_of(Pack *p, const char *program)
{
	Command c = {.n = 0};

	command_path(p, &c, program);
	return c;
}

Command pack_cc_command(Pack *p)
{
	Command c = command_of(p, p->cc);

	for (int i = 0; i < p->given.n; i++)
		add_word(&c, p->given.word[i]);
	if (p->zig) {
		command_option(&c, "-target");
		add_word(&c, arena_printf(p->a, "%s-linux-gnu.%s", p->zig,
					  p->o->glibc ? p->o->glibc : GLIBC_DEFAULT));
		/* without optimisation it would add UBSan, and its runtime */
		command_option(&c, "-fno-sanitize=undefined");
	}
	return c;
}

/* ---- The C compiler ---- */

/* The machine for which zig makes the code. */
static const char *zig_machine(const Pack *p)
{
	const Target *native = target_by_name("native");

	for (int t = 0; t < p->m->ntargets; t++)
		if (p->m->target[t]->machine)
			return p->m->target[t]->machine;
	return native->machine ? native->machine : "native";
}

/* Sets how zig is called, if it is the compiler; false after a diagnostic. */
static bool choose_zig(Pack *p)
{
	bool machine = false;

	for (int i = 0; i < p->given.n; i++)
		machine = machine || str_starts(p->given.word[i], "-target") ||
			  str_starts(p->given.word[i], "--target");
	if (is_zig(p->cc) && !p->given.n)
		add_word(&p->given, "cc");
	if (is_zig(p->cc) && !machine)
		p->zig = zig_machine(p);
	return !p->o->glibc || p->zig ||
	       diag_error(
		       p->diag, (DiagLoc){.file = p->o->output},
		       "--glibc=%s: %s %s; give --cc=zig (pip install ziglang)", p->o->glibc, p->cc,
		       machine ? "has a -target, which names the C library"
			       : "links with the C library of this machine, whatever its version is");
}

/* The value of --cc= is a program, or a program and its first arguments. */
bool pack_find_cc(Pack *p)
{
	const char *wanted = p->o->cc;
	char *words, *at;

	p->cc = package_cc(p->a, wanted);
	if (!p->cc && wanted && strchr(wanted, ' ')) {
		words = arena_strdup(p->a, wanted);
		at = strtok_r(words, " ", &words);
		p->cc = at ? package_cc(p->a, at) : NULL;
		while (p->cc && (at = strtok_r(NULL, " ", &words))) {
			if (p->given.n == MAX_WORDS - 1)
				return diag_error(p->diag, (DiagLoc){.file = p->o->output},
						  "--cc=%s: more than %d options; name a script that gives them",
						  wanted, MAX_WORDS - 1);
			add_word(&p->given, at);
		}
	}
	if (p->cc)
		return choose_zig(p);
	if (wanted)
		return diag_error(p->diag, (DiagLoc){.file = p->o->output},
				  "--cc=%s: there is no such program; give the name or path of a "
				  "C compiler (gcc from 12 on, or clang from 15 on)",
				  wanted);
	return diag_error(
		p->diag, (DiagLoc){.file = p->o->output},
		"no C compiler on PATH: install gcc from 12 on or clang from %d on "
		"(apt-get install gcc, or clang, or pip install ziglang), or name one by --cc=",
		CLANG_OLDEST);
}

/* The machine that a C compiler which answers -dumpmachine with TEXT makes code for, as the
 * table of targets names it. */
static const char *machine_of(const char *text)
{
	return str_starts(text, "amd64") ? "x86_64" : text;
}

/* The first of P's CPU targets that does not exist on such a machine, or null. */
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
	const Target *t;
	const char *machine, *here = target_by_name("native")->machine;
	Command c;
	bool answered;
	pid_t pid;

	if (!p->cc || p->o->dry || (!p->o->cc && (!here || !foreign_target(p, here))))
		return true;
	if (p->zig) {
		machine = p->zig;
	} else {
		c = pack_cc_command(p);
		command_option(&c, "-dumpmachine");
		pid = pack_start(p, &c, 0);
		answered = pid > 0 && !pack_finish(pid, 0);
		machine = pack_log(p);
		machine = arena_strndup(p->a, machine, strcspn(machine, "\n"));
		pack_forget_log(p);
		/* a compiler that does not report its machine is judged by its first compile */
		if (!answered || !strchr(machine, '-'))
			return true;
	}
	t = foreign_target(p, machine);
	return !t || diag_error(p->diag, (DiagLoc){.file = p->o->output},
				"%s%s makes code for %s, and %s is for %s; give --cc=COMPILER, "
				"one for %s, or --target=cpu:%s, and --runtime=FILE, the "
				"libdlrt.a of that machine",
				p->o->cc ? "--cc=" : "", p->o->cc ? p->o->cc : p->cc, machine,
				t->name, t->machine, t->machine, target_for(machine));
}

static void echo(const Pack *p, const Command *c)
{
	if (!p->o->verbose && !p->o->dry)
		return;
	for (int i = 0; i < c->n; i++) {
		bool plain =
			strspn(c->word[i],
			       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%") ==
			strlen(c->word[i]);

		fputs(i ? " " : "", stderr);
		fputs(plain ? "" : "'", stderr);
		escape_to_file(stderr, c->word[i], escape_terminal);
		fputs(plain ? "" : "'", stderr);
	}
	fputc('\n', stderr);
}

/* The C compiler with the arguments that all of its commands share. */
static Command common_command(Pack *p)
{
	Command c = pack_cc_command(p);

	if (p->o->sysroot) /* gcc passes the path on as a separate word */
		command_option(&c,
			       arena_printf(p->a, "--sysroot=%s", plain_path(p, p->o->sysroot)));
	if (p->o->sanitize) {
		command_option(&c, "-fsanitize=address,undefined");
		command_option(&c, "-fno-sanitize-recover=undefined");
	}
	return c;
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
	return p->o->level == 0 ? 1 : is_llvm(p->cc) || p->o->level < 2 ? p->o->level : 3;
}

Command pack_object_command(Pack *p, int i)
{
	Command c = common_command(p);
	const Target *t = p->target[i];

	command_option(&c, arena_printf(p->a, "-O%d", p->runtime[i] ? 2 : level(p, t)));
	if (p->runtime[i])
		command_option(&c, "-D_GNU_SOURCE");
	for (const char *const *s = package_cflags; *s; s++)
		command_option(&c, *s);
	if (t && t->march && is_zig(p->cc))
		command_option(&c, arena_printf(p->a, "-mcpu=%s", t->mcpu));
	else if (t && t->march)
		command_option(&c, arena_printf(p->a, "-march=%s", t->march));
	if (t && target_is_x86(t) && t->vector_bytes == 64)
		command_option(&c, "-mprefer-vector-width=512");
	/* GCC would not fuse where a loop has one sum, for some CPUs, but where it has several */
	if (t && !is_llvm(p->cc))
		command_option(&c, "--param=avoid-fma-max-bits=0");
	/* LLVM would make a version of loops for strides of 1 and vectorise no other. Its strength
	 * reduction of addresses takes a tenth of the compile time, but without it resnet50 of 8
	 * bits takes 1.28 times as long, and mobilenet_v2 1.03. */
	if (t && is_llvm(p->cc)) {
		command_option(&c, "-mllvm");
		command_option(&c, "-enable-mem-access-versioning=false");
	}
	return c;
}

static pid_t start_compile(Pack *p, int i)
{
	Command c = pack_object_command(p, i);

	command_option(&c, arena_printf(p->a, "-I%s", p->dir));
	command_option(&c, arena_printf(p->a, "-ffile-prefix-map=%s=.", p->dir));
	command_option(&c, "-o");
	command_path(p, &c, p->obj[i]);
	command_path(p, &c, p->src[i]);
	echo(p, &c);
	return p->o->dry ? 0 : pack_start(p, &c, i);
}

/* A message about a failed command, and advice for the user. */
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
	struct rlimit stack;

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
	if (!getrlimit(RLIMIT_STACK, &stack) && stack.rlim_cur < NEEDED_STACK)
		diag_note(
			p->diag,
			"its stack has %llu KiB at most, and compilers need more; raise the limit "
			"(ulimit -s 8192)",
			(unsigned long long)stack.rlim_cur >> 10);
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

/* The exit status of C; 127 where it cannot be started. */
static int status_of(Pack *p, const Command *c)
{
	pid_t pid;

	echo(p, c);
	if (p->o->dry)
		return 0;
	pid = pack_start(p, c, 0);
	return pid > 0 ? pack_finish(pid, 0) : 127;
}

static bool run(Pack *p, const Command *c, const char *what)
{
	const int status = status_of(p, c);

	return !status || command_failed(p, what, c->word[0], status, "C");
}

/* The program that links. gcc and clang start the same linker with the same files, but clang first
 * loads all of LLVM, which takes longer than the link of a small model. So if there is a gcc, it
 * links the objects of the default compiler. A compiler that was named by --cc= also links. */
static const char *linker(const Pack *p)
{
#ifndef DLCC_CC /* under sanitizers, the runtime needs the libraries of its compiler */
	const bool chosen = p->o->cc || p->o->sysroot || p->o->sanitize;
	const char *gcc = !chosen && is_clang(p->cc) ? find_program(p->a, "gcc") : NULL;

	if (gcc)
		return gcc;
#endif
	return p->cc;
}

/* The objects, and LIB. */
static void add_objects(Pack *p, Command *c, const char *lib)
{
	for (int i = 0; i < p->nfiles; i++)
		command_path(p, c, p->obj[i]);
	if (lib)
		command_path(p, c, lib);
}

/* Leaves out what debuggers read of the runtime, which is several times the code of a small model.
 * The names of functions, which profilers read, stay. The whole of it stays for --sanitize and with
 * --cc='CC -g'. */
static void strip_debug(Pack *p, Command *c)
{
	bool wanted = p->o->sanitize;

#ifdef DLCC_CC /* dlcc itself is under sanitizers */
	wanted = true;
#endif
	for (int i = 0; i < p->given.n; i++)
		wanted = wanted || str_starts(p->given.word[i], "-g");
	if (!wanted)
		command_option(c, is_zig(p->cc) ? "-s" : "-Wl,--strip-debug");
}

bool pack_link_shared(Pack *p, const char *lib, const char *out)
{
	Command c = common_command(p);
	const char *slash = strrchr(p->o->output, '/');
	static const char *const flags[] = {"-shared",           "-fPIC",
					    "-Wl,--gc-sections", "-Wl,--build-id=none",
					    "-Wl,-z,defs",       "-Wl,-z,noexecstack"};

	c.word[0] = (char *)(uintptr_t)plain_path(p, linker(p));
	for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
		if (!p->o->sanitize || strcmp(flags[j], "-Wl,-z,defs"))
			command_option(&c, flags[j]);
	strip_debug(p, &c);
	/* zig's linker lacks the option, which the runtime's hidden symbols do not need */
	if (!is_zig(p->cc))
		command_option(&c, "-Wl,--exclude-libs,ALL");
	/* The soname is the file's name, not the path that the linker got. It may have commas, so
	 * it cannot be part of a -Wl. */
	command_option(&c, "-Xlinker");
	command_option(&c, arena_printf(p->a, "-soname=%s",
					p->o->soname ? p->o->soname
					: slash      ? slash + 1
						     : p->o->output));
	command_option(&c, "-o");
	command_path(p, &c, out);
	add_objects(p, &c, lib);
	command_option(&c, "-lpthread");
	command_option(&c, "-ldl");
	return run(p, &c, "the linker");
}

/* The two functions of the API. */
static void api_names(const Pack *p, const char *names[2])
{
	names[0] = arena_printf(p->a, "%s_describe", p->o->name);
	names[1] = arena_printf(p->a, "%s_get_api", p->o->name);
}

bool pack_link_object(Pack *p, const char *lib, const char *out)
{
	Command c = common_command(p);
	const char *names[2];

	command_option(&c, "-r");
	command_option(&c, "-nostdlib");
	if (!is_zig(p->cc)) /* its linker would take the names, too, which are needed here */
		strip_debug(p, &c);
	command_option(&c, "-o");
	command_path(p, &c, out);
	add_objects(p, &c, lib);
	api_names(p, names);
	return run(p, &c, "the linker") &&
	       (p->o->dry || elf_make_local(out, names, 2) ||
		pack_fail(p, "cannot make symbols local in", p->o->output));
}

bool pack_archive(Pack *p, const char *obj, const char *out)
{
	const char *names[2];

	api_names(p, names);
	return p->o->dry || elf_archive(out, obj, "model.o", names, 2) ||
	       pack_fail(p, "cannot write", p->o->output);
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
	Command c = command_of(p, p->ptxas);
	int status;

	command_option(&c, arena_printf(p->a, "-arch=%s", target));
	command_option(&c, "-o");
	command_path(p, &c, cubin);
	command_path(p, &c, ptx);
	status = status_of(p, &c);
	return !status || command_failed(p, "ptxas", p->ptxas, status, "PTX");
}
