/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlcc/samples.h"

#include "base/str.h"
#include "base/vec.h"
#include "tools/dlrun/npy.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef VEC(const char *) Names;

typedef struct Reader {
	Arena *a;
	Diag *d;
	const Graph *g;
	int n;    /* inputs */
	int room; /* of a sample */
} Reader;

static const Value *input(const Reader *r, int i)
{
	return r->g->inputs.at[i];
}

static const char *shown(const Reader *r, int i)
{
	return arena_escape(r->a, input(r, i)->name, escape_terminal);
}

static bool fault(const Reader *r, const char *path, const char *text)
{
	return diag_error(r->d, (DiagLoc){.file = path}, "%s", text);
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_sample_file(const char *name)
{
	return (str_ends(name, ".npy") || str_ends(name, ".pb")) &&
	       strncmp(name, "output_", 7) != 0;
}

/* The names in DIR of its folders, and of files with data, in order. False: DIR cannot be read. */
static bool list(const Reader *r, const char *dir, Names *folders, Names *files)
{
	DIR *d = opendir(dir);
	const struct dirent *e;

	if (!d)
		return fault(r, dir, strerror(errno));
	while ((e = readdir(d))) {
		const char *name = arena_strdup(r->a, e->d_name);
		struct stat st;

		if (name[0] == '.' || stat(arena_printf(r->a, "%s/%s", dir, name), &st))
			continue;
		if (S_ISDIR(st.st_mode))
			vec_push(r->a, folders, name);
		else if (S_ISREG(st.st_mode) && is_sample_file(name))
			vec_push(r->a, files, name);
	}
	closedir(d);
	if (folders->n)
		qsort(folders->at, (size_t)folders->n, sizeof *folders->at, by_version);
	if (files->n)
		qsort(files->at, (size_t)files->n, sizeof *files->at, by_version);
	return true;
}

/* The input that is called STEM, or input_K: its number; -1: none. */
static int input_of(const Reader *r, const char *stem)
{
	char *end;
	long k;

	for (int i = 0; i < r->n; i++)
		if (!strcmp(input(r, i)->name, stem))
			return i;
	if (strncmp(stem, "input_", 6) != 0 || !strchr("0123456789", stem[6]))
		return -1;
	k = strtol(stem + 6, &end, 10);
	return !*end && k < r->n ? (int)k : -1;
}

static const char *stem_of(const Reader *r, const char *file)
{
	return arena_strndup(r->a, file, (size_t)(strrchr(file, '.') - file));
}

static bool other_type(const Reader *r, const char *path, int i, const Array *v)
{
	StrBuf is = {0}, want = {0};

	for (int32_t k = 0; k < v->rank; k++)
		strbuf_printf(&is, "%s%" PRId64, k ? "," : "", v->dims[k]);
	type_print(&want, input(r, i)->type);
	diag_error(r->d, (DiagLoc){.file = path}, "it is %s[%s], and input \"%s\" is %s",
		   dtype_info[v->dtype].name, strbuf_str(&is), shown(r, i), strbuf_str(&want));
	strbuf_free(&is);
	strbuf_free(&want);
	return false;
}

/* V contains numbers, of the type and the dims of input I. */
static bool fits(const Reader *r, const char *path, int i, Array *v)
{
	const Type *t = input(r, i)->type;
	bool same = v->form == DL_TENSOR && v->rank == t->rank;
	int64_t size;

	for (int k = 0; same && k < t->rank; k++)
		same = !dim_is_const(t->dims[k], &size) || size == v->dims[k];
	if (!same || !npy_retype(r->a, v, t->dtype))
		return other_type(r, path, i, v);
	for (int64_t k = 0, n = array_count(v); dtype_is_float(v->dtype) && k < n; k++)
		if (!isfinite(dtype_load_f64(v->dtype, v->data, k)))
			return diag_error(
				r->d, (DiagLoc){.file = path},
				"element %" PRId64
				" is infinite or NaN, so it has no place in a range of bytes",
				k);
	return true;
}

/* Reads FILE of DIR as one of the inputs of sample IN; ONLY: as the only one, whatever its name. */
static bool read_one(const Reader *r, const char *dir, const char *file, bool only, Array *in)
{
	const char *path = arena_printf(r->a, "%s/%s", dir, file);
	Array v;
	int i;

	if (!array_read(r->a, r->d, path, DL_TENSOR, &v))
		return false;
	i = v.name[0] ? input_of(r, v.name) : -1;
	i = i < 0 ? input_of(r, stem_of(r, file)) : i;
	i = only ? 0 : i;
	if (i < 0)
		return fault(r, path, "the model has no input of this name");
	if (in[i].name)
		return diag_error(r->d, (DiagLoc){.file = path}, "input \"%s\" has another file",
				  shown(r, i));
	v.name = input(r, i)->name;
	in[i] = v;
	return fits(r, path, i, &in[i]);
}

/* Each input has data, or a default, which null data stand for. */
static bool is_complete(const Reader *r, const char *dir, Array *in)
{
	for (int i = 0; i < r->n; i++) {
		const Tensor *t = input(r, i)->preset;

		if (!in[i].name && t)
			in[i] = array_make(input(r, i)->name, t->dtype, t->rank, t->dims, NULL);
		if (!in[i].name)
			return diag_error(r->d, (DiagLoc){.file = dir}, "no data for input \"%s\"",
					  shown(r, i));
	}
	return true;
}

/* Adds the sample that FILES of DIR are. */
static bool add_sample(const Reader *r, const char *dir, const char *const *files, int n,
		       SampleList *out)
{
	Array *in = NEW_ARRAY(r->a, r->room + 1, Array);

	for (int i = 0; i < n; i++)
		if (!read_one(r, dir, files[i], r->n == 1 && n == 1, in))
			return false;
	vec_push(r->a, out, in);
	return is_complete(r, dir, in);
}

/* Whether each of FILES is called after an input. */
static bool are_inputs(const Reader *r, const Names *files)
{
	for (int i = 0; i < files->n; i++)
		if (input_of(r, stem_of(r, files->at[i])) < 0)
			return false;
	return true;
}

bool samples_read(Arena *a, Diag *d, const char *dir, const Graph *g, int more, SampleList *out)
{
	const Reader r = {a, d, g, g->inputs.n, g->inputs.n + more};
	Names folders = {0}, files = {0};

	if (g->takes.n)
		return fault(&r, dir, "samples of sequences, optionals and maps are not supported");
	if (!list(&r, dir, &folders, &files))
		return false;
	if (folders.n && files.n)
		return fault(&r, arena_printf(a, "%s/%s", dir, files.at[0]),
			     "a sample is a folder or a file; here are both");
	for (int i = 0; i < folders.n; i++) {
		const char *folder = arena_printf(a, "%s/%s", dir, folders.at[i]);
		Names none = {0}, inside = {0};

		if (!list(&r, folder, &none, &inside) ||
		    (inside.n && !add_sample(&r, folder, inside.at, inside.n, out)))
			return false;
	}
	if (!folders.n && r.n == 1 && !are_inputs(&r, &files)) {
		for (int i = 0; i < files.n; i++)
			if (!add_sample(&r, dir, &files.at[i], 1, out))
				return false;
	} else if (!folders.n && files.n && !add_sample(&r, dir, files.at, files.n, out)) {
		return false;
	}
	return out->n || fault(&r, dir, "no samples: there is no .npy or .pb file in it");
}
