/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make a package share: codegen/package/package.c, pack_files.c, commands.c. */
#ifndef CODEGEN_PACKAGE_PACKAGE_IMPL_H
#define CODEGEN_PACKAGE_PACKAGE_IMPL_H

#include "codegen/package/package.h"
#include "runtime/hash.h"

#include <sys/types.h>

enum { MAX_FILES = 32 };

/* A file that is made, and its place. All move there at the end, the output last. */
typedef struct MadeFile {
	const char *from, *to;
} MadeFile;

typedef struct Pack {
	Module *m;
	const PackageOpts *o;
	Arena *a;
	Diag *diag;
	const char *cc, *ptxas, *dir, *log;
	int log_fd;       /* what commands print, in memory: their disk may be full */
	char *cc_args[8]; /* further words of --cc=, up to a null */
	MadeFile made[3];
	int nmade;
	GenC *gc[MAX_TARGETS];
	GenPtx *ptx[MAX_TARGETS]; /* of m->gpu */
	GenC *beside;             /* kernels of m->gpu on the host */
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

/* ---- codegen/package/temp.c ---- */

/* WHAT PATH: and why, from errno; false. */
bool pack_fail(Pack *p, const char *what, const char *path);
/* The one temporary folder, p->dir, beside the output: all that a kill can leave, but for a copy of weights that
 * go to another file system. pack_clean_up removes it and ends the commands that run. */
bool pack_make_dir(Pack *p);
void pack_clean_up(Pack *p);
/* A path in it. */
const char *pack_temp(Pack *p, const char *base);
/* FROM, a file in it, becomes TO when all is made. True. */
bool pack_will_be(Pack *p, const char *from, const char *to);
/* Moves what was made to its places, all of it or, but for a kill in between, nothing; in their order, so the output
 * last: until it is new, a build system takes it for old, and a load of the old one says that weights beside it are
 * not its own. */
bool pack_commit(Pack *p);
/* Starts a command; -1: it cannot be. SLOT is its place among those that run. */
pid_t pack_start(Pack *p, char *const *argv, int slot);
/* Waits for it; its status. */
int pack_finish(pid_t pid, int slot);
/* What the commands so far printed, since it was last forgotten. */
const char *pack_log(Pack *p);
void pack_forget_log(Pack *p);

/* ---- codegen/package/commands.c ---- */

bool pack_find_cc(Pack *p);
/* A compiler that the user names makes code for the machine of the targets. */
bool pack_cc_fits(Pack *p);
/* Where it is needed, ptxas. */
bool pack_find_ptxas(Pack *p);
/* Compiles the file PTX for TARGET as the file CUBIN. */
bool pack_assemble(Pack *p, const char *target, const char *ptx, const char *cubin);
/* Compiles files FROM.. of the list, at most o->jobs at once. */
bool pack_compile(Pack *p, int from);
/* The objects of the list and LIB as OUT: a shared library; one object, in which all but the two functions of the
 * API is local; an archive of one object. */
bool pack_link_shared(Pack *p, const char *lib, const char *out);
bool pack_link_object(Pack *p, const char *lib, const char *out);
bool pack_archive(Pack *p, const char *obj, const char *out);

#endif
