/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlcc/outputs.h"

#include "base/str.h"

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
	Output at[4];
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

/* ---- Files that are read ---- */

/* Takes the file PATH, called WHAT in messages; false after a diagnostic. */
typedef bool (*TakeFile)(void *arg, const char *what, const char *path);

typedef struct Inputs {
	Cli *cli;
	Arena *arena;
	TakeFile take;
	void *arg;
} Inputs;

static bool take(const Inputs *in, const char *what, const char *path)
{
	return !path || in->take(in->arg, what, path);
}

/* Names in a text are relative to the text's folder. */
static bool take_tensor(const Inputs *in, const Tensor *t)
{
	const char *input = in->cli->input, *slash = strrchr(input, '/');
	const char *file = t->file;

	if (file && *file != '/' && slash)
		file = arena_printf(in->arena, "%.*s/%s", (int)(slash - input), input, file);
	return take(in, "a file with the model's data", file);
}

static bool take_graph(const Inputs *in, const Graph *g)
{
	for (int i = 0; i < g->inputs.n; i++)
		if (g->inputs.at[i]->preset && !take_tensor(in, g->inputs.at[i]->preset))
			return false;
	for (const Node *n = g->first; n; n = n->next) {
		for (int i = 0; i < n->attrs.n; i++)
			if (n->attrs.at[i].kind == ATTR_TENSOR &&
			    !take_tensor(in, n->attrs.at[i].t))
				return false;
		for (int i = 0; i < n->regions.n; i++)
			if (!take_graph(in, n->regions.at[i]))
				return false;
	}
	return true;
}

/* Takes each file that the output follows from. */
static bool take_inputs(const Inputs *in, const OnnxFile *file, const Graph *g)
{
	const Cli *c = in->cli;

	for (int i = 0; file && i < file->external.n; i++)
		if (!take(in, "a file with the model's data", file->external.at[i]->real))
			return false;
	for (int i = 0; i < c->ops.n; i++)
		if (!take(in, "the file of --op", c->ops.name[i]))
			return false;
	return take(in, "the model", c->input) && take(in, "the file of --explain", c->trace) &&
	       take(in, "the file of --schedule", c->schedule) &&
	       take(in, "the file of --runtime", c->runtime) && (file || take_graph(in, g));
}

/* False, with a diagnostic, if an output would overwrite the file PATH. */
static bool spares(void *outputs, const char *what, const char *path)
{
	Outputs *o = outputs;
	struct stat st;

	if (stat(path, &st))
		return true;
	VEC_EACH_AT (x, o) {
		if (x->there && x->st.st_dev == st.st_dev && x->st.st_ino == st.st_ino)
			return options_fault(
				o->cli,
				arena_printf(o->arena,
					     "%s would be overwritten: it is %s; give another name",
					     x->path, what));
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
	    (!alone && c->weights && !add(&o, c->weights)) || (c->depfile && !add(&o, c->depfile)))
		return false;
	return take_inputs(&(Inputs){c, a, spares, &o}, file, g);
}

/* ---- --depfile ---- */

/* Appends PATH as a rule of make names it. Make has no form for a newline in a name. */
static bool put_rule_name(Cli *c, StrBuf *b, const char *path)
{
	if (strchr(path, '\n'))
		return diag_error(
			&c->diag, (DiagLoc){.file = c->depfile},
			"--depfile: the name of the file %s has a newline, which a rule of "
			"make cannot name",
			path);
	for (const char *p = path; *p; p++) {
		/* a backslash is itself, unless it is before one of these */
		const size_t slashes = strspn(p, "\\");

		if (*p == '\\' && (p[slashes] == ' ' || p[slashes] == '#' || p[slashes] == ':'))
			strbuf_puts(b, "\\");
		if (*p == '$')
			strbuf_puts(b, "$");
		else if (*p == ' ' || *p == '#' || *p == ':')
			strbuf_puts(b, "\\");
		strbuf_put(b, p, 1);
	}
	return true;
}

typedef struct DepFile {
	Cli *cli;
	StrBuf b;
} DepFile;

static bool put_dependency(void *depfile, const char *what, const char *path)
{
	DepFile *d = depfile;

	(void)what;
	strbuf_puts(&d->b, " \\\n  ");
	return put_rule_name(d->cli, &d->b, path);
}

const char *outputs_depend(Cli *c, Arena *a, const OnnxFile *file, const Graph *g)
{
	DepFile d = {.cli = c};
	const char *text = NULL;
	bool ok = put_rule_name(c, &d.b, c->output);

	strbuf_puts(&d.b, ":");
	ok = ok && take_inputs(&(Inputs){c, a, put_dependency, &d}, file, g);
	strbuf_puts(&d.b, "\n");
	if (ok)
		text = arena_strdup(a, strbuf_str(&d.b));
	strbuf_free(&d.b);
	return text;
}
