/* SPDX-License-Identifier: Apache-2.0 */
/*
 * package: makes a file from a planned module. It generates C, compiles and links it with the
 * user's C compiler, and appends the weights. The suffix of the output selects its kind: .so .a .o
 * .c. The file is made under temporary names and renamed at the end, so an error leaves nothing
 * behind.
 */
#ifndef CODEGEN_PACKAGE_PACKAGE_H
#define CODEGEN_PACKAGE_PACKAGE_H

#include "codegen/host/gen_host.h"

enum { PACKAGE_CACHE_MIB = 1024 }; /* of a cache, unless it is told */

typedef struct PackageOpts {
	const char *output;
	const char *name;          /* prefix of symbols, a C identifier */
	const char *cc;            /* C compiler; null: the newest clang, at least 15, else gcc */
	const char *glibc; /* the C library that the output may need, "2.28"; null: as it comes */
	const char *sysroot;       /* null: none */
	const char *soname;        /* of a .so; null: the file's name */
	const char *runtime;       /* libdlrt.a; null: beside the running program */
	const char *weights_file;  /* null: the weights are embedded or in a section */
	/* null: nothing; else the hash of the weights is set here. THERE: the weights_file is
	 * there, has this hash, and is not written again */
	uint64_t *weights_hash;
	bool weights_are_there;
	bool embed;                /* a .a, .o or .c may hold more than 16 MiB of weights */
	bool cubin;                /* also include the GPU code compiled by ptxas */
	const char *ptxas;         /* null: on PATH, or where CUDA usually is */
	const char *depfile;       /* another file that is written, or null, and its text */
	const char *depends;
	const char *version;
	int level;                 /* -O of the C compiler */
	int jobs;                  /* C compilers at once */
	const char *save_temps;    /* folder in which a folder NAME gets the C files; null: none */
	const char *cache;         /* folder of compiled objects (cache.c); null: none */
	int64_t cache_bytes;       /* limit on its bytes */
	bool verbose;              /* print commands */
	bool dry;                  /* print commands, and run none */
	bool sanitize;             /* compile the generated C with ASan and UBSan */
	/* called after each part of the work; null: not called */
	void (*done)(void *arg, const char *part);
	void *done_arg;
} PackageOpts;

/* Makes the package. False after a diagnostic, with no files left over. For a .ptx, M has no
 * targets, and only M->gpu is compiled. */
bool package(Module *m, const PackageOpts *o);
/* Compiler flags for generated C on all targets, besides -O and -I; ends with null. */
extern const char *const package_cflags[];
/* Prints the begin of a C file that holds kernels and host stubs and includes dlrt.h. FLUSH: its
 * CPUs take subnormal results for zero. */
void package_c_head(Arena *a, StrBuf *b, bool flush);

/* ---- commands.c ---- */

/* The path of the C compiler that is used, or null. */
const char *package_cc(Arena *a, const char *wanted);

/* ---- temp.c ---- */

/* Removes the temporary files of a package in progress, and the folder of package_make_folder;
 * safe in a signal handler. */
void package_abort(void);
/* Makes a temporary folder beside the file PATH, for files of several packages. Returns its path;
 * null after a diagnostic. Only one such folder exists at a time, until package_remove_folder,
 * which also removes its files. */
const char *package_make_folder(Arena *a, Diag *d, const char *path);
void package_remove_folder(void);

#endif
