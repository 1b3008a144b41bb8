/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings. Inside a program a string is a number, its id: equal strings of one table have equal
 * ids, so operators that only move or compare elements treat strings as 64-bit integers. Id 0 is
 * the empty string, so memory that is zero contains empty strings.
 *
 * A table belongs to a context. It begins with the constants of the program, whose ids the compiler
 * has given; a run adds the strings of its inputs and those that it computes. The compiler has a
 * table, too, with the same routines: the interpreter folds constants with it.
 *
 * Any number of threads may use a table at once, apart from strings_begin. An id is valid until the
 * next strings_begin; the bytes of its string until the one after that, so that a run's outputs may
 * be the inputs of the next run.
 */
#ifndef RUNTIME_STRTABLE_H
#define RUNTIME_STRTABLE_H

#include "runtime/dlrt.h"

#include <stdbool.h>

typedef struct dl_strings dl_strings;

/* The source of a table's memory; as in dl_load_options. */
typedef struct StringsMemory {
	void *user;
	void *(*alloc)(void *user, uint64_t bytes, uint64_t align);
	void (*free)(void *user, void *p, uint64_t bytes);
} StringsMemory;

/* Makes a table whose first strings are CONSTANT[0..n). They are distinct, the first one is empty,
 * and they must stay valid; n may be 0. MEMORY null: malloc. Null if there is no memory. */
dl_strings *strings_new(const StringsMemory *memory, const dl_str *constant, int64_t n);
void strings_free(dl_strings *t);
/* Forgets all strings but the constants. */
void strings_begin(dl_strings *t);
/* The id of the string of N bytes at P, which is copied if it is new. If there is no memory, the
 * id is 0, and the status DL_NOMEM. */
int64_t strings_intern(dl_strings *t, const char *p, uint64_t n);
/* The first failure since strings_begin or strings_clear: DL_NOMEM; or DL_RUNTIME, where a routine
 * refused a string, *WHICH, which WHAT says. */
int strings_status(const dl_strings *t);
dl_str strings_refused(const dl_strings *t, const char **what);
void strings_fail(dl_strings *t, int status, int64_t id, const char *what);
void strings_clear(dl_strings *t);
int64_t strings_count(const dl_strings *t);
/* A number that no other table has, nor this one before its last strings_begin: while it is the
 * same, an id means the same string. */
uint64_t strings_generation(const dl_strings *t);
/* The string with this id; the empty one if there is none. */
dl_str strings_get(const dl_strings *t, int64_t id);

/* Memory for the work of a routine; null, and the status DL_NOMEM, if there is none. */
void *strings_alloc(dl_strings *t, uint64_t bytes);
void strings_release(dl_strings *t, void *p, uint64_t bytes);

/* Data that a routine computes once for a constant of the table, which frees it at its end. */
typedef struct StringsKept {
	struct StringsKept *next;
	int64_t id;
	void (*free)(dl_strings *t, struct StringsKept *k);
} StringsKept;

/* The data of the constant ID. Its first use calls MAKE, which allocates it and sets its member
 * `free`. Null if MAKE gave null. */
const StringsKept *strings_keep(dl_strings *t, int64_t id,
				StringsKept *(*make)(dl_strings *t, int64_t id));

/* The functions above that the runtime calls, for a program that has strings
 * (dl_program.string_table). */
struct dl_string_table {
	dl_strings *(*create)(const StringsMemory *memory, const dl_str *constant, int64_t n);
	void (*free)(dl_strings *t);
	void (*begin)(dl_strings *t);
	int64_t (*intern)(dl_strings *t, const char *p, uint64_t n);
	int (*status)(const dl_strings *t);
	dl_str (*refused)(const dl_strings *t, const char **what);
	void (*clear)(dl_strings *t);
	dl_str (*get)(const dl_strings *t, int64_t id);
};

/* ---- str_text.c ---- */

/* The character at P, of N bytes at most; returns its number of bytes. A byte that begins no
 * character counts as one, with the code UINT32_MAX. */
uint64_t str_character(const char *p, uint64_t n, uint32_t *code);
/* Unicode's simple case mappings. */
uint32_t str_lower_code(uint32_t c);
uint32_t str_upper_code(uint32_t c);

/* ---- str_regex.c ---- */

typedef struct Regex Regex;

/* Compiles the pattern, with memory of T. Null: there is no memory, or *WHY says what is wrong. */
Regex *regex_new(dl_strings *t, dl_str pattern, const char **why);
void regex_free(dl_strings *t, Regex *r);
/* Whether the whole string S matches, in time linear in its length. */
bool regex_matches(dl_strings *t, const Regex *r, dl_str s);

#endif
