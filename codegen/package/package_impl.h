/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make a package: codegen/package/package.c, temp.c, commands.c. */
#ifndef CODEGEN_PACKAGE_PACKAGE_IMPL_H
#define CODEGEN_PACKAGE_PACKAGE_IMPL_H

#include "codegen/package/package.h"
#include "runtime/hash.h"

#include <sys/types.h>

enum { MAX_FILES = 64, MAX_ARGS = 128, MAX_WORDS = 33 };

/*
 * The words of a command. Programs take a word that begins with - for an option, and compilers and
 * linkers one that begins with @ for a file of options, which may name a program to run. So each
 * word is added by command_option or command_path; only the words of --cc= are used unchanged.
 */
typedef struct Command {
	char *word[MAX_ARGS + MAX_FILES + 1]; /* ends with null */
	int n;
} Command;

/* A file in the temporary folder, and its final path. All files move there at the end, the output
 * last. */
typedef struct MadeFile {
	const char *from, *to;
} MadeFile;

typedef struct Pack {
	Module *m;
	const PackageOpts *o;
	Arena *a;
	Diag *diag;
	const char *cc, *ptxas, *dir, *log;
	int log_fd;       /* messages of commands, in memory, as the disk may be full */
	Command given;    /* further words of --cc= */
	MadeFile made[4];
	int nmade;
	GenC *gc[MAX_TARGETS];
	GenPtx *ptx[MAX_TARGETS]; /* kernels of m->gpu */
	GenC *beside;             /* kernels of m->gpu that run on the host */
	const char *
		zig; /* zig compiles, for this machine; null: another compiler, or its -target is given */
	bool runtime[MAX_FILES]; /* the file is one of the runtime */
	const char *src[MAX_FILES], *obj[MAX_FILES];
	const Target *target[MAX_FILES];
	bool unique[MAX_FILES];       /* it includes a file of this compile: no cache has it */
	const char *entry[MAX_FILES]; /* its file in the cache; null: it is not looked for there */
	bool found[MAX_FILES];        /* the object is from the cache */
	int nfiles;
	const char *identity; /* of the C compiler, for the cache; null: there is none */
	size_t c_bytes;       /* of generated text: C and headers */
	int running;          /* C compilers */
	int next;             /* file to compile */
	int wfd;              /* file of the weights */
	unsigned char *wmap; /* the weights mapped, if they are embedded */
	int64_t early_at; /* where the weights are in the file `early`, into which the code is copied; 0: there is none */
	uint64_t early_hash;
	uint64_t whash, model_hash;
	dl_hash hash;
	WeightsKind kind;
} Pack;

/* ---- temp.c ---- */

/* Reports "WHAT PATH" with the error of errno; returns false. */
bool pack_fail(Pack *p, const char *what, const char *path);
/* pack_make_dir makes the temporary folder p->dir beside the output. It is all that a killed dlcc
 * can leave, apart from a copy of weights for another file system. pack_clean_up removes it and
 * ends running commands. */
bool pack_make_dir(Pack *p);
void pack_clean_up(Pack *p);
/* Removes the folder DIR with the files in it. */
void pack_remove_dir(const char *dir);
/* A path in the temporary folder. */
const char *pack_temp(Pack *p, const char *base);
/* Registers that FROM, a file in the temporary folder, becomes TO at the end. True. */
bool pack_will_be(Pack *p, const char *from, const char *to);
/* Moves all registered files to their final paths in order; on an error all old files are there
 * again, unless dlcc is killed in between. The output is last: while it is old, a build system
 * rebuilds it, and loading it reports weights that do not match. */
bool pack_commit(Pack *p);
/* Starts a command; -1: failed. SLOT is its index among the running ones. */
pid_t pack_start(Pack *p, const Command *c, int slot);
/* Waits for a command; returns its status. */
int pack_finish(pid_t pid, int slot);
/* Waits until a command of any slot ends, with *STATUS; false: none runs. */
bool pack_finish_any(int *status);
/* Makes a file in the folder DIR, which ends with a slash or is empty. *PATH: its path. It is
 * removed at the end, or if dlcc is killed, unless it was renamed before; pack_temp_file_end
 * ends that. The descriptor, or -1. */
int pack_temp_file(const char *dir, const char **path);
void pack_temp_file_end(void);
/* The messages of commands since pack_forget_log was last called. */
const char *pack_log(Pack *p);
void pack_forget_log(Pack *p);

/* ---- commands.c ---- */

bool pack_find_cc(Pack *p);
/* Checks that a compiler given by --cc= generates code for the targets' machine. */
bool pack_cc_fits(Pack *p);
/* Finds ptxas, if it is needed. */
bool pack_find_ptxas(Pack *p);
/* Compiles the file PTX for TARGET as the file CUBIN. */
bool pack_assemble(Pack *p, const char *target, const char *ptx, const char *cubin);
/* Adds an option: WORD begins with -, and says what else the word contains, as in -soname=NAME. */
void command_option(Command *c, const char *word);
/* Whether zig compiles, with its -target given or not. */
bool pack_by_zig(const Pack *p);
/* The C compiler with the words of --cc=. */
Command pack_cc_command(Pack *p);
/* The words that determine the object of file I, but no path of this compile. */
Command pack_object_command(Pack *p, int i);
/* Starts C compilers, at most o->jobs at once. */
bool pack_start_compile(Pack *p);
/* Waits until all files are compiled, or are taken from the cache. */
bool pack_compile(Pack *p);
/* Link the objects of the list and LIB to OUT: pack_link_shared a shared library; pack_link_object
 * one object, in which only the two functions of the API are global; pack_archive an archive of one
 * object. */
bool pack_link_shared(Pack *p, const char *lib, const char *out);
bool pack_link_object(Pack *p, const char *lib, const char *out);
bool pack_archive(Pack *p, const char *obj, const char *out);

/* ---- cache.c ---- */

/* Opens the cache, if one is named. False after a diagnostic. */
bool pack_open_cache(Pack *p);
/* Takes the object of file I from the cache; false: it is not there. */
bool pack_cached(Pack *p, int i);
/* Puts the objects that were compiled into the cache. False where a warning about that is an
 * error. */
bool pack_keep(Pack *p);
/* If the output will be in the cache, makes it a file that no other user may write to, and warns if
 * it is larger than the cache's limit. False if the warning is an error. */
bool pack_enter_cache(Pack *p);
/* If a cache is open, removes entries until it is within its bytes. */
void pack_trim_cache(Pack *p);

#endif
