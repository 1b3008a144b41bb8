/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlcc/outputs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Output {
	const char *path;
	const char *place; /* the same with links followed, where its folder is there */
	struct stat st;    /* of the file that exists now */
	bool there;
} Output;

typedef struct Outputs {
	Cli *cli;
	Arena *arena;
	Output at[3];
	int n;
} Outputs;

static const char *place_of(Arena *a, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *real = realpath(path, NULL);
	const char *place;

	if (real) {
		place = arena_strdup(a, real);
	} else {
		real = realpath(slash ? arena_strndup(a, path, (size_t)(slash - path) + 1) : ".",
				NULL);
		place = arena_printf(a, "%s/%s", real ? real : ".", slash ? slash + 1 : path);
	}
	free(real);
	return place;
}

static bool add(Outputs *o, const char *path)
{
	Output x = {.path = path, .place = place_of(o->arena, path)};

	x.there = !stat(path, &x.st);
	if (x.there && !S_ISREG(x.st.st_mode) && !S_ISDIR(x.st.st_mode))
		return options_fault(
			o->cli,
			arena_printf(o->arena, "%s is a device or a pipe; give the name of a file",
				     path));
	for (int i = 0; i < o->n; i++)
		if (!strcmp(o->at[i].place, x.place))
			return options_fault(
				o->cli,
				arena_printf(o->arena,
					     "%s would be two outputs at once; give another name",
					     path));
	o->at[o->n++] = x;
	return true;
}

/* False, with a diagnostic, if an output would overwrite the file (DEV, INO), called WHAT. */
static bool spares(Outputs *o, const char *what, dev_t dev, ino_t ino)
{
	for (int i = 0; i < o->n; i++) {
		const Output *x = &o->at[i];

		if (x->there && x->st.st_dev == dev && x->st.st_ino == ino)
			return options_fault(
				o->cli,
				arena_printf(o->arena,
					     "%s would be overwritten: it is %s; give another name",
					     x->path, what));
	}
	return true;
}

static bool spares_path(Outputs *o, const char *what, const char *path)
{
	struct stat st;

	return !path || stat(path, &st) || spares(o, what, st.st_dev, st.st_ino);
}

/* Names in a text are relative to the text's folder. */
static bool spares_tensor(Outputs *o, const Tensor *t)
{
	const char *input = o->cli->input, *slash = strrchr(input, '/');
	const char *file = t->file;

	if (file && *file != '/' && slash)
		file = arena_printf(o->arena, "%.*s/%s", (int)(slash - input), input, file);
	return spares_path(o, "a file with the model's data", file);
}

static bool spares_graph(Outputs *o, const Graph *g)
{
	for (const Node *n = g->first; n; n = n->next) {
		for (int i = 0; i < n->attrs.n; i++)
			if (n->attrs.at[i].kind == ATTR_TENSOR &&
			    !spares_tensor(o, n->attrs.at[i].t))
				return false;
		for (int i = 0; i < n->regions.n; i++)
			if (!spares_graph(o, n->regions.at[i]))
				return false;
	}
	return true;
}

bool outputs_spare(Cli *c, Arena *a, const OnnxFile *file, const Graph *g)
{
	Outputs o = {.cli = c, .arena = a};
	const bool alone = output_is_model(c) || str_ends(c->output, ".ptx") ||
			   str_ends(c->output, ".schedule");
	const int stem = (int)(strrchr(c->output, '.') - c->output);

	if (!add(&o, c->output) ||
	    (!alone && !add(&o, arena_printf(a, "%.*s.h", stem, c->output))) ||
	    (!alone && c->weights && !add(&o, c->weights)))
		return false;
	for (int i = 0; file && i < file->external.n; i++)
		if (!spares(&o, "a file with the model's data", file->external.at[i]->dev,
			    file->external.at[i]->ino))
			return false;
	for (int i = 0; i < c->ops.n; i++)
		if (!spares_path(&o, "the file of --op", c->ops.name[i]))
			return false;
	return spares_path(&o, "the model", c->input) &&
	       spares_path(&o, "the file of --tiles", c->tiles) &&
	       spares_path(&o, "the file of --explain", c->trace) &&
	       spares_path(&o, "the file of --schedule", c->schedule) &&
	       spares_path(&o, "the file of --runtime", c->runtime) && (file || spares_graph(&o, g));
}
